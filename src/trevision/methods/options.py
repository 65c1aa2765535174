"""The user's choices about a method. Importing this needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from trevision.estimation import Estimator, find_estimator
from trevision.prior import PARAMETERISATIONS, parse

MENTORS = ("self-paced", "learned")
REVISION_LOSSES = ("eq3", "released")
GRADIENTS = ("live", "detached")
IN_SAMPLE, OUT_OF_SAMPLE = "in-sample", "out-of-sample"

READ = "first read in"
"""The metadata key of a field: the first part of a run that depends on the option."""
TRANSITION, LATER = "the estimation of T", "what no two methods share"

ANSWERS_METHOD = "standard"
"""The method whose stages and options serve several labels a row."""


def _option(default: Any, first_read_in: str) -> Any:
    return field(default=default, metadata={READ: first_read_in})


@dataclass(frozen=True)
class Options:
    """Choices that override the schedule. None keeps the schedule's value, or the method's own."""

    revision: str | None = _option(None, LATER)
    """How Delta T may move in forward-r and reweight-r: slack, projected, simplex or frozen."""
    reweight_gradient: str | None = _option(None, LATER)
    """Whether the gradient of reweight-r's revision flows through the weight g/(T'g): live or detached."""
    lr_revision: float | None = _option(None, LATER)
    """Learning rate of the network in the revision, and in the last phase of standard."""
    lr_transition: float | None = _option(None, LATER)
    """Learning rate of Delta T in the revision of forward-r and reweight-r."""
    noise_rate: float | None = _option(None, LATER)
    """Share of wrong labels, for mentornet and co-teaching; estimated from T-hat if not given."""
    mentor: str = _option("self-paced", LATER)
    """How mentornet weights samples: self-paced (by small loss) or learned (by a network)."""
    estimator: str | None = _option(None, TRANSITION)
    """How T is estimated: anchor (the paper's anchor points) or, from out-of-sample predictions, latent
    (maximum likelihood), latent-unpooled (each class by itself), confident-joint, dual-t, hoc (neighbours'
    labels) or counted (labels against predictions). If not given, known clean labels are used where there are
    any; else anchor for named data sets and latent for your own data."""
    posterior: str | None = _option(None, TRANSITION)
    """The P(noisy | x) that the estimator reads: out-of-sample (of networks that were not trained on the row)
    or in-sample (of stage 1 for its own training rows, as published for dual-t). If not given, in-sample for
    anchor and out-of-sample for all others."""
    revision_loss: str | None = _option(None, LATER)
    """The loss of reweight-r's revision: eq3 (the paper's) or released (the authors' code; slack only)."""
    prior: str | None = _option(None, TRANSITION)
    """What is known of T, joined by +: symmetric, dominant, support=FILE (a matrix with 1 where a mistake is
    possible and 0 elsewhere), known=FILE (T, with unknown rows left blank) and, for forward-r and reweight-r,
    sparse=WEIGHT (weight of a penalty on the entropy of mistakes)."""

    @staticmethod
    def first_read_in(part: str) -> list[str]:
        """The options that first matter in `part` of a run: TRANSITION or LATER."""
        return [option.name for option in fields(Options) if option.metadata[READ] == part]

    def reads_out_of_sample(self, estimator: Estimator) -> bool:
        """Whether `estimator` is to read predictions for rows that the network was not trained on."""
        if self.posterior is None:
            return estimator.needs_out_of_sample
        return self.posterior == OUT_OF_SAMPLE

    def check(self) -> None:
        """Raise a ValueError for an invalid choice."""
        words = {
            "revision": PARAMETERISATIONS,
            "reweight_gradient": GRADIENTS,
            "revision_loss": REVISION_LOSSES,
            "mentor": MENTORS,
            "posterior": (IN_SAMPLE, OUT_OF_SAMPLE),
        }
        for name, known in words.items():
            if getattr(self, name) not in (getattr(Options, name), *known):
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.estimator is not None:
            find_estimator(self.estimator)
        elif self.posterior is not None:
            raise ValueError(
                f"posterior {self.posterior} says what an estimator of T reads, so it must go with an "
                "estimator, got none; name one, such as dual-t"
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
        if self.prior is not None:
            parse(str(self.prior))


def check_choices_for_answers(method: str, usual: str, options: Options, prior: object = None) -> None:
    """Raise a ValueError for a choice that means nothing with several labels a row; `pose` checks the others.

    Parameters
    ----------
    method : str
        The method that was asked for.
    usual : str
        The method if none is asked for.
    options : Options
        The choices about the method.
    prior : object
        What is known of T.
    """
    for name, value, allowed in (
        ("method", method, (usual, ANSWERS_METHOD)),
        ("estimator", options.estimator, (None,)),
        ("prior", prior or options.prior, (None,)),
    ):
        if value not in allowed:
            raise ValueError(
                f"{name} must be left out with several labels a row, got {value}: they are learnt as "
                "P(clean), and T comes from the answers"
            )
