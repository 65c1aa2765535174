"""`unlabel`: which rows lose their label, what is mixed, and how a stopped run goes on.

That it beats plain cross-entropy is tested beside the other methods (test_methods.py).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.methods.test_baselines import StopsIn, make_problem, timeless
from tests.methods.test_methods import learn

from trevision import noise
from trevision.methods.registry import find_method
from trevision.methods.unlabel import MIXING, mixing_step, soft_targets
from trevision.training.checkpoint import FolderStore
from trevision.training.loop import Batch

T = np.array([[0.6, 0.4, 0.0], [0.1, 0.7, 0.2], [0.3, 0.0, 0.7]])


def test_targets_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.full(3, 0.3), size=50), rng.integers(3, size=50)
    found = soft_targets(probs, labels, T)
    kept = 0
    for g, y, target in zip(probs, labels, found, strict=True):
        joint = [g[i] * T[i, y] for i in range(3)]
        expected = [each / sum(joint) for each in joint]
        if expected[y] >= 0.5:
            kept += 1
        else:
            expected = [g[i] ** 2 / sum(g[k] ** 2 for k in range(3)) for i in range(3)]
        assert target == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert 10 < kept < 40


def test_a_row_that_loses_its_label_has_the_same_target_whatever_the_label_was():
    probs = np.array([[0.98, 0.01, 0.01]] * 2)
    one, other = soft_targets(probs, np.array([1, 2]), noise.symmetric(3, 0.3))
    assert np.array_equal(one, other)


def test_rows_and_targets_are_mixed_alike_and_a_row_outweighs_its_partner():
    rng = np.random.default_rng(1)
    x, targets = rng.normal(size=(6, 2)).astype(np.float32), rng.dirichlet(np.ones(2), 6).astype(np.float32)
    weight = torch.tensor([[1.0, -2.0], [0.5, 0.3]])
    batch = Batch(
        torch.from_numpy(x), torch.zeros(6).long(), torch.arange(10, 16), 3, None, torch.from_numpy(targets)
    )
    found = mixing_step(4, "first-1")(lambda rows: (rows @ weight, None), batch)
    rng = np.random.default_rng([4, *b"first-1", 3, 10])
    partners, drawn = rng.permutation(6), rng.beta(MIXING, MIXING, size=6)
    total = 0.0
    for n in range(6):
        share = max(drawn[n], 1 - drawn[n])
        mixed = share * x[n] + (1 - share) * x[partners[n]]
        target = share * targets[n] + (1 - share) * targets[partners[n]]
        logits = mixed @ weight.numpy()
        total -= target @ (logits - np.log(np.exp(logits).sum())) / 6
    assert found.item() == pytest.approx(total, rel=1e-5)


def test_each_network_is_taught_by_the_other_and_t_stays(blobs):
    learned = learn(blobs, "unlabel")
    stages = list(dict.fromkeys(record["stage"] for record in learned.history))
    taught = ["second", "classifier", "second-1", "first-1", "first-2"]
    assert [stage for stage in stages if stage in taught] == taught
    assert learned.selected["stage"] == "first-2"
    assert np.allclose(learned.transition, learned.initial_transition, atol=1e-7)


@pytest.mark.usefixtures("every_epoch_kept")
def test_an_interrupted_run_resumes_to_the_same_bits(blobs, tmp_path):
    def fit(**how):
        return find_method("unlabel")(make_problem(blobs, blobs.noisy, **how))

    whole, store = fit(), FolderStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(store=store, progress=StopsIn("first-1", 2))
    resumed = fit(store=store)
    assert timeless(resumed.history) == timeless(whole.history)
    state, expected = resumed.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(state[key], expected[key]) for key in expected)
