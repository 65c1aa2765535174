"""Every reader of files, with small valid files to start from."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROWS = 24


@dataclass(frozen=True)
class Reader:
    """What makes valid files in a folder, and what reads one of them."""

    make: Callable[[Path], list[Path]]
    read: Callable[[Path], None]


def _labels() -> np.ndarray:
    return np.arange(ROWS) % 3


def _table() -> dict[str, list]:
    rng = np.random.default_rng(1)
    return {
        "size": rng.normal(_labels(), 1).round(3).tolist(),
        "colour": [("red", "blue", 'a "b", c', "é")[n % 4] for n in range(ROWS)],
        "day": [f"2024-01-{1 + n:02}" for n in range(ROWS)],
        "label": [("cat", "dog", "=owl")[n % 3] for n in range(ROWS)],
    }


def _write_csv(path: Path, columns: dict[str, list], **options) -> Path:
    with path.open("w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        writer = csv.writer(file, **options)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def make_csv(folder: Path) -> list[Path]:
    return [
        _write_csv(folder / "a.csv", _table()),
        _write_csv(folder / "b.csv", _table(), delimiter=";", encoding="utf-16"),
        _write_csv(folder / "c.csv", _table(), encoding="latin-1", quoting=csv.QUOTE_ALL),
    ]


def make_parquet(folder: Path) -> list[Path]:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(_table()), folder / "a.parquet")
    parquet.write_table(pa.table(_table()), folder / "b.parquet", compression="none", use_dictionary=False)
    return [folder / "a.parquet", folder / "b.parquet"]


def read_dataset(path: Path) -> None:
    from trevision.data.files.reading import Reading
    from trevision.data.files.table_dataset import read_table
    from trevision.data.files.tables import open_table

    read_table(open_table(path), Reading(label_column="label"))


def make_npy(folder: Path) -> list[Path]:
    arrays = (
        np.eye(4),
        np.arange(5, dtype=">i4"),
        np.array(["a", "bc"]),
        np.asfortranarray(np.ones((3, 2), "f4")),
    )
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    return sorted(folder.glob("*.npy"))


def read_npy(path: Path) -> None:
    from trevision.data.files.mapped import map_npy
    from trevision.npy import read_array

    read_array(path)
    map_npy(path)[:]


def make_npz(folder: Path) -> list[Path]:
    x, y = np.arange(ROWS * 4.0).reshape(ROWS, 4), _labels()
    np.savez(folder / "a.npz", x=x, y=y)
    np.savez_compressed(folder / "b.npz", x=x.astype("u1").reshape(ROWS, 2, 2), y=np.array(list("abc"))[y])
    return sorted(folder.glob("*.npz"))


def read_npz(path: Path) -> None:
    from trevision.data.files.array_dataset import read_npz

    read_npz(path)


def make_probabilities(folder: Path) -> list[Path]:
    probs = np.full((ROWS, 3), 0.1) + 0.7 * np.eye(3)[_labels()]
    np.savez(folder / "a.npz", probs=probs, labels=_labels(), classes=np.array(list("abc")))
    np.savez_compressed(folder / "b.npz", probs=probs, labels=np.array(list("abc"))[_labels()])
    columns = {
        "label": [*"abc"] * (ROWS // 3),
        **{f"p_{n}": probs[:, k].tolist() for k, n in enumerate("abc")},
    }
    _write_csv(folder / "c.csv", columns)
    return sorted(folder.iterdir())


def read_probabilities(path: Path) -> None:
    from trevision.data.files.probabilities import open_probabilities
    from trevision.estimation import estimate

    with open_probabilities(path) as held:
        try:
            estimate(held.probs[:], held.labels, estimator="confident-joint", bootstrap=0)
        except ValueError as error:  # of a pure room, which knows no files
            if not str(error).startswith("noisy_probs must"):
                raise


def make_idx(folder: Path) -> list[Path]:
    content = struct.pack(">IIII", 0x0803, 5, 4, 4) + bytes(80)
    (folder / "a-idx3-ubyte.gz").write_bytes(gzip.compress(content))
    (folder / "a-idx3-ubyte").write_bytes(content)
    return sorted(folder.iterdir())


def read_idx(path: Path) -> None:
    from trevision.data.named.mnist import read_idx

    read_idx(path, 3)


def make_cifar(folder: Path) -> list[Path]:
    batch = {"data": np.zeros((3, 3072), np.uint8), "labels": [0, 1, 2]}
    for protocol in (0, 2, 4):
        (folder / f"data_batch_{protocol}").write_bytes(pickle.dumps(batch, protocol))
    return sorted(folder.iterdir())


def read_cifar(path: Path) -> None:
    from trevision.data.named.cifar import _CIFAR10, CIFAR10, _read_part

    assert CIFAR10.name
    _read_part(_CIFAR10, path)


def make_human_labels(folder: Path) -> list[Path]:
    names = ("clean_label", "aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")
    stored = {name: np.zeros(6, np.int64) for name in names}
    with zipfile.ZipFile(folder / "CIFAR-10_human.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(stored, 2))
    return [folder / "CIFAR-10_human.pt"]


def read_human_labels(path: Path) -> None:
    from trevision.data.named.cifar10n import human_labels

    human_labels(path)


def make_pictures(folder: Path) -> list[Path]:
    from PIL import Image

    pixels = np.arange(12 * 10 * 3, dtype=np.uint8).reshape(12, 10, 3)
    for suffix in ("png", "jpg", "bmp", "gif", "tif", "webp", "ppm"):
        Image.fromarray(pixels).save(folder / f"a.{suffix}")
    Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 300).save(folder / "deep.png")
    return sorted(folder.iterdir())


def read_picture(path: Path) -> None:
    from trevision.data.decoding import Framing, decode

    decode(path, framing=Framing(16, 16, 16))


def make_corrections(folder: Path) -> list[Path]:
    columns = {"row": [0, 3], "name": ["a", '"b"'], "given": ["x", "y"], "corrected": ["y", "y"]}
    return [_write_csv(folder / "corrections.csv", columns | {"decision": ["corrected", "kept"]})]


def read_corrections(path: Path) -> None:
    from trevision.report.corrections import is_answers, read_corrections

    is_answers(path)
    read_corrections(path)


def make_answers(folder: Path) -> list[Path]:
    from trevision.runs.audit_files import ANSWER_COLUMNS

    rows = (["p", 0, "a", "x", "y", "yes"], ["p", 3, "b", "x", "", "no"])
    columns = dict(zip(ANSWER_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    return [_write_csv(folder / "answers.csv", columns)]


def read_answers(path: Path) -> None:
    from trevision.runs.audit_files import read_answers

    read_answers(path)


def make_run(folder: Path) -> list[Path]:
    """The files of a finished run, in `folder/run`."""
    from trevision.cli import main

    rng = np.random.default_rng(0)
    label = np.arange(60) % 2
    columns = {"size": rng.normal(4 * label, 1).round(3).tolist(), "label": [("a", "b")[n] for n in label]}
    source, run = _write_csv(folder / "data.csv", columns), folder / "run"
    main(["fit", str(source), "--method", "standard", "--out", str(run)])
    main(["issues", str(run), "--bootstrap", "10"])
    main(["audit", str(run), "--rows", "10"])
    return [path for path in sorted(run.iterdir()) if path.suffix not in (".html", ".csv")]


def read_run_file(path: Path) -> None:
    """Read the folder of the file as `predict`, `issues`, `report` and `audit` do."""
    from trevision.report.evidence import gather
    from trevision.report.page import render
    from trevision.report.run_files import read_run
    from trevision.runs.audit_files import read_plan
    from trevision.runs.run_folder import RunFolder

    run = RunFolder(path.parent)
    if path.name == "model.safetensors":
        _ = run.model
    if path.name == "audit-plan.parquet":
        read_plan(run)
    _ = run.labels, run.preprocessing, run.probabilities
    record = read_run(path.parent)
    listed = record.suspects[:5]
    render(record, listed, gather(record, listed))


def make_skops(folder: Path) -> list[Path]:
    from trevision.cli import main

    rng = np.random.default_rng(0)
    label = np.arange(60) % 2
    columns = {"size": rng.normal(4 * label, 1).round(3).tolist(), "label": [("a", "b")[n] for n in label]}
    source = _write_csv(folder / "data.csv", columns)
    for name in ("linear", "forest"):
        main(["fit", str(source), "--model", name, "--out", str(folder / name)])
        shutil.copy(folder / name / "model.skops", folder / f"{name}.skops")
    return sorted(folder.glob("*.skops"))


def read_skops(path: Path) -> None:
    from trevision.models.files import load_classifier, load_transitions

    load_transitions(path)
    load_classifier(path)


READERS = {
    "csv": Reader(make_csv, read_dataset),
    "parquet": Reader(make_parquet, read_dataset),
    "npy": Reader(make_npy, read_npy),
    "npz": Reader(make_npz, read_npz),
    "probabilities": Reader(make_probabilities, read_probabilities),
    "idx": Reader(make_idx, read_idx),
    "cifar": Reader(make_cifar, read_cifar),
    "cifar10n": Reader(make_human_labels, read_human_labels),
    "picture": Reader(make_pictures, read_picture),
    "corrections": Reader(make_corrections, read_corrections),
    "answers": Reader(make_answers, read_answers),
    "run": Reader(make_run, read_run_file),
    "skops": Reader(make_skops, read_skops),
}


def escaped(reader: Reader, path: Path) -> str | None:
    """What a reader raises that is no `TrevisionError`; None if it reads or refuses the file."""
    from trevision.files import TrevisionError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader.read(path)
        except TrevisionError as error:
            said = str(error)
            return None if "\n" not in said and len(said) < 4000 else f"a message of {len(said)} signs"
        except BaseException as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def rezipped(content: bytes, change: Callable[[str, bytes], bytes], packing: int) -> bytes:
    """An archive with changed members."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", packing) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return out.getvalue()


def json_places(value: object, place: tuple = ()) -> list[tuple]:
    """The places of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, each in inner for found in json_places(each, (*place, key)))]


def with_value(text: str, place: tuple, new: object) -> str:
    """A JSON text with another value at a place."""
    value = json.loads(text)
    if not place:
        return json.dumps(new)
    within = value
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = new
    return json.dumps(value)
