"""Estimators of the transition matrix T from posteriors and labels."""

from trevision.estimation.anchors import anchor_points, anchor_transition, usual_percentile
from trevision.estimation.clean_set import counted_transition, trusted_transition
from trevision.estimation.confident_joint import confident_joint
from trevision.estimation.diagnosis import Finding, diagnose
from trevision.estimation.dual_t import dual_transition
from trevision.estimation.error import transition_error
from trevision.estimation.from_probabilities import Estimate, check_choices, estimate
from trevision.estimation.hoc import Consensus, fit_hoc
from trevision.estimation.latent import LatentFit, fit_latent
from trevision.estimation.methods import METHODS, Solution, default_method, dual_t_solution, solve_knowing
from trevision.estimation.pooling import pooled_transition
from trevision.estimation.posterior import clean_given_label, invert
from trevision.estimation.rate import clean_prior, likeliest_prior, noise_rate
from trevision.estimation.rows import ProbabilityRows, RowSource

__all__ = [
    "METHODS",
    "Consensus",
    "Estimate",
    "Finding",
    "LatentFit",
    "ProbabilityRows",
    "RowSource",
    "Solution",
    "anchor_points",
    "anchor_transition",
    "check_choices",
    "clean_given_label",
    "clean_prior",
    "confident_joint",
    "counted_transition",
    "default_method",
    "diagnose",
    "dual_t_solution",
    "dual_transition",
    "estimate",
    "fit_hoc",
    "fit_latent",
    "invert",
    "likeliest_prior",
    "noise_rate",
    "pooled_transition",
    "solve_knowing",
    "transition_error",
    "trusted_transition",
    "usual_percentile",
]
