"""The page of an audit: the planned rows, one at a time, without the labels that they were given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trevision.data.files.reading import kind_of
from trevision.data.pictures import read_pictures
from trevision.data.progress import Progress
from trevision.files import write_atomically
from trevision.report.page import fill
from trevision.report.source_rows import columns_told_elsewhere, field_texts, thumbnails
from trevision.report.summary import source_name
from trevision.runs.audit_files import ANSWER_COLUMNS, RunAudit
from trevision.runs.outputs import check_output
from trevision.runs.run_folder import RunFolder

MOST_COLUMNS, MOST_LETTERS = 40, 4_000
"""Maximum columns and letters of a field: the row has to be judged by what the page shows."""
SCRIPTS = ("theme.js", "csv.js", "audit.js")


@dataclass(frozen=True)
class WrittenAudit:
    """The page that was written, and the name of the file that it downloads."""

    path: Path
    answers: str


def write_audit_page(
    run: RunFolder,
    audit: RunAudit,
    out: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> WrittenAudit:
    """Write the page on which the rows of a plan are answered; RUN/audit.html if `out` is not given."""
    out = out or run.path / "audit.html"
    check_output(out, *run.inputs)
    source, reading, shape = run.source, run.settings.reading, run.card.shape
    drawn = audit.plan.rows
    rows = audit.row_numbers[drawn].tolist()
    pictures, fields = None, None
    if len(shape) == 3:
        pictures = vars(thumbnails(read_pictures(source, reading, shape, rows, data_dir, progress), shape))
    else:
        told = columns_told_elsewhere(source, reading)
        found = field_texts(source, reading, rows, MOST_COLUMNS, MOST_LETTERS, told)
        fields = None if found is None else {"columns": found.columns, "rows": found.rows}
    names = [audit.names[row] for row in drawn]
    # The folder of an image is its given label.
    titles = [Path(name).name for name in names] if kind_of(source) == "folder" else names
    answers = f"audit-{run.path.resolve().name}.csv"
    text = fill(
        "audit.html",
        SCRIPTS,
        source=source_name(source),
        rows=len(rows),
        data={
            "key": f"trevision-audit-{audit.name}",
            "plan": audit.name,
            "file": answers,
            "columns": ANSWER_COLUMNS,
            "classes": audit.classes,
            "row": rows,
            "name": names,
            "title": [None if title == str(row) else title for title, row in zip(titles, rows, strict=True)],
            "given": audit.plan.given[drawn].tolist(),
            "suggested": [audit.classes.index(audit.suggested[row]) for row in drawn],
            "pictures": pictures,
            "fields": fields,
        },
        then=f"trevision audit {run.path} {answers}",
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
    return WrittenAudit(out, answers)
