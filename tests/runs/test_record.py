"""What result.json says of a run against the truth, by slow loops over rows and pairs of rows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision import noise
from trevision.data.load import load
from trevision.data.noisy import Truth, split
from trevision.runs.described import auc
from trevision.runs.prepare import prepare
from trevision.runs.record import error_of, transition_floor, wrong_label_auc
from trevision.runs.run import run
from trevision.runs.run_folder import OUT_OF_SAMPLE_FILE
from trevision.runs.settings import Hardware, Settings
from trevision.training.evaluate import class_probs
from trevision.training.model_files import load_model

CPU = Hardware(accelerator="cpu", threads=1)
ASYMMETRIC = np.array([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.15, 0.05, 0.8]])


def area_by_pairs(wrong: np.ndarray, p_given: np.ndarray) -> float:
    """Every pair of a wrong and a right label, one by one."""
    found = 0.0
    for p_wrong in p_given[wrong]:
        for p_right in p_given[~wrong]:
            found += 1.0 if p_wrong < p_right else 0.5 if p_wrong == p_right else 0.0
    return found / (wrong.sum() * (~wrong).sum())


def nearest_probabilities(v: np.ndarray) -> np.ndarray:
    """max(v - t, 0) with the t, found by halving, for which they sum to 1."""
    low, high = v.min() - 1, v.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(v - low, 0)


def floor_by_loop(true: np.ndarray, noisy: np.ndarray, transition: np.ndarray) -> float:
    """|T - counted T| / |T|, a row and an entry at a time."""
    size = len(transition)
    counts = np.zeros((size, size))
    for i, j in zip(true, noisy, strict=True):
        counts[i, j] += 1
    missed = 0.0
    for i in range(size):
        for j in range(size):
            missed += abs(transition[i, j] - counts[i, j] / counts[i].sum())
    return missed / size  # the rows of T sum to 1


def test_the_area_is_the_share_of_pairs_in_which_the_wrong_label_is_the_less_probable():
    rng = np.random.default_rng(0)
    wrong = rng.random(60) < 0.3
    p_given = np.round(np.clip(rng.random(60) - 0.3 * wrong, 0, 1), 1)  # rounded, so that there are ties
    assert auc(wrong, p_given) == pytest.approx(area_by_pairs(wrong, p_given), abs=1e-12)


def test_without_a_wrong_label_or_without_numbers_there_is_no_area():
    labels, posterior = torch.tensor([0, 1, 2]), np.full((3, 3), 1 / 3)
    assert wrong_label_auc(posterior, ASYMMETRIC, labels, labels) is None
    assert wrong_label_auc(posterior, ASYMMETRIC, labels, labels.roll(1)) is None  # nor is any right
    other = torch.tensor([0, 1, 1])
    assert wrong_label_auc(posterior, ASYMMETRIC, labels, other) is not None
    assert wrong_label_auc(posterior, np.full((3, 3), np.nan), labels, other) is None
    assert error_of(np.full((3, 3), np.nan), Truth(ASYMMETRIC, None, None)) is None


def test_the_suspicion_is_bayes_rule_with_t_and_the_posterior_itself_without():
    rng = np.random.default_rng(1)
    true = rng.integers(3, size=80)
    given = noise.corrupt(true, ASYMMETRIC, rng)
    posterior = rng.dirichlet(np.ones(3), size=80)
    corrected = np.array(
        [g[y] * ASYMMETRIC[y, y] / (g @ ASYMMETRIC[:, y]) for g, y in zip(posterior, given, strict=True)]
    )
    plain = posterior[np.arange(80), given]
    for transition, p_given in ((ASYMMETRIC, corrected), (None, plain)):
        found = wrong_label_auc(posterior, transition, torch.from_numpy(given), torch.from_numpy(true))
        assert found == pytest.approx(area_by_pairs(given != true, p_given), abs=1e-12)


def test_the_floor_counts_training_and_validation_rows_against_their_true_labels():
    rng = np.random.default_rng(2)
    true = rng.integers(3, size=500)
    noisy = noise.corrupt(true, ASYMMETRIC, rng)
    data = split(torch.zeros(500, 1), noisy, num_classes=3, random_state=0)
    clean = torch.from_numpy(true)
    truth = Truth(ASYMMETRIC, None, None, clean[data.train_rows], clean[data.valid_rows])
    assert transition_floor(data, truth) == pytest.approx(floor_by_loop(true, noisy, ASYMMETRIC), abs=1e-12)
    assert transition_floor(data, replace(truth, true_train_y=None)) is None


def test_the_truth_has_the_labels_before_the_noise_row_by_row():
    digits = load("digits")
    clean = {x.numpy().tobytes(): int(y) for x, y in zip(digits.train_x, digits.train_y, strict=True)}
    data, truth = prepare(digits, Settings(noise="pair-40", seed=3, train_size=200))
    for x, y in ((data.train_x, truth.true_train_y), (data.valid_x, truth.true_valid_y)):
        assert [clean[image.numpy().tobytes()] for image in x] == y.tolist()
    _, truth = prepare(digits, Settings(train_size=200))
    assert truth.true_train_y is None
    assert truth.true_valid_y is None


@pytest.mark.parametrize("method", ["standard", "forward:latent"])
def test_a_run_records_floor_and_areas_of_its_own_model(tmp_path, blobs, blobs_file, method):
    np.savetxt(tmp_path / "t.csv", blobs.transition, delimiter=",")
    name, _, estimator = method.partition(":")
    settings = Settings(noise=str(tmp_path / "t.csv"), method=name, train_size=150)
    # An .npz file has the latent estimator by default, which predicts out of sample.
    result = run(str(blobs_file), settings, tmp_path / "run", CPU)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    data, truth = prepare(load(blobs_file), settings)
    true = torch.cat([truth.true_train_y, truth.true_valid_y]).numpy()
    noisy = torch.cat([data.train_y, data.valid_y]).numpy()
    assert result["transition_floor"] == pytest.approx(floor_by_loop(true, noisy, blobs.transition))

    saved = load_model(tmp_path / "run")
    given, wrong = data.train_y.numpy(), (data.train_y != truth.true_train_y).numpy()
    posterior = class_probs(saved.model, data.train_x).double().numpy()
    assert result["uses_transition"] == bool(estimator)
    learnt = saved.transition if estimator else None
    suspicion = posterior[np.arange(len(given)), given]
    if learnt is not None:
        suspicion = suspicion * learnt[given, given] / (posterior * learnt.T[given]).sum(axis=1)
    assert result["wrong_label_auc"] == pytest.approx(area_by_pairs(wrong, suspicion), abs=1e-6)
    assert result["wrong_label_auc"] > 0.6

    with np.load(tmp_path / "run" / OUT_OF_SAMPLE_FILE) as arrays:
        probs = arrays["probs"][: len(given)]
    initial = saved.initial_transition
    clean = np.array([nearest_probabilities(np.linalg.solve(initial.T, p)) for p in probs])
    suspicion = clean[np.arange(len(given)), given] * initial[given, given]
    total = (clean * initial.T[given]).sum(axis=1)
    assert (total > 0).all()
    area = area_by_pairs(wrong, suspicion / total)
    assert result["initial_wrong_label_auc"] == pytest.approx(area, abs=1e-6)


def test_without_added_noise_nothing_is_measured_against_a_truth(tmp_path):
    result = run("digits", Settings(method="forward", train_size=150), tmp_path / "run", CPU)
    for name in ("transition_error", "transition_floor", "wrong_label_auc", "initial_wrong_label_auc"):
        assert result[name] is None
