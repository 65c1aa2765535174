"""How labels go wrong, from a file of anyone's probabilities: an estimate, its diagnosis, their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from trevision.data.files.probabilities import open_probabilities
from trevision.estimation import Estimate, Finding, RowSource, check_choices, diagnose, estimate
from trevision.files import DataError, write_atomically, write_json

Watch = Callable[[str, int, "int | None"], None]
"""Called with what is being read, how much of it is done, and the total (None: not known)."""


@dataclass(frozen=True)
class Estimating:
    """How T is estimated from probabilities.

    Args:
        method: latent (the default up to 100 classes), latent-unpooled, confident-joint, anchor, dual-t, hoc
            or counted.
        bootstrap: Replicates that the intervals are made of.
        level: Confidence of the intervals.
        seed: Seed of the replicates.
    """

    method: str | None = None
    bootstrap: int = 200
    level: float = 0.9
    seed: int = 0


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """An estimate from a file, with the file's names for the classes and the findings about it."""

    estimate: Estimate
    findings: list[Finding]
    class_names: tuple[str, ...]


def estimate_noise(
    source: Path,
    estimating: Estimating,
    labels: Path | None = None,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    watch: Watch | None = None,
) -> NoiseEstimate:
    """Estimate T from the probabilities and labels in a file.

    Parameters
    ----------
    source
        The file; see `open_probabilities` for its form.
    estimating
        Estimator, replicates, level and seed.
    labels
        The file of labels, where `source` is an .npy file.
    label_column, ignore
        Of a table: the column of labels, and columns that are neither labels nor probabilities.
    watch
        Told what is being read, and how far it has come.

    Raises
    ------
    DataError
        If the file cannot be read, or T cannot be estimated from it.
    """
    # Before a large file is read, and without its name: these mistakes are not the file's.
    check_choices(estimating.method, estimating.bootstrap, estimating.level)

    def copying(done: int, total: int | None) -> None:
        if watch is not None:
            watch(f"reading {source.name}", done, total)

    with open_probabilities(source, labels, label_column, ignore, copying) as opened:
        rows: RowSource = opened.probs if watch is None else WatchedRows(opened.probs, watch)
        try:
            made = estimate(
                rows,
                opened.labels,
                estimating.method,
                estimating.bootstrap,
                estimating.level,
                estimating.seed,
                of_replicates(watch),
            )
        except ValueError as error:
            raise DataError(f"{source}: {error}") from error
        findings = diagnose(rows, opened.labels, made, opened.class_names, estimating.seed)
    return NoiseEstimate(made, findings, opened.class_names)


def of_replicates(watch: Watch | None) -> Callable[[int, int], None] | None:
    """The `progress` of an estimate that tells `watch` of its replicates."""
    return None if watch is None else lambda done, total: watch("error bars", done, total)


class WatchedRows:
    """Rows that tell how far the pass over them has come."""

    def __init__(self, source: RowSource, watch: Watch) -> None:
        self.source, self.watch = source, watch
        self.shape, self.dtype = source.shape, source.dtype
        self.passes = 0

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        self.passes += rows.start == 0
        self.watch(f"pass {self.passes}", rows.stop, self.shape[0])
        return self.source[rows]


def write_noise_estimate(folder: Path, noise: NoiseEstimate) -> None:
    """Write T and the ends of its intervals as CSV and as a picture, and all the rest as estimate.json.

    Each file is replaced in one step; other files of the folder stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = noise.estimate
    matrices = {
        "transition": made.transition,
        "transition-low": made.transition_low,
        "transition-high": made.transition_high,
    }
    for name, matrix in matrices.items():
        write_atomically(folder / f"{name}.csv", partial(np.savetxt, X=matrix, delimiter=",", fmt="%.8g"))
    from trevision.runs.pictures import draw_transitions  # matplotlib, only for whoever wants files

    titles = (f"T, {made.method}", f"low end of {made.level:.0%}", f"high end of {made.level:.0%}")
    draw_transitions(
        folder / "transition.svg", dict(zip(titles, matrices.values(), strict=True)), noise.class_names
    )
    write_json(
        folder / "estimate.json",
        {
            "classes": list(noise.class_names),
            "rows": made.rows,
            "method": made.method,
            "level": made.level,
            "bootstrap": made.bootstrap,
            "resampling": made.resampling,
            "noise_rate": {
                "estimate": made.noise_rate,
                "low": made.noise_rate_low,
                "high": made.noise_rate_high,
            },
            "prior": made.prior.tolist(),
            "prior_low": made.prior_low.tolist(),
            "prior_high": made.prior_high.tolist(),
            "diagnosis": [asdict(finding) for finding in noise.findings],
        },
    )
