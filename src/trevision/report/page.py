"""The page: template, style and scripts in one self-contained file."""

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

from trevision.data.files.reading import TABLE_SUFFIXES
from trevision.data.pictures import read_pictures
from trevision.data.progress import Progress
from trevision.files import write_atomically
from trevision.report.curves import draw_curves, stage_lines
from trevision.report.matrices import draw_matrices
from trevision.report.run_files import RunRecord, Suspect, read_run
from trevision.report.source_rows import Fields, Thumbnails, field_texts, thumbnails
from trevision.report.summary import class_pairs, count, percent, sentences, source_name, title
from trevision.runs.run_folder import RunFolder

MOST_SUSPECTS = 10_000
MOST_PICTURES = 3_000
MOST_PAIRS = 200
"""Maximum labels, pictures and pairs of classes on the page, which says how many there are."""
MOST_COLUMNS = 12
MOST_LETTERS = 200
NAMES_BUDGET, FIELDS_BUDGET = 800_000, 700_000
"""Maximum bytes of the rows' names and fields, so that the page without thumbnails stays under 3 MB."""

SCRIPTS = ("theme.js", "matrix.js", "csv.js", "review.js")


@dataclass(frozen=True)
class Written:
    """The page that was written, the number of labels it lists, and the number of all labels."""

    path: Path
    listed: int
    labels: int


def write_report(
    folder: Path | RunFolder,
    out: Path | None = None,
    suspects: int | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Written:
    """Write the page of a run.

    Parameters
    ----------
    folder
        The folder of a run whose labels `trevision issues` has scored.
    out
        The page to write; RUN/report.html if not given.
    suspects
        Number of labels to list. If not given, the estimated number of wrong labels, at most 10,000, and
        fewer if their names are very long.
    data_dir
        Where to look for a named data set first.
    progress
        Called with the progress of reading the source.

    Raises
    ------
    ValueError
        If a file of the folder is missing or damaged, or the source has changed.
    """
    if suspects is not None and suspects < 0:
        raise ValueError(f"suspects must be a number of labels to list, 0 or more, got {suspects}")
    run = read_run(folder)
    # Nobody is asked again for a label that an audit has settled.
    settled = run.audit.told_rows if run.audit else frozenset()
    open_ones = [suspect for suspect in run.suspects if suspect.row not in settled]
    if suspects is None:
        likely = [suspect for suspect in open_ones if suspect.likely][:MOST_SUSPECTS]
        listed = likely[: _number_within([suspect.name for suspect in likely], NAMES_BUDGET)]
    else:
        listed = open_ones[:suspects]
    pictures, fields = None, None
    if len(run.shape) == 3:
        rows = [suspect.row for suspect in listed[:MOST_PICTURES]]
        shown = read_pictures(run.source, run.settings.reading, run.shape, rows, data_dir, progress)
        pictures = thumbnails(shown, run.shape)
    else:
        fields = _fields(run, listed)
    asked = [] if run.crowd is None else [each.row for each in run.crowd.disagreements]
    disputed = (
        field_texts(run.source, run.settings.reading, asked, MOST_COLUMNS, MOST_LETTERS) if asked else None
    )
    text = render(run, listed, pictures, fields, disputed)
    out = out or run.folder / "report.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
    return Written(out, len(listed), len(run.suspects))


def _fields(run: RunRecord, listed: list[Suspect]) -> Fields | None:
    """The fields of as many rows as the budget allows, the most suspicious first."""
    rows = [suspect.row for suspect in listed]
    fields = field_texts(run.source, run.settings.reading, rows, MOST_COLUMNS, MOST_LETTERS)
    if fields is None:
        return None
    kept = fields.rows[: _number_within(fields.rows, FIELDS_BUDGET)]
    return Fields(fields.columns, kept, fields.columns_in_source)


def _number_within(values: Sequence[Any], budget: int) -> int:
    """The number of first `values` that fit into `budget` bytes of the page."""
    sizes = np.cumsum([len(json.dumps(value)) for value in values])
    return int((sizes <= budget).sum())


def render(
    run: RunRecord,
    listed: list[Suspect],
    pictures: Thumbnails | None,
    fields: Fields | None,
    disputed: Fields | None = None,
) -> str:
    """The page as text. The template escapes every name that comes from the data.

    Parameters
    ----------
    run
        The run.
    listed
        The labels to list.
    pictures, fields
        Small pictures, or fields of a table, for the first of these labels.
    disputed
        Fields of the rows on which annotators disagree most.
    """
    matrices = draw_matrices(run)
    pairs = class_pairs(run.noise, listed)
    selected = run.result["selected_stage"], run.result["selected_epoch"]
    trained = "correction" not in run.result  # a scikit-learn model has no epochs to draw
    return fill(
        "page.html",
        SCRIPTS,
        run=run,
        audit=run.audit,
        source=source_name(run.source),
        folder=shlex.quote(str(run.folder)),
        title=title(run.noise),
        sentences=sentences(run, pairs),
        notes=[*run.result.get("data_notes", ()), *run.result["warnings"]],
        pairs=pairs[:MOST_PAIRS],
        all_pairs=len(pairs),
        widest=max((pair.high or pair.share for pair in pairs[:MOST_PAIRS]), default=1.0),
        matrices=matrices,
        curves=draw_curves(run.history, selected) if trained else [],
        stages=stage_lines(run.history) if trained else [],
        models=run.result.get("models", []),
        cleaned=f"cleaned{suffix_of_labels(run.source)}",
        listed=len(listed),
        likely=sum(suspect.likely for suspect in run.suspects),
        pictures=len(pictures.encoded) if pictures else None,
        fields=fields,
        disputed=disputed,
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


def fill(template: str, script_names: Sequence[str], **values: Any) -> str:
    """A template of the assets with its style, its scripts and a policy that allows nothing else."""
    scripts, style = [_asset(name) for name in script_names], _asset("style.css")
    # Only scripts and styles with these hashes are allowed, so nothing else in the page can run.
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
    return environment.get_template(template).render(policy=policy, style=style, scripts=scripts, **values)


def suspect_columns(listed: list[Suspect], classes: tuple[str, ...]) -> dict[str, list[Any]]:
    """The suspects for the page's script, one list per column; names that are row numbers are left out."""
    code_of = {name: code for code, name in enumerate(classes)}
    return {
        "row": [suspect.row for suspect in listed],
        "name": [None if suspect.name == str(suspect.row) else suspect.name for suspect in listed],
        "given": [code_of[suspect.given] for suspect in listed],
        "suggested": [code_of[suspect.suggested] for suspect in listed],
        "pGiven": [round(suspect.p_given, 4) for suspect in listed],
        "pSuggested": [round(suspect.p_suggested, 4) for suspect in listed],
    }


def review_key(run: RunRecord, listed: list[Suspect]) -> str:
    """A unique name for the progress of this review: other runs and other lists have other names."""
    labels = [(suspect.row, suspect.given, suspect.suggested) for suspect in listed]
    identity = json.dumps([run.source, run.noise.classes, labels])
    return f"trevision-review-{hashlib.sha256(identity.encode()).hexdigest()[:20]}"


def suffix_of_labels(source: str) -> str:
    """The suffix of the file for cleaned labels: the source's, or .csv for a list of image files."""
    suffix = Path(source).suffix.lower()
    return suffix if suffix in (*TABLE_SUFFIXES, ".npz") else ".csv"


def _asset(name: str) -> str:
    return files("trevision.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
