"""Estimators of the transition matrix T from posteriors and labels."""

# First, because it imports every file of this folder: those that need the registry find it begun by then.
from trevision.estimation.registry import ESTIMATORS, default_estimator, find_estimator

# isort: split
from trevision.estimation.anchors import Anchor, anchor_points, anchor_transition, usual_percentile
from trevision.estimation.annotators import Annotators, Answers, fit_annotators
from trevision.estimation.clean_set import counted_transition, trusted_transition
from trevision.estimation.confident_joint import confident_joint
from trevision.estimation.count import AS_RANGE, NOT_TOLD, TOLD, Count, count_wrong
from trevision.estimation.crowd_learning import CrowdLearnt, learn_with_classifier
from trevision.estimation.diagnosis import Finding, diagnose
from trevision.estimation.dual_t import DualT, dual_transition
from trevision.estimation.error import transition_error
from trevision.estimation.estimator import Estimator, Solution
from trevision.estimation.from_probabilities import BOOTSTRAP, Estimate, check_choices, estimate
from trevision.estimation.hoc import Hoc
from trevision.estimation.latent import LATENT, Latent
from trevision.estimation.latent_model import LatentFit
from trevision.estimation.pooling import pooled_transition
from trevision.estimation.posterior import clean_given_label, invert
from trevision.estimation.rate import likeliest_class_prior, noise_rate, solve_class_prior
from trevision.estimation.rows import ProbabilityRows, RowSource

__all__ = [
    "AS_RANGE",
    "BOOTSTRAP",
    "ESTIMATORS",
    "LATENT",
    "NOT_TOLD",
    "TOLD",
    "Anchor",
    "Annotators",
    "Answers",
    "Count",
    "CrowdLearnt",
    "DualT",
    "Estimate",
    "Estimator",
    "Finding",
    "Hoc",
    "Latent",
    "LatentFit",
    "ProbabilityRows",
    "RowSource",
    "Solution",
    "anchor_points",
    "anchor_transition",
    "check_choices",
    "clean_given_label",
    "confident_joint",
    "count_wrong",
    "counted_transition",
    "default_estimator",
    "diagnose",
    "dual_transition",
    "estimate",
    "find_estimator",
    "fit_annotators",
    "invert",
    "learn_with_classifier",
    "likeliest_class_prior",
    "noise_rate",
    "pooled_transition",
    "solve_class_prior",
    "transition_error",
    "trusted_transition",
    "usual_percentile",
]
