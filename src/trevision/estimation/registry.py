"""The estimators of T by name: every module-level `Estimator` of this folder."""

from __future__ import annotations

from trevision.declared import declared_in
from trevision.estimation.estimator import Estimator
from trevision.files import did_you_mean

ESTIMATORS: dict[str, Estimator] = declared_in(
    "trevision.estimation",
    Estimator,  # type: ignore[type-abstract]
    order=lambda estimator: (estimator.rank, estimator.name),
)
"""The estimators by name."""


def find_estimator(name: str, parameter: str = "estimator") -> Estimator:
    """The estimator of that name.

    Parameters
    ----------
    name : str
        A key of `ESTIMATORS`.
    parameter : str, default="estimator"
        What the error calls it.

    Returns
    -------
    Estimator

    Raises
    ------
    ValueError
        If there is none. The message lists the names.

    Examples
    --------
    >>> find_estimator("hoc").most_classes
    100
    """
    if name not in ESTIMATORS:
        hint = did_you_mean(name, ESTIMATORS)
        raise ValueError(f"{parameter} must be one of {', '.join(ESTIMATORS)}, got {name!r}{hint}")
    return ESTIMATORS[name]


def default_estimator(num_classes: int) -> str:
    """The name of the estimator that is used if the user names none.

    Parameters
    ----------
    num_classes : int
        C.

    Returns
    -------
    str
        The first name in `ESTIMATORS` whose estimator takes so many classes.

    Examples
    --------
    >>> default_estimator(10), default_estimator(1000)
    ('latent', 'confident-joint')
    """
    return next(name for name, estimator in ESTIMATORS.items() if estimator.takes(num_classes))
