"""Pictures of transition matrices, and how any picture is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from trevision.files import write_atomically

matplotlib.use("Agg")

LARGEST_WITH_NUMBERS = 12  # maximum classes with numbers in the cells; with more they cannot be read


def draw_transitions(path: Path, matrices: Mapping[str, np.ndarray], class_names: Sequence[str]) -> None:
    """Draw transition matrices side by side on one colour scale, by title; SVG or PNG by the suffix."""
    from matplotlib import pyplot as plt

    size = len(class_names)
    figure, axes = plt.subplots(
        1,
        len(matrices),
        figsize=(4.2 * len(matrices) + 0.6, 4.6),
        layout="constrained",
        squeeze=False,
    )
    image = None
    for number, (axis, (title, matrix)) in enumerate(zip(axes[0], matrices.items(), strict=True)):
        image = axis.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        axis.set_title(title)
        axis.set_xlabel("noisy label")
        if number == 0:
            axis.set_ylabel("clean label")
        ticks = range(size) if size <= LARGEST_WITH_NUMBERS else range(0, size, max(1, size // 10))
        axis.set_xticks(
            list(ticks),
            [class_names[i] for i in ticks],
            rotation=90 if _long(class_names) else 0,
        )
        axis.set_yticks(list(ticks), [class_names[i] for i in ticks])
        if size <= LARGEST_WITH_NUMBERS:
            for row, column in np.ndindex(matrix.shape):
                value = matrix[row, column]
                colour = "white" if value > 0.5 else "#333333"
                axis.text(
                    column,
                    row,
                    f"{100 * value:.0f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=colour,
                )
    assert image is not None
    figure.colorbar(image, ax=axes[0].tolist(), label="P(noisy | clean); numbers in percent", shrink=0.8)
    save_picture(figure, path)


def save_picture(figure: Any, path: Path) -> None:
    """Write a figure as SVG or PNG, by the suffix, in one step, and close it."""
    from matplotlib import pyplot as plt

    kind = path.suffix.lstrip(".") or "svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Text stays text in an SVG (smaller, searchable), and a fixed salt keeps equal pictures equal files.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "trevision"}):
        metadata = {"Date": None} if kind == "svg" else None
        write_atomically(
            path,
            lambda temporary: figure.savefig(temporary, format=kind, dpi=110, metadata=metadata),
        )
    plt.close(figure)


def bare(axis: Any) -> None:
    """Hide the two sides of a frame that have no scale."""
    axis.spines[["top", "right"]].set_visible(False)


def _long(names: Sequence[str]) -> bool:
    return max(map(len, names)) > 3
