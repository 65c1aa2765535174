"""trevision learns classifiers from noisy labels, and learns the label noise itself."""

from trevision.classifier import TRevisionClassifier
from trevision.estimation import anchor_transition, estimate, transition_error
from trevision.issues import LabelIssues, find_label_issues
from trevision.losses import (
    BackwardLoss,
    ForwardLoss,
    ReweightLoss,
    backward_nll,
    cross_entropy,
    forward_nll,
    generalised_cross_entropy,
    reweight_nll,
    symmetric_cross_entropy,
    total_variation_nll,
    volume_nll,
)
from trevision.methods import Schedule
from trevision.methods.stages import TransitionWarning
from trevision.prior import Prior
from trevision.training import Phase
from trevision.transition import Transition

__all__ = [
    "BackwardLoss",
    "ForwardLoss",
    "LabelIssues",
    "Phase",
    "Prior",
    "ReweightLoss",
    "Schedule",
    "TRevisionClassifier",
    "Transition",
    "TransitionWarning",
    "anchor_transition",
    "backward_nll",
    "cross_entropy",
    "estimate",
    "find_label_issues",
    "forward_nll",
    "generalised_cross_entropy",
    "reweight_nll",
    "symmetric_cross_entropy",
    "total_variation_nll",
    "transition_error",
    "volume_nll",
]
