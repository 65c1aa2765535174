"""`soft`: each row once for every label that it may have had, weighted by the probability of that label."""

from __future__ import annotations

from trevision.refit.correction import Correction, Evidence, Training, weighted_copies


def apply(evidence: Evidence) -> Training:
    """Row x as copies (x, i) of weight

        q_i = P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j].

    A model fitted on them minimises sum_i q_i loss(x, i), the expected loss on the clean label.
    """
    return weighted_copies(evidence.clean_given_label)


SOFT = Correction("soft", apply, rank=0)
