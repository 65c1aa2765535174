"""Read a prior for T from the user's text and the files it names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from trevision import noise
from trevision.files import DataError
from trevision.npy import read_numbers
from trevision.prior import Prior, parse


def read_prior(text: str | None, num_classes: int) -> Prior | None:
    """Read a prior from a text such as `symmetric+dominant+sparse=0.01+support=mask.csv+known=rows.csv`.

    Files hold a (C, C) matrix, .csv without header or .npy: 0 and 1 for the support; for known rows T, with
    unknown rows blank or NaN. The name of a noise, such as pair-45, stands for its T.
    """
    if text is None:
        return None
    said = parse(text)
    return Prior(
        support=_read_matrix(said["support"], "support", num_classes) if "support" in said else None,
        known_rows=_read_known_rows(said["known"], num_classes) if "known" in said else None,
        symmetric="symmetric" in said,
        dominant="dominant" in said,
        sparsity=float(said.get("sparse", 0)),
    )


def named_in(text: str | None) -> list[str]:
    """The files or noises that the text of a prior names."""
    said = {} if text is None else parse(text)
    return [said[word] for word in ("support", "known") if word in said]


def _read_known_rows(name: str, num_classes: int) -> dict[int, np.ndarray]:
    matrix = _read_matrix(name, "known", num_classes)
    rows = {label: row for label, row in enumerate(matrix) if not np.isnan(row).all()}
    if not rows:
        raise DataError(f"{name}: must hold at least one row of T, got only blank ones")
    return rows


def _read_matrix(name: str, word: str, num_classes: int) -> np.ndarray:
    path = Path(name)
    if path.suffix not in (".csv", ".npy"):
        try:
            transition = noise.parse(name, num_classes)
        except ValueError as error:
            raise DataError(
                f"prior must give {word} a .csv or .npy file or the name of a noise: {error}"
            ) from None
        return (transition > 0).astype(np.float64) if word == "support" else transition
    if not path.is_file():
        raise DataError(f"prior must give {word} a .csv or .npy file with a matrix: there is none at {path}")
    try:
        if path.suffix == ".npy":
            matrix = read_numbers(path)
        else:
            # Column names give the number of columns even if the first line is blank.
            lines = path.read_text(encoding="utf-8-sig").splitlines()
            columns = range(max((line.count(",") + 1 for line in lines), default=0))
            table = pd.read_csv(path, header=None, names=columns, skip_blank_lines=False)
            matrix = table.to_numpy(dtype=np.float64)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}: must hold numbers, separated by commas, but {error}") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{path}: must hold a square matrix, got shape {matrix.shape}")
    return matrix
