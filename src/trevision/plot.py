"""Pictures of T, of how far probabilities can be believed, and of the ranking of labels.

Each function draws into the axes it is given, or into a new figure, and returns the axes. matplotlib comes
with the extra `images`, and is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from trevision.estimation.rows import ProbabilityRows, RowSource
from trevision.extras import missing_extra
from trevision.noise import FLOAT32_TOLERANCE, FloatArray, validate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from trevision.issues import LabelIssues

LARGEST_WITH_NUMBERS = 12
"""The most classes for which cells have numbers: more could not be read."""

BINS = 10
"""Groups of a reliability diagram, each a tenth of the probabilities wide."""

STRONG, PALE, GREY = "#2b6cb0", "#f6ad55", "#777777"


def transition(T: ArrayLike, classes: Sequence[object] | None = None, ax: Axes | None = None) -> Axes:
    """Draw a transition matrix: rows are clean labels, columns noisy ones, numbers in percent.

    Parameters
    ----------
    T : array-like of shape (C, C)
        T[i, j] = P(noisy = j | clean = i).
    classes : sequence or None
        The names of the classes. None takes their numbers.
    ax : matplotlib axes or None
        Where to draw. None makes a figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If T is no transition matrix, or `classes` does not name each of its rows.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> ax = transition([[0.9, 0.1], [0.3, 0.7]], classes=["cat", "dog"])
    >>> [text.get_text() for text in ax.texts]
    ['90', '10', '30', '70']
    """
    matrix = validate(T, tolerance=FLOAT32_TOLERANCE)
    names = [str(name) for name in (range(len(matrix)) if classes is None else classes)]
    if len(names) != len(matrix):
        raise ValueError(f"classes must name the {len(matrix)} rows of T, got {len(names)} names")
    axes = _axes(ax, (5.2, 4.6))
    image = draw_matrix(axes, matrix, names)
    axes.set_ylabel("clean label")
    axes.figure.colorbar(image, ax=axes, label="P(noisy | clean); numbers in percent", shrink=0.8)
    return axes


def draw_matrix(axes: Axes, matrix: FloatArray, names: Sequence[str]) -> AxesImage:
    """T as coloured cells, from white for 0 to blue for 1, with the names of the classes."""
    size = len(names)
    image = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    axes.set_xlabel("noisy label")
    numbered = size <= LARGEST_WITH_NUMBERS
    ticks = list(range(size) if numbered else range(0, size, max(1, size // 10)))
    shown = [names[i] for i in ticks]
    axes.set_xticks(ticks, shown, rotation=90 if max(map(len, names)) > 3 else 0)
    axes.set_yticks(ticks, shown)
    for row, column in np.ndindex(matrix.shape) if numbered else ():
        value = matrix[row, column]
        colour = "white" if value > 0.5 else "#333333"
        axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=colour)
    return image


def reliability(noisy_probs: ArrayLike | RowSource, noisy_labels: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw how often rows have the label that is likeliest for them, against its probability.

    Rows are grouped by their largest P(noisy | x), each group a tenth wide. On the dashed line
    probabilities come true; below it the model is too sure, above it not sure enough. Bars reach two
    standard errors up and down.

    Parameters
    ----------
    noisy_probs : array-like of shape (n, C)
        P(noisy | x) for rows that the model was not trained on.
    noisy_labels : array-like of shape (n,)
        The labels given to them, integers from 0 to C - 1.
    ax : matplotlib axes or None
        Where to draw. None makes a figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If `noisy_probs` holds no probabilities, or a label is out of range.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> ax = reliability([[0.75, 0.25]] * 4, [0, 0, 0, 1])
    >>> ax.containers[0].lines[0].get_xydata()
    array([[0.75, 0.75]])
    """
    rows = ProbabilityRows(noisy_probs, noisy_labels)
    totals = np.zeros((3, BINS))  # rows, their probabilities, those that came true
    for probs, labels, _ in rows.chunks():
        likeliest = probs.argmax(axis=1)
        sure = probs[np.arange(len(probs)), likeliest].astype(np.float64)
        group = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
        for total, values in zip(totals, (np.ones(len(sure)), sure, likeliest == labels), strict=True):
            total += np.bincount(group, values, BINS)
    count, sure, true = totals[:, totals[0] > 0]
    predicted, share = sure / count, true / count
    error = 2 * np.sqrt(predicted * (1 - predicted) / count)
    axes = _axes(ax, (5.0, 4.6))
    axes.plot([0, 1], [0, 1], linestyle="--", color=GREY, linewidth=1, label="probabilities come true")
    axes.errorbar(predicted, share, yerr=error, fmt="o-", color=STRONG, capsize=3, label="this model")
    axes.set(
        xlim=(0, 1.02), ylim=(0, 1.05), xlabel="largest P(noisy | x)", ylabel="share of rows with that label"
    )
    axes.legend(frameon=False, loc="upper left")
    bare(axes)
    return axes


def ranking(issues: LabelIssues, ax: Axes | None = None) -> Axes:
    """Draw the probability that a label is right, row by row, most suspicious first.

    The line ends the suspects, of which there are as many as labels are estimated to be wrong. The shade is
    the interval of that number.

    Parameters
    ----------
    issues : LabelIssues
        What `find_label_issues` returned.
    ax : matplotlib axes or None
        Where to draw. None makes a figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from trevision.issues import find_label_issues
    >>> probs = np.repeat([[0.9, 0.1], [0.1, 0.9]], 10, axis=0)
    >>> issues = find_label_issues(probs, np.repeat([0, 1], 10), "confident-joint", bootstrap=0)
    >>> ranking(issues).get_xlabel()
    'rows, most suspicious first'
    """
    number, low, high = issues.wrong
    axes = _axes(ax, (6.0, 4.0))
    ranked = issues.p_given[issues.order]
    axes.plot(np.arange(1, len(ranked) + 1), ranked, color=STRONG, linewidth=1.8)
    told = f"{number:,.0f} labels wrong"
    if low is not None and high is not None:
        axes.axvspan(low, high, color=PALE, alpha=0.35, linewidth=0)
        told += f" ({low:,.0f} to {high:,.0f})"
    axes.axvline(number, color=PALE, linewidth=1.8, label=told)
    axes.set(
        xlim=(0, len(ranked)),
        ylim=(0, 1.03),
        xlabel="rows, most suspicious first",
        ylabel="P(label is right)",
    )
    axes.legend(frameon=False, loc="lower right")
    bare(axes)
    return axes


def bare(axis: Any) -> None:
    """Take away the two sides of a frame that carry no scale."""
    axis.spines[["top", "right"]].set_visible(False)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError as error:
        raise ImportError(missing_extra(error) or str(error), name=error.name) from error
    axes: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return axes
