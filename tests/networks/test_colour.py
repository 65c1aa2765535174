"""The networks for colour images on a CPU: whitening, sizes, mirror images, and what a model file keeps."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from trevision.data.noisy import NoisyData
from trevision.files import write_json
from trevision.networks.choose import build, choose
from trevision.networks.colour import SIDE, WIDTHS, ColourNet, Whitening
from trevision.networks.standardise import Standardise
from trevision.training.inputs import set_up_by
from trevision.training.model import NoisyLabelModel
from trevision.training.model_card import ModelCard
from trevision.training.model_files import load_model, save_model

SHAPE = (3, 32, 32)


def coloured(count: int = 40, shape: tuple[int, int, int] = SHAPE, seed: int = 0) -> torch.Tensor:
    """Images of bytes whose channels and neighbouring pixels are correlated, as in photographs."""
    generator = torch.Generator().manual_seed(seed)
    channels, height, width = shape
    blurred = F.avg_pool2d(torch.rand(count, channels, height + 2, width + 2, generator=generator), 3, 1)
    mixed = blurred + blurred.mean(1, keepdim=True)
    low, high = mixed.min(), mixed.max()
    return (255 * (mixed - low) / (high - low)).to(torch.uint8)


def noisy_data(x: torch.Tensor, augmentation: str = "crop-flip") -> NoisyData:
    labels = torch.arange(len(x)) % 4
    return NoisyData(x, labels, x[:4], labels[:4], 4, np.arange(len(x)), np.arange(4), augmentation)


@pytest.mark.parametrize(("factor", "side"), [(1, 2), (2, 2), (3, 3)])
def test_whitened_patches_are_uncorrelated_with_variance_one_by_a_loop_over_patches(factor, side):
    images = Standardise.from_data(coloured(shape=(3, 18, 18)))(coloured(shape=(3, 18, 18)))
    layer = Whitening(3, factor)
    filters = layer.filters_for(images)
    kept = len(filters) // 2
    assert kept == min(3 * side**2, 24)
    assert torch.equal(filters[kept:], -filters[:kept])
    responses = []
    for image in images.double():
        for top in range(0, 18 - side + 1, factor):
            for left in range(0, 18 - side + 1, factor):
                patch = image[:, top : top + side, left : left + side]
                responses.append([float((one * patch).sum()) for one in filters[:kept].double()])
    covariance = np.cov(np.array(responses).T)
    # The floor under the variances takes a little off the least of them, and nothing makes a correlation.
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-3
    assert np.all(np.diag(covariance) < 1.001)
    assert np.diag(covariance)[:3].min() > 0.98


def test_constant_images_give_finite_filters():
    layer = Whitening(3)
    assert layer.filters_for(torch.zeros(5, 3, 8, 8)).isfinite().all()


def test_the_layer_is_a_gelu_of_the_filtered_patches_and_has_no_gradient():
    layer, images = Whitening(1), torch.randn(2, 1, 3, 3)
    layer.filters.copy_(torch.randn_like(layer.filters))
    out = layer(images.requires_grad_())
    assert not out.requires_grad
    patch = images[1, 0, 1:3, 0:2]
    expected = F.gelu((layer.filters[5, 0] * patch).sum())
    torch.testing.assert_close(out[1, 5, 1, 0], expected)


@pytest.mark.parametrize(
    "shape", [(3, 32, 32), (3, 64, 64), (1, 40, 28), (4, 96, 96), (3, 9, 9), (3, 224, 224)]
)
def test_images_of_any_size_and_channels_are_reduced_to_about_32_pixels(shape):
    network = build("narrow", shape, 5, seed=0).eval()
    assert isinstance(network, ColourNet)
    images = torch.rand(2, *shape)
    assert network(images).shape == (2, 5)
    after = network.whiten(images).shape[-2:]
    assert min(after) <= SIDE + SIDE // 2
    # An image of 64 pixels costs what one of 32 does, up to the one row more.
    if shape == (3, 64, 64):
        assert after == (32, 32)


def test_widths_go_by_name():
    for name, widths in WIDTHS.items():
        network = build(name, SHAPE, 10, seed=0)
        assert tuple(block[0].out_channels for block in network.blocks) == widths
        assert all(
            p.is_contiguous(memory_format=torch.channels_last) for p in network.parameters() if p.ndim == 4
        )


def test_a_cpu_gets_the_network_of_the_schedule_only_for_small_colour_images():
    assert choose((3, 32, 32), "narrow") == choose((3, 64, 64), "narrow") == "narrow"
    assert choose((3, 224, 224), "narrow") == "resnet50"
    assert choose((1, 28, 28), "narrow") == "lenet"
    assert choose((20,), "narrow") == "mlp"


def test_a_mirrored_network_means_over_both_views_in_evaluation_only():
    network = build("narrow", SHAPE, 4, seed=0)
    images = torch.randn(6, *SHAPE)
    network.eval()
    one, other = network(images), network(images.flip(-1))
    network.set_up(network.whiten.filters, mirrored=True)
    torch.testing.assert_close(network(images), (one + other) / 2)
    torch.testing.assert_close(network(images), network(images.flip(-1)))
    # Batch norm's statistics move in training, so each call gets a network of its own.
    plain = copy.deepcopy(network)
    plain.set_up(network.whiten.filters, mirrored=False)
    torch.testing.assert_close(network.train()(images), plain.train()(images))


def test_all_networks_of_a_problem_share_filters_but_not_weights():
    x = coloured()
    standardise = Standardise.from_data(x)
    make = set_up_by(noisy_data(x), standardise, lambda number=0: build("narrow", SHAPE, 4, seed=number))
    first, second, again = make(0), make(1), make(0)
    assert isinstance(first, ColourNet)
    expected = first.whiten.filters_for(standardise(x))
    for network in (first, second, again):
        torch.testing.assert_close(network.whiten.filters, expected)
        assert bool(network.mirrored)
    assert not torch.equal(first.fc.weight, second.fc.weight)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    # A user's own images are not mirrored: b is no d.
    own = set_up_by(noisy_data(x, "none"), standardise, lambda number=0: build("narrow", SHAPE, 4, seed=0))
    assert not own().mirrored


def test_other_networks_are_made_as_they_were():
    x = coloured(4)
    made = set_up_by(
        noisy_data(x), Standardise.from_data(x), lambda number=0: build("resnet8", SHAPE, 4, seed=0)
    )
    torch.testing.assert_close(made().state_dict(), build("resnet8", SHAPE, 4, seed=0).state_dict())


def test_a_saved_model_has_its_filters_and_predicts_the_same(tmp_path):
    x = coloured()
    standardise = Standardise.from_data(x)
    make = set_up_by(noisy_data(x), standardise, lambda number=0: build("narrow", SHAPE, 4, seed=0))
    model = NoisyLabelModel(standardise, make(), None).eval()
    save_model(tmp_path / "model.safetensors", model, np.eye(4), np.eye(4))
    write_json(tmp_path / "config.json", {"model": ModelCard("narrow", SHAPE, np.arange(4)).to_json()})
    loaded = load_model(tmp_path).model
    torch.testing.assert_close(loaded.state_dict(), model.state_dict())
    with torch.no_grad():
        assert torch.equal(loaded(x)[0], model(x)[0])
