"""The page: template, style and scripts in one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from trevision.data.files.reading import TABLE_SUFFIXES
from trevision.data.pictures import read_pictures
from trevision.data.progress import Progress
from trevision.files import write_atomically
from trevision.report.corrections import can_trust, command_on_copy, reading_of_copy
from trevision.report.curves import draw_curves, stage_lines
from trevision.report.evidence import MOST_COLUMNS, MOST_LETTERS, Alike, Evidence, FieldEvidence, gather
from trevision.report.matrices import draw_matrix
from trevision.report.run_files import RunRecord, Suspect, read_run, with_other_labels
from trevision.report.source_rows import THUMBNAIL, Fields, Thumbnails, field_texts, thumbnails
from trevision.report.summary import (
    class_pairs,
    count,
    lead,
    learnt_from,
    mix_ups,
    percent,
    source_name,
    title,
    trust,
)
from trevision.runs.outputs import check_output
from trevision.runs.run_folder import RunFolder

MOST_SUSPECTS = 10_000
MOST_PICTURES = 10_000
MOST_PICTURES_ALIKE = 1_500
MOST_PAIRS = 200
"""Maximum labels, pictures, pictures of similar rows, and pairs of classes on the page."""
LARGE_PICTURES, LARGE = 1_000, 128
"""With at most so many labels, their pictures have so many pixels: the grid can enlarge them."""
NAMES_BUDGET, FIELDS_BUDGET, ALIKE_BUDGET = 700_000, 700_000, 350_000
"""Maximum bytes of names, fields and similar rows, so that the page without thumbnails stays under 3 MB."""

SCRIPTS = ("theme.js", "matrix.js", "csv.js", "row.js", "window.js", "review.js", "copy.js")


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
    opened = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    out = out or opened.path / "report.html"
    check_output(out, *opened.inputs)
    run = read_run(opened)
    listed = list_suspects(run, suspects)
    evidence = gather(run, listed)
    pictures = read_thumbnails(run, listed, evidence.alike, data_dir, progress)
    asked = [] if run.crowd is None else [each.row for each in run.crowd.disagreements]
    disputed = (
        field_texts(run.source, run.settings.reading, asked, MOST_COLUMNS, MOST_LETTERS) if asked else None
    )
    return write_page(run, out, render(run, listed, evidence, pictures, disputed), len(listed))


def write_page(run: RunRecord, out: Path, text: str, listed: int) -> Written:
    """Write the text of a page in one step."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda path: path.write_text(text, encoding="utf-8"))
    return Written(out, listed, run.noise.rows)


def list_suspects(run: RunRecord, number: int | None = None) -> list[Suspect]:
    """The labels to look at, the most suspicious first: `number`, or those that are probably wrong."""
    # Nobody is asked again for a label that an audit has settled.
    settled = run.audit.told_rows if run.audit else frozenset()
    open_ones = [suspect for suspect in run.suspects if suspect.row not in settled]
    if number is not None:
        return with_other_labels(run, open_ones[:number])
    likely = [suspect for suspect in open_ones if suspect.likely][:MOST_SUSPECTS]
    names = [suspect.name for suspect in likely]
    return with_other_labels(run, likely[: _number_within(names, NAMES_BUDGET)])


@dataclass(frozen=True)
class Pictures:
    """Thumbnails of the first `suspects` listed rows, and after them of the similar rows."""

    thumbnails: Thumbnails
    suspects: int


def read_thumbnails(
    run: RunRecord,
    listed: list[Suspect],
    alike: Alike | None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Pictures | None:
    """Small pictures of suspects and of the rows like them; None where rows are no images."""
    if len(run.shape) != 3:
        return None
    rows = [suspect.row for suspect in listed[:MOST_PICTURES]]
    others = [] if alike is None else alike.row[:MOST_PICTURES_ALIKE]
    shown = read_pictures(run.source, run.settings.reading, run.shape, [*rows, *others], data_dir, progress)
    side = LARGE if len(rows) <= LARGE_PICTURES else THUMBNAIL
    return Pictures(thumbnails(shown, run.shape, side), len(rows))


def _number_within(values: Sequence[Any], budget: int) -> int:
    """The number of first `values` that fit into `budget` bytes of the page."""
    sizes = np.cumsum([len(json.dumps(value)) for value in values])
    return int((sizes <= budget).sum())


def render(
    run: RunRecord,
    listed: list[Suspect],
    evidence: Evidence,
    pictures: Pictures | None = None,
    disputed: Fields | None = None,
) -> str:
    """The page as text. The template escapes every name that comes from the data.

    Parameters
    ----------
    run
        The run, or probabilities alone.
    listed
        The labels to list.
    evidence
        What is shown beside them.
    pictures
        Small pictures of the first of them.
    disputed
        Fields of the rows on which annotators disagree most.
    """
    matrix = draw_matrix(run.noise)
    pairs = class_pairs(run.noise, listed)
    fields = None if evidence.fields is None else _within_budget(evidence.fields)
    trained = bool(run.history) and "correction" not in run.result  # other models have no epochs to draw
    selected = None
    if trained and {"selected_stage", "selected_epoch"} <= run.result.keys():
        selected = (run.result["selected_stage"], run.result["selected_epoch"])
    return fill(
        "page.html",
        SCRIPTS,
        run=run,
        audit=run.audit,
        source=source_name(run.source),
        title=title(run),
        lead=lead(run),
        learnt=learnt_from(run),
        trust=trust(run.noise),
        mix_ups=mix_ups(run.noise, pairs),
        notes=[*run.result.get("data_notes", ()), *run.result.get("warnings", ())],
        pairs=pairs[:MOST_PAIRS],
        all_pairs=len(pairs),
        widest=max((pair.high or pair.share for pair in pairs[:MOST_PAIRS]), default=1.0),
        matrix=matrix,
        curves=draw_curves(run.history, selected) if selected else [],
        stages=stage_lines(run.history) if trained else [],
        models=run.result.get("models", []),
        next=commands(run),
        version=version("trevision"),
        listed=len(listed),
        likely=run.likely,
        rests_on_model=run.noise.count is not None and not run.noise.count.told,
        told_as_range=run.noise.count is not None and run.noise.count.as_range,
        pictures=pictures.suspects if pictures else None,
        fields=fields,
        alike=evidence.alike,
        disputed=disputed,
        data={
            "key": review_key(run, listed),
            "file": corrections_name(run.source, run.folder),
            "classes": run.noise.classes,
            "suspects": suspect_columns(listed, run.noise.classes),
            "pictures": None
            if pictures is None
            else vars(pictures.thumbnails) | {"suspects": pictures.suspects},
            "fields": None if fields is None else vars(fields),
            "alike": None if evidence.alike is None else _alike_columns(evidence.alike, run.noise.classes),
            "matrix": matrix.for_script(),
        },
    )


def _within_budget(fields: FieldEvidence) -> FieldEvidence:
    """The fields of as many rows as the budget allows, the most suspicious first."""
    together = [list(each) for each in zip(fields.rows, fields.order, strict=True)]
    number = _number_within(together, FIELDS_BUDGET)
    usual = fields.usual
    if len(json.dumps(usual)) > FIELDS_BUDGET // 4:
        usual = [{} for _ in usual]
    return replace(
        fields,
        rows=fields.rows[:number],
        order=fields.order[:number],
        words=fields.words[:number],
        usual=usual,
    )


def _alike_columns(alike: Alike, classes: tuple[str, ...]) -> dict[str, Any]:
    """The similar rows for the page's script, as many as the budget allows."""
    code_of = {name: code for code, name in enumerate(classes)}
    texts = alike.text or [""] * len(alike.row)
    names = [None if name == str(row) else name for name, row in zip(alike.name, alike.row, strict=True)]
    number = _number_within(list(zip(alike.row, names, texts, strict=True)), ALIKE_BUDGET)
    whole = next((place for place, each in enumerate(alike.of) if any(one >= number for one in each)), None)
    return {
        "by": alike.by,
        "of": alike.of[:whole],
        "row": alike.row[:number],
        "name": names[:number],
        "given": [code_of[given] for given in alike.given[:number]],
        "text": None if alike.text is None else texts[:number],
    }


@dataclass(frozen=True)
class NextCommands:
    """What follows the review: commands to paste, or None where there is no file to correct."""

    apply: str
    fit: str
    audit: str


def commands(run: RunRecord) -> NextCommands | None:
    """The commands that apply the corrections and learn from them, with this run's flags."""
    if run.folder is None or run.settings.noise is not None:
        return None
    out = Path(f"cleaned{suffix_of_labels(run.source)}")
    reading = reading_of_copy(run.source, run.settings.reading, out, can_trust(run.settings))
    return NextCommands(
        apply=apply_command(run.source, run.folder),
        fit=command_on_copy(run.folder, run.settings, reading, out),
        audit=shlex.join(["trevision", "audit", str(run.folder), "--rows", "100"]),
    )


def corrections_name(source: str, folder: Path | None) -> str:
    """The name of the file that the page downloads."""
    return f"corrections-{Path(source).stem if folder is None else folder.resolve().name}.csv"


def apply_command(source: str, folder: Path) -> str:
    """The command that applies what the page downloads, to paste in the folder of that file."""
    out = f"cleaned{suffix_of_labels(source)}"
    return shlex.join(["trevision", "apply", str(folder), corrections_name(source, folder), "--out", out])


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
