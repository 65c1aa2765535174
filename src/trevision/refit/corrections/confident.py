"""`confident`: rows for which the model is surer of another label are left out, as many as it counts."""

from __future__ import annotations

import numpy as np

from trevision.estimation import ProbabilityRows
from trevision.estimation.confident_joint import CONFIDENT_JOINT, calibrated
from trevision.refit.correction import Correction, Evidence, Training


def apply(evidence: Evidence) -> Training:
    """Rows that confident learning keeps, each with the label given.

    Q[i, j] is the confident joint: how many rows given label j are of class i. For each pair of i and j, the
    Q[i, j] rows given j with the largest margin P(noisy = i | x) - P(noisy = j | x) are left out (prune by
    noise rate, Northcutt et al. 2021). A row stays if the model is not surer of the other label.

    Notes
    -----
    Northcutt et al. weight the rows of label j by 1 / T[j, j]. Here they are not weighted: where this
    correction is made, T is hardly known, and predictions were better without it (docs/any-model.md).
    """
    probs, labels, weights = evidence.noisy_probs, evidence.labels, evidence.row_weights
    joint = calibrated(CONFIDENT_JOINT.counts(ProbabilityRows(probs, labels), weights))
    kept = np.ones(len(labels), dtype=bool)
    for given in np.unique(labels):
        own = np.flatnonzero(labels == given)
        margins = probs[own] - probs[own, given, None]
        for other in np.flatnonzero(joint[:, given]):
            if other != given:
                order = np.argsort(-margins[:, other], kind="stable")
                worst = order[weights[own[order]].cumsum() <= joint[other, given] + 0.5]
                kept[own[worst[margins[worst, other] > 0]]] = False
        if not kept[own].any():
            # One row stays, so that no class is lost.
            kept[own[probs[own, given].argmax()]] = True
    rows = np.flatnonzero(kept)
    return Training(rows, labels[rows], np.ones(len(rows)))


CONFIDENT = Correction("confident", apply, rank=3, estimator="confident-joint")
