"""Estimate label noise from a file of probabilities, and write the estimate and its diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from trevision.data.files.probabilities import Probabilities, open_probabilities
from trevision.estimation import (
    BOOTSTRAP,
    Count,
    Estimate,
    Finding,
    RowSource,
    check_choices,
    count_wrong,
    diagnose,
    estimate,
)
from trevision.files import DataError, write_json, write_matrix

Watch = Callable[[str, int, "int | None"], None]
"""Called with what is being read, how much of it is done, and the total (None: not known)."""


@dataclass(frozen=True)
class Estimating:
    """How T is estimated from probabilities.

    Args:
        estimator: latent (the default up to 100 classes), latent-unpooled, confident-joint, anchor, dual-t,
            hoc or counted.
        bootstrap: Number of bootstrap replicates for the intervals; 0 for no intervals.
        level: Confidence of the intervals.
        seed: Seed of the replicates.
    """

    estimator: str | None = None
    bootstrap: int = BOOTSTRAP
    level: float = 0.9
    seed: int = 0


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """An estimate from a file, with the file's names for the classes and the findings about it."""

    estimate: Estimate
    findings: list[Finding]
    class_names: tuple[str, ...]
    count: Count


def estimate_noise(
    source: Path,
    estimating: Estimating,
    labels: Path | None = None,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    watch: Watch | None = None,
    then: Callable[[NoiseEstimate, Probabilities], None] | None = None,
) -> NoiseEstimate:
    """Estimate T from the probabilities and labels in a file.

    Parameters
    ----------
    source
        The file; see `open_probabilities` for its form.
    estimating
        Estimator, replicates, level and seed.
    labels
        The file of labels, if `source` is an .npy file.
    label_column, ignore
        Of a table: the column of labels, and columns that are neither labels nor probabilities.
    watch
        Called with what is being read, and the progress.
    then
        Called with the estimate while the rows of the file can still be read.

    Raises
    ------
    DataError
        If the file cannot be read, or T cannot be estimated from it.
    """
    # Checked before a large file is read; these errors should not mention the file.
    if estimating.seed < 0:
        raise ValueError(f"seed must be 0 or more, got {estimating.seed}")
    check_choices(estimating.estimator, estimating.bootstrap, estimating.level)

    def copying(done: int, total: int | None) -> None:
        if watch is not None:
            watch(f"reading {source.name}", done, total)

    with open_probabilities(source, labels, label_column, ignore, copying) as opened:
        rows: RowSource = opened.probs if watch is None else WatchedRows(opened.probs, watch)
        try:
            estimated = estimate(
                rows,
                opened.labels,
                estimating.estimator,
                estimating.bootstrap,
                estimating.level,
                estimating.seed,
                of_replicates(watch),
            )
        except ValueError as error:
            raise DataError(f"{source}: {error}") from error
        count = count_wrong(rows, opened.labels, estimated)
        findings = diagnose(rows, opened.labels, estimated, opened.class_names, estimating.seed, count)
        noise = NoiseEstimate(estimated, findings, opened.class_names, count)
        if then is not None:
            then(noise, opened)
    return noise


def of_replicates(watch: Watch | None) -> Callable[[int, int], None] | None:
    """A `progress` for `estimate` that reports its replicates to `watch`."""
    return None if watch is None else lambda done, total: watch("error bars", done, total)


class WatchedRows:
    """Rows that report the progress of each pass over them."""

    def __init__(self, source: RowSource, watch: Watch) -> None:
        self.source, self.watch = source, watch
        self.shape, self.dtype = source.shape, source.dtype
        self.passes = 0

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        self.passes += rows.start == 0
        self.watch(f"pass {self.passes}", rows.stop, self.shape[0])
        return self.source[rows]


def listed(array: np.ndarray | None) -> list | None:
    """An array as lists for JSON; None stays None."""
    return None if array is None else array.tolist()


ESTIMATE_FILES = (
    *("transition.csv", "transition-low.csv", "transition-high.csv"),
    *("estimate.json", "transition.svg"),
)
"""What is written of an estimate."""


def write_noise_estimate(folder: Path, noise: NoiseEstimate) -> bool:
    """Write T and the ends of its intervals as CSV and as a picture, and everything else as estimate.json.

    Each file is replaced in one step. Without intervals, interval files of an earlier estimate are removed.
    Other files of the folder stay. Returns whether a picture was drawn: only that needs matplotlib.
    """
    folder.mkdir(parents=True, exist_ok=True)
    estimated = noise.estimate
    matrices = {
        "transition": (f"T, {estimated.estimator}", estimated.transition),
        "transition-low": (f"low end of {estimated.level:.0%}", estimated.transition_low),
        "transition-high": (f"high end of {estimated.level:.0%}", estimated.transition_high),
    }
    drawn = {}
    for name, (title, matrix) in matrices.items():
        path = folder / f"{name}.csv"
        if matrix is None:
            path.unlink(missing_ok=True)
            continue
        write_matrix(path, matrix)
        drawn[title] = matrix
    write_json(
        folder / "estimate.json",
        {
            "classes": list(noise.class_names),
            "rows": estimated.rows,
            "estimator": estimated.estimator,
            "converged": estimated.converged,
            "level": estimated.level,
            "bootstrap": estimated.bootstrap,
            "resampling": estimated.resampling,
            "noise_rate": {
                "estimate": estimated.noise_rate,
                "low": estimated.noise_rate_low,
                "high": estimated.noise_rate_high,
            },
            "count": noise.count.to_json(),
            "class_prior": estimated.class_prior.tolist(),
            "class_prior_low": listed(estimated.class_prior_low),
            "class_prior_high": listed(estimated.class_prior_high),
            "diagnosis": [asdict(finding) for finding in noise.findings],
        },
    )
    if find_spec("matplotlib") is None:
        (folder / "transition.svg").unlink(missing_ok=True)
        return False
    from trevision.runs.pictures import draw_transitions

    draw_transitions(folder / "transition.svg", drawn, noise.class_names)
    return True
