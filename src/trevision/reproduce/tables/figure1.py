"""Figure 1 of the paper: a T that is 2 % off turns a right decision into a wrong one. It needs no runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trevision.estimation import transition_error
from trevision.plot import bare
from trevision.reproduce.spec import Grid, Spec
from trevision.runs.pictures import save_picture

OURS, MISTAKEN = "#1f6fb4", "#d9730d"

# The paper shows its two matrices only as pictures. These matrices agree with every number of the caption.
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
    """The clean posterior of Figure 1 inferred with a matrix: (T')^-1 P(noisy | x)."""
    return np.linalg.solve(transition.T, EXAMPLE_NOISY)


def draw_worked_example(path: Path) -> tuple[str, Grid]:
    """Draw T, a T that is 2 % off, and the clean posteriors inferred with them; return the posteriors."""
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
            style: dict[str, Any] = {"color": MISTAKEN, "weight": "bold"} if changed else {"color": "#222222"}
            axis.text(column, row, f"{matrix[row, column]:.2g}", ha="center", va="center", **style)
    axis, classes = axes[2], np.arange(1, 6)
    matrices = (("true T", EXAMPLE_TRUE, OURS), ("mistaken T", EXAMPLE_MISTAKEN, MISTAKEN))
    posteriors = []
    for number, (name, matrix, colour) in enumerate(matrices):
        posterior = inferred(matrix)
        label = f"inferred with the {name}: class {posterior.argmax() + 1}"
        bars = axis.bar(classes + 0.4 * number - 0.2, posterior, 0.38, color=colour, label=label)
        axis.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
        posteriors.append([name, *(f"{p:.4f}" for p in posterior), str(posterior.argmax() + 1)])
    axis.set(title="clean posterior", xlabel="class", ylabel="P(clean = class | x)", ylim=(0, 0.4))
    axis.legend(loc="upper left", frameon=False)
    bare(axis)
    save_picture(figure, path)
    header = ["inferred with", *(f"P(clean = {label})" for label in classes), "class"]
    return "figure1: two matrices, one noisy posterior, two decisions", (header, posteriors)


SPEC = Spec(
    "figure1", "How a T that is 2 % off turns a right decision into a wrong one", draw=draw_worked_example
)
