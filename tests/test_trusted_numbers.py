"""What cannot be trusted is said: shuffled labels, too much noise, a useless T, lost classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from trevision.estimation import count_wrong, diagnose, estimate

ROWS = 1200


def labelled(
    classes: int, seed: int = 0, sharpness: float = 3.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of the clean class, the clean classes drawn from them, and a generator's next numbers."""
    rng = np.random.default_rng(seed)
    centres = np.arange(ROWS) % classes
    probs = softmax(rng.normal(size=(ROWS, classes)) + sharpness * np.eye(classes)[centres], axis=1)
    clean = (rng.random(ROWS)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    return probs, clean, rng.random(ROWS)


def told(probs: np.ndarray, labels: np.ndarray) -> tuple[str, str, list[str]]:
    found = estimate(probs, labels, bootstrap=10)
    count = count_wrong(probs, labels, found)
    bad = [one.check for one in diagnose(probs, labels, found, count=count) if one.verdict == "bad"]
    return count.verdict, count.reason, bad


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("sharpness", [1.0, 3.0, 8.0])
def test_shuffled_labels_are_said_to_follow_from_nothing(classes, sharpness):
    probs, clean, _ = labelled(classes, sharpness=sharpness)
    shuffled = np.random.default_rng(1).permutation(clean)
    verdict, reason, bad = told(probs, shuffled)
    assert verdict == "cannot be told from the labels alone"
    assert "the rows say nothing of their labels, or rows and labels are out of step" in reason
    assert "count" in bad


def test_labels_that_are_one_row_out_of_step_are_found_too():
    probs, clean, _ = labelled(3)
    assert (
        "out of step"
        in told(probs, np.roll(np.sort(clean), 7)[np.random.default_rng(2).permutation(ROWS)])[1]
    )


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_labels_as_they_should_be_are_not_suspected(classes):
    probs, clean, chance = labelled(classes, sharpness=1.5)
    noisy = np.where(chance < 0.3, (clean + 1) % classes, clean)
    for labels in (clean, noisy):
        assert "out of step" not in told(probs, labels)[1]


def test_probabilities_that_are_far_too_sure_or_of_one_large_class_are_not_suspected():
    probs, clean, chance = labelled(2, sharpness=1.0)
    sure = softmax(30 * np.log(probs), axis=1)
    assert np.log(np.maximum(sure[np.arange(ROWS), clean], 1e-6)).mean() < np.log(0.5)  # worse than a guess
    assert "out of step" not in told(sure, clean)[1]
    rare = np.stack(
        [1 - 0.4 * probs[:, 0], 0.4 * probs[:, 0]], axis=1
    )  # whose likeliest class is always the first
    assert rare.argmax(axis=1).max() == 0
    assert "out of step" not in told(rare, (chance < rare[:, 1]).astype(int))[1]


@pytest.mark.parametrize(("classes", "rate"), [(2, 0.5), (3, 2 / 3), (5, 0.8)])
def test_noise_above_what_can_be_identified_is_said(classes, rate):
    _, clean, chance = labelled(classes, sharpness=8.0)
    other = (clean + np.random.default_rng(3).integers(1, classes, ROWS)) % classes
    labels = np.where(chance < rate, other, clean)
    noisy = np.full((ROWS, classes), rate / (classes - 1))
    noisy[np.arange(ROWS), clean] = 1 - rate
    verdict, _, bad = told(noisy, labels)
    assert verdict == "cannot be told from the labels alone"
    assert "count" in bad


def test_a_class_that_vanishes_from_a_split_is_named():
    pytest.importorskip("torch")
    import torch

    from trevision.data.noisy import split, vanished

    labels = np.array([0] * 40 + [1] * 40 + [2])
    data = split(torch.zeros(81, 2), labels, num_classes=4, random_state=0)
    first, second = vanished(data, ["a", "b", "c", "d"])
    assert "rows learnt from is labelled d: such a class cannot be learnt" in first
    assert "rows validated on is labelled c, d: epochs are selected without such a class" in second


def test_a_classifier_and_a_run_say_which_class_has_vanished(tmp_path):
    pytest.importorskip("torch")
    import json

    from trevision import TRevisionClassifier
    from trevision.cli import main

    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 40 + ["c"] * 2)
    x = rng.normal(size=(82, 2)).round(3)
    model = TRevisionClassifier(method="standard", random_state=0).fit(x, labels)
    assert any("validated on is labelled c" in doubt for doubt in model.warnings_)
    np.savez(tmp_path / "data.npz", x=x, y=labels)
    main(["fit", str(tmp_path / "data.npz"), "--method", "standard", "--out", str(tmp_path / "run")])
    told = json.loads((tmp_path / "run" / "result.json").read_text())["warnings"]
    assert any("validated on is labelled c" in doubt for doubt in told)
