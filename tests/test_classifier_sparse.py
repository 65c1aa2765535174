"""A sparse table gives the classifier of the dense one, and is never made dense as a whole."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse

from trevision import Phase, Schedule, TRevisionClassifier, noise

EPOCHS = Phase(4, lr=0.02, batch_size=32)
REVISION = Phase(2, optimizer="adam", lr=1e-4, batch_size=32)
FAST = Schedule(EPOCHS, EPOCHS, REVISION, parameterisation="simplex", estimator="latent", folds=2)


@pytest.fixture(scope="module")
def words() -> tuple[scipy.sparse.csr_array, np.ndarray, np.ndarray]:
    """Counts of 40 words in 900 texts of three classes, and noisy and clean labels."""
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=900)
    rates = 0.1 + (np.arange(40) % 3 == clean[:, None]) * 0.6
    counts = scipy.sparse.csr_array(rng.poisson(rates))
    return counts, noise.corrupt(clean, noise.pair_flip(3, 0.3), rng), clean


@pytest.mark.parametrize("method", ["reweight-r", "co-teaching"])
@pytest.mark.parametrize("standardise", [True, False])
def test_sparse_and_dense_give_the_same_classifier(words, method, standardise):
    x, noisy, clean = words
    both = [
        TRevisionClassifier(method, schedule=FAST, standardise=standardise, random_state=0).fit(
            rows[:600], noisy[:600], clean_X=rows[600:700], clean_y=clean[600:700]
        )
        for rows in (x, x.toarray())
    ]
    predicted = [model.predict_proba(x[700:]) for model in both]
    np.testing.assert_allclose(predicted[0], predicted[1], atol=1e-4)
    np.testing.assert_allclose(both[0].predict_proba(x[700:].toarray()), predicted[0], atol=1e-12)
    np.testing.assert_allclose(both[0].transition_matrix_, both[1].transition_matrix_, atol=1e-4)
    np.testing.assert_allclose(both[0].out_of_sample_[0], both[1].out_of_sample_[0], atol=1e-4)
    assert both[0].score(x[700:], clean[700:]) > 0.8


def test_a_wide_sparse_table_is_never_held_dense():
    """20,000 x 20,000 would be 1.6 GB."""
    code = """
        import resource
        import scipy.sparse, torch
        import numpy as np
        from trevision import Phase, Schedule, TRevisionClassifier

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        rng = np.random.default_rng(0)
        x = scipy.sparse.random_array((20_000, 20_000), density=0.001, rng=rng, format="csr")
        y = rng.integers(2, size=20_000)
        once = Phase(1, lr=0.01, batch_size=128)
        schedule = Schedule(once, once, once, parameterisation="simplex", estimator="latent", folds=2)
        model = TRevisionClassifier(network=torch.nn.Linear(20_000, 2), schedule=schedule, random_state=0)
        model.fit(x[:300], y[:300])
        before = peak()
        model.fit(x, y).predict(x)
        assert model.out_of_sample_[0].shape == (20_000, 2)
        print(peak() - before)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 400 * 2**20
