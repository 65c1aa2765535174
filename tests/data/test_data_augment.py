import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trevision.data import augment, crop_at, random_crop, random_flip


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


def test_a_shift_is_a_crop_of_two_pixels_and_no_flip():
    images = pictures(30)
    assert torch.equal(augment(images, "shift", seeded(4)), random_crop(images, 2, seeded(4)))


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
        (lambda: augment(pictures(1), "mixup", seeded(0)), "one of none, shift, crop-flip, got 'mixup'"),
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
