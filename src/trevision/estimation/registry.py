"""The estimators of T by name: every module-level `Estimator` of this folder."""

from __future__ import annotations

import importlib
import pkgutil

import trevision.estimation
from trevision.estimation.estimator import Estimator
from trevision.files import did_you_mean


def declared() -> dict[str, Estimator]:
    """All estimators that a module of `trevision.estimation` declares, in the order of their rank."""
    by_name: dict[str, Estimator] = {}
    for info in pkgutil.iter_modules(trevision.estimation.__path__):
        module = importlib.import_module(f"{trevision.estimation.__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Estimator) and by_name.setdefault(value.name, value) is not value:
                raise TypeError(f"two estimators are named {value.name}; the second is in {module.__name__}")
    ordered = sorted(by_name.values(), key=lambda estimator: (estimator.rank, estimator.name))
    return {estimator.name: estimator for estimator in ordered}


ESTIMATORS: dict[str, Estimator] = declared()
"""The estimators by name."""


def find_estimator(name: str) -> Estimator:
    """The estimator of that name.

    Parameters
    ----------
    name : str
        A key of `ESTIMATORS`.

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
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {name!r}{hint}")
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
