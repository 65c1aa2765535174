"""ResNets: names, shapes and counts by hand; forward passes against a loop over the state dict."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trevision.networks.choose import build
from trevision.networks.resnet import ResNet, resnet8, resnet18, resnet34, resnet50

MAKERS = {"resnet8": resnet8, "resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}
DEPTHS = {
    "resnet8": (1, 1, 1),
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
}


def batch_norm_names(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def torchvision_resnet50_parameters(num_classes: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's ResNet-50, by its naming rule."""
    listed: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7)}
    listed.update(batch_norm_names("bn1", 64))
    incoming = 64
    for stage, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True), start=1):
        for block in range(blocks):
            prefix = f"layer{stage}.{block}"
            listed[f"{prefix}.conv1.weight"] = (width, incoming, 1, 1)
            listed.update(batch_norm_names(f"{prefix}.bn1", width))
            listed[f"{prefix}.conv2.weight"] = (width, width, 3, 3)
            listed.update(batch_norm_names(f"{prefix}.bn2", width))
            listed[f"{prefix}.conv3.weight"] = (4 * width, width, 1, 1)
            listed.update(batch_norm_names(f"{prefix}.bn3", 4 * width))
            if block == 0:
                listed[f"{prefix}.downsample.0.weight"] = (4 * width, incoming, 1, 1)
                listed.update(batch_norm_names(f"{prefix}.downsample.1", 4 * width))
            incoming = 4 * width
    listed["fc.weight"] = (num_classes, 2048)
    listed["fc.bias"] = (num_classes,)
    return listed


def test_resnet50_has_torchvisions_parameters_in_torchvisions_order() -> None:
    ours = [(name, tuple(p.shape)) for name, p in resnet50(1000).named_parameters()]
    assert len(ours) == 161
    assert ours == list(torchvision_resnet50_parameters(1000).items())


@pytest.mark.parametrize("name", MAKERS)
def test_buffers_are_the_three_of_each_batch_normalisation(name: str) -> None:
    blocks = sum(DEPTHS[name])
    # Stem; two (three) in each block; one for each projecting shortcut: the first stage of the
    # basic networks needs none, having its channels from the stem.
    norms = 1 + 3 * blocks + 4 if name == "resnet50" else 1 + 2 * blocks + len(DEPTHS[name]) - 1
    buffers = dict(MAKERS[name](10).named_buffers())
    assert len(buffers) == 3 * norms
    for kind in ("running_mean", "running_var", "num_batches_tracked"):
        assert sum(key.endswith(f".{kind}") for key in buffers) == norms
    assert "bn1.running_mean" in buffers
    assert "layer2.0.downsample.1.running_var" in buffers
    assert "layer1.0.downsample.1.running_var" in buffers or name != "resnet50"


def basic_count(depths: tuple[int, ...], num_classes: int, widths=(64, 128, 256, 512)) -> int:
    """Parameters of a basic-block ResNet with a 3x3 stem on 3 channels, from the architecture."""
    incoming = widths[0]
    total = 3 * incoming * 9 + 2 * incoming
    for blocks, width in zip(depths, widths, strict=True):
        total += incoming * width * 9 + width * width * 9 + 4 * width  # the first block
        total += (blocks - 1) * (2 * width * width * 9 + 4 * width)
        if incoming != width:
            total += incoming * width + 2 * width  # its projecting shortcut
        incoming = width
    return total + widths[-1] * num_classes + num_classes


def test_parameter_counts_are_those_calculated_by_hand() -> None:
    assert basic_count((1, 1, 1), 10, (16, 32, 64)) == 78_042
    assert basic_count((2, 2, 2, 2), 10) == 11_173_962
    assert basic_count((3, 4, 6, 3), 100) == 21_328_292
    # ResNet-50 by stages: stem, bottlenecks, 1000 classes.
    stem = 64 * 3 * 49 + 128
    stages = 0
    incoming = 64
    for blocks, width in zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True):
        outgoing = 4 * width
        inner = width * width * 9 + width * outgoing + 4 * width + 2 * outgoing
        stages += incoming * width + inner + incoming * outgoing + 2 * outgoing
        stages += (blocks - 1) * (outgoing * width + inner)
        incoming = outgoing
    assert stem + stages + 2048 * 1000 + 1000 == 25_557_032

    for network, expected in (
        (resnet8(10), 78_042),
        (resnet18(10), 11_173_962),
        (resnet34(100), 21_328_292),
        (resnet50(1000), 25_557_032),
    ):
        assert sum(p.numel() for p in network.parameters()) == expected


def reference_logits(state: dict[str, Tensor], images: Tensor, depths: tuple[int, ...]) -> Tensor:
    """A ResNet in evaluation mode as a plain loop over named tensors, written from He et al. 2016."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, weight, bias = (
            state[f"{name}.{part}"].view(1, -1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * weight + bias

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        kernel = state[f"{name}.weight"]
        return F.conv2d(x, kernel, stride=stride, padding=(kernel.shape[-1] - 1) // 2)

    bottleneck = "layer1.0.conv3.weight" in state
    halved = bottleneck or len(depths) == 3
    x = norm(conv(images, "conv1", stride=2 if halved else 1), "bn1").clamp(min=0)
    if bottleneck:
        x = F.max_pool2d(x, kernel_size=3, stride=2, padding=1)
    for stage, blocks in enumerate(depths, start=1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            shortcut = x
            if f"{at}.downsample.0.weight" in state:
                shortcut = norm(conv(x, f"{at}.downsample.0", stride), f"{at}.downsample.1")
            if bottleneck:
                y = norm(conv(x, f"{at}.conv1"), f"{at}.bn1").clamp(min=0)
                y = norm(conv(y, f"{at}.conv2", stride), f"{at}.bn2").clamp(min=0)
                y = norm(conv(y, f"{at}.conv3"), f"{at}.bn3")
            else:
                y = norm(conv(x, f"{at}.conv1", stride), f"{at}.bn1").clamp(min=0)
                y = norm(conv(y, f"{at}.conv2"), f"{at}.bn2")
            x = (y + shortcut).clamp(min=0)
    return x.mean(dim=(2, 3)) @ state["fc.weight"].T + state["fc.bias"]


def disturb_batch_norms(network: ResNet, generator: torch.Generator) -> None:
    """Fresh normalisations are the identity, which would hide a mistake in their order."""
    for name, tensor in network.state_dict().items():
        if tensor.ndim == 1 and not name.startswith("fc."):
            low = -0.2 if name.endswith(("running_mean", "bias")) else 0.8
            tensor.uniform_(low, low + 0.4, generator=generator)


@pytest.mark.parametrize("name", MAKERS)
def test_logits_are_those_of_a_loop_over_the_named_tensors(name: str) -> None:
    generator = torch.Generator().manual_seed(11)
    network = build(name, (3, 33, 32), 5, seed=4).eval()
    assert isinstance(network, ResNet)
    disturb_batch_norms(network, generator)
    images = torch.randn((2, 3, 33, 32), generator=generator)
    with torch.inference_mode():
        expected = reference_logits(network.state_dict(), images, DEPTHS[name])
        assert expected.std() > 1e-2
        torch.testing.assert_close(network(images), expected, rtol=1e-3, atol=1e-3 * float(expected.std()))


@pytest.mark.parametrize("name", MAKERS)
def test_every_parameter_receives_a_gradient(name: str) -> None:
    network = build(name, (4, 32, 32), 6, seed=0)
    images = torch.randn((2, 4, 32, 32), generator=torch.Generator().manual_seed(0))
    logits = network(images)
    assert logits.shape == (2, 6)
    F.cross_entropy(logits, torch.tensor([1, 5])).backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


def test_convolutions_are_drawn_kaiming_normal_by_fan_out() -> None:
    network = build("resnet18", (3, 32, 32), 10, seed=0)
    for key, weight in network.named_parameters():
        if weight.ndim != 4 or weight.numel() < 30_000:
            continue
        expected = (2 / (weight.shape[0] * weight.shape[2] * weight.shape[3])) ** 0.5
        # The standard deviation of n normal draws errs by 1/sqrt(2n): five of those.
        assert float(weight.detach().std()) == pytest.approx(expected, rel=5 / (2 * weight.numel()) ** 0.5), (
            key
        )
