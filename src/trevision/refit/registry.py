"""The corrections by name: every module-level `Correction` of the folder `corrections`."""

from __future__ import annotations

from trevision.declared import declared_in
from trevision.files import did_you_mean
from trevision.refit.correction import Correction

CORRECTIONS: dict[str, Correction] = declared_in(
    "trevision.refit.corrections",
    Correction,
    order=lambda correction: (correction.rank, correction.name),
)
"""The corrections by name."""

AUTO = "auto"
"""The name that leaves the choice to the noisy labels."""


def find_correction(name: object) -> Correction:
    """The correction of that name, a key of `CORRECTIONS`.

    Raises
    ------
    ValueError
        If there is none. The message lists the names.

    Examples
    --------
    >>> find_correction("soft").name
    'soft'
    """
    names = (AUTO, *CORRECTIONS)
    if not isinstance(name, str) or name not in CORRECTIONS:
        hint = did_you_mean(str(name), names)
        raise ValueError(f"correction must be one of {', '.join(names)}, got {name!r}{hint}")
    return CORRECTIONS[name]
