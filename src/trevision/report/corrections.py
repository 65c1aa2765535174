"""From the corrections that a person downloaded from the page to a cleaned label file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from trevision.data.files.corrections import write_labels
from trevision.data.named.download import Progress
from trevision.data.rows import places_of
from trevision.files import DataError
from trevision.runs.prepare import read_source
from trevision.runs.settings import settings_of
from trevision.training.model_files import load_model

COLUMNS = ("row", "name", "given", "corrected", "decision")


@dataclass(frozen=True)
class Correction:
    """One decided row, and the line of the file that tells it."""

    line: int
    row: int
    given: str
    corrected: str


@dataclass(frozen=True)
class Applied:
    """How many rows were decided, and how many of them got another label."""

    decided: int
    changed: int


def apply_corrections(
    folder: Path,
    corrections: Path,
    out: Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Applied:
    """Write a copy of the run's source to `out`, with the labels that `corrections` changes.

    Every line is checked against the source first; at the first that does not fit, nothing is written.
    """
    source, settings = settings_of(load_model(folder).config)
    if settings.noise is not None:
        raise DataError(
            f"{folder} must be a run on labels as they are, but its labels were made wrong by --noise "
            f"{settings.noise}: {source} has no such labels to correct"
        )
    decided = read_corrections(corrections)
    dataset = read_source(folder, source, settings, data_dir, progress)
    places = places_of(dataset, [one.row for one in decided])
    for one, place in zip(decided, places, strict=True):
        where = f"{corrections}, line {one.line}"
        if place < 0:
            raise DataError(
                f"{where}: row {one.row} is not among the {len(dataset.train_y)} rows of {source}; "
                "was the file made from another run?"
            )
        now = dataset.class_names[int(dataset.train_y[int(place)])]
        if one.given != now:
            raise DataError(
                f"{where}: row {one.row} had the label {one.given!r} when it was reviewed, but {source} "
                f"now says {now!r}; fit and review again"
            )
        if one.corrected not in dataset.class_names:
            raise DataError(
                f"{where}: {one.corrected!r} is not one of the {dataset.num_classes} classes of {source}; "
                "correct to a class that occurs in it"
            )
    changes = {one.row: one.corrected for one in decided if one.corrected != one.given}
    write_labels(source, settings.reading, changes, out)
    return Applied(len(decided), len(changes))


def read_corrections(path: Path) -> list[Correction]:
    """The lines of a corrections file, as the page writes it."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; the report's button `Download corrections` makes it")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _parse(path, file)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text in UTF-8 ({error.reason}); save it as CSV UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path} must be CSV as the report writes it ({error})") from None


def _parse(path: Path, file: TextIO) -> list[Correction]:
    lines = csv.reader(file, strict=True)
    header: list[str] = next(lines, [])
    if tuple(header) != COLUMNS:
        raise DataError(
            f"{path} must have the columns {','.join(COLUMNS)}, got {','.join(header) or 'none'}; "
            "download it from the report, and save it with commas if a spreadsheet changed it"
        )
    found: dict[int, Correction] = {}
    for fields in lines:
        where = f"{path}, line {lines.line_num}"
        if len(fields) != len(COLUMNS):
            raise DataError(f"{where}: must have {len(COLUMNS)} fields, got {len(fields)}")
        number, _, given, corrected, _ = fields
        if not (number.isascii() and number.isdigit()):
            raise DataError(f"{where}: row must be a row's number, 0 or more, got {number!r}")
        one = Correction(lines.line_num, int(number), given, corrected)
        if one.row in found:
            raise DataError(
                f"{where}: row {one.row} was decided before, in line {found[one.row].line}; keep one of them"
            )
        found[one.row] = one
    return list(found.values())
