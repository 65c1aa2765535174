"""Noise rates that explain labels nearly as well as T does."""

from __future__ import annotations

import numpy as np
import pytest

from trevision import noise
from trevision.estimation import ProbabilityRows
from trevision.estimation.profile import likely_rates

TRUE = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.0, 0.3, 0.7]])


def labelled(seed: int, sureness: float, size: int = 3000) -> tuple[np.ndarray, np.ndarray, float]:
    """Clean posteriors, labels with noise TRUE, and the share of them that is wrong."""
    rng = np.random.default_rng(seed)
    logits = sureness * rng.normal(size=(size, 3))
    clean = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = (clean.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    given = noise.corrupt(true, TRUE, random_state=rng)
    return clean, given, float((true != given).mean())


def soft(clean: np.ndarray) -> np.ndarray:
    values = clean**0.5
    return values / values.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_the_true_rate_is_likely_and_the_range_is_wider_where_classes_overlap(seed):
    widths = []
    for sureness in (10, 3):
        clean, given, wrong = labelled(seed, sureness)
        least, most = likely_rates(ProbabilityRows(soft(clean), given), TRUE)
        # T is held: what other rows would change, 0.008 by one standard error, is not part of the range.
        assert least - 0.02 <= wrong <= most + 0.02
        widths.append(most - least)
    assert widths[0] < widths[1]


def test_no_noise_is_likely_where_the_probabilities_are_exact():
    clean, given, _ = labelled(0, 3)
    least, _ = likely_rates(ProbabilityRows(clean @ TRUE, given), TRUE)
    assert least < 0.01


def test_labels_without_noise_leave_none_likely_whatever_t_is_tried():
    clean, _, _ = labelled(0, 3)
    rng = np.random.default_rng(1)
    right = (clean.cumsum(axis=1) < rng.random((len(clean), 1))).sum(axis=1)
    least, most = likely_rates(ProbabilityRows(soft(clean), right), TRUE)
    assert least < 0.01
    assert most < 0.15  # TRUE stands for 27%


def test_with_very_many_classes_no_range_is_looked_for():
    probs = np.full((100, 40), 1 / 40)
    assert likely_rates(ProbabilityRows(probs, np.arange(100) % 40), np.eye(40)) is None
