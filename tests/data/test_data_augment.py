import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trevision.data.augment import (
    alternating_flips,
    augment,
    crop_at,
    random_affine,
    random_crop,
    random_flip,
    warp,
)


def slow_crop(images: torch.Tensor, padding: int, tops: list[int], lefts: list[int]) -> torch.Tensor:
    """Pixel by pixel: what lies outside the image is zero."""
    n, _, height, width = images.shape
    result = torch.zeros_like(images)
    for k in range(n):
        for row in range(height):
            for column in range(width):
                source_row, source_column = row + tops[k] - padding, column + lefts[k] - padding
                if 0 <= source_row < height and 0 <= source_column < width:
                    result[k, :, row, column] = images[k, :, source_row, source_column]
    return result


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_crops_equal_a_pixel_loop(data):
    n, channels, height, width = (data.draw(st.integers(1, size)) for size in (4, 3, 5, 6))
    padding = data.draw(st.integers(0, 3))
    offsets = st.lists(st.integers(0, 2 * padding), min_size=n, max_size=n)
    tops, lefts = data.draw(offsets), data.draw(offsets)
    images = torch.arange(1, n * channels * height * width + 1).reshape(n, channels, height, width)
    images = images.to(data.draw(st.sampled_from([torch.uint8, torch.float32, torch.float64])))
    result = crop_at(images, padding, torch.tensor(tops), torch.tensor(lefts))
    assert result.dtype == images.dtype
    assert torch.equal(result, slow_crop(images, padding, tops, lefts))


def pictures(n: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.randint(1, 256, (n, 3, 8, 8), generator=torch.Generator().manual_seed(0)).to(dtype)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def offsets_of(image: torch.Tensor, crop: torch.Tensor, padding: int) -> tuple[int, int]:
    """The one offset at which `crop` lies in the padded `image`, by trying them all."""
    fits = [
        (top, left)
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
        if torch.equal(slow_crop(image[None], padding, [top], [left])[0], crop)
    ]
    assert len(fits) == 1
    return fits[0]


def test_random_crops_are_crops_at_offsets_of_their_own():
    images = pictures(40)
    crops = random_crop(images, 1, seeded(1))
    offsets = {offsets_of(image, crop, 1) for image, crop in zip(images, crops, strict=True)}
    assert len(offsets) == 9  # every offset turns up among 40 draws


def test_random_crops_draw_every_offset_equally_often():
    images = torch.zeros(18000, 1, 3, 3)
    images[:, 0, 1, 1] = 1
    counts = random_crop(images, 1, seeded(2)).sum(0).flatten()
    # 2000 expected for each of nine places, standard deviation 42.
    assert counts.sum() == 18000
    assert ((counts - 2000).abs() < 5 * 42).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_flips_mirror_about_half_of_the_images_and_leave_the_rest(dtype):
    images = pictures(400, dtype)
    result = random_flip(images, seeded(3))
    assert result.dtype == dtype
    mirrored = [
        torch.equal(new, old[:, :, torch.arange(7, -1, -1)]) for new, old in zip(result, images, strict=True)
    ]
    kept = [torch.equal(new, old) for new, old in zip(result, images, strict=True)]
    assert all(a != b for a, b in zip(mirrored, kept, strict=True))
    assert abs(sum(mirrored) - 200) < 5 * 10


def test_crop_flip_is_a_crop_of_four_pixels_then_a_flip():
    images = pictures(30)
    generator = seeded(4)
    expected = random_flip(random_crop(images, 4, generator), generator)
    assert torch.equal(augment(images, "crop-flip", seeded(4)), expected)
    assert not torch.equal(augment(images, "crop-flip", seeded(5)), expected)


def slow_warp(
    image: torch.Tensor, angle: float, scale: tuple[float, float], shift: tuple[float, float]
) -> torch.Tensor:
    """One image of one channel, pixel by pixel, each a mean of the four nearest to where it comes from."""
    height, width = image.shape
    result = torch.zeros(height, width)
    for row in range(height):
        for column in range(width):
            x, y = scale[0] * (column - (width - 1) / 2), scale[1] * (row - (height - 1) / 2)
            from_x = math.cos(angle) * x - math.sin(angle) * y + shift[0] + (width - 1) / 2
            from_y = math.sin(angle) * x + math.cos(angle) * y + shift[1] + (height - 1) / 2
            for near_y in (math.floor(from_y), math.floor(from_y) + 1):
                for near_x in (math.floor(from_x), math.floor(from_x) + 1):
                    if 0 <= near_y < height and 0 <= near_x < width:
                        share = (1 - abs(from_x - near_x)) * (1 - abs(from_y - near_y))
                        result[row, column] += share * image[near_y, near_x]
    return result


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_warped_images_equal_a_pixel_loop_also_where_they_are_not_square(dtype):
    images = torch.randint(0, 256, (3, 1, 7, 10), generator=seeded(1)).to(dtype)
    angles = torch.tensor([0.3, -0.1, 1.2])
    scales = torch.tensor([[1.1, 0.9], [1.0, 1.2], [0.8, 1.0]])
    shifts = torch.tensor([[1.5, -0.5], [0.0, 2.0], [-0.3, 0.2]])
    result = warp(images, angles, scales, shifts)
    for k in range(3):
        expected = slow_warp(images[k, 0].float(), float(angles[k]), tuple(scales[k]), tuple(shifts[k]))
        torch.testing.assert_close(result[k, 0], expected, atol=1e-2, rtol=1e-4)


def test_a_quarter_turn_and_a_whole_shift_only_move_pixels():
    images = pictures(2, torch.float32)
    quarter = warp(images, torch.full((2,), math.pi / 2), torch.ones(2, 2), torch.zeros(2, 2))
    torch.testing.assert_close(quarter, images.rot90(1, (2, 3)), atol=1e-2, rtol=1e-4)
    moved = warp(images, torch.zeros(2), torch.ones(2, 2), torch.tensor([[1.0, 0.0], [0.0, -2.0]]))
    expected = slow_crop(images, 2, [2, 0], [3, 2])
    torch.testing.assert_close(moved, expected, atol=1e-2, rtol=1e-4)


def test_a_random_distortion_is_small_and_another_for_each_image():
    image = torch.zeros(1, 1, 29, 29)
    image[0, 0, 14, 14] = 1.0  # the centre, which turns and stretches leave where it is
    warped = random_affine(image.expand(200, -1, -1, -1), seeded(1))[:, 0]
    places = torch.arange(29.0) - 14
    mass = warped.sum((1, 2))
    shifts = (
        torch.stack([(warped.sum(1) * places).sum(1), (warped.sum(2) * places).sum(1)], 1) / mass[:, None]
    )
    # Two pixels each way, turned by 12 degrees and stretched by a tenth: 2 (cos 12 + sin 12) / 0.9 = 2.64.
    assert shifts.abs().max() < 2.7
    assert shifts.abs().amax(0).min() > 1.5
    assert len(shifts.unique(dim=0)) == 200
    assert torch.equal(augment(image, "affine", seeded(4)), random_affine(image, seeded(4)))


def test_no_augmentation_returns_the_images_and_draws_nothing():
    images, generator = pictures(3), seeded(6)
    before = generator.get_state()
    assert augment(images, "none", generator) is images
    assert torch.equal(generator.get_state(), before)


def test_augmentation_leaves_the_given_images_and_the_global_state_alone():
    images = pictures(10)
    copy, state = images.clone(), torch.get_rng_state()
    augment(images, "crop-flip", seeded(7))
    assert torch.equal(images, copy)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (
            lambda: augment(pictures(1), "mixup", seeded(0)),
            "shift-flip, got 'mixup'",
        ),
        (lambda: augment(torch.zeros(3, 4), "crop-flip", seeded(0)), r"got \(3, 4\); tables"),
        (lambda: random_flip(torch.zeros(3, 4), seeded(0)), r"got \(3, 4\)"),
        (lambda: random_crop(pictures(1), -1, seeded(0)), "0 or more pixels, got -1"),
        (
            lambda: crop_at(pictures(2), 1, torch.tensor([0]), torch.tensor([0, 0])),
            "tops must hold 2 offsets",
        ),
        (
            lambda: crop_at(pictures(1), 1, torch.tensor([0]), torch.tensor([3])),
            r"lefts must lie in \[0, 2\]",
        ),
        (
            lambda: crop_at(pictures(1), 1, torch.tensor([-1]), torch.tensor([0])),
            r"tops must lie in \[0, 2\]",
        ),
    ],
)
def test_wrong_arguments_are_named(call, complaint):
    with pytest.raises(ValueError, match=complaint):
        call()


def test_an_empty_batch_stays_empty():
    assert augment(torch.zeros(0, 3, 8, 8), "crop-flip", seeded(0)).shape == (0, 3, 8, 8)


def test_flips_alternate_between_epochs_and_begin_with_a_fair_coin():
    epochs = [alternating_flips(400, seeded(3), epoch) for epoch in range(4)]
    assert torch.equal(epochs[0], epochs[2])
    assert torch.equal(epochs[0], ~epochs[1])
    assert torch.equal(epochs[1], epochs[3])
    # 400 fair coins: 200 heads, give or take four standard deviations of 10.
    assert 160 < int(epochs[0].sum()) < 240


def test_shifts_move_by_up_to_two_pixels_and_mirror_what_they_are_told_to():
    images = pictures(30)
    moved = augment(images, "shift", seeded(0))
    offsets = [offsets_of(image, crop, 2) for image, crop in zip(images, moved, strict=True)]
    assert {top for top, _ in offsets} == {left for _, left in offsets} == {0, 1, 2, 3, 4}
    mirrored = torch.arange(30) % 3 == 0
    told = augment(images, "shift-flip", seeded(0), mirrored)
    for k in range(30):
        assert torch.equal(told[k], moved[k].flip(-1) if mirrored[k] else moved[k])
    drawn = augment(images, "shift-flip", seeded(0))
    flipped = [torch.equal(one, other.flip(-1)) for one, other in zip(drawn, moved, strict=True)]
    assert 5 < sum(flipped) < 25
