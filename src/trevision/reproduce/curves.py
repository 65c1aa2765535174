"""The error of T by epoch, as in Figure 3 of the paper."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trevision.files import write_atomically
from trevision.plot import bare
from trevision.reproduce.archive import epochs_of, find_run
from trevision.reproduce.outcomes import outcome
from trevision.reproduce.plans import Plan, Row, planned_runs
from trevision.runs.pictures import save_picture

COLOURS = ("#1f6fb4", "#d9730d", "#2a8f5b", "#8a4fbf", "#b8303f", "#6b6b6b")


@dataclass(frozen=True)
class Curve:
    """The error of T by epoch over several runs."""

    epochs: np.ndarray
    values: np.ndarray
    """(runs, epochs)"""

    @property
    def mean(self) -> np.ndarray:
        return self.values.mean(axis=0)

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the sample (ddof=1); zero for a single run."""
        return self.values.std(axis=0, ddof=1) if len(self.values) > 1 else np.zeros(len(self.epochs))


def error_curves(plan: Plan, results: Path) -> dict[tuple[Row, str], Curve]:
    """The error of T after each epoch of the plan's stage, over its finished runs.

    Epoch 0 is T-hat. If runs stopped at different epochs, the curve ends where the first run stopped.
    """
    runs: dict[tuple[Row, str], list[list[float]]] = {}
    for run in planned_runs(plan):
        recorded = find_run(run.name, results)
        if recorded is None or outcome(run, results).state != "finished":
            continue
        epochs = [epoch for epoch in epochs_of(recorded) if epoch["stage"] == plan.spec.curves_of]
        errors = [epoch["transition_error"] for epoch in epochs if "transition_error" in epoch]
        if errors:
            runs.setdefault((run.row, run.noise), []).append(errors)
    curves = {}
    for key, of_runs in runs.items():
        length = min(map(len, of_runs))
        curves[key] = Curve(np.arange(length), np.array([errors[:length] for errors in of_runs]))
    return curves


def draw_curves(path: Path, plan: Plan, curves: dict[tuple[Row, str], Curve]) -> None:
    """Draw a panel per noise and a line per row, with the standard deviation shaded.

    Parameters
    ----------
    path
        The picture to write.
    plan
        Its rows and noises.
    curves
        From `error_curves`.
    """
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(plan.noises), figsize=(1 + 4.2 * len(plan.noises), 4), squeeze=False, layout="constrained"
    )
    for axis, noise in zip(axes[0], plan.noises, strict=True):
        for number, row in enumerate(plan.rows):
            if (row, noise) not in curves:
                continue
            curve, colour = curves[row, noise], COLOURS[number % len(COLOURS)]
            style = "-" if row.anchors == "A" else "--"
            label = f"{row.label} (n = {len(curve.values)})"
            axis.plot(curve.epochs, curve.mean, style, color=colour, label=label)
            axis.fill_between(
                curve.epochs, curve.mean - curve.std, curve.mean + curve.std, color=colour, alpha=0.15, lw=0
            )
        axis.set(title=noise, ylabel="error of T, |T - T'| / |T|")
        axis.set_xlabel(f"epoch of the {plan.spec.curves_of} (0: before it)")
        axis.set_ylim(bottom=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(color="#eeeeee")
        bare(axis)
        if axis.lines:
            axis.legend(frameon=False, fontsize=8)
        else:
            axis.text(0.5, 0.5, "no runs recorded", ha="center", va="center", transform=axis.transAxes)
    title = f"{plan.spec.title}: {Path(plan.dataset).name}, {plan.schedule} (mean, standard deviation shaded)"
    figure.suptitle(title, fontsize=10)
    save_picture(figure, path)


def write_curves(path: Path, curves: dict[tuple[Row, str], Curve]) -> None:
    """Write the curves as CSV, one line per epoch."""

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["method", "anchors", "noise", "epoch", "n", "mean", "std"])
            for (row, noise), curve in curves.items():
                for epoch, mean, std in zip(curve.epochs, curve.mean, curve.std, strict=True):
                    n = len(curve.values)
                    rows.writerow([row.name, row.anchors, noise, epoch, n, f"{mean:.6g}", f"{std:.6g}"])

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write)
