"""LeNet-5 against the textbook order of its layers, at every image size it admits."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trevision.networks import lenet
from trevision.networks.choose import build
from trevision.networks.lenet import LeNet5


@pytest.fixture(autouse=True, params=["wide registers", "narrow registers"])
def both_kinds_of_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes of a convolution are arranged by the processor's registers; every claim holds for either."""
    monkeypatch.setattr(lenet, "_WIDE_REGISTERS", request.param == "wide registers")


def textbook(network: LeNet5, images: Tensor) -> Tensor:
    """Convolution, ReLU, pooling, twice, as LeNet is drawn; then the fully connected layers."""
    maps = F.max_pool2d(F.relu(F.conv2d(images, network.conv1.weight, network.conv1.bias, padding=2)), 2)
    maps = F.max_pool2d(F.relu(F.conv2d(maps, network.conv2.weight, network.conv2.bias)), 2)
    hidden = F.relu(F.linear(maps.flatten(1), network.fc1.weight, network.fc1.bias))
    hidden = F.relu(F.linear(hidden, network.fc2.weight, network.fc2.bias))
    return F.linear(hidden, network.fc3.weight, network.fc3.bias)


def random_images(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=dtype)


def gradients(network: LeNet5, logits: Tensor) -> list[Tensor]:
    labels = torch.arange(len(logits)) % logits.shape[1]
    return list(torch.autograd.grad(F.cross_entropy(logits, labels), list(network.parameters())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 12, 12), (1, 13, 15), (3, 29, 20), (2, 32, 32)])
def test_logits_and_gradients_are_those_of_the_textbook_layers(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    network = build("lenet", shape, 7, seed=0).to(dtype)
    images = random_images(5, *shape, dtype=dtype)
    expected = textbook(network, images)
    logits = network(images)
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(logits, expected, atol=tolerance, rtol=tolerance)
    for ours, theirs in zip(gradients(network, logits), gradients(network, expected), strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def test_gradients_with_respect_to_the_images_are_those_of_the_textbook_layers() -> None:
    network = build("lenet", (1, 16, 16), 4, seed=1).double()
    images = random_images(3, 1, 16, 16, dtype=torch.float64).requires_grad_()
    (ours,) = torch.autograd.grad(network(images).square().sum(), images)
    (theirs,) = torch.autograd.grad(textbook(network, images).square().sum(), images)
    assert theirs.abs().max() > 1e-3
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


def test_mostly_blank_images_whose_pooling_windows_tie_give_the_textbook_gradients() -> None:
    network = build("lenet", (1, 28, 28), 10, seed=2)
    images = torch.full((6, 1, 28, 28), -0.42)
    images[:, :, 10:18, 10:18] = random_images(6, 1, 8, 8)
    ours = gradients(network, network(images))
    theirs = gradients(network, textbook(network, images))
    for our_gradient, their_gradient in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our_gradient, their_gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_memory_layout_of_the_images_does_not_change_the_logits(channels: int) -> None:
    network = build("lenet", (channels, 20, 20), 10, seed=3)
    images = random_images(4, channels, 20, 20)
    channels_last = torch.empty_like(images, memory_format=torch.channels_last).copy_(images)
    every_other = random_images(4, channels, 20, 40)
    every_other[..., ::2] = images
    expected = textbook(network, images)
    for arrangement in (images, channels_last, every_other[..., ::2]):
        torch.testing.assert_close(network(arrangement), expected, atol=1e-5, rtol=1e-5)


def test_classic_image_has_400_features_and_61706_parameters() -> None:
    # LeCun et al. 1998 with all maps connected: 156 + 2416 + 48120 + 10164 + 850.
    network = LeNet5()
    assert network.fc1.in_features == 400
    by_hand = (25 + 1) * 6 + (6 * 25 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10
    assert by_hand == 61_706
    assert sum(p.numel() for p in network.parameters()) == by_hand


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_small_batches_pass_forward_and_backward(batch: int) -> None:
    network = LeNet5(num_classes=3, image_size=14).train()
    logits = network(random_images(batch, 1, 14, 14))
    assert logits.shape == (batch, 3)
    logits.sum().backward()
    assert network.conv1.weight.grad is not None
    assert (network.conv1.weight.grad.abs().sum() > 0) == (batch > 0)


def test_image_below_twelve_pixels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"image_size must be at least 12 .* got 28 x 11; use MLP"):
        LeNet5(image_size=(28, 11))


def test_gradients_of_single_samples_come_from_torch_func() -> None:
    network = LeNet5(num_classes=3, image_size=12)
    parameters = dict(network.named_parameters())
    images, labels = torch.randn(4, 1, 12, 12), torch.tensor([0, 2, 1, 1])

    def loss(parameters, image, label):
        logits = torch.func.functional_call(network, parameters, (image[None],))
        return torch.nn.functional.cross_entropy(logits, label[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    for row in range(4):
        network.zero_grad()
        loss(parameters, images[row], labels[row]).backward()
        for name, parameter in parameters.items():
            assert parameter.grad is not None
            assert torch.allclose(each[name][row], parameter.grad, atol=1e-5), name
