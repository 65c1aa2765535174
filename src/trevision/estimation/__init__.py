"""Estimators of the transition matrix T from posteriors and labels."""

from trevision.estimation.anchors import anchor_points, anchor_transition
from trevision.estimation.clean_set import counted_transition, trusted_transition
from trevision.estimation.error import transition_error

__all__ = [
    "anchor_points",
    "anchor_transition",
    "counted_transition",
    "transition_error",
    "trusted_transition",
]
