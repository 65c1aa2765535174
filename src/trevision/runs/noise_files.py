"""T by the name of a noise, or from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trevision import noise
from trevision.files import DataError
from trevision.npy import read_numbers


def read_noise(name: str, num_classes: int) -> np.ndarray:
    """T by its noise name, or from a .csv (no header) or .npy file."""
    path = Path(name)
    if path.suffix not in (".csv", ".npy"):
        return noise.parse(name, num_classes)
    if not path.is_file():
        raise DataError(f"noise must be a name such as sym-50 or a file with a matrix: {path} does not exist")
    try:
        matrix = read_numbers(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
        return noise.validate(matrix, num_classes)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
