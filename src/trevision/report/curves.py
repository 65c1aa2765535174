"""Learning curves as small drawings: a panel per measure, a line per stage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 14, 26
"""Room around the lines for the numbers at the axes."""

MEASURES = (
    ("noisy_validation_error", "Error on held-out noisy labels", True, True),
    ("trusted_error", "Error on trusted labels", True, True),
    ("train_loss", "Training loss", False, True),
    ("transition_error", "Error of the noise matrix", False, True),
    ("test_accuracy", "Accuracy on clean test rows", True, False),
)
"""Name in metrics.jsonl, title, whether it is shown in percent, and whether its axis begins at 0."""


@dataclass(frozen=True)
class Tick:
    """A position on an axis and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """One panel, in the coordinates of its SVG."""

    title: str
    described: str
    lines: list[str]
    """The points of a polyline for each stage."""
    borders: list[float]
    """Where one stage ends and the next begins."""
    across: list[Tick]
    upward: list[Tick]
    chosen: tuple[float, float] | None
    """The point of the selected epoch."""


@dataclass(frozen=True)
class StageLine:
    """One stage in numbers."""

    name: str
    epochs: int
    first_error: float
    lowest_error: float
    last_loss: float | None


def draw_curves(history: list[dict[str, Any]], selected: tuple[str, int]) -> list[Drawing]:
    """A panel for each measure that the run recorded at least twice."""
    drawings = []
    # A stage may begin with a record of its start, which is not an epoch.
    trained = list(accumulate(int("train_loss" in record) for record in history))
    for key, title, is_share, from_zero in MEASURES:
        # A diverged loss is recorded as nan and cannot be drawn.
        points = [
            (index, record)
            for index, record in enumerate(history)
            if record.get(key) is not None and math.isfinite(record[key])
        ]
        if len(points) > 1:
            drawings.append(_draw(key, title, is_share, from_zero, points, trained, selected))
    return drawings


def stage_lines(history: list[dict[str, Any]]) -> list[StageLine]:
    """The stages in the order they ran."""
    lines = []
    for name in dict.fromkeys(record["stage"] for record in history):
        records = [record for record in history if record["stage"] == name]
        # An epoch may lack it: a loss that diverged, or a file that was edited.
        errors = [one for record in records if (one := record.get("noisy_validation_error")) is not None]
        losses = [record["train_loss"] for record in records if "train_loss" in record]
        if errors:
            lines.append(StageLine(name, len(losses), errors[0], min(errors), losses[-1] if losses else None))
    return lines


def _draw(
    key: str,
    title: str,
    is_share: bool,
    from_zero: bool,
    points: list[tuple[int, dict[str, Any]]],
    trained: list[int],
    selected: tuple[str, int],
) -> Drawing:
    length = len(trained)
    ticks = nice_ticks([record[key] for _, record in points] + [0.0] * from_zero)
    bottom, top = ticks[0], ticks[-1]

    def x(index: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * index / max(length - 1, 1), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - bottom) / (top - bottom), 1)

    def label(value: float) -> str:
        return f"{100 * value:.3g}%" if is_share else f"{value:.3g}"

    lines, borders = [], []
    for stage in dict.fromkeys(record["stage"] for _, record in points):
        ours = [(index, record) for index, record in points if record["stage"] == stage]
        lines.append(" ".join(f"{x(index)},{y(record[key])}" for index, record in ours))
        if ours[0][0] > 0:
            borders.append(x(ours[0][0] - 0.5))
    chosen = [
        (x(index), y(record[key]))
        for index, record in points
        if (record["stage"], record["epoch"]) == selected
    ]
    indices = sorted({0, (length - 1) // 2, length - 1})
    first, last = points[0][1][key], points[-1][1][key]
    return Drawing(
        title=title,
        described=f"{title}: from {label(first)} at first to {label(last)} after {trained[-1]} epochs.",
        lines=lines,
        borders=borders,
        across=[Tick(x(index), str(trained[index])) for index in indices],
        upward=[Tick(y(value), label(value)) for value in ticks],
        chosen=chosen[0] if chosen else None,
    )


def nice_ticks(values: list[float]) -> list[float]:
    """Three to six round numbers, evenly apart, that span all `values`."""
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(1.0, abs(high)):
        # A single value gets a margin of half its size each way, or of 0.5 if it is almost zero.
        margin = 0.5 * (abs(high) if abs(high) > 1e-6 else 1.0)
        low, high = low - margin, high + margin
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * round_one for round_one in (1, 2, 2.5, 5, 10) if power * round_one >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(multiple * step, 12) for multiple in range(first, last + 1)]
