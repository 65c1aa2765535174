"""The suspect labels of a run for other tools: tasks for Label Studio, or a table for a spreadsheet."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from trevision.data.pictures import read_pictures
from trevision.data.progress import Progress
from trevision.files import DataError, write_atomically
from trevision.report.corrections import BY_HAND
from trevision.report.label_studio import labelling_interface, tasks_of
from trevision.report.page import list_suspects
from trevision.report.run_files import RunRecord, Suspect, read_run
from trevision.report.source_rows import Fields, columns_told_elsewhere, field_texts, thumbnails
from trevision.runs.outputs import check_output
from trevision.runs.run_folder import RunFolder
from trevision.spreadsheets import shown_as_text

MOST_COLUMNS, MOST_LETTERS = 40, 10_000
"""Maximum columns and letters of a field."""
PIXELS = 256
"""Pixels of the longer side of an image in a task."""


@dataclass(frozen=True)
class Exported:
    """The files that were written, and the number of suspects in them."""

    paths: tuple[Path, ...]
    suspects: int


def export_suspects(
    run: RunFolder, out: Path, data_dir: Path | None = None, progress: Progress | None = None
) -> Exported:
    """Write the suspects of a run to a file whose suffix says what for.

    Parameters
    ----------
    run
        A run whose labels `trevision issues` has scored.
    out
        A .json file gets tasks for Label Studio, and beside it an .xml file the labelling interface; a .csv
        file gets a table with an empty column for corrections.
    data_dir
        Where to look for a named data set first.
    progress
        Called with the progress of reading the source.
    """
    check_export(out)
    check_output(out, *run.inputs)
    record = read_run(run)
    listed = list_suspects(record)
    if out.suffix.lower() == ".csv":
        fields = _fields(record, listed)
        write_atomically(out, lambda path: _write_table(path, listed, fields))
        return Exported((out,), len(listed))
    images = None
    if len(record.shape) == 3:
        rows = [one.row for one in listed]
        shown = read_pictures(record.source, record.settings.reading, record.shape, rows, data_dir, progress)
        small = thumbnails(shown, record.shape, PIXELS)
        images = [f"data:{small.mime};base64,{encoded}" for encoded in small.encoded]
    tasks = tasks_of(listed, _texts(record, listed), images)
    text = json.dumps(tasks, ensure_ascii=False, indent=1, allow_nan=False)
    interface = out.with_suffix(".xml")
    check_output(interface, *run.inputs)
    code = labelling_interface(record.noise.classes, images is not None)
    write_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
    write_atomically(interface, lambda path: path.write_text(code, encoding="utf-8"))
    return Exported((out, interface), len(listed))


def check_export(out: Path) -> None:
    """Raise a DataError for a file of no known kind, or in no folder."""
    if out.suffix.lower() not in (".json", ".csv"):
        raise DataError(
            f"export must end in .json (tasks for Label Studio) or .csv (for a spreadsheet), got {out}"
        )
    if not out.parent.is_dir():
        raise DataError(f"export must lie in a folder that exists, got {out}")


def _fields(run: RunRecord, listed: list[Suspect]) -> Fields | None:
    if len(run.shape) == 3:
        return None
    hidden = columns_told_elsewhere(run.source, run.settings.reading)
    rows = [one.row for one in listed]
    return field_texts(run.source, run.settings.reading, rows, MOST_COLUMNS, MOST_LETTERS, hidden)


def _texts(run: RunRecord, listed: list[Suspect]) -> list[str] | None:
    """What a task shows of a row of a table: its text, or all of its fields."""
    fields = _fields(run, listed)
    if fields is None:
        return None
    texts = [name for name in fields.columns if name in run.settings.reading.text_column]
    kept = [fields.columns.index(name) for name in texts or fields.columns]
    if len(kept) == 1:
        return [row[kept[0]] for row in fields.rows]
    return ["\n".join(f"{fields.columns[one]}: {row[one]}" for one in kept) for row in fields.rows]


def _write_table(path: Path, listed: list[Suspect], fields: Fields | None) -> None:
    # With a byte order mark, without which spreadsheets take UTF-8 for something else.
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        lines = csv.writer(file)
        lines.writerow([*BY_HAND, *map(shown_as_text, fields.columns if fields else ())])
        for place, one in enumerate(listed):
            name, given, suggested, *rest = map(
                shown_as_text, [one.name, one.given, one.suggested, *(fields.rows[place] if fields else ())]
            )
            lines.writerow([one.row, name, given, suggested, f"{one.p_suggested:.3f}", "", *rest])
