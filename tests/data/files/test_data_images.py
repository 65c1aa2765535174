"""Folders and tables of images: their order, their size and colours, and what does not fit in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from trevision.data.files import image_lists
from trevision.data.files.reading import Reading
from trevision.data.image_files import ImageFiles
from trevision.data.load import load, load_rows
from trevision.files import DataError
from trevision.networks.choose import build, choose
from trevision.training.inputs import standardise_for


def picture(path: Path, size: tuple[int, int], mode: str = "L", value: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(path)
    return path


def folder_of(tmp_path: Path, *sizes: tuple[int, int], mode: str = "L") -> Path:
    for row, size in enumerate(sizes):
        for kind in ("b", "a"):
            picture(
                tmp_path / "set" / kind / f"{row}.png", size, mode, 10 * row + (100 if kind == "b" else 0)
            )
    return tmp_path / "set"


def test_rows_stand_by_class_and_name_and_values_are_the_pixels(tmp_path):
    folder = folder_of(tmp_path, (6, 4), (6, 4), (6, 4))
    picture(folder / "a" / "deep" / "9.png", (6, 4), value=77)
    dataset = load(folder)
    expected = ["a/0.png", "a/1.png", "a/2.png", "a/deep/9.png", "b/0.png", "b/1.png", "b/2.png"]
    assert dataset.names.tolist() == expected
    assert dataset.train_y.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert dataset.train_x.shape == (7, 1, 4, 6)
    assert dataset.train_x.dtype == torch.uint8
    assert dataset.train_x[:, 0, 0, 0].tolist() == [0, 10, 20, 77, 100, 110, 120]
    assert load_rows(folder, shape=(1, 4, 6)).x.equal(dataset.train_x)


@pytest.mark.parametrize(
    ("sizes", "mode", "image_size", "shape"),
    [
        ([(40, 40)] * 2, "L", None, (1, 40, 40)),
        ([(64, 20)] * 2, "RGB", None, (3, 20, 64)),
        ([(65, 65)] * 2, "L", None, (1, 64, 64)),
        ([(40, 40), (41, 40)], "RGB", None, (3, 64, 64)),
        ([(40, 40)] * 2, "L", 28, (1, 28, 28)),
    ],
)
def test_the_size_is_the_images_own_if_small_and_equal_and_a_network_takes_it(
    tmp_path, sizes, mode, image_size, shape
):
    dataset = load(folder_of(tmp_path, *sizes, mode=mode), reading=Reading(image_size=image_size))
    assert dataset.train_x.shape[1:] == shape
    network = build(choose(shape), shape, 2, seed=0).eval()
    assert network(dataset.train_x[:2].float()).shape == (2, 2)


def test_one_colour_image_makes_all_of_them_colours(tmp_path):
    folder = folder_of(tmp_path, (5, 5), (5, 5))
    picture(folder / "a" / "red.png", (5, 5), "RGB", 200)
    dataset = load(folder)
    assert dataset.train_x.shape[1:] == (3, 5, 5)
    assert dataset.train_x[dataset.names.tolist().index("a/red.png"), :, 0, 0].tolist() == [200, 0, 0]
    assert dataset.train_x[dataset.names.tolist().index("b/1.png"), :, 0, 0].tolist() == [110, 110, 110]


def test_an_image_is_resized_by_its_shorter_side_and_its_centre_is_kept(tmp_path):
    pixels = np.zeros((20, 60), dtype=np.uint8)
    pixels[:, 20:40] = 200  # the middle square
    for kind in ("a", "b"):
        (tmp_path / "set" / kind).mkdir(parents=True)
        for row in range(2):
            Image.fromarray(pixels).save(tmp_path / "set" / kind / f"{row}.png")
    x = load(tmp_path / "set", reading=Reading(image_size=10)).train_x
    assert x.shape == (4, 1, 10, 10)
    assert (x[:, :, :, 1:-1] == 200).all()


def test_deep_grey_transparent_and_turned_images_look_as_they_should(tmp_path):
    folder = folder_of(tmp_path, (6, 6), (6, 6))
    Image.fromarray(np.full((6, 6), 51200, dtype=np.uint16)).save(folder / "a" / "deep.png")
    Image.new("LA", (6, 6), (0, 0)).save(folder / "a" / "clear.png")
    turned = np.zeros((6, 6), dtype=np.uint8)
    turned[:, :3] = 250
    exif = Image.Exif()
    exif[0x0112] = 6  # held by its right side: upright after a quarter turn clockwise
    Image.fromarray(turned).save(folder / "a" / "turned.jpg", exif=exif, quality=100)
    dataset = load(folder)
    images = dict(zip(dataset.names, dataset.train_x[:, 0], strict=True))
    assert (images["a/deep.png"] == 200).all()
    assert (images["a/clear.png"] == 255).all()
    assert (images["a/turned.jpg"][:3] > 200).all()
    assert (images["a/turned.jpg"][3:] < 50).all()


def test_images_too_many_for_memory_stay_files_with_the_same_pixels(tmp_path, monkeypatch):
    folder = folder_of(tmp_path, *[(12, 9)] * 5)
    (folder / "a" / "2.png").write_bytes(b"no image")
    whole = load(folder)
    monkeypatch.setattr(image_lists, "MOST_BYTES", 100)
    files = load(folder)
    assert isinstance(files.train_x, ImageFiles)
    assert tuple(files.train_x.shape) == tuple(whole.train_x.shape) == (9, 1, 9, 12)
    assert files.names.tolist() == whole.names.tolist()
    assert files.notes == whole.notes
    assert torch.equal(files.train_x[torch.arange(9)], whole.train_x)
    torch.testing.assert_close(standardise_for(files.train_x).mean, standardise_for(whole.train_x).mean)


def test_a_table_of_paths_may_name_rows_and_say_which_are_right(tmp_path):
    folder = folder_of(tmp_path, *[(5, 5)] * 4)
    paths = sorted(path.relative_to(tmp_path).as_posix() for path in folder.rglob("*.png"))
    table = pd.DataFrame({"image": paths, "label": [Path(p).parent.name for p in paths], "id": range(50, 58)})
    table["sure"] = [i % 4 == 0 for i in range(8)]
    table.to_parquet(tmp_path / "list.parquet")
    dataset = load(tmp_path / "list.parquet", reading=Reading(name_column="id", clean_column="sure"))
    assert dataset.row_numbers.tolist() == [1, 2, 3, 5, 6, 7]
    assert dataset.names.tolist() == ["51", "52", "53", "55", "56", "57"]
    assert dataset.trusted_y.tolist() == [0, 1]
    assert dataset.trusted_x[:, 0, 0, 0].tolist() == [0, 100]


@pytest.mark.parametrize("kind", ["absolute", "..", "hidden .."])
def test_paths_out_of_the_folder_of_a_table_are_refused_unless_allowed(tmp_path, kind):
    for row in range(4):
        picture(tmp_path / "inside" / f"{row}.png", (6, 4), value=row)
    outside = picture(tmp_path / "outside" / "secret.png", (6, 4), value=9)
    (tmp_path / "inside" / "x").mkdir()
    path = {
        "absolute": str(outside),
        "..": "../outside/secret.png",
        "hidden ..": "x/../../outside/secret.png",
    }[kind]
    paths = [*(f"{row}.png" for row in range(4)), str(tmp_path / "inside" / "0.png"), "x/../1.png"]
    table = tmp_path / "inside" / "list.csv"
    frame = pd.DataFrame({"path": paths, "label": list("ab") * 3})
    frame.to_csv(table, index=False)
    assert len(load(table).train_x) >= 5  # what stays below it may be written in any way
    pd.concat([frame, pd.DataFrame({"path": [path], "label": ["a"]})]).to_csv(table, index=False)
    with pytest.raises(DataError, match=r"row 6 leads out of the folder .* --paths-anywhere"):
        load(table)
    assert load(table, reading=Reading(paths_anywhere=True)).train_x.max() == 9


def test_a_second_folder_gives_trusted_images_in_the_same_size(tmp_path):
    folder = folder_of(tmp_path / "one", (8, 8), (8, 8))
    picture(tmp_path / "two" / "b" / "x.png", (30, 30), value=9)
    picture(tmp_path / "two" / "unknown" / "y.png", (30, 30), value=9)
    dataset = load(folder, reading=Reading(clean_source=str(tmp_path / "two")))
    assert dataset.trusted_x.shape == (1, 1, 8, 8)
    assert dataset.trusted_y.tolist() == [1]
    assert any("1 row left out" in note for note in dataset.notes)


def test_a_table_of_a_model_of_images_needs_paths(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="without paths of images"):
        load_rows(tmp_path / "t.csv", shape=(1, 8, 8))
    with pytest.raises(DataError, match=r"rows of shape \(3,\)"):
        load_rows(folder_of(tmp_path, (4, 4)), shape=(3,))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0.0, 0.2], [0.6, 1.0]], np.float32), [0, 51, 153, 255]),
        (np.array([[0.0, 51.0], [153.0, 255.0]], np.float32), [0, 51, 153, 255]),
        (np.array([[-1.0, 0.0], [0.0, 1.0]], np.float32), [0, 128, 128, 255]),
        (np.array([[0, 13107], [39321, 65535]], np.int32), [0, 51, 153, 255]),
        (np.array([[0, 200_000], [600_000, 1_000_000]], np.int32), [0, 51, 153, 255]),
    ],
    ids=["share", "bytes", "signed", "16 bits in 32", "32 bits"],
)
def test_pixels_of_more_than_8_bits_keep_their_shades(tmp_path, values, expected):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for copy in range(2):
            Image.fromarray(np.kron(values, np.ones((4, 4), values.dtype))).save(
                tmp_path / name / f"{copy}.tif"
            )
    pixels = load(tmp_path).train_x[0, 0]
    assert pixels[::4, ::4].flatten().tolist() == pytest.approx(expected, abs=1)


def test_hidden_files_and_folders_are_no_data(tmp_path):
    for place in ("a/0.png", "a/1.png", "b/0.png", "b/1.png", "a/.ipynb_checkpoints/0.png", "b/._1.png"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(tmp_path / place)
    Image.new("L", (8, 8)).save(tmp_path / ".loose.png")
    found = load(tmp_path)
    assert found.names.tolist() == ["a/0.png", "a/1.png", "b/0.png", "b/1.png"]
    assert found.notes == ()
    listing = image_lists.list_folder(tmp_path / "b", training=False)
    assert listing.paths == ["0.png", "1.png"]
