"""Apply the corrections downloaded from the page: write a cleaned label file."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from trevision.data.files.answers import open_source
from trevision.data.files.corrections import Mark, checked_beside, reading_of_paths, write_labels
from trevision.data.files.reading import Reading, kind_of
from trevision.data.progress import Progress
from trevision.files import DataError
from trevision.report.label_studio import read_tasks
from trevision.runs.audit_files import ANSWER_COLUMNS, read_answers, read_plan
from trevision.runs.outputs import check_output
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Settings, fit_command, usual_method
from trevision.spreadsheets import as_written

COLUMNS = ("row", "name", "given", "corrected", "decision")
"""The columns of the file that the page downloads."""
BY_HAND = ("row", "name", "given", "suggested", "how sure", "corrected")
"""The first columns of the table for a spreadsheet: its `corrected` is filled in by hand, or stays empty."""
NEEDED = ("row", "given", "corrected")
DECISIONS = ("accept", "keep", "change")


@dataclass(frozen=True)
class Correction:
    """One decided row, and its place in the file: `line 3`, or `task 3`."""

    place: str
    row: int
    given: str
    corrected: str


@dataclass(frozen=True)
class Applied:
    """The number of decided rows, of those that got another label, and of those that are said to be right."""

    decided: int
    changed: int
    trusted: int
    command: str
    """What trains on the copy, with the settings of the run."""


def apply_corrections(
    folder: Path,
    corrections: Path,
    out: Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    trust: bool = True,
) -> Applied:
    """Write a copy of the run's source with corrected labels.

    Every line is checked against the labels that the run learnt from. If a line does not fit, nothing is
    written.

    Parameters
    ----------
    folder
        The folder of a finished run without added noise.
    corrections
        The file that the report or the audit page writes, or Label Studio's export (.json). Answers of an
        audit are always trusted.
    out
        The copy to write; of the source's kind, or a .csv for a folder of images.
    data_dir
        Where to look for a named data set first.
    progress
        Called with the progress of reading the labels, if the run did not keep them.
    trust
        Whether the next `fit` takes the decided labels as right, so that they never come back as suspects.
        Not where the run has right labels in a file of their own, to which the copy cannot add.

    Raises
    ------
    DataError
        If a line does not fit, or the run's labels were made wrong by --noise.
    """
    run = RunFolder(folder, data_dir, progress)
    _ = run.card  # raises for an unfinished run
    source, settings = run.source, run.settings
    for written in (out, checked_beside(out)):
        check_output(written, corrections, *run.inputs)
    if settings.noise is not None:
        raise DataError(
            f"{folder} must be a run on labels as they are, but its labels were made wrong by --noise "
            f"{settings.noise}: {source} has no such labels to correct"
        )
    decided = _decided(run, corrections)
    trust = is_answers(corrections) or (trust and can_trust(settings))
    labels = run.labels
    class_names = labels.class_names
    positions = labels.positions([correction.row for correction in decided])
    for correction, position in zip(decided, positions, strict=True):
        where = f"{corrections}, {correction.place}"
        if position < 0:
            raise DataError(
                f"{where}: row {correction.row} is not among the {len(labels)} rows of {source} that "
                "the run learnt from; was the file made from another run?"
            )
        now = class_names[int(labels.codes[position])]
        if correction.given != now:
            raise DataError(
                f"{where}: row {correction.row} had the label {correction.given!r} when it was reviewed, "
                f"but {source} now says {now!r}; fit and review again"
            )
        if correction.corrected not in class_names:
            raise DataError(
                f"{where}: {correction.corrected!r} is not one of the {len(class_names)} classes of "
                f"{source}; correct to a class that occurs in it"
            )
    changes = {
        correction.row: correction.corrected
        for correction in decided
        if correction.corrected != correction.given
    }
    checked = [correction.row for correction in decided] if trust else []
    reading = write_labels(source, settings.reading, changes, out, checked)
    command = command_on_copy(folder, settings, reading, out)
    return Applied(len(decided), len(changes), len(checked), command)


def command_on_copy(folder: Path, settings: Settings, reading: Reading, out: Path) -> str:
    """The `fit` command that learns from a corrected copy, with the settings of the run in `folder`."""
    again = replace(settings, reading=reading)
    if settings.reading.annotator_column is not None:
        again = replace(again, method=usual_method(str(out), reading))  # the copy has one label a row
    return fit_command(str(out), again, Path(f"{folder}-cleaned"))


def reading_of_copy(source: str, reading: Reading, out: Path, trust: bool) -> Reading:
    """How the copy will be read that `apply` writes to `out`, before it is written."""
    kind = kind_of(source)
    header: tuple[str, ...] = ()
    if kind == "table":
        table, reading, _ = open_source(source, reading)
        header = (*table.header, *table.columns)
    reading = reading_of_paths(source, reading, out)
    if not trust:
        return reading
    if kind == "npz":
        return replace(reading, clean_source=str(checked_beside(out)))
    return replace(reading, clean_column=Mark.of(reading, header, (0,)).column)


def can_trust(settings: Settings) -> bool:
    """Whether a copy of the source can say which labels are known to be right."""
    return settings.reading.clean_source is None


def _decided(run: RunFolder, path: Path) -> list[Correction]:
    """The decided rows of a file of any of the kinds that `apply` reads."""
    if is_answers(path):
        return _answered(run, path)
    if path.suffix.lower() == ".json":
        return [
            Correction(f"task {one.number}", one.row, one.given, one.corrected) for one in read_tasks(path)
        ]
    return read_corrections(path)


def is_answers(path: Path) -> bool:
    """Whether a file has the header of an audit's answers."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline().decode("utf-8-sig", "replace").strip() == ",".join(ANSWER_COLUMNS)


def _answered(run: RunFolder, path: Path) -> list[Correction]:
    """The answers of an audit, but those that the auditor could not tell, as corrections."""
    name = read_plan(run).name
    told = []
    for one in read_answers(path):
        if one.plan != name:
            raise DataError(
                f"{path}, line {one.line}: belongs to the audit {one.plan or 'of no name'}, but that of "
                f"{run.path} is {name}; was the file made from another run?"
            )
        if one.answer is not None:
            told.append(Correction(f"line {one.line}", one.row, one.given, one.answer))
    if not told:
        raise DataError(f"{path} must tell the label of at least one row, got none")
    return told


def read_corrections(path: Path) -> list[Correction]:
    """The lines of a corrections file, as the page writes it, or of a table filled in by hand."""
    if not path.is_file():
        downloaded = Path.home() / "Downloads" / path.name
        raise DataError(
            f"{path} does not exist; "
            + (
                f"there is {downloaded}: give that path"
                if downloaded.is_file()
                else "the report's button `Download corrections` makes it"
            )
        )
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
    if any(header.count(name) != 1 for name in NEEDED) and tuple(header[: len(BY_HAND)]) != BY_HAND:
        raise DataError(
            f"{path} must have the columns {','.join(COLUMNS)}, got {','.join(header) or 'none'}; "
            "download it from the report, and save it with commas if a spreadsheet changed it"
        )
    at = {name: header.index(name) for name in (*NEEDED, "decision") if name in header}
    decided: dict[int, Correction] = {}
    for fields in lines:
        where = f"{path}, line {lines.line_num}"
        if len(fields) != len(header):
            raise DataError(f"{where}: must have {len(header)} fields, got {len(fields)}")
        number, given, corrected = (as_written(fields[at[name]]) for name in NEEDED)
        if not corrected and "decision" not in at:
            continue  # a row of the table that nobody has corrected
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise DataError(f"{where}: row must be a row's number, 0 or more, got {number!r}")
        if "decision" in at and fields[at["decision"]] not in DECISIONS:
            decision = fields[at["decision"]]
            raise DataError(f"{where}: decision must be one of {', '.join(DECISIONS)}, got {decision!r}")
        correction = Correction(f"line {lines.line_num}", int(number), given, corrected)
        if earlier := decided.get(correction.row):
            raise DataError(
                f"{where}: row {correction.row} was decided before, in {earlier.place}; keep one of them"
            )
        decided[correction.row] = correction
    if not decided and "decision" not in at:
        raise DataError(f"{path} must have the column corrected filled in for at least one row")
    return list(decided.values())
