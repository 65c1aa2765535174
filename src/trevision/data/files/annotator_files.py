"""What was learnt of annotators, as files: annotators.json, and P(clean) of the rows in clean.npz."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.data.files.arrays import name_of, npz_members
from trevision.files import DataError, read_json, write_atomically, write_json

if TYPE_CHECKING:
    from trevision.estimation import Annotators

ANNOTATORS_JSON, CLEAN_NPZ = "annotators.json", "clean.npz"


def has_annotators(folder: Path) -> bool:
    """Whether annotators were written to a folder."""
    return (folder / ANNOTATORS_JSON).is_file() and (folder / CLEAN_NPZ).is_file()


def write_annotators(
    folder: Path, annotators: Annotators, rows: np.ndarray, classes: Sequence[Any] | np.ndarray
) -> None:
    """Write both files, each in one step.

    Parameters
    ----------
    folder
        The folder, which must exist.
    annotators
        What was learnt.
    rows
        The number of each row of P(clean) in its source.
    classes
        The labels in the order of their codes.
    """

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, probs=annotators.clean_posterior, rows=rows)

    write_atomically(folder / CLEAN_NPZ, write)
    people = zip(
        annotators.names,
        annotators.answers.tolist(),
        annotators.right.tolist(),
        annotators.right_low.tolist(),
        annotators.right_high.tolist(),
        annotators.transitions.tolist(),
        strict=True,
    )
    write_json(
        folder / ANNOTATORS_JSON,
        {
            "classes": [name_of(value) for value in classes],
            "level": annotators.level,
            "strength": annotators.strength,
            "counts_as": annotators.counts_as,
            "converged": annotators.converged,
            "warnings": list(annotators.warnings),
            "class_prior": annotators.class_prior.tolist(),
            "crowd": annotators.crowd.tolist(),
            "annotators": [
                {
                    "name": name,
                    "answers": answers,
                    "right": right,
                    "right_low": low,
                    "right_high": high,
                    "transition": transition,
                }
                for name, answers, right, low, high, transition in people
            ],
        },
    )


def read_annotators(folder: Path) -> Annotators:
    """What `write_annotators` wrote.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    from trevision.estimation import Annotators  # imports scipy, which a run of one label a row does not need

    path = folder / ANNOTATORS_JSON
    stored, arrays = read_json(path), npz_members(folder / CLEAN_NPZ)
    try:
        people = stored["annotators"]
        count, size = len(people), len(stored["classes"])

        def matrix(values: Any, *shape: int) -> np.ndarray:
            array = np.array(values, dtype=float)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"numbers of shape {shape} are expected, and {array.shape} were found")
            return array

        return Annotators(
            transitions=matrix([each["transition"] for each in people], count, size, size),
            crowd=matrix(stored["crowd"], size, size),
            clean_posterior=matrix(arrays["probs"], len(arrays["probs"]), size),
            answers=np.array([int(each["answers"]) for each in people]),
            right=matrix([each["right"] for each in people], count),
            right_low=matrix([each["right_low"] for each in people], count),
            right_high=matrix([each["right_high"] for each in people], count),
            strength=float(stored["strength"]),
            level=float(stored["level"]),
            converged=bool(stored["converged"]),
            names=tuple(str(each["name"]) for each in people),
            class_prior=matrix(stored["class_prior"], size),
            warnings=tuple(map(str, stored["warnings"])),
            counts_as=float(stored["counts_as"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path}: {what}; was it edited? Fit again") from None


def read_clean_rows(folder: Path) -> np.ndarray:
    """The number in its source of each row of P(clean)."""
    rows = npz_members(folder / CLEAN_NPZ).get("rows")
    if rows is None or rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise DataError(f"{folder / CLEAN_NPZ}: must hold the number of each row; was it edited? Fit again")
    return rows
