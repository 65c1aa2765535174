"""The page itself: template, style and scripts in one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from trevision.data.files.tables import TABLE_SUFFIXES
from trevision.data.named.download import Progress
from trevision.files import write_atomically
from trevision.report.curves import draw_curves, stage_lines
from trevision.report.matrices import draw_matrices
from trevision.report.run_files import RunRecord, Suspect, read_run
from trevision.report.source_rows import Fields, Pictures, field_texts, thumbnails
from trevision.report.summary import class_pairs, count, percent, sentences, source_name
from trevision.runs.prepare import read_source

MOST_SUSPECTS = 10_000
MOST_PICTURES = 3_000
MOST_PAIRS = 200
"""More lines than this nobody reads; the page says how many there are."""
MOST_COLUMNS = 12
MOST_LETTERS = 200
NAMES_BUDGET, FIELDS_BUDGET = 800_000, 700_000
"""Bytes for the rows' names and fields, so that the page besides its thumbnails stays under 3 MB."""

SCRIPTS = ("theme.js", "matrix.js", "csv.js", "review.js")


@dataclass(frozen=True)
class Written:
    """The page that was written, how many labels it lists, and of how many."""

    path: Path
    listed: int
    labels: int


def write_report(
    folder: Path,
    out: Path | None = None,
    suspects: int | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Written:
    """Write the page of the run in `folder` to `out`, RUN/report.html if not given.

    Lists the labels that are estimated to be wrong, at most 10,000 of them and fewer if their names are very
    long, or else exactly the `suspects` most suspicious ones.
    """
    if suspects is not None and suspects < 0:
        raise ValueError(f"suspects must be a number of labels to list, 0 or more, got {suspects}")
    run = read_run(folder)
    if suspects is None:
        likely = [one for one in run.suspects if one.likely][:MOST_SUSPECTS]
        listed = likely[: _number_within([one.name for one in likely], NAMES_BUDGET)]
    else:
        listed = run.suspects[:suspects]
    pictures, fields = None, None
    if len(run.shape) == 3:
        dataset = read_source(run.folder, run.source, run.settings, data_dir, progress)
        pictures = thumbnails(dataset, [one.row for one in listed[:MOST_PICTURES]])
    else:
        fields = _fields(run, listed)
    text = render(run, listed, pictures, fields)
    out = out or folder / "report.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
    return Written(out, len(listed), len(run.suspects))


def _fields(run: RunRecord, listed: list[Suspect]) -> Fields | None:
    """As many rows' fields as the budget allows, the most suspicious first."""
    fields = field_texts(run.source, run.settings, [one.row for one in listed], MOST_COLUMNS, MOST_LETTERS)
    if fields is None:
        return None
    kept = fields.rows[: _number_within(fields.rows, FIELDS_BUDGET)]
    return Fields(fields.columns, kept, fields.columns_in_source)


def _number_within(values: Sequence[Any], budget: int) -> int:
    """How many of the first `values` take no more bytes than `budget` in the page."""
    sizes = np.cumsum([len(json.dumps(value)) for value in values])
    return int((sizes <= budget).sum())


def render(run: RunRecord, listed: list[Suspect], pictures: Pictures | None, fields: Fields | None) -> str:
    """The page as text; every name that comes from the data is escaped by the template."""
    scripts = [_asset(name) for name in SCRIPTS]
    style = _asset("style.css")
    matrices = draw_matrices(run)
    pairs = class_pairs(run.noise, listed)
    selected = run.result["selected_stage"], run.result["selected_epoch"]
    # Scripts and style are let in by their hashes, so nothing that slipped into the page could ever run.
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hashes([style])}; script-src {_hashes(scripts)}; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=PackageLoader("trevision.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"count": count, "percent": percent}
    return environment.get_template("page.html").render(
        policy=policy,
        style=style,
        scripts=scripts,
        run=run,
        source=source_name(run.source),
        folder=shlex.quote(str(run.folder)),
        sentences=sentences(run, pairs),
        notes=[*run.result.get("data_notes", ()), *run.result["warnings"]],
        pairs=pairs[:MOST_PAIRS],
        all_pairs=len(pairs),
        widest=max((pair.high or pair.share for pair in pairs[:MOST_PAIRS]), default=1.0),
        matrices=matrices,
        curves=draw_curves(run.history, selected),
        stages=stage_lines(run.history),
        cleaned=f"cleaned{_suffix_of_labels(run.source)}",
        listed=len(listed),
        likely=sum(one.likely for one in run.suspects),
        pictures=len(pictures.encoded) if pictures else None,
        fields=fields,
        data={
            "key": review_key(run, listed),
            "file": f"corrections-{run.folder.resolve().name}.csv",
            "classes": run.noise.classes,
            "suspects": suspect_columns(listed, run.noise.classes),
            "pictures": None if pictures is None else vars(pictures),
            "fields": None if fields is None else {"columns": fields.columns, "rows": fields.rows},
            "matrix": matrices.for_script(),
        },
    )


def suspect_columns(listed: list[Suspect], classes: tuple[str, ...]) -> dict[str, list[Any]]:
    """The suspects for the page's script, a list a column; names that are row numbers are left out."""
    code = {name: place for place, name in enumerate(classes)}
    return {
        "row": [one.row for one in listed],
        "name": [None if one.name == str(one.row) else one.name for one in listed],
        "given": [code[one.given] for one in listed],
        "suggested": [code[one.suggested] for one in listed],
        "pGiven": [round(one.p_given, 4) for one in listed],
        "pSuggested": [round(one.p_suggested, 4) for one in listed],
    }


def review_key(run: RunRecord, listed: list[Suspect]) -> str:
    """A name for the progress of a review that no other run, and no other list of this run, has."""
    told = json.dumps(
        [run.source, run.noise.classes, [(one.row, one.given, one.suggested) for one in listed]]
    )
    return f"trevision-review-{hashlib.sha256(told.encode()).hexdigest()[:20]}"


def _suffix_of_labels(source: str) -> str:
    """The kind of file that cleaned labels are written to: the source's own, or a list of image files."""
    suffix = Path(source).suffix.lower()
    return suffix if suffix in (*TABLE_SUFFIXES, ".npz") else ".csv"


def _asset(name: str) -> str:
    return files("trevision.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
