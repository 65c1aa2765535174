"""Which precision is chosen, and that T and losses stay in 32 bits."""

import json

import pytest
import torch

from trevision import losses
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training import precision
from trevision.training.model import NoisyLabelModel
from trevision.training.precision import measured_speedup, settled_precision
from trevision.training.runtime import launch
from trevision.transition import Transition


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    """An empty cache, on disk and in memory."""
    monkeypatch.setattr(precision, "cache_folder", lambda: tmp_path / "cache")
    precision.bfloat16_speedup.cache_clear()
    yield tmp_path / "cache" / "bfloat16.json"
    precision.bfloat16_speedup.cache_clear()


def measuring(monkeypatch, speedup):
    calls = []
    monkeypatch.setattr(precision, "measured_speedup", lambda: calls.append(1) or speedup)
    return calls


@pytest.mark.parametrize(
    "probe",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGILL)",  # a processor that traps
        "raise SystemExit(1)",
        "print('nothing')",
        "print([1, 2])",
        "import time; time.sleep(60)",
    ],
)
def test_a_probe_that_crashes_hangs_or_talks_nonsense_means_single_precision(probe, monkeypatch, no_cache):
    assert measured_speedup(probe, seconds=1.0) == 0.0
    monkeypatch.setattr(precision, "measured_speedup", lambda: measured_speedup(probe, seconds=1.0))
    assert settled_precision("auto", "narrow", "cpu") == "32-true"


def test_the_probe_measures_a_ratio_and_is_asked_once_for_a_processor(monkeypatch, no_cache):
    ratio = measured_speedup()
    assert 0 <= ratio < 100
    calls = measuring(monkeypatch, 1.7)
    for _ in range(2):
        precision.bfloat16_speedup.cache_clear()  # as in a new process
        assert settled_precision("auto", "wide", "cpu") == "bf16-mixed"
    assert len(calls) == 1
    assert list(json.loads(no_cache.read_text()).values()) == [1.7]
    # Another version of torch may have other kernels.
    monkeypatch.setattr(precision, "version", lambda name: "99.0")
    precision.bfloat16_speedup.cache_clear()
    precision.bfloat16_speedup()
    assert len(calls) == 2


def test_a_damaged_cache_is_measured_anew(monkeypatch, no_cache):
    no_cache.parent.mkdir()
    no_cache.write_text("{broken")
    assert len(measuring(monkeypatch, 1.1)) == 0
    assert settled_precision("auto", "narrow", "cpu") == "32-true"


def test_auto_is_for_colour_networks_on_a_cpu_and_a_word_of_the_user_is_kept(monkeypatch, no_cache):
    calls = measuring(monkeypatch, 3.0)
    for network in ("lenet", "mlp", "resnet8", "resnet18", "custom"):
        assert settled_precision("auto", network, "cpu") == "32-true"
    assert settled_precision("auto", "narrow", "cuda") == "32-true"
    assert settled_precision("32-true", "narrow", "cpu") == "32-true"
    assert settled_precision("bf16-mixed", "lenet", "cpu") == "bf16-mixed"
    assert not calls
    assert settled_precision("auto", "narrow", "cpu") == "bf16-mixed"


def test_a_loss_through_t_computes_in_32_bits_under_autocast():
    """Logits may be rounded to 16 bits; what is made of them, and T, is not."""
    transition = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.05, 0.3, 0.65]])
    network = build("narrow", (3, 16, 16), 3, seed=0)
    start = Transition(transition, "simplex")
    model = NoisyLabelModel(Standardise.identity((3, 16, 16)), network, start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fabric = launch("cpu", precision="bf16-mixed")
    wrapped, _ = fabric.setup(model, optimizer)
    logits, matrix = wrapped(torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert not torch.is_autocast_enabled("cpu")
    assert logits.dtype == matrix.dtype == torch.float32
    # The logits were computed in 16 bits, so the test sees a network under autocast at all.
    assert torch.equal(logits, logits.bfloat16().float())
    torch.testing.assert_close(matrix, transition, rtol=0, atol=1e-6)
    labels = torch.arange(8) % 3
    loss = losses.forward_nll(logits, labels, matrix)
    posterior = torch.softmax(logits.detach().double(), 1) @ transition.double()
    expected = -posterior[torch.arange(8), labels].log().mean()
    assert loss.dtype == torch.float32
    # bfloat16 has 8 bits of mantissa: an error of 1e-6 is not within its reach.
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=1e-6)
    fabric.backward(loss)
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)
