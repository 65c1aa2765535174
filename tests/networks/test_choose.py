"""Networks by name: the choice, the seed, the memory order, and the refusals. And the MLP."""

import pytest
import torch
import torch.nn.functional as F

from trevision.networks.choose import NETWORKS, build, choose
from trevision.networks.lenet import LeNet5
from trevision.networks.mlp import MLP
from trevision.networks.resnet import ResNet

SHAPES = {
    "lenet": (1, 28, 28),
    "resnet8": (3, 32, 32),
    "resnet18": (3, 32, 32),
    "resnet34": (3, 32, 32),
    "resnet50": (3, 64, 64),
    "narrow": (3, 32, 32),
    "wide": (3, 32, 32),
    "mlp": (1, 8, 8),
}


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((1, 28, 28), "lenet"),
        ((1, 20, 20), "lenet"),
        ((1, 19, 28), "mlp"),
        ((1, 8, 8), "mlp"),
        ((3, 32, 32), "resnet18"),
        ((3, 24, 96), "resnet18"),
        ((3, 23, 32), "mlp"),
        ((3, 97, 97), "resnet50"),
        ((3, 31, 200), "resnet18"),
        ((1, 40, 40), "lenet"),
        ((3, 64, 64), "resnet18"),
        ((3, 224, 224), "resnet50"),
        ((2, 64, 64), "mlp"),
        ((20,), "mlp"),
        ((28, 28), "mlp"),
        ((1, 3, 32, 32), "mlp"),
    ],
)
def test_choice_follows_channels_and_pixels(shape: tuple[int, ...], name: str) -> None:
    assert choose(shape) == name


@pytest.mark.parametrize(
    "shape", [(1, 20, 20), (1, 8, 8), (3, 24, 24), (3, 24, 110), (3, 40, 100), (20,), (2, 3, 4, 5), (1,)]
)
def test_the_chosen_network_can_be_built_and_run_on_the_shape(shape: tuple[int, ...]) -> None:
    network = build(choose(shape), shape, 4, seed=0).eval()
    assert network(torch.zeros(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize("name", NETWORKS)
def test_build_is_reproducible_by_seed_and_leaves_the_global_generator_alone(name: str) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (build(name, SHAPES[name], 3, seed) for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), before)
    pairs = zip(first.state_dict().items(), again.state_dict().values(), strict=True)
    assert all(torch.equal(tensor, same) for (_, tensor), same in pairs)
    for (key, weight), different in zip(first.named_parameters(), other.parameters(), strict=True):
        if weight.ndim > 1:
            assert not torch.equal(weight, different), key


def test_build_does_not_depend_on_what_was_drawn_before() -> None:
    first = build("mlp", (4,), 2, seed=1)
    with torch.random.fork_rng(devices=[]):
        torch.randn(17)
        second = build("mlp", (4,), 2, seed=1)
    assert torch.equal(next(first.parameters()), next(second.parameters()))


@pytest.mark.parametrize(
    ("name", "kind"), [("lenet", LeNet5), ("resnet18", ResNet), ("resnet50", ResNet), ("mlp", MLP)]
)
def test_built_network_is_of_its_kind_with_convolutions_channels_last(name: str, kind: type) -> None:
    network = build(name, SHAPES[name], 3, seed=0)
    assert isinstance(network, kind)
    for key, weight in network.named_parameters():
        if weight.ndim == 4:
            assert weight.is_contiguous(memory_format=torch.channels_last), key


def test_unknown_name_is_refused_with_the_list_and_the_nearest() -> None:
    pattern = r"network must be one of lenet, resnet8, .*, mlp, got 'resnet-18'; did you mean resnet18\?"
    with pytest.raises(ValueError, match=pattern):
        build("resnet-18", (3, 32, 32), 10, seed=0)
    with pytest.raises(ValueError, match=r"got 'transformer'$"):
        build("transformer", (3, 32, 32), 10, seed=0)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("lenet", (20,), r"\(channels, height, width\) for lenet, got \(20,\); use mlp"),
        ("resnet18", (32, 32), r"for resnet18, got \(32, 32\); use mlp"),
        ("lenet", (1, 11, 28), r"at least 12 pixels each way for lenet, got \(1, 11, 28\); use mlp"),
        ("resnet50", (3, 224, 31), r"at least 32 pixels each way for resnet50"),
        ("resnet18", (32, 32, 3), r"got \(32, 32, 3\); move the channels to the front"),
        ("mlp", (), r"shape must be the shape of one sample"),
        ("mlp", (3, 0), r"positive sides, got \(3, 0\)"),
    ],
)
def test_shape_that_does_not_fit_is_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, shape, 10, seed=0)


def test_fewer_than_two_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="num_classes must be at least 2, got 1"):
        build("mlp", (4,), 1, seed=0)


@pytest.mark.parametrize("hidden", [(256, 128), (5,), ()])
def test_mlp_is_relu_between_affine_maps_of_the_flattened_input(hidden: tuple[int, ...]) -> None:
    network = MLP(12, 3, hidden)
    tensors = list(network.parameters())
    widths = [12, *hidden, 3]
    assert [tuple(t.shape) for t in tensors[0::2]] == list(zip(widths[1:], widths[:-1], strict=True))
    batch = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    expected = batch.reshape(6, 12)
    for layer, (weight, bias) in enumerate(zip(tensors[0::2], tensors[1::2], strict=True)):
        expected = (expected if layer == 0 else expected.clamp(min=0)) @ weight.T + bias
    torch.testing.assert_close(network(batch), expected)
    torch.testing.assert_close(network(batch.contiguous(memory_format=torch.channels_last)), expected)


def test_mlp_trains_on_a_batch_of_one() -> None:
    network = MLP(4, 2, hidden=(8,)).train()
    loss = F.cross_entropy(network(torch.ones(1, 4)), torch.tensor([1]))
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_mlp_refuses_an_empty_layer() -> None:
    with pytest.raises(ValueError, match=r"must be at least 1, got widths \(4, 0, 2\)"):
        MLP(4, 2, hidden=(0,))
