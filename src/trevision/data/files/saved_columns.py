"""The columns that a run's preprocessing was made of, read without scikit-learn."""

from __future__ import annotations

from pathlib import Path

from trevision.data.files.columns import Column
from trevision.data.files.skops_files import read_description
from trevision.files import DataError

COLUMNS_MEMBER = "columns.json"
"""The member of the file that lists them."""


def read_columns(path: Path) -> tuple[Column, ...]:
    """The columns of a file that `Preprocessing.save` wrote. No object is made."""
    try:
        description = read_description(path, COLUMNS_MEMBER)
        return tuple(Column(**column) for column in description["columns"])
    except FileNotFoundError:
        raise DataError(
            f"{path}: there is no such file, so the table cannot be read as in training"
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: must list its columns, but does not ({error!r}); is it damaged?") from None
