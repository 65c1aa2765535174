"""trevision learns classifiers from noisy labels, and learns the label noise itself.

Names are imported when they are first used: whoever estimates T from probabilities never waits for torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "trevision.audit": ("audit_estimate", "audit_plan"),
    "trevision.classifier": ("TRevisionClassifier",),
    "trevision.estimation": ("anchor_transition", "estimate", "transition_error"),
    "trevision.files": ("TrevisionError",),
    "trevision.issues": ("LabelIssues", "find_label_issues"),
    "trevision.losses": (
        "BackwardLoss",
        "ForwardLoss",
        "ReweightLoss",
        "backward_nll",
        "cross_entropy",
        "forward_generalised_cross_entropy",
        "forward_nll",
        "forward_symmetric_cross_entropy",
        "generalised_cross_entropy",
        "importance_weights",
        "resampled_counts",
        "resampled_nll",
        "reweight_nll",
        "symmetric_cross_entropy",
        "total_variation_nll",
        "volume_nll",
    ),
    "trevision.methods.schedules": ("Schedule",),
    "trevision.methods.stages": ("TransitionWarning",),
    "trevision.prior": ("Prior",),
    "trevision.refit.classifier": ("NoisyLabelClassifier",),
    "trevision.training.phase": ("Phase",),
    "trevision.transition": ("Transition",),
}
_ROOMS = (
    "audit",
    "callbacks",
    "data",
    "estimation",
    "issues",
    "losses",
    "methods",
    "networks",
    "noise",
    "plot",
    "prior",
    "refit",
    "training",
    "transition",
)
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("trevision")
    if name in _ROOMS:
        return import_module(f"trevision.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        from trevision.extras import missing_extra

        raise ImportError(missing_extra(error) or str(error), name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
