"""`trevision estimate`: label noise from the probabilities of any model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from trevision.cli.progress import reading_bar
from trevision.cli.terminal import console, errors, table
from trevision.estimation import TOLD
from trevision.runs.issue_files import interval_meaning
from trevision.runs.noise_estimate import (
    ESTIMATE_FILES,
    Estimating,
    NoiseEstimate,
    estimate_noise,
    write_noise_estimate,
)
from trevision.runs.outputs import check_output, is_run

if TYPE_CHECKING:
    from trevision.data.files.probabilities import Probabilities
    from trevision.report.page import Written

# Maximum lines of a table on the terminal; the files of --out hold everything.
CLASSES_SHOWN = 20
PAIRS_SHOWN = 10

LOOK_AT_ROWS = "An audit of about 100 rows tells it: trevision audit RUN, after trevision fit."

DRAWN_AGAIN = {
    "rows": "rows drawn again and T estimated anew for each",
    "part": "rows of a random part drawn again and T estimated anew for each",
    "counts": "counted rows drawn again with the rule of counting held fixed",
}


def estimate(
    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")],
    /,
    estimating: tyro.conf.OmitArgPrefixes[Estimating],
    out: Path | None = None,
    labels: Path | None = None,
    label_column: str | None = None,
    ignore: tuple[str, ...] = (),
    report: Path | None = None,
) -> None:
    """Estimate how labels go wrong, from the probabilities of any model, with error bars and a diagnosis.

    FILE holds P(label | x) for rows that the model was not trained on, and their given labels. It is an .npz
    file with arrays probs and labels, or a .csv or .parquet file with a label column and one column of
    probabilities per class. It may be larger than memory.

    For example:

    $ trevision estimate probs.npz
    $ trevision estimate probs.npz --report review.html    (a page to review the suspect labels on)
    $ trevision estimate probs.csv --label-column given --ignore id --out noise
    $ trevision estimate probs.npy --labels labels.npy --estimator anchor

    Args:
        source: The file of probabilities.
        out: A folder for T and its intervals as CSV, estimate.json and a picture.
        labels: The file of labels, if FILE is an .npy file of probabilities only.
        label_column: The column of labels in a .csv or .parquet file; label, given or y if not given.
        ignore: Columns of a .csv or .parquet file that are neither labels nor probabilities.
        report: An HTML page to write, with the suspect labels to review.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"out must be a folder, new or not, got the file {out}")
    if report is not None and report.is_dir():
        raise ValueError(f"report must be the page to write, got the folder {report}")
    if report is not None:
        check_output(report, source, labels)
    if out is not None:
        if is_run(out):
            raise ValueError(f"out must be a folder for the estimate, got {out}, which holds a run")
        for name in ESTIMATE_FILES:
            check_output(out / name, source, labels)
    pages: list[Written] = []

    def write(noise: NoiseEstimate, opened: Probabilities) -> None:
        if report is not None:
            from trevision.report.probability_page import write_probability_page

            pages.append(write_probability_page(noise, opened, source, report))

    with reading_bar(errors) as watch:
        noise = estimate_noise(source, estimating, labels, label_column, ignore, watch, write)
    _print_estimate(noise)
    for page in pages:
        console.print(f"{page.listed:,} suspect labels to review: {page.path}", soft_wrap=True)
    if out is not None:
        drawn = write_noise_estimate(out, noise)
        what = "T, its intervals" if noise.estimate.has_intervals else "T"
        picture = "a picture" if drawn else "no picture (for one: pip install 'trevision[images]')"
        console.print(f"{what}, {picture} and the diagnosis: {out}", soft_wrap=True)


def _print_estimate(noise: NoiseEstimate) -> None:
    estimated, names = noise.estimate, noise.class_names
    count = noise.count
    if count.verdict == TOLD:
        console.print(count.headline(), soft_wrap=True)
    else:
        console.print(f"{count.headline()}: {count.reason}", soft_wrap=True)
    if not count.told:
        console.print(f"{count.readings()} {LOOK_AT_ROWS}", soft_wrap=True)
    rate = _interval(estimated.noise_rate, estimated.noise_rate_low, estimated.noise_rate_high)
    console.print(
        f"wrong labels: {rate} of {estimated.rows:,}, by {estimated.estimator}, if mistakes depend on the "
        "class alone",
        soft_wrap=True,
    )
    if estimated.resampling is not None:
        console.print(
            f"details: {interval_meaning(estimated.level)}; in brackets, from {estimated.bootstrap} "
            f"replicates, {DRAWN_AGAIN[estimated.resampling]}",
            soft_wrap=True,
        )
    right = estimated.transition.diagonal()
    worst = np.argsort(right, kind="stable")[:CLASSES_SHOWN]
    shown = range(len(names)) if len(names) <= CLASSES_SHOWN else worst.tolist()
    title = (
        None if len(names) <= CLASSES_SHOWN else f"the {CLASSES_SHOWN} least reliable of {len(names)} classes"
    )
    rows = [
        (
            names[i],
            _with_interval(estimated.class_prior, estimated.class_prior_low, estimated.class_prior_high, i),
            _with_interval(estimated.transition, estimated.transition_low, estimated.transition_high, (i, i)),
        )
        for i in shown
    ]
    console.print(table(["class", "share of rows", "labelled rightly"], rows, title))
    off = estimated.transition.copy()
    np.fill_diagonal(off, 0)
    largest = np.argsort(-off, axis=None, kind="stable")[:PAIRS_SHOWN]
    pairs = [divmod(int(cell), len(names)) for cell in largest if off.flat[cell] > 0]
    rows = [
        (
            f"{names[i]} labelled {names[j]}",
            _with_interval(off, estimated.transition_low, estimated.transition_high, (i, j)),
            f"{estimated.joint[i, j]:,.0f}",
        )
        for i, j in pairs
    ]
    if rows:
        console.print(table(["mix-ups", "share of the class", "rows"], rows))
    for finding in noise.findings:
        console.print(f"{finding.verdict:>7}: {finding.sentence}", soft_wrap=True)


def _with_interval(
    values: np.ndarray, lows: np.ndarray | None, highs: np.ndarray | None, entry: int | tuple[int, int]
) -> str:
    """An entry in percent, with its interval if there is one."""
    if lows is None or highs is None:
        return _interval(values[entry], None, None)
    return _interval(values[entry], lows[entry], highs[entry])


def _interval(value: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"{100 * value:.1f}%"
    return f"{100 * value:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"
