"""What a method is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from trevision import estimation
from trevision.data.noisy import NoisyData
from trevision.methods.schedules import ESTIMATORS, REVISION_LOSSES, RevisionLoss, Schedule
from trevision.prior import Prior, parse
from trevision.training import Evaluation, NoisyLabelModel, Runtime
from trevision.transition import PARAMETERISATIONS, Parameterisation, check_keeps_prior

MENTORS = ("self-paced", "learned")

SERVES = {
    "revision": ("forward-r", "reweight-r"),
    "weight": ("reweight-r",),
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

MOST_CLASSES = {"recursive": estimation.METHODS["latent"].most_classes}
"""The most classes that a method is for, where there is a limit."""

OWN_ESTIMATOR = {"recursive": "latent"}
"""The estimator of T that a method starts from, whatever the schedule's: a poor T it may never leave."""


@dataclass(frozen=True)
class Options:
    """Choices that override the schedule's or, where they are None, leave what the method would do."""

    revision: str | None = None
    """For forward-r and reweight-r, how Delta T may move: slack, projected, simplex or frozen."""
    weight: str | None = None
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
        if self.estimator not in (None, *ESTIMATORS):
            raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {self.estimator!r}")
        if self.weight not in (None, "live", "detached"):
            raise ValueError(f"weight must be live or detached, got {self.weight!r}")
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
        chosen = replace(
            schedule,
            revision=revision,
            parameterisation=cast(Parameterisation, self.revision or schedule.parameterisation),
            live_weight=schedule.live_weight if self.weight is None else self.weight == "live",
            revision_loss=cast(RevisionLoss, self.revision_loss or schedule.revision_loss),
            estimator=self.estimator or OWN_ESTIMATOR.get(method or "") or schedule.estimator,
        )
        chosen.check()
        if self.lr_transition is not None and chosen.parameterisation == "frozen":
            raise ValueError("lr_transition must be left out for revision frozen, which does not move T")
        return chosen


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """Probabilities by networks that had not seen x, for the training and for the validation rows.

    `train_probs` and `valid_probs` are (n, C): P(noisy | x) of the folds of stage 1, the clean posterior
    where the networks were trained through T. `history` tells of the epochs that it took.
    """

    train_probs: np.ndarray
    valid_probs: np.ndarray
    folds: int
    history: list[dict[str, Any]]

    def rows(self, data: NoisyData) -> tuple[np.ndarray, np.ndarray]:
        """The predictions for all rows, training rows first, and their noisy labels."""
        labels = torch.cat([data.train_y.cpu(), data.valid_y.cpu()]).numpy()
        return np.concatenate([self.train_probs, self.valid_probs]), labels


class NetworkMaker(Protocol):
    """Makes the network to train; of another `number`, the same network from other initial weights."""

    def __call__(self, number: int = 0) -> nn.Module: ...


def network_seed(seed: int, number: int) -> int:
    """The seed of network `number` of a run: the run's own, then seeds that no other run begins with."""
    if number == 0:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> 2)


@dataclass(frozen=True)
class Problem:
    """Noisy data, a network to train on them, a schedule, a seed, and where to do it.

    Clean test labels and the true T are out of a method's reach: `evaluation` records them only.
    """

    evaluation: Evaluation
    make_network: NetworkMaker
    standardise: nn.Module
    schedule: Schedule
    seed: int
    runtime: Runtime
    options: Options = field(default_factory=Options)
    """Choices of the user that are not in the schedule already."""
    out_of_sample: OutOfSample | None = None
    """Predictions for rows that a network had not seen, where T-hat is to be estimated from such."""
    warnings: tuple[str, ...] = ()
    """What is doubtful already, before the method begins."""
    prior: Prior | None = None
    """What is known of T."""
    doubts: list[str] = field(default_factory=list)
    """What stages found doubtful, in sentences; `conclude` hands it on."""
    estimation_seconds: list[float] = field(default_factory=list)
    """How long each estimation of T took; stages tell the time of their epochs themselves."""

    @property
    def data(self) -> NoisyData:
        return self.evaluation.data

    @property
    def anchor_percentile(self) -> float | None:
        """The percentile of the posterior at which a class has its anchor point; None for the maximum."""
        chosen = self.schedule.anchor_percentile
        return estimation.usual_percentile(self.data.num_classes) if chosen == "usual" else chosen

    @property
    def estimator(self) -> str:
        """The estimator of T that the schedule names, or the default where that is not for so many classes.

        Where the user chose it, too many classes are an error instead.
        """
        name, classes = self.schedule.estimator, self.data.num_classes
        most = estimation.METHODS[name].most_classes
        if most is None or classes <= most:
            return name
        if self.options.estimator is not None:
            raise ValueError(
                f"estimator {name} must have at most {most} classes, got {classes}; choose confident-joint"
            )
        return estimation.default_method(classes)

    def check(self, method: str) -> None:
        """Raise a ValueError for too many classes, or for a prior that does not fit the data or `method`."""
        most = MOST_CLASSES.get(method)
        if most is not None and self.data.num_classes > most:
            raise ValueError(f"method {method} is for up to {most} classes, got {self.data.num_classes}")
        if method in SERVES["estimator"]:
            _ = self.estimator  # it says itself if it is not for so many classes
        if self.prior is None:
            return
        self.prior.check(self.data.num_classes)
        if method not in SERVES["prior"]:
            raise ValueError(
                f"prior is a choice of {', '.join(SERVES['prior'])}, got method {method}; leave it out"
            )
        revision = self.schedule.parameterisation if method in SERVES["revision"] else "frozen"
        check_keeps_prior(revision)
        if self.prior.sparsity and revision != "simplex":
            raise ValueError(
                "prior sparse is a penalty on a T that is learnt, so it must go with forward-r or reweight-r "
                f"and revision simplex, got method {method} and revision {revision}"
            )


@dataclass(frozen=True)
class Learned:
    """What a method learnt: the model in its selected state, T before and after, and how it went."""

    model: NoisyLabelModel
    initial_transition: np.ndarray
    transition: np.ndarray
    selected: dict[str, Any]
    history: list[dict[str, Any]]
    stopped_because: str
    warnings: list[str] = field(default_factory=list)
    transition_ran_away: bool = False
    noise_rate: float | None = None
    """The share of wrong labels that the method went by, where it needs one."""


Method = Callable[[Problem], Learned]
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
