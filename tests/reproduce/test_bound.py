"""Theorem 1's bound, against closed forms and explicit matrices; the gap, against a loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from trevision.cli import main
from trevision.data.load import load
from trevision.files import DataError
from trevision.networks.choose import build
from trevision.networks.lenet import LeNet5
from trevision.networks.standardise import Standardise
from trevision.reproduce.bound import Bound, Layer, bound_of_run, is_valid, linear_layers, measure
from trevision.runs.prepare import prepare
from trevision.runs.run import run
from trevision.runs.settings import Hardware, Settings, settings_of
from trevision.training.model import NoisyLabelModel
from trevision.training.model_files import load_model


def tiny(*weights: list[list[float]]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for weight in weights:
        values = torch.tensor(weight)
        layer = nn.Linear(values.shape[1], values.shape[0], bias=False)
        layer.weight.data = values
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_two_layers_set_by_hand_have_the_bound_worked_out_by_hand():
    network = tiny([[3.0, 0.0], [0.0, 4.0]], [[1.0, 2.0], [2.0, 0.0], [4.0, 0.0]])  # norms 5 and 5
    bound = Bound(
        linear_layers(network, (2,)), input_norm=2.0, loss_bound=1.5, num_classes=3, rows=100, delta=0.1
    )
    # 2 * 2 * 3 * 1 * (sqrt(4 ln 2) + 1) * 25 / 10 and 3 * 1.5 * sqrt(ln 10 / 200)
    assert bound.complexity == pytest.approx(30 * 2.6651092223153956, rel=1e-9)
    assert bound.chance == pytest.approx(4.5 * 0.10729830131446737, rel=1e-9)
    assert bound.total == pytest.approx(79.953276669 + 0.482842356, rel=1e-8)
    assert bound.total_with_biases == bound.total  # there are none


def test_doubling_one_layer_doubles_the_first_term_and_leaves_the_second():
    layers = linear_layers(build("mlp", (8,), 4, seed=0), (8,))
    one = Bound(layers, 3.0, 2.0, 4, 50)
    network = build("mlp", (8,), 4, seed=0)
    with torch.no_grad():
        network.layers[2].weight.mul_(2)
    two = Bound(linear_layers(network, (8,)), 3.0, 2.0, 4, 50)
    assert two.complexity == pytest.approx(2 * one.complexity, rel=1e-6)
    assert two.chance == one.chance
    # Four times the rows halve both terms.
    assert replace(one, rows=200).total == pytest.approx(one.total / 2, rel=1e-12)


def test_biases_are_weights_of_a_constant_input():
    """The augmented network, built out loud, has the same outputs and the norms that are claimed."""
    network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    first = torch.zeros(6, 4)
    first[:5, :3], first[:5, 3], first[5, 3] = network[0].weight.data, network[0].bias.data, 1.0
    last = torch.cat([network[2].weight.data, network[2].bias.data[:, None]], dim=1)
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    extended = torch.cat([x, torch.ones(7, 1)], dim=1)
    torch.testing.assert_close(torch.relu(extended @ first.T) @ last.T, network(x))
    b = x.norm(dim=1).max().item()
    bound = Bound(linear_layers(network, (3,)), b, 1.0, 2, 7)
    without = Bound(
        (Layer("a", 0, first.norm().item(), 0), Layer("b", 0, last.norm().item(), 0)),
        extended.norm(dim=1).max().item(), 1.0, 2, 7,
    )  # fmt: skip
    assert bound.total_with_biases == pytest.approx(without.total, rel=1e-5)
    assert bound.total_with_biases > bound.total


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(3, 1, 1, 1), (5, 1, 2, 1), (3, 2, 1, 1), ((2, 3), (1, 2), (0, 2), 2)],
)
def test_a_convolution_has_the_norm_of_its_matrix(kernel, stride, padding, dilation):
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, kernel, stride, padding, dilation)
    (layer,) = linear_layers(conv, (2, 7, 9))
    # The matrix, a column a basis image.
    basis = torch.eye(2 * 7 * 9).view(-1, 2, 7, 9)
    constant = conv(torch.zeros(1, 2, 7, 9))
    matrix = (conv(basis) - constant).flatten(1)
    assert layer.norm == pytest.approx(matrix.norm().item(), rel=1e-5)
    assert layer.bias_norm == pytest.approx(constant.norm().item(), rel=1e-5)
    assert layer.kernel_norm == pytest.approx(conv.weight.norm().item(), rel=1e-6)
    assert layer.norm > layer.kernel_norm


def test_lenet_has_five_layers_and_its_first_convolution_sees_the_image():
    network = LeNet5(10, 1, 28)
    layers = linear_layers(network, (1, 28, 28))
    assert [layer.name for layer in layers] == ["conv1", "conv2", "fc1", "fc2", "fc3"]
    for place, size in ((0, (1, 28, 28)), (1, (6, 14, 14))):
        conv = (network.conv1, network.conv2)[place]
        basis = torch.eye(math.prod(size)).view(-1, *size)
        matrix = conv(basis) - conv(torch.zeros(1, *size))
        assert layers[place].norm == pytest.approx(matrix.norm().item(), rel=1e-4)


def test_a_network_beyond_the_theorem_is_refused_by_name():
    with pytest.raises(ValueError, match=r"chain of linear layers.*BatchNorm2d as bn1"):
        linear_layers(build("resnet18", (3, 32, 32), 10, seed=0), (3, 32, 32))


def test_measured_risk_loss_and_norm_are_those_of_a_loop(blobs):
    network = build("mlp", (8,), 4, seed=2)
    x, labels = torch.from_numpy(blobs.x), torch.from_numpy(blobs.noisy)
    model = NoisyLabelModel(Standardise.from_data(x), network, None)
    measured = measure(model, torch.from_numpy(blobs.transition).float(), x, labels)
    mean, scale = blobs.x.mean(axis=0), blobs.x.std(axis=0)
    risk, worst, longest = 0.0, 0.0, 0.0
    for row, y in zip(blobs.x, blobs.noisy, strict=True):
        seen = (row - mean) / scale
        logits = network(torch.from_numpy(seen.astype(np.float32))[None])[0].detach().double().numpy()
        g = np.exp(logits - logits.max())
        g /= g.sum()
        noisy = sum(blobs.transition[i, y] * g[i] for i in range(4))
        risk += g[y] / noisy * -math.log(g[y]) / len(blobs.x)
        worst = max(worst, -math.log(g[y]))
        longest = max(longest, math.sqrt(sum(v * v for v in seen)))
    assert (measured.risk, measured.largest_loss, measured.input_norm) == pytest.approx(
        (risk, worst, longest), rel=1e-4
    )


def test_validity_is_the_theorems_condition_on_t():
    assert is_valid(np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]]))
    assert not is_valid(np.array([[0.5, 0.5], [0.1, 0.9]]))  # not above the others
    assert not is_valid(np.array([[1.1, -0.1], [0.1, 0.9]]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, blobs):
    folder = tmp_path_factory.mktemp("bound")
    np.savez(folder / "blobs.npz", x=blobs.x, y=blobs.clean, x_test=blobs.test_x, y_test=blobs.test_y)
    settings = Settings(noise="pair-30", seed=5, method="reweight", train_size=300)
    run(str(folder / "blobs.npz"), settings, folder / "a", Hardware(accelerator="cpu"))
    return folder, settings


def test_a_run_is_bounded_on_the_rows_it_was_trained_on(finished, capsys):
    folder, settings = finished
    found = bound_of_run(folder / "a", delta=0.1)
    saved = load_model(folder / "a")
    assert settings_of(saved.config) == (str(folder / "blobs.npz"), settings)
    data, _ = prepare(load(folder / "blobs.npz"), settings)
    matrix = torch.from_numpy(saved.transition).float()
    risks = []
    for x, y in ((data.train_x, data.train_y), (data.valid_x, data.valid_y)):
        g = saved.model(x)[0].softmax(dim=1).detach()
        given = g[torch.arange(len(y)), y]
        risks.append(float((given / (g @ matrix)[torch.arange(len(y)), y] * -given.log()).mean()))
    assert (found.gap.training_risk, found.gap.validation_risk) == pytest.approx(risks, rel=1e-4)
    assert found.gap.gap == pytest.approx(risks[1] - risks[0], abs=1e-6)
    assert (found.bound.rows, found.bound.num_classes, found.bound.depth) == (270, 4, 3)
    assert found.gap.gap < found.bound.total

    main(["bound", str(folder / "a"), "--delta", "0.1"])
    printed = capsys.readouterr().out
    for value in (found.bound.complexity, found.bound.chance, found.bound.total, found.gap.gap):
        assert f"{value:.4g}" in printed


def test_what_cannot_be_bounded_is_told_in_a_line(finished, tmp_path):
    folder, _ = finished
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1, got 5"):
        bound_of_run(folder / "a", delta=5)
    from trevision import TRevisionClassifier

    saved = TRevisionClassifier.load(folder / "a")
    saved.save(tmp_path / "classifier")
    with pytest.raises(DataError, match="does not say what it was trained on"):
        bound_of_run(tmp_path / "classifier")
