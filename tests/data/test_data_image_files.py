"""Images decoded when needed: the same pixels in every order, random where asked, clear when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trevision.data.augment import augment
from trevision.data.decoding import PHOTOGRAPH, decode
from trevision.data.image_files import ImageFiles
from trevision.data.rows import augmented_batches, batches_of, joined_rows, select_rows
from trevision.files import DataError


def write(path: Path, size: tuple[int, int], seed: int = 0) -> None:
    """A smooth picture, so that JPEG and resizing keep its colours: a gradient in each direction."""
    width, height = size
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width)[None, :]
    pixels[..., 1] = np.linspace(0, 255, height)[:, None]
    pixels[..., 2] = 20 * seed
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, quality=95)


@pytest.fixture
def files(tmp_path) -> ImageFiles:
    sizes = [(64, 64), (100, 70), (70, 100), (300, 260), (900, 1200), (2100, 530), (80, 90)]
    for number, size in enumerate(sizes):
        write(tmp_path / "images" / f"{number}, ä.jpg", size, number)
    names = np.array([f"images/{number}, ä.jpg".encode() for number in range(len(sizes))])
    return ImageFiles(tmp_path, names, workers=2)


def test_rows_come_as_bytes_in_the_order_asked_for(files):
    assert files.shape == (7, 3, 224, 224)
    rows = torch.tensor([5, 0, 5, 3])
    images = files[rows]
    assert images.dtype == torch.uint8
    assert tuple(images.shape) == (4, 3, 224, 224)
    assert (images[:, 2].float().mean(dim=(1, 2)) - 20 * rows).abs().max() < 3
    assert torch.equal(images[0], images[2])
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(select_rows(files, rows)[torch.tensor([1, 3])], images[[1, 3]])


@pytest.mark.parametrize("row", range(7))
def test_the_centre_crop_is_the_middle_of_the_image_at_256_pixels(files, row):
    """Of the shorter side 224 of 256 parts remain: gradients run from 16/256 to 240/256 of the range."""
    with Image.open(files.path(row)) as image:
        width, height = image.size
    share = (
        PHOTOGRAPH.width / 256 * min(width, height) / width,
        PHOTOGRAPH.width / 256 * min(width, height) / height,
    )
    red, green, _ = files[torch.tensor([row])][0].float()
    for channel, axis, part in ((red, 0, share[0]), (green, 1, share[1])):
        profile = channel.mean(dim=axis)
        assert profile[0] == pytest.approx(255 * (0.5 - part / 2), abs=4)
        assert profile[-1] == pytest.approx(255 * (0.5 + part / 2), abs=4)


def test_draft_mode_gives_what_full_decoding_gives(files):
    with Image.open(files.path(4)) as image:  # 900 x 1200 pixels, which the decoder halves
        full = image.convert("RGB").resize((256, 341), Image.Resampling.BILINEAR).crop((16, 59, 240, 283))
    assert np.abs(np.asarray(full, dtype=float) - decode(files.path(4))).mean() < 2


def test_random_crops_cover_every_place_and_half_are_mirrored(files):
    generator = torch.Generator().manual_seed(0)
    rows = torch.zeros(400, dtype=torch.long)  # a square image: 33 places each way
    red, green, _ = next(augmented_batches(files, [rows], "crop-flip", generator)).float().unbind(dim=1)
    left, right, top = red[:, :, 0].mean(dim=1), red[:, :, -1].mean(dim=1), green[:, 0].mean(dim=1)
    mirrored = left > right
    assert 160 < mirrored.sum() < 240
    start = torch.where(mirrored, right, left) * 256 / 255
    for offsets in (start, top * 256 / 255):
        assert offsets.min() < 3
        assert offsets.max() > 29
        assert offsets.mean() == pytest.approx(16, abs=2)


def test_the_same_seed_gives_the_same_images_with_any_number_of_threads(files):
    parts = [
        torch.tensor([0, 4, 2]),
        torch.tensor([6]),
        torch.tensor([1, 1]),
        torch.tensor([5]),
        torch.tensor([3]),
    ]

    def epoch(workers: int, seed: int) -> list[torch.Tensor]:
        one = ImageFiles(files.folder, files.names, workers)
        return list(augmented_batches(one, parts, "crop-flip", torch.Generator().manual_seed(seed)))

    first, again, other = epoch(1, 3), epoch(3, 3), epoch(1, 4)
    assert [len(batch) for batch in first] == [3, 1, 2, 1, 1]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    plain = list(augmented_batches(files, parts, "none", torch.Generator()))
    assert all(torch.equal(batch, files[rows]) for batch, rows in zip(plain, parts, strict=True))


def test_all_rows_are_read_once_in_order(files):
    assert torch.equal(torch.cat(list(batches_of(files, 3))), files[torch.arange(7)])
    assert [len(part) for part in batches_of(files, 3)] == [3, 3, 1]


def test_images_behind_those_of_another_folder_are_still_files(files, tmp_path):
    Image.new("RGB", (300, 300), (200, 0, 0)).save(tmp_path / "other.png")
    others = ImageFiles(tmp_path, np.array([b"other.png"]))
    both = joined_rows(files, others)
    assert isinstance(both, ImageFiles)
    assert torch.equal(
        both[torch.tensor([0, len(files)])], torch.cat([files[torch.tensor([0])], others[torch.tensor([0])]])
    )


def test_grey_and_four_colour_jpegs_become_rgb(tmp_path):
    for mode in ("L", "CMYK"):
        Image.new(mode, (50, 60), 100 if mode == "L" else (0, 0, 0, 155)).save(tmp_path / f"{mode}.jpg")
        pixels = decode(tmp_path / f"{mode}.jpg")
        assert pixels.shape == (224, 224, 3)
        assert np.abs(pixels.astype(int) - 100).max() < 4


def test_damaged_and_missing_files_are_named_in_one_line(files):
    content = files.path(3).read_bytes()
    files.path(3).write_bytes(content[: len(content) // 2])
    files.path(1).write_bytes(b"no image at all")
    files.path(2).unlink()
    for row, message in ((3, "truncated"), (1, "cannot identify"), (2, "does not exist")):
        with pytest.raises(DataError, match=message) as error:
            list(files.batches([torch.tensor([0]), torch.tensor([0, row])]))
        assert str(files.path(row)) in str(error.value)
        assert "\n" not in str(error.value)


def test_leaving_an_epoch_early_leaves_no_threads_behind(files):
    import threading

    images = files.batches([torch.tensor([row]) for row in range(7)])
    next(images)
    images.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


def test_image_files_are_moved_but_not_mirrored_by_shift(files):
    parts = [torch.arange(len(files))]
    (plain,) = augmented_batches(files, parts, "none", torch.Generator())
    (moved,) = augmented_batches(files, parts, "shift", torch.Generator().manual_seed(0))
    expected = augment(plain, "shift", torch.Generator().manual_seed(0))
    assert torch.equal(moved, expected)
    everyone = torch.ones(len(files), dtype=torch.bool)
    (turned,) = augmented_batches(files, parts, "shift-flip", torch.Generator().manual_seed(0), everyone)
    assert torch.equal(turned, expected.flip(-1))
