"""Standardisation against numpy, at little memory."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import trevision.networks.standardise as room
from trevision.networks.standardise import Standardise


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_are_standardised_by_the_numpy_formula(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (50, channels, 9, 7), dtype=np.uint8)
    mean = images.astype(np.float64).mean(axis=(0, 2, 3)).astype(np.float32)
    scale = images.astype(np.float64).std(axis=(0, 2, 3)).astype(np.float32)
    standardise = Standardise.from_data(torch.from_numpy(images))
    assert standardise.mean.shape == standardise.scale.shape == (channels, 1, 1)
    np.testing.assert_allclose(standardise.mean.flatten().numpy(), mean, rtol=1e-6)
    np.testing.assert_allclose(standardise.scale.flatten().numpy(), scale, rtol=1e-6)

    standardised = standardise(torch.from_numpy(images))
    expected = (images.astype(np.float32) - standardise.mean.numpy()) / standardise.scale.numpy()
    assert standardised.dtype == torch.float32
    assert standardised.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(standardised.numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64])
def test_tables_of_any_number_type_are_standardised_by_feature(dtype: torch.dtype) -> None:
    table = (torch.randn(200, 4, generator=torch.Generator().manual_seed(0)) * 30).to(dtype)
    before = table.clone()
    standardised = Standardise.from_data(table)(table)
    assert standardised.dtype == torch.float32
    values = table.numpy().astype(np.float64)
    expected = (values - values.mean(axis=0)) / values.std(axis=0)
    np.testing.assert_allclose(standardised.numpy(), expected, atol=1e-5)
    assert torch.equal(table, before)


@pytest.mark.parametrize("shape", [(37, 5), (37, 2, 3, 4), (37, 3, 2)])
@pytest.mark.parametrize("chunk_elements", [1, 50, 10_000])
def test_statistics_do_not_depend_on_the_chunks(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], chunk_elements: int
) -> None:
    monkeypatch.setattr(room, "CHUNK_ELEMENTS", chunk_elements)
    # A large mean beside a small spread: sums of squares would lose every digit of the latter.
    data = 1e7 + torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    axes, kept = ((0, 2, 3), (shape[1], 1, 1)) if len(shape) == 4 else ((0,), shape[1:])
    standardise = Standardise.from_data(data)
    np.testing.assert_allclose(
        standardise.scale.numpy(), data.numpy().std(axis=axes).reshape(kept), rtol=1e-6
    )
    np.testing.assert_allclose(
        standardise.mean.numpy(), data.numpy().mean(axis=axes).reshape(kept), rtol=1e-6
    )


def test_constant_features_are_centred_with_scale_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CHUNK_ELEMENTS", 21)
    # The mean of many 0.1 is not exactly 0.1; its rounding must not become the scale.
    table = torch.full((1001, 3), 0.1, dtype=torch.float64)
    table[:, 1] = torch.arange(1001.0)
    standardise = Standardise.from_data(table)
    assert standardise.scale[[0, 2]].tolist() == [1.0, 1.0]
    assert standardise(table)[:, [0, 2]].abs().max() < 1e-15
    assert standardise(table.float())[:, [0, 2]].abs().max() == 0
    assert float(standardise.scale[1]) == pytest.approx(((1001**2 - 1) / 12) ** 0.5)  # discrete uniform


def test_numbers_that_single_precision_cannot_tell_apart_are_centred_first() -> None:
    stamps = 1.7e9 + torch.arange(200, dtype=torch.float64)[:, None]
    assert len(stamps.float().unique()) == 3
    centred = Standardise.from_data(stamps)(stamps)
    assert centred.dtype == torch.float32
    expected = (stamps - stamps.mean()) / stamps.std(correction=0)
    torch.testing.assert_close(centred.double(), expected, atol=1e-6, rtol=0)


def test_a_large_set_of_bytes_is_never_held_as_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    plain_to = torch.Tensor.to

    def watched_to(tensor: torch.Tensor, *args: object, **options: object) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, tensor.numel())
        return plain_to(tensor, *args, **options)

    monkeypatch.setattr(torch.Tensor, "to", watched_to)
    images = torch.zeros((20_000, 1, 28, 28), dtype=torch.uint8)
    images[::2] = 200
    standardise = Standardise.from_data(images)
    assert 784 <= largest <= images.numel() / 3
    assert standardise.mean.item() == 100
    assert standardise.scale.item() == 100


def test_identity_changes_the_type_and_order_but_no_value() -> None:
    images = torch.randint(
        0, 256, (3, 3, 5, 6), generator=torch.Generator().manual_seed(2), dtype=torch.uint8
    )
    same = Standardise.identity((3, 5, 6))(images)
    assert torch.equal(same, images.float())
    assert same.is_contiguous(memory_format=torch.channels_last)
    table = torch.randn(4, 7, generator=torch.Generator().manual_seed(2))
    assert torch.equal(Standardise.identity((7,))(table), table)


def test_gradients_flow_to_images_of_floats_and_leave_them_unchanged() -> None:
    standardise = Standardise(torch.tensor([1.0, 2.0]).view(2, 1, 1), torch.tensor([4.0, 0.5]).view(2, 1, 1))
    images = torch.ones(2, 2, 3, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(standardise(images).sum(), images)
    assert torch.equal(gradient[:, 0], torch.full((2, 3, 3), 0.25))
    assert torch.equal(gradient[:, 1], torch.full((2, 3, 3), 2.0))
    assert (images == 1).all()


@pytest.mark.parametrize("shape", [(3, 5, 6), (7,), (2, 4)])
def test_saved_statistics_load_into_an_identity_of_the_same_shape(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    data = torch.randn((20, *shape), generator=torch.Generator().manual_seed(3)) * 5 + 2
    fitted = Standardise.from_data(data)
    save_file(fitted.state_dict(), tmp_path / "statistics.safetensors")
    loaded = Standardise.identity(shape)
    loaded.load_state_dict(load_file(tmp_path / "statistics.safetensors"))
    assert torch.equal(loaded(data), fitted(data))
    assert list(loaded.parameters()) == []


def test_statistics_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(
        ValueError, match="scale must be finite and positive, got values down to 0; a constant"
    ):
        Standardise(torch.zeros(2), torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"same shape, got \(2,\) and \(3,\)"):
        Standardise(torch.zeros(2), torch.ones(3))
    with pytest.raises(ValueError, match="mean must be finite"):
        Standardise(torch.tensor([float("nan")]), torch.ones(1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_data_with_gaps_are_refused_by_feature(bad: float) -> None:
    table = torch.randn(10, 4, generator=torch.Generator().manual_seed(4))
    table[6, 2] = bad
    with pytest.raises(ValueError, match=r"x must hold finite numbers, .* in feature 2 \(1 of 4 features\)"):
        Standardise.from_data(table)


@pytest.mark.parametrize("shape", [(10,), (0, 4), ()])
def test_data_without_samples_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="x must have the shape"):
        Standardise.from_data(torch.zeros(shape))
