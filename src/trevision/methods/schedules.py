"""Schedules: how long and how fast each stage trains, as presets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from trevision import estimation
from trevision.data.sources import SOURCES
from trevision.methods.options import REVISION_LOSSES, Options
from trevision.networks.colour import WIDTHS
from trevision.prior import PARAMETERISATIONS, Parameterisation
from trevision.training.phase import Criterion, Phase

RevisionLoss = Literal["eq3", "released"]
ESTIMATORS: tuple[str, ...] = tuple(estimation.ESTIMATORS)

FOLDS = 5

# Data sets with fewer training rows than this count as small in `quick`.
SMALL = 10_000

# With fewer training rows than this a network of a user's own data has no dropout.
FEW = 1_000
OWN_DATA_DROPOUT = 0.5

# Maximum rate, in a gentle schedule, of losses that collapse to a constant prediction at higher rates.
GENTLE_RATE = 5e-2


@dataclass(frozen=True)
class Schedule:
    """The three phases of Algorithm 1 and the choices that go with them.

    Parameters
    ----------
    noisy_posterior : Phase
        Stage 1: plain cross-entropy on noisy labels.
    classifier : Phase
        Stage 2, step 3: the corrected loss with T-hat.
    revision : Phase
        Stage 2, step 4: the corrected loss with T-hat + Delta T.
    anchor_percentile : float | Literal["usual"] | None, default="usual"
        The anchor point of `anchor` and `dual-t`: the row at this percentile of the posterior,
        three tenths into the rows predicted as the class, or at the maximum if None.
    parameterisation : Parameterisation, default="slack"
        How Delta T may move in the revision.
    live_weight : bool, default=True
        Whether the revision's gradient flows through Reweight's weight.
    gentle : bool, default=False
        Whether losses that need it get a lower rate: see `gentle_rate` and `classifier_through`.
    bold : bool, default=False
        Whether Forward gets a higher rate under heavy noise: see `classifier_through`.
    revision_loss : RevisionLoss, default="eq3"
        The loss of Reweight's revision: Eq. 3, or that of the authors' released code.
    select_by : Criterion, default="error"
        How an epoch is selected: by error (Algorithm 1) or loss on the noisy validation set, or the last.
    estimator : str, default="anchor"
        How T is estimated: by the paper's anchor points, or by another of `estimation.ESTIMATORS`, from
        out-of-sample predictions.
    folds : int, default=FOLDS
        The number of folds for out-of-sample predictions.
    guarded : bool, default=False
        Whether a revision, and a correction through T, is kept only if held-out noisy labels speak for it.
    dropout : float, default=0.0
        Dropout of the network `mlp` in training; other networks have none.

    Examples
    --------
    >>> from trevision import Phase, Schedule
    >>> short = Schedule(Phase(5), Phase(10, decay="one-cycle"), Phase(5, optimizer="adam", lr=1e-4))
    >>> short.epochs
    20
    """

    noisy_posterior: Phase
    classifier: Phase
    revision: Phase
    anchor_percentile: float | Literal["usual"] | None = "usual"
    parameterisation: Parameterisation = "slack"
    live_weight: bool = True
    gentle: bool = False
    bold: bool = False
    revision_loss: RevisionLoss = "eq3"
    select_by: Criterion = "error"
    estimator: str = "anchor"
    folds: int = FOLDS
    guarded: bool = False
    dropout: float = 0.0

    @property
    def gentle_rate(self) -> float:
        """The classifier's rate for losses that collapse to a constant prediction at a high rate.

        They do not recover: where a network is sure, Reweight's weights and the slopes of `gce` are zero.
        """
        return min(self.classifier.lr, GENTLE_RATE) if self.gentle else self.classifier.lr

    def classifier_through(self, transition: np.ndarray, *, weighted: bool) -> Phase:
        """The classifier's phase for a loss through T. Its rate may depend on the noise.

        d is the mean diagonal of T. `weighted` losses weight by T (Reweight) or invert it (Backward). Weights
        reach 1/d and inverses more, which raises the gradient's variance: at a rate that suits d = 0.5,
        Reweight collapses to a constant prediction under sym-80. A gentle schedule multiplies their
        `gentle_rate` by (2 d)^2, at most 1.

        Forward has no weights, and is flatter the noisier the labels are: a rate that works at d = 0.2
        diverges at d = 0.8. A bold schedule multiplies its rate by 1 / (2 d), kept between 1 and 2.
        """
        twice = float(2 * np.diag(transition).mean())
        rate = self.classifier.lr
        if weighted and self.gentle:
            rate = self.gentle_rate * min(1.0, twice**2)
        elif not weighted and self.bold:
            rate /= min(1.0, max(0.5, twice))
        return replace(self.classifier, lr=rate)

    @property
    def whole_epochs(self) -> int:
        """The epochs of stage 1 and the classifier together: the budget of a fresh network."""
        return self.noisy_posterior.epochs + self.classifier.epochs

    @property
    def epochs(self) -> int:
        return self.whole_epochs + self.revision.epochs

    def with_options(self, options: Options, own_estimator: str | None = None) -> Schedule:
        """The schedule with the user's choices applied and checked.

        The estimator is the user's, else the method's `own_estimator`, else the schedule's.
        """
        options.check()
        revision = self.revision
        if options.lr_revision is not None:
            revision = replace(revision, lr=options.lr_revision)
        if options.lr_transition is not None:
            revision = replace(revision, lr_transition=options.lr_transition)
        gradient = options.reweight_gradient
        chosen = replace(
            self,
            revision=revision,
            parameterisation=cast(Parameterisation, options.revision or self.parameterisation),
            live_weight=self.live_weight if gradient is None else gradient == "live",
            revision_loss=cast(RevisionLoss, options.revision_loss or self.revision_loss),
            estimator=options.estimator or own_estimator or self.estimator,
        )
        chosen.check()
        if options.lr_transition is not None and chosen.parameterisation == "frozen":
            raise ValueError("lr_transition must be left out for revision frozen, which does not move T")
        return chosen

    def check(self) -> None:
        """Raise a ValueError for choices that are invalid or contradict each other."""
        words = {
            "parameterisation": PARAMETERISATIONS,
            "revision_loss": REVISION_LOSSES,
            "select_by": get_args(Criterion),
            "estimator": ESTIMATORS,
        }
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.folds < 2:
            raise ValueError(f"folds must be at least 2, got {self.folds}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout}")
        phases = (self.noisy_posterior, self.classifier, self.revision)
        for phase in phases:
            phase.check()
        if self.select_by == "last" and any(phase.patience is not None for phase in phases):
            raise ValueError(
                "patience must be left out where select_by is last: no epoch is better than another"
            )
        if self.revision_loss == "released" and self.parameterisation != "slack":
            raise ValueError(
                "revision_loss released must go with revision slack, the released code's Delta T, "
                f"got {self.parameterisation}"
            )
        if self.revision_loss == "released" and not self.live_weight:
            raise ValueError("revision_loss released must go with reweight_gradient live, got detached")


def paper(source: str, rows: int, num_classes: int) -> Schedule:
    """The published protocol. Where the paper says nothing, the authors' released settings are used.

    The second stage has 200 epochs in the paper and 100 on MNIST in the released settings; in both, the rate
    is 1e-4 from epoch 80 on. Clothing1M needs no noisy posterior, since T-hat is counted there. The length of
    its revision is not published; it is taken to be that of the classifier's training.
    """
    if source == "clothing1m":
        return Schedule(
            noisy_posterior=Phase(epochs=0),
            classifier=Phase(10, lr=1e-3, weight_decay=1e-3, batch_size=32, decay="steps", milestones=(5,)),
            revision=Phase(10, optimizer="adam", lr=5e-7, weight_decay=1e-3, batch_size=32),
        )
    schedule = Schedule(
        noisy_posterior=Phase(epochs=20, lr=1e-2, momentum=0.0),
        classifier=Phase(epochs=200, lr=1e-2, decay="steps", milestones=(40, 80)),
        revision=Phase(epochs=200, optimizer="adam", lr=5e-7),
        anchor_percentile=estimation.usual_percentile(num_classes),
    )
    if source in ("mnist", "fashion-mnist", "digits"):
        return replace(schedule, classifier=replace(schedule.classifier, epochs=100))
    if source == "cifar100":
        first = replace(schedule.noisy_posterior, epochs=15)
        return replace(schedule, noisy_posterior=first, anchor_percentile=None)
    return schedule


def quick(source: str, rows: int, num_classes: int) -> Schedule:
    """A schedule for two CPU cores: the stages of `paper` in a sixteenth of its epochs (docs/schedules.md).

    Small data get more epochs and smaller batches, so that each stage still has a few hundred steps.
    """
    small = rows < SMALL
    batch = min(128, max(32, 1 << max(0, round(math.log2(max(rows, 1) / 20)))))
    steps = math.ceil(rows / batch)
    decay = 1e-3 if small else 1e-4

    def epochs(few_rows: int, many_rows: int, least_steps: int) -> int:
        return max(few_rows if small else many_rows, math.ceil(least_steps / steps))

    return Schedule(
        noisy_posterior=Phase(
            epochs(8, 5, 150), lr=2e-2 if small else 1e-2, weight_decay=decay, batch_size=batch
        ),
        classifier=Phase(
            epochs(60, 10, 300),
            lr=1e-2 if small else 5e-2,
            weight_decay=decay,
            batch_size=batch,
            decay="one-cycle",
        ),
        revision=Phase(
            epochs(20, 5, 100),
            optimizer="adam",
            lr=2e-4 if small else 1e-4,
            lr_transition=1e-3,
            weight_decay=decay,
            batch_size=batch,
            decay="one-cycle",
        ),
        parameterisation="simplex",
        live_weight=True,
        gentle=not small,
        # With a few hundred validation labels, half of them wrong, the error is too coarse to compare epochs.
        select_by="loss" if small else "error",
        guarded=True,
    )


def strong(source: str, rows: int, num_classes: int) -> Schedule:
    """A longer recipe for the same networks, meant to lift every method (docs/schedules.md).

    High one-cycle rates and averaged weights. Images of digits or clothes on a plain ground are turned,
    stretched and moved a little. The last epoch is taken: this recipe should make it the best, and a choice
    by 6,000 noisy labels would add more chance than knowledge. Small data get `quick`.
    """
    base = quick(source, rows, num_classes)
    if rows < SMALL:
        return base
    distorted = SOURCES[source].distortion if source in SOURCES else None
    how: dict[str, Any] = {"decay": "one-cycle", "augmentation": distorted}
    return replace(
        base,
        noisy_posterior=Phase(6, lr=5e-2, weight_decay=5e-4, average=0.5, **how),
        classifier=Phase(15, lr=0.1, weight_decay=2e-4, average=1.0, **how),
        revision=replace(base.revision, weight_decay=2e-4, average=1.0, augmentation=distorted),
        bold=True,
        select_by="last",
    )


def for_own_data(schedule: Schedule, rows: int) -> Schedule:
    """The schedule for data that nobody has tuned it to (docs/schedules.md).

    Tables and texts differ in how soon a network learns them and begins to learn their noise by heart. So
    stages may be longer, and end when noisy validation labels have not become likelier for some epochs.
    Averaged weights of `strong` are best at the end of its cycle; its stages keep their length.
    """
    schedule = replace(schedule, dropout=OWN_DATA_DROPOUT if rows >= FEW else 0.0)
    if schedule.select_by == "last":
        return schedule
    first, second, last = schedule.noisy_posterior, schedule.classifier, schedule.revision
    if rows < SMALL:
        first = replace(first, epochs=max(30, first.epochs), patience=4)
        second = replace(second, patience=12)
    else:
        first = replace(first, epochs=12, patience=3)
    return replace(schedule, noisy_posterior=first, classifier=second, revision=last, select_by="loss")


SCHEDULES = {"paper": paper, "quick": quick, "strong": strong}


COLOUR_NETWORKS = {"quick": "narrow", "strong": "wide"}
"""The networks of `networks/colour.py`, by schedule; all else is the same in both."""

COLOUR_EPOCHS = (10, 24, 3)
"""Of noisy-posterior, classifier and revision."""

COLOUR_ESTIMATOR, COLOUR_FOLDS = "latent", 3
COLOUR_BATCH, COLOUR_RATE = 512, 1.0


def colour(source: str, rows: int) -> Schedule:
    """A schedule for the networks that a CPU can train on colour images (docs/schedules.md).

    Stage 1 is as strong as the classifier's training: where classes look alike, a weak posterior takes doubt
    for noise. Images are moved a little and, if mirror images are usual for the data set, mirrored in every
    other epoch. The last epoch is taken.
    """
    batch = min(COLOUR_BATCH, max(32, 1 << round(math.log2(max(rows, 1) / 40))))
    steps = math.ceil(rows / batch)
    mirrors = source in SOURCES and SOURCES[source].augmentation == "crop-flip"
    how: dict[str, Any] = {"batch_size": batch, "augmentation": "shift-flip" if mirrors else "shift"}

    def trained(epochs: int, least_steps: int) -> Phase:
        return Phase(
            # Few rows need more epochs, but are learnt by heart, wrong labels too, in very many.
            min(max(epochs, math.ceil(least_steps / steps)), 3 * epochs),
            lr=COLOUR_RATE * batch / COLOUR_BATCH,
            momentum=0.85,
            nesterov=True,
            weight_decay=5e-4,
            decay="triangular",
            **how,
        )

    first, second, last = COLOUR_EPOCHS
    return Schedule(
        noisy_posterior=trained(first, 600),
        classifier=trained(second, 800),
        revision=Phase(last, optimizer="adam", lr=1e-4, lr_transition=1e-3, decay="one-cycle", **how),
        parameterisation="simplex",
        select_by="last",
        estimator=COLOUR_ESTIMATOR,
        folds=COLOUR_FOLDS,
        guarded=True,
    )


def colour_network(schedule: str) -> str:
    """The network of a schedule for small colour images on a CPU."""
    return COLOUR_NETWORKS.get(schedule, "resnet18")


def has_colour_schedule(name: str, network: str | None) -> bool:
    """Whether the schedule `name` has a preset of its own for a network."""
    return name in COLOUR_NETWORKS and network in WIDTHS


def schedule_for(name: str, source: str, rows: int, num_classes: int, network: str | None = None) -> Schedule:
    """The preset `name` for a data set of that name, number of training rows and number of classes.

    The networks of `networks/colour.py` have presets of their own.
    """
    if name not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {name!r}")
    if has_colour_schedule(name, network):
        return colour(source, rows)
    schedule = SCHEDULES[name](source, rows, num_classes)
    if source not in SOURCES and name != "paper":
        schedule = for_own_data(schedule, rows)
    return replace(schedule, estimator=usual_estimator(source))


def usual_estimator(source: str) -> str:
    """The estimator of T for a data set of that name, if the user chooses none.

    The paper's data sets get the paper's estimator, the user's own data get `latent`.
    """
    return SOURCES[source].estimator if source in SOURCES else "latent"
