"""Figures 1 and 3 of the paper."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.estimation import transition_error
from trevision.files import write_atomically
from trevision.reproduce.plans import Plan, Row, outcome, planned_runs
from trevision.runs.pictures import bare, save_picture

OURS, PAPER = "#1f6fb4", "#d9730d"
COLOURS = ("#1f6fb4", "#d9730d", "#2a8f5b", "#8a4fbf", "#b8303f", "#6b6b6b")

# Figure 1 of the paper. Its two matrices are pictures that the text does not spell out; these are the ones
# that agree with every number of its caption.
EXAMPLE_NOISY = np.array([0.141, 0.189, 0.239, 0.281, 0.150])
EXAMPLE_TRUE = np.array(
    [
        [0.5, 0.3, 0.2, 0.0, 0.0],
        [0.0, 0.5, 0.3, 0.2, 0.0],
        [0.0, 0.0, 0.5, 0.3, 0.2],
        [0.2, 0.0, 0.0, 0.5, 0.3],
        [0.3, 0.2, 0.0, 0.0, 0.5],
    ]
)
EXAMPLE_MISTAKEN = EXAMPLE_TRUE.copy()
EXAMPLE_MISTAKEN[1, 2:4] += (-0.05, 0.05)


def inferred(transition: np.ndarray) -> np.ndarray:
    """The clean posterior of Figure 1 that a matrix infers: (T')^-1 P(noisy | x)."""
    return np.linalg.solve(transition.T, EXAMPLE_NOISY)


def draw_worked_example(path: Path) -> None:
    """Figure 1: T, a T that is 2 % off, and the clean posteriors that they infer."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained", width_ratios=(1, 1, 1.35))
    error = transition_error(EXAMPLE_MISTAKEN, EXAMPLE_TRUE)
    titles = ("true T", f"mistaken T, error {error:.2f}")
    for axis, title, matrix in zip(axes, titles, (EXAMPLE_TRUE, EXAMPLE_MISTAKEN), strict=False):
        axis.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        axis.set(title=title, xlabel="noisy class", ylabel="clean class")
        axis.set_xticks(range(5), range(1, 6))
        axis.set_yticks(range(5), range(1, 6))
        for row, column in np.ndindex(matrix.shape):
            changed = EXAMPLE_TRUE[row, column] != matrix[row, column]
            style: dict[str, Any] = {"color": PAPER, "weight": "bold"} if changed else {"color": "#222222"}
            axis.text(column, row, f"{matrix[row, column]:.2g}", ha="center", va="center", **style)
    axis, classes = axes[2], np.arange(1, 6)
    for place, (name, matrix, colour) in enumerate(
        (("true T", EXAMPLE_TRUE, OURS), ("mistaken T", EXAMPLE_MISTAKEN, PAPER))
    ):
        posterior = inferred(matrix)
        label = f"inferred with the {name}: class {posterior.argmax() + 1}"
        bars = axis.bar(classes + 0.4 * place - 0.2, posterior, 0.38, color=colour, label=label)
        axis.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
    axis.set(title="clean posterior", xlabel="class", ylabel="P(clean = class | x)", ylim=(0, 0.4))
    axis.legend(loc="upper left", frameon=False)
    bare(axis)
    save_picture(figure, path)


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
        """Of the sample (ddof=1); zero where there is one run."""
        return self.values.std(axis=0, ddof=1) if len(self.values) > 1 else np.zeros(len(self.epochs))


def revision_curves(plan: Plan, results: Path) -> dict[tuple[Row, str], Curve]:
    """Figure 3's numbers: the error of T after each epoch of the revision, of the finished runs.

    Epoch 0 is T-hat. Where runs stopped at different epochs, the curve ends with the first of them.
    """
    runs: dict[tuple[Row, str], list[list[float]]] = {}
    for run in planned_runs(plan):
        if outcome(run, results).state != "finished":
            continue
        lines = (results / run.name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [one for one in map(json.loads, lines) if one["stage"] == "revision"]
        errors = [one["transition_error"] for one in records if "transition_error" in one]
        if errors:
            runs.setdefault((run.row, run.noise), []).append(errors)
    curves = {}
    for key, several in runs.items():
        length = min(map(len, several))
        curves[key] = Curve(np.arange(length), np.array([one[:length] for one in several]))
    return curves


def draw_revision(path: Path, plan: Plan, curves: dict[tuple[Row, str], Curve]) -> None:
    """Figure 3: a panel a noise, a line a method, the standard deviation shaded."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(plan.noises), figsize=(1 + 4.2 * len(plan.noises), 4), squeeze=False, layout="constrained"
    )
    for axis, noise in zip(axes[0], plan.noises, strict=True):
        for place, row in enumerate(plan.rows):
            if (row, noise) not in curves:
                continue
            curve, colour = curves[row, noise], COLOURS[place % len(COLOURS)]
            style = "-" if row.anchors == "A" else "--"
            label = f"{row.label} (n = {len(curve.values)})"
            axis.plot(curve.epochs, curve.mean, style, color=colour, label=label)
            axis.fill_between(
                curve.epochs, curve.mean - curve.std, curve.mean + curve.std, color=colour, alpha=0.15, lw=0
            )
        axis.set(
            title=noise, xlabel="epoch of the revision (0: before it)", ylabel="error of T, |T - T'| / |T|"
        )
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
    """Figure 3's numbers as CSV."""

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
