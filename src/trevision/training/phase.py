"""How long and how fast one stage trains."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, get_args

from trevision.data.dataset import AUGMENTATIONS

Criterion = Literal["error", "loss", "last"]
Optimizer = Literal["sgd", "adam"]
Decay = Literal["constant", "steps", "one-cycle", "triangular", "exponential", "tent"]


@dataclass(frozen=True)
class Phase:
    """The optimiser of one stage, its learning rate over time, and when it ends.

    Parameters
    ----------
    epochs : int
        The number of epochs.
    optimizer : Optimizer, default="sgd"
        The optimiser: sgd or adam.
    lr : float, default=1e-2
        The (highest) learning rate of the network.
    lr_transition : float | None, default=None
        The learning rate of Delta T; that of the network if not given.
    optimizer_transition : Optimizer | None, default=None
        The optimiser of Delta T; if not given, the network's moves both.
    momentum : float, default=0.9
        SGD's momentum.
    nesterov : bool, default=False
        Whether SGD's momentum is Nesterov's.
    weight_decay : float, default=1e-4
        Weight decay of the network; Delta T is never decayed.
    batch_size : int, default=128
        Rows in a batch.
    decay : Decay, default="constant"
        How the rate moves: constant, steps (a tenth after each milestone), one-cycle (up, then along a
        cosine to zero), triangular (up, then along a line to zero), exponential (down to a tenth at the end)
        or tent (up from zero in the first tenth of the epochs, then along a line to zero).
    milestones : tuple[int, ...], default=()
        For steps: the epochs after which the rate is divided by ten.
    augmentation : str | None, default=None
        How training images are varied, one of `data.AUGMENTATIONS`; the data set's usual way if not
        given.
    average : float, default=0.0
        Average the weights over about this many of the latest epochs, and measure and select the
        average; 0 for no averaging.
    patience : int | None, default=None
        Stop after this many epochs without a better noisy validation score; never, if not given.

    Examples
    --------
    >>> Phase(epochs=20, lr=0.05, decay="one-cycle").batch_size
    128
    """

    epochs: int
    optimizer: Optimizer = "sgd"
    lr: float = 1e-2
    lr_transition: float | None = None
    optimizer_transition: Optimizer | None = None
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 1e-4
    batch_size: int = 128
    decay: Decay = "constant"
    milestones: tuple[int, ...] = ()
    augmentation: str | None = None
    average: float = 0.0
    patience: int | None = None

    def check(self) -> None:
        """Raise a ValueError for an unknown word or an impossible number."""
        words = {
            "optimizer": get_args(Optimizer),
            "optimizer_transition": (None, *get_args(Optimizer)),
            "decay": get_args(Decay),
            "augmentation": (None, *AUGMENTATIONS),
        }
        for name, known in words.items():
            if getattr(self, name) not in known:
                choices = ", ".join(word for word in known if word is not None)
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name, least in {"epochs": 0, "batch_size": 1, "average": 0, "weight_decay": 0, "lr": 0}.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if list(self.milestones) != sorted(self.milestones):
            raise ValueError(f"milestones must be epochs in ascending order, got {self.milestones}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience must be at least 1 epoch, got {self.patience}")


def learning_rate(phase: Phase, epochs_done: float) -> float:
    """The factor on a phase's learning rates after `epochs_done` epochs, which may be a fraction.

    It depends on time only, so a resumed run needs no scheduler state.
    """
    if phase.decay == "steps":
        return 0.1 ** bisect_right(phase.milestones, int(epochs_done))
    if phase.decay in ("one-cycle", "triangular"):
        share, warm_up = epochs_done / phase.epochs, 0.2
        if share < warm_up:
            return 0.1 + 0.9 * share / warm_up
        down = (share - warm_up) / (1 - warm_up)
        return 1 - down if phase.decay == "triangular" else 0.5 * (1 + math.cos(math.pi * down))
    if phase.decay == "exponential":
        return float(0.1 ** (epochs_done / phase.epochs))
    if phase.decay == "tent":
        share = epochs_done / phase.epochs
        return min(share / 0.1, (1 - share) / 0.9)
    return 1.0
