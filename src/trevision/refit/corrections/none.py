"""`none`: the labels as they are."""

from __future__ import annotations

import numpy as np

from trevision.refit.correction import Correction, Evidence, Training


def apply(evidence: Evidence) -> Training:
    """Every row once, with the label given."""
    count = len(evidence.labels)
    return Training(np.arange(count), evidence.labels, np.ones(count))


NONE = Correction("none", apply, rank=4, uses_transition=False)
