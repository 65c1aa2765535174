"""Pictures of transition matrices, and how any picture is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from trevision.files import write_atomically
from trevision.plot import draw_matrix

matplotlib.use("Agg")


def draw_transitions(path: Path, matrices: Mapping[str, np.ndarray], class_names: Sequence[str]) -> None:
    """Draw transition matrices side by side on one colour scale, by title; SVG or PNG by the suffix."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1,
        len(matrices),
        figsize=(4.2 * len(matrices) + 0.6, 4.6),
        layout="constrained",
        squeeze=False,
    )
    image = None
    for number, (axis, (title, matrix)) in enumerate(zip(axes[0], matrices.items(), strict=True)):
        image = draw_matrix(axis, matrix, class_names)
        axis.set_title(title)
        if number == 0:
            axis.set_ylabel("clean label")
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
