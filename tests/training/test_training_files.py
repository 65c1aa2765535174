"""Files: whole or not there, and never executed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from trevision.files import write_atomically, write_json
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.checkpoint import FolderStore
from trevision.training.evaluate import class_probs
from trevision.training.model import NoisyLabelModel
from trevision.training.model_files import CUSTOM_NETWORK, ModelCard, load_model, save_model
from trevision.transition import Transition

INITIAL = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.3, 0.7]])
LEARNT = np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.2, 0.8]])


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fails(temporary):
        temporary.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write_atomically(path, fails)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_with_a_malicious_pickle_is_refused_and_not_run(tmp_path):
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    (tmp_path / "stage.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(Exception, match=r"(?i)weights|pickle|unsupported"):
        FolderStore(tmp_path).load("stage")
    torch.save({"done": Evil()}, tmp_path / "stage.pt")
    with pytest.raises(Exception, match=r"(?i)weights|pickle|unsupported"):
        FolderStore(tmp_path).load("stage")
    assert not marker.exists()


@pytest.mark.parametrize("content", [b"", b"text", bytes(100), None], ids=["empty", "text", "zeros", "torn"])
def test_a_damaged_checkpoint_is_named(tmp_path, content):
    path = tmp_path / "stage.pt"
    torch.save({"weights": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:1000] if content is None else content)
    with pytest.raises(ValueError, match=r"stage\.pt is damaged"):
        FolderStore(tmp_path).load("stage")


@pytest.mark.parametrize(
    "classes",
    [np.array([3, 5, 9]), np.array(["cat", "dog", "köter"]), np.array([0.0, 1.0, 2.0])],
    ids=["integers", "strings", "floats"],
)
def test_a_saved_model_predicts_the_same_after_loading(tmp_path, classes):
    x = torch.randn(20, 5)
    transition = Transition(torch.tensor(LEARNT, dtype=torch.float32))
    model = NoisyLabelModel(Standardise.from_data(x), build("mlp", (5,), 3, seed=4), transition)
    save_model(tmp_path / "model.safetensors", model, INITIAL, LEARNT)
    write_json(tmp_path / "config.json", {"model": ModelCard("mlp", (5,), classes).to_json()})
    saved = load_model(tmp_path)
    assert torch.equal(class_probs(saved.model, x), class_probs(model, x))
    assert saved.card.classes.tolist() == classes.tolist()
    assert np.array_equal(saved.initial_transition, INITIAL)
    assert np.array_equal(saved.transition, LEARNT)


def test_a_custom_network_must_be_handed_in_to_load_its_numbers(tmp_path):
    x = torch.randn(20, 5)
    network = nn.Linear(5, 3)
    model = NoisyLabelModel(Standardise.from_data(x), network, None)
    save_model(tmp_path / "model.safetensors", model, INITIAL, INITIAL)
    write_json(tmp_path / "config.json", {"model": ModelCard(CUSTOM_NETWORK, (5,), np.arange(3)).to_json()})
    with pytest.raises(ValueError, match="pass that network"):
        load_model(tmp_path)
    saved = load_model(tmp_path, nn.Linear(5, 3))
    assert torch.equal(class_probs(saved.model, x), class_probs(model, x))


def test_a_folder_without_a_finished_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        load_model(tmp_path)
    write_json(tmp_path / "config.json", {"method": "standard"})
    with pytest.raises(ValueError, match="no finished model"):
        load_model(tmp_path)


def test_a_learnt_matrix_that_left_the_simplex_is_saved_and_loaded_as_it_is(tmp_path):
    away = np.array([[1.1, 0.2, -0.05], [0.1, 0.9, 0.3], [0.0, 0.2, 0.8]])
    x = torch.randn(20, 5)
    transition = Transition(torch.tensor(INITIAL, dtype=torch.float32), "slack")
    assert transition.free is not None
    transition.free.data = torch.tensor(away - INITIAL, dtype=torch.float32)
    model = NoisyLabelModel(Standardise.from_data(x), build("mlp", (5,), 3, seed=4), transition)
    save_model(tmp_path / "model.safetensors", model, INITIAL, away)
    write_json(tmp_path / "config.json", {"model": ModelCard("mlp", (5,), np.arange(3)).to_json()})
    saved = load_model(tmp_path)
    assert np.array_equal(saved.transition, away)
    assert saved.model.transition is not None
    assert torch.allclose(saved.model.transition.matrix, torch.tensor(away, dtype=torch.float32))
    assert torch.equal(class_probs(saved.model, x), class_probs(model, x))
