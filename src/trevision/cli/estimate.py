"""`trevision estimate`: how labels go wrong, from anyone's probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from trevision.cli.progress import reading_bar
from trevision.cli.terminal import console, errors, table
from trevision.runs.noise_estimate import Estimating, NoiseEstimate, estimate_noise, write_noise_estimate

# Lines of a table on the terminal; the files of --out hold everything.
CLASSES_SHOWN = 20
PAIRS_SHOWN = 10

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
) -> None:
    """Estimate how labels go wrong, from the probabilities of any model; with error bars and a diagnosis.

    FILE holds P(label | x) for rows that the model was not trained on, and the labels given to them: an .npz
    file with arrays probs and labels, or a .csv or .parquet file with a label column and a column of
    probabilities a class. It is read in pieces, so it may be larger than memory.

    For example:

    $ trevision estimate probs.npz
    $ trevision estimate probs.csv --label-column given --ignore id --out noise
    $ trevision estimate probs.npy --labels labels.npy --estimator anchor

    Args:
        source: The file of probabilities.
        out: A folder for T and its intervals as CSV, estimate.json and a picture.
        labels: The labels, where FILE is an .npy file of probabilities alone.
        label_column: The column of labels in a .csv or .parquet file; else one named label, given or y.
        ignore: Columns of a .csv or .parquet file that are neither labels nor probabilities.
    """
    with reading_bar(errors) as watch:
        noise = estimate_noise(source, estimating, labels, label_column, ignore, watch)
    _print_estimate(noise)
    if out is not None:
        drawn = write_noise_estimate(out, noise)
        what = "T, its intervals" if noise.estimate.has_intervals else "T"
        picture = "a picture" if drawn else "no picture (for one: pip install 'trevision[images]')"
        console.print(f"{what}, {picture} and the diagnosis: {out}", soft_wrap=True)


def _print_estimate(noise: NoiseEstimate) -> None:
    made, names = noise.estimate, noise.class_names
    rate = _interval(made.noise_rate, made.noise_rate_low, made.noise_rate_high)
    console.print(f"wrong labels: {rate} of {made.rows:,}, by {made.estimator}", soft_wrap=True)
    if made.resampling is not None:
        console.print(
            f"in brackets: {made.level:.0%} intervals from {made.bootstrap} replicates, "
            f"{DRAWN_AGAIN[made.resampling]}",
            soft_wrap=True,
        )
    right = made.transition.diagonal()
    worst = np.argsort(right, kind="stable")[:CLASSES_SHOWN]
    shown = range(len(names)) if len(names) <= CLASSES_SHOWN else worst.tolist()
    title = (
        None if len(names) <= CLASSES_SHOWN else f"the {CLASSES_SHOWN} least reliable of {len(names)} classes"
    )
    rows = [
        (
            names[i],
            _with_interval(made.class_prior, made.class_prior_low, made.class_prior_high, i),
            _with_interval(made.transition, made.transition_low, made.transition_high, (i, i)),
        )
        for i in shown
    ]
    console.print(table(["class", "share of rows", "labelled rightly"], rows, title))
    off = made.transition.copy()
    np.fill_diagonal(off, 0)
    largest = np.argsort(-off, axis=None, kind="stable")[:PAIRS_SHOWN]
    pairs = [divmod(int(cell), len(names)) for cell in largest if off.flat[cell] > 0]
    rows = [
        (
            f"{names[i]} labelled {names[j]}",
            _with_interval(off, made.transition_low, made.transition_high, (i, j)),
            f"{made.joint[i, j]:,.0f}",
        )
        for i, j in pairs
    ]
    if rows:
        console.print(table(["most frequent mistakes", "share of the class", "rows"], rows))
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
