"""`reweight`: the label given, weighted by how much likelier it is as a clean label than as a noisy one."""

from __future__ import annotations

import numpy as np

from trevision.refit.correction import Correction, Evidence, Training

LEAST_NOISY = 1e-12


def apply(evidence: Evidence) -> Training:
    """Row x with its label j and the weight of Xia et al. 2019, Eq. 3,

        P(clean = j | x) / P(noisy = j | x) = g_j(x) / (T' g(x))_j.

    Averages over noisy labels, so weighted, are averages over clean ones (importance weights).
    """
    each = np.arange(len(evidence.labels))
    noisy = (evidence.clean_posterior @ evidence.transition)[each, evidence.labels]
    weights = evidence.clean_posterior[each, evidence.labels] / np.maximum(noisy, LEAST_NOISY)
    return Training(each, evidence.labels, weights)


REWEIGHT = Correction("reweight", apply, rank=1)
