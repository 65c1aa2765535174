"""Choices of a user about a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from trevision import estimation
from trevision.methods.schedules import REVISION_LOSSES, RevisionLoss, Schedule
from trevision.prior import parse
from trevision.transition import PARAMETERISATIONS, Parameterisation

MENTORS = ("self-paced", "learned")

SERVES = {
    "revision": ("forward-r", "reweight-r"),
    "reweight_gradient": ("reweight-r",),
    "lr_revision": ("standard", "forward-r", "reweight-r"),
    "lr_transition": ("forward-r", "reweight-r"),
    "noise_rate": ("mentornet", "co-teaching"),
    "mentor": ("mentornet",),
    "prior": ("forward", "backward", "reweight", "forward-r", "reweight-r"),
    "revision_loss": ("reweight-r",),
    "estimator": (
        *("standard", "decoupling", "mentornet", "co-teaching", "gce", "sce"),
        *("forward", "backward", "reweight", "forward-r", "reweight-r", "recursive"),
    ),
}
"""The methods that have a use for a choice; for any other, making it is a mistake."""

MOST_CLASSES = {"recursive": estimation.LATENT.most_classes}
"""The most classes that a method is for, where there is a limit."""

OWN_ESTIMATOR = {"recursive": "latent"}
"""The estimator of T that a method starts from, whatever the schedule's: a poor T it may never leave."""


@dataclass(frozen=True)
class Options:
    """Choices that override the schedule's or, where they are None, leave what the method would do."""

    revision: str | None = None
    """For forward-r and reweight-r, how Delta T may move: slack, projected, simplex or frozen."""
    reweight_gradient: str | None = None
    """For reweight-r, whether the revision's gradient flows through the weight g/(T'g): live or detached."""
    lr_revision: float | None = None
    """Learning rate of the network in the revision, and in the last phase of standard."""
    lr_transition: float | None = None
    """Learning rate of Delta T in the revision of forward-r and reweight-r."""
    noise_rate: float | None = None
    """Share of wrong labels, for mentornet and co-teaching; estimated from T-hat if not given."""
    mentor: str = "self-paced"
    """What weights the samples of mentornet: self-paced (the small losses) or learned (a network)."""
    estimator: str | None = None
    """Where T-hat comes from: anchor (the paper's anchor points) or, from predictions for rows that a network
    was not trained on, latent (maximum likelihood), latent-unpooled (each class by itself), confident-joint,
    dual-t, hoc (neighbours' labels) or counted (labels against predictions). If not given, known clean labels
    where there are any; else anchor for named data sets and latent for your own."""
    revision_loss: str | None = None
    """What reweight-r minimises in the revision: eq3 (the paper's) or released (the code's; slack only)."""
    prior: str | None = None
    """What is known of T, joined by +: symmetric, dominant, support=FILE (a matrix of 1 where a mistake is
    possible and 0 elsewhere), known=FILE (T, its unknown rows left blank) and, for forward-r and reweight-r,
    sparse=WEIGHT (of a penalty on the entropy of mistakes)."""

    def check(self, method: str | None = None) -> None:
        """Raise a ValueError for a choice that is none, or none for `method`."""
        for name, methods in SERVES.items():
            if method is not None and method not in methods and getattr(self, name) != getattr(Options, name):
                raise ValueError(
                    f"{name} is a choice of {', '.join(methods)}, got method {method}; leave it out"
                )
        if self.revision is not None and self.revision not in PARAMETERISATIONS:
            raise ValueError(f"revision must be one of {', '.join(PARAMETERISATIONS)}, got {self.revision!r}")
        if self.estimator is not None:
            estimation.find_estimator(self.estimator)
        if self.reweight_gradient not in (None, "live", "detached"):
            raise ValueError(f"reweight_gradient must be live or detached, got {self.reweight_gradient!r}")
        if self.revision_loss not in (None, *REVISION_LOSSES):
            raise ValueError(
                f"revision_loss must be one of {', '.join(REVISION_LOSSES)}, got {self.revision_loss!r}"
            )
        for name in ("lr_revision", "lr_transition", "noise_rate"):
            rate = getattr(self, name)
            if not isinstance(rate, int | float | None) or isinstance(rate, bool):
                raise ValueError(f"{name} must be a number, got {rate!r}")
        for name in ("lr_revision", "lr_transition"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < float("inf"):
                raise ValueError(f"{name} must be a learning rate of at least 0, got {rate}")
        if self.noise_rate is not None and not 0 <= self.noise_rate < 1:
            raise ValueError(
                f"noise_rate must lie in [0, 1), got {self.noise_rate}; "
                "a percentage such as 20 is written 0.20"
            )
        if self.mentor not in MENTORS:
            raise ValueError(f"mentor must be one of {', '.join(MENTORS)}, got {self.mentor!r}")
        if self.prior is not None:
            parse(str(self.prior))

    def applied_to(self, schedule: Schedule, method: str | None = None) -> Schedule:
        """The schedule with these choices, and with `method`'s own, once they are known to be good."""
        self.check()
        revision = schedule.revision
        if self.lr_revision is not None:
            revision = replace(revision, lr=self.lr_revision)
        if self.lr_transition is not None:
            revision = replace(revision, lr_transition=self.lr_transition)
        gradient = self.reweight_gradient
        live = schedule.live_weight if gradient is None else gradient == "live"
        chosen = replace(
            schedule,
            revision=revision,
            parameterisation=cast(Parameterisation, self.revision or schedule.parameterisation),
            live_weight=live,
            revision_loss=cast(RevisionLoss, self.revision_loss or schedule.revision_loss),
            estimator=self.estimator or OWN_ESTIMATOR.get(method or "") or schedule.estimator,
        )
        chosen.check()
        if self.lr_transition is not None and chosen.parameterisation == "frozen":
            raise ValueError("lr_transition must be left out for revision frozen, which does not move T")
        return chosen
