"""Estimators of the transition matrix T from posteriors and labels."""

from trevision.estimation.anchors import anchor_points, anchor_transition
from trevision.estimation.clean_set import counted_transition, trusted_transition
from trevision.estimation.error import transition_error
from trevision.estimation.rate import clean_prior, noise_rate

__all__ = [
    "anchor_points",
    "anchor_transition",
    "clean_prior",
    "counted_transition",
    "noise_rate",
    "transition_error",
    "trusted_transition",
]
