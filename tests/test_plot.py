"""Pictures, read back from the axes they were drawn into."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from trevision import find_label_issues

plot = pytest.importorskip("trevision.plot")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_the_cells_of_a_picture_of_t_are_its_entries_in_percent() -> None:
    axes = plot.transition([[0.91, 0.09], [0.25, 0.75]], classes=["cat", "dog"])
    assert [text.get_text() for text in axes.texts] == ["91", "9", "25", "75"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "dog"]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.91, 0.09], [0.25, 0.75]])


def test_a_picture_of_many_classes_has_no_numbers() -> None:
    assert not plot.transition(np.eye(13)).texts


def test_names_that_do_not_fit_t_are_refused() -> None:
    with pytest.raises(ValueError, match="classes must name the 2 rows of T, got 1 names"):
        plot.transition(np.eye(2), classes=["cat"])


def test_a_reliability_diagram_shows_the_share_of_labels_that_came_true() -> None:
    probs = np.array([[0.62, 0.38]] * 4 + [[0.05, 0.95]] * 5)
    axes = plot.reliability(probs, [0, 0, 0, 1, 1, 1, 1, 1, 0])
    np.testing.assert_allclose(axes.containers[0].lines[0].get_xydata(), [[0.62, 0.75], [0.95, 0.8]])


def test_a_ranking_rises_and_marks_the_number_of_wrong_labels() -> None:
    rng = np.random.default_rng(0)
    probs = np.repeat([[0.8, 0.2], [0.2, 0.8]], 50, axis=0)
    labels = (rng.random(100) < probs[:, 1]).astype(int)
    issues = find_label_issues(probs, labels, "confident-joint", bootstrap=20)
    axes = plot.ranking(issues)
    line, mark = axes.lines
    np.testing.assert_allclose(line.get_ydata(), np.sort(issues.p_given))
    assert mark.get_xdata()[0] == pytest.approx(issues.wrong[0])


def test_pictures_are_drawn_into_the_axes_that_are_given() -> None:
    from matplotlib import pyplot as plt

    axes = plt.subplots()[1]
    assert plot.transition(np.eye(2), ax=axes) is axes


def test_every_picture_is_returned_as_axes_of_matplotlib() -> None:
    from matplotlib.axes import Axes

    probs, labels = np.repeat([[0.8, 0.2], [0.2, 0.8]], 10, axis=0), np.repeat([0, 1], 10)
    issues = find_label_issues(probs, labels, "confident-joint", bootstrap=0)
    for axes in (plot.transition(np.eye(2)), plot.reliability(probs, labels), plot.ranking(issues)):
        assert isinstance(axes, Axes)


def test_the_module_is_imported_without_matplotlib() -> None:
    code = "import sys; from trevision import plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
