"""Reading torchvision's weights, in both formats, and refusing what does not fit."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from trevision.networks.choose import build
from trevision.networks.pretrained import load_torchvision_weights
from trevision.networks.resnet import ResNet


def fresh_resnet18(num_classes: int) -> ResNet:
    network = build("resnet18", (3, 32, 32), num_classes, seed=0)
    assert isinstance(network, ResNet)
    return network


def published(num_classes: int) -> dict[str, Tensor]:
    """A state dict with the names and shapes of ours and random content, as a file would hold it."""
    generator = torch.Generator().manual_seed(9)
    return {
        name: torch.tensor(17)
        if name.endswith("num_batches_tracked")
        else torch.randn(tensor.shape, generator=generator)
        for name, tensor in fresh_resnet18(num_classes).state_dict().items()
    }


def write(tensors: dict[str, Tensor], path: Path) -> Path:
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_every_tensor_of_the_file_arrives(tmp_path: Path, suffix: str) -> None:
    tensors = published(10)
    network = fresh_resnet18(10)
    assert load_torchvision_weights(network, write(tensors, tmp_path / f"weights{suffix}")) == ()
    state = network.state_dict()
    assert state.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(state[name], tensor), name
    assert network.conv1.weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_head_for_other_classes_stays_fresh_and_the_rest_arrives(tmp_path: Path, suffix: str) -> None:
    tensors = published(1000)
    network = fresh_resnet18(14)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fresh = load_torchvision_weights(network, write(tensors, tmp_path / f"weights{suffix}"))
    assert fresh == ("fc.weight", "fc.bias")
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name] if name in fresh else tensors[name]), name


def test_older_files_without_batch_counters_are_accepted(tmp_path: Path) -> None:
    tensors = {name: t for name, t in published(10).items() if not name.endswith("num_batches_tracked")}
    network = fresh_resnet18(10)
    load_torchvision_weights(network, write(tensors, tmp_path / "old.pth"))
    assert torch.equal(network.state_dict()["layer4.1.bn2.running_var"], tensors["layer4.1.bn2.running_var"])


def assert_refused_unchanged(tensors: dict[str, Tensor], path: Path, pattern: str) -> None:
    network = fresh_resnet18(10)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with pytest.raises(ValueError, match=pattern):
        load_torchvision_weights(network, write(tensors, path))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_wrong_shape_is_refused_by_name_and_nothing_changes(tmp_path: Path) -> None:
    tensors = published(10)
    tensors["conv1.weight"] = torch.zeros(64, 3, 7, 7)
    pattern = r"of wrong shape \(conv1.weight: 64 x 3 x 7 x 7 in the file and 64 x 3 x 3 x 3 in the network\)"
    assert_refused_unchanged(tensors, tmp_path / "w.safetensors", pattern)


def test_missing_and_unexpected_names_are_listed_in_short(tmp_path: Path) -> None:
    tensors = published(10)
    for name in [name for name in tensors if name.startswith("layer4.1.")]:
        tensors[name.replace("layer4", "layer5")] = tensors.pop(name)
    pattern = (
        # 2 convolutions and 2 normalisations: 2 + 8 names, their 2 counters not required; 3 are shown.
        r"missing \(layer4.1.conv1.weight, layer4.1.bn1.weight, layer4.1.bn1.bias and 7 more\), "
        r"unexpected \(layer5.1.\S+, layer5.1.\S+, layer5.1.\S+ and 9 more\)"
    )
    assert_refused_unchanged(tensors, tmp_path / "w.pth", pattern)


def test_head_that_is_absent_or_of_another_width_is_refused(tmp_path: Path) -> None:
    headless = {name: tensor for name, tensor in published(10).items() if not name.startswith("fc.")}
    assert_refused_unchanged(headless, tmp_path / "a.pth", r"missing \(fc.weight, fc.bias\)")
    wide = published(10) | {"fc.weight": torch.zeros(20, 2048), "fc.bias": torch.zeros(20)}
    assert_refused_unchanged(wide, tmp_path / "b.pth", r"fc.weight: 20 x 2048 in the file and 10 x 512")
    torn = published(10) | {"fc.weight": torch.zeros(20, 512)}
    assert_refused_unchanged(torn, tmp_path / "c.pth", r"fc.weight: 20 x 512 in the file and 10 x 512")


class Trap:
    """Unpickles by calling a function, which only a reader that executes pickles would do."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.marker,)


def test_a_file_that_runs_code_is_refused_without_running_it(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    torch.save({"conv1.weight": Trap(marker)}, tmp_path / "trap.pth")
    with pytest.raises(ValueError, match="weights must hold tensors and nothing else"):
        load_torchvision_weights(fresh_resnet18(10), tmp_path / "trap.pth")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["noise.safetensors", "noise.pth"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is not a file of weights at all")
    with pytest.raises(ValueError, match="weights must hold tensors and nothing else"):
        load_torchvision_weights(fresh_resnet18(10), tmp_path / name)


def test_a_training_checkpoint_and_other_endings_are_refused(tmp_path: Path) -> None:
    torch.save({"model": published(10), "epoch": 3}, tmp_path / "checkpoint.pth")
    with pytest.raises(ValueError, match="dictionary from names to tensors"):
        load_torchvision_weights(fresh_resnet18(10), tmp_path / "checkpoint.pth")
    with pytest.raises(ValueError, match=r"weights must end in \.safetensors or \.pth, got weights\.h5"):
        load_torchvision_weights(fresh_resnet18(10), "weights.h5")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_torchvision_weights(fresh_resnet18(10), tmp_path / "absent.pth")
