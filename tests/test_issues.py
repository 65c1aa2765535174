"""Label issues in the labels of a user."""

from __future__ import annotations

import numpy as np
import pytest

from trevision import find_label_issues
from trevision.estimation import estimate

NAMES = np.array(["<b>cat</b>", "dog & co", "owl"])


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=300)
    probs = np.full((300, 3), 0.1)
    probs[np.arange(300), clean] = 0.8
    labels = np.where(rng.random(300) < 0.15, (clean + 1) % 3, clean)
    return probs, labels


@pytest.mark.parametrize("classes", [NAMES, [30, 10, 20], [True, 2.5, "mixed"]])
def test_labels_of_any_values_give_what_their_codes_give(classes: list[object]) -> None:
    probs, codes = rows()
    given = np.array([classes[code] for code in codes], dtype=object)
    by_codes, by_values = (
        estimate(probs, codes, bootstrap=20),
        estimate(probs, given, bootstrap=20, classes=np.array(classes, dtype=object)),
    )
    np.testing.assert_array_equal(by_values.transition, by_codes.transition)
    assert by_values.noise_rate_low == by_codes.noise_rate_low
    issues = find_label_issues(probs, given, bootstrap=0, classes=np.array(classes, dtype=object))
    np.testing.assert_array_equal(issues.given, codes)


def test_a_label_that_is_no_class_is_named_in_one_sentence() -> None:
    probs, codes = rows()
    given = NAMES[codes].astype(object)
    given[7] = "cow"
    for function in (estimate, find_label_issues):
        with pytest.raises(
            ValueError, match=r"^noisy_labels must be among the 3 classes, got 'cow'; classes"
        ):
            function(probs, given, classes=NAMES)


def test_classes_that_do_not_fit_the_columns_are_refused() -> None:
    probs, codes = rows()
    with pytest.raises(ValueError, match="classes must name the 3 columns of noisy_probs, got 4 of them"):
        estimate(probs, NAMES[codes], classes=[*NAMES, "cow"])
    with pytest.raises(ValueError, match="classes must name each class once, got 'owl' twice"):
        estimate(probs, NAMES[codes], classes=["owl", "owl", "cow"])


def test_the_table_ranks_all_rows_in_the_labels_of_the_user() -> None:
    probs, codes = rows()
    issues = find_label_issues(probs, NAMES[codes], bootstrap=0, classes=NAMES)
    table = issues.to_frame()
    assert list(table) == ["rank", "row", "given", "suggested", "p_given", "p_suggested", "suspect", "score"]
    assert table["rank"].tolist() == list(range(1, 301))
    assert sorted(table["row"]) == list(range(300))
    assert table["score"].is_monotonic_increasing
    assert table["given"].tolist() == NAMES[codes][table["row"]].tolist()
    assert table["suspect"].sum() == issues.suspect.sum()
    assert table["suspect"].iloc[: issues.suspect.sum()].all()
    by_codes = find_label_issues(probs, codes, bootstrap=0).to_frame()
    assert (NAMES[by_codes["suggested"]] == table["suggested"]).all()


def test_a_notebook_shows_the_count_with_its_interval_and_ten_rows_escaped() -> None:
    probs, codes = rows()
    issues = find_label_issues(probs, NAMES[codes], bootstrap=20, classes=NAMES)
    html = issues._repr_html_()
    number, low, high = issues.wrong
    told = f"({number / 300:.1%}; 90% interval {low:,.0f} to {high:,.0f})"
    assert f"About {number:,.0f} of 300 labels are wrong {told}." in html
    assert html.count("<tr>") == 11
    assert "<b>" not in html
    assert "&lt;b&gt;cat&lt;/b&gt;" in html
    assert "interval" not in find_label_issues(probs, codes, bootstrap=0)._repr_html_()
