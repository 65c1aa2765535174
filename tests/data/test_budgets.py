"""Small files that claim or unpack to gigabytes are refused, by every decoder, before the memory is taken."""

from __future__ import annotations

import gzip
import pickle
import struct
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trevision import budgets
from trevision.data.decoding import Framing, decode
from trevision.data.files.parquet_files import read_parquet
from trevision.data.files.skops_files import read_description
from trevision.data.files.tables import open_table
from trevision.data.named.locations import read_bytes
from trevision.data.named.mnist import read_idx
from trevision.data.named.plain_pickle import PickledArray, unpickle
from trevision.files import DamagedFile, DataError, TooLarge


@pytest.fixture
def small(monkeypatch):
    """Budgets of a few kilobytes, so that a test needs no file of megabytes."""
    for name in ("UNPACKED_BYTES", "PICTURE_BYTES"):
        monkeypatch.setattr(budgets, name, 50_000)
    monkeypatch.setattr("trevision.data.decoding.PICTURE_BYTES", 50_000)
    monkeypatch.setattr("trevision.data.files.parquet_files.UNPACKED_BYTES", 50_000)


@pytest.mark.parametrize("kind", ["flat", "in lists", "a dictionary"])
def test_one_huge_text_that_many_rows_of_a_parquet_file_repeat_is_not_expanded(tmp_path, kind):
    text = pa.array(["x" * 1_000_000])
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), text)
    if kind == "in lists":
        repeated = pa.ListArray.from_arrays(pa.array(range(2001), pa.int32()), repeated)
    pq.write_table(pa.table({"text": repeated}), tmp_path / "a.parquet", store_schema=kind == "a dictionary")
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLarge, match="whose texts expand to more than"):
        read_parquet(tmp_path / "a.parquet")
    with pytest.raises(TooLarge, match="whose texts expand to more than"):
        list(open_table(tmp_path / "a.parquet").blocks())
    assert pa.default_memory_pool().max_memory() - before < 100_000_000
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_long_texts_come_in_shorter_blocks_and_are_all_there(tmp_path, monkeypatch):
    monkeypatch.setattr("trevision.data.files.parquet_files.BLOCK_TEXT_BYTES", 10_000)
    texts = [f"{row}" * 500 for row in range(200)]
    types = {"text": pa.array(texts), "kind": pa.array(["a", "b"] * 100).dictionary_encode()}
    whole = pa.table(
        types | {"tags": pa.array([["x", None]] * 200), "views": pa.array(texts, pa.string_view())}
    )
    pq.write_table(whole, tmp_path / "a.parquet")
    blocks = list(open_table(tmp_path / "a.parquet").blocks())
    assert len(blocks) > 20
    assert pa.Table.from_batches(blocks).equals(whole)


PICKLES = {
    "a far place in memory": b"\x80\x02]r\xff\xff\xff\x1fj\xff\xff\xff\x2f.",
    "long bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 33),
    "a long frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 40),
    "a nested key": b"\x80\x02})" + b"2\x86" * 60 + b"Ns.",
    "a deep key": b"\x80\x02}(" + b"N\x85" * 5000 + b"Nu.",
    "a number of many digits": b"L" + b"9" * 5000 + b"L\n.",
    "a call": b"cos\nsystem\n(S'true'\ntR.",
    "a call of a text": b"X\x01\0\0\0a)R.",
    "a type that is nested": b"cnumpy\ndtype\n(" + b")" + b"2\x86" * 40 + b"tR.",
    "nothing on the stack": b"a.",
    "no end": b"]",
}


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES)
def test_a_pickle_of_a_few_bytes_takes_few_bytes_and_little_time(content):
    tracemalloc.start()
    try:
        with pytest.raises(Exception):  # noqa: B017, PT011  whatever it is, readers translate it
            unpickle(content)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("encoding", ["ASCII", "bytes"])
def test_plain_values_of_every_protocol_are_read_as_python_reads_them(protocol, encoding):
    held = {
        "list": [1, -1, 300, 70_000, 2**40, -(2**70), True, False, None, 1.5],
        "nested": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {"a": [b"b"]}, []],
        b"bytes": b"\x00\xff" * 200,
        "text": "ä€" * 200,
        3: "key",
    }
    held["again"] = held["list"]
    content = pickle.dumps(held, protocol)
    got = unpickle(content, encoding)
    assert got == pickle.loads(content)  # noqa: S301  our own, of the line before
    assert got["again"] is got["list"]


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_of_every_protocol_are_read(protocol):
    values = np.arange(24, dtype=np.uint8).reshape(4, 6)
    got = unpickle(pickle.dumps({"data": values, "labels": values[:, 0].astype(np.int64)}, protocol))
    assert isinstance(got["data"], PickledArray)
    assert np.array_equal(got["data"].to_numpy(), values)
    assert np.array_equal(got["labels"].to_numpy(), values[:, 0])


def test_a_gzip_file_that_unpacks_beyond_its_budget_is_refused(tmp_path, small):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    for read in (read_bytes, lambda file: read_idx(file, 3)):
        with pytest.raises(TooLarge, match=r"ubyte\.gz: .* bytes that unpack to .*"):
            read(path)
    path.write_bytes(gzip.compress(bytes(40_000)))
    assert len(read_bytes(path)) == 40_000


def test_a_model_s_archive_that_unpacks_beyond_its_budget_is_refused(tmp_path, small):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trevision.json", " " * 10_000_000)
    with pytest.raises(TooLarge, match=r"model\.skops"):
        read_description(path, "trevision.json")


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("width", "height"), [(13_300, 13_300), (20_000_000, 1), (1, 3_000_000), (60_000, 60_000)]
)
def test_a_picture_of_too_many_pixels_is_refused(tmp_path, width, height):
    pytest.importorskip("PIL")
    path = tmp_path / "a.png"
    path.write_bytes(png(width, height))
    with pytest.raises(DataError, match=r"a\.png: ") as refused:
        decode(path, framing=Framing(64, 64, 64))
    assert isinstance(refused.value, TooLarge) or "decompression bomb" in str(refused.value)


def test_pillow_s_readers_of_other_formats_are_not_reached(tmp_path):
    pytest.importorskip("PIL")
    path = tmp_path / "a.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")
    with pytest.raises(DataError, match="cannot identify image file"):
        decode(path)


def test_a_table_that_claims_more_values_than_its_budget_is_refused(tmp_path, small):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array(np.zeros(3_000_000))}), path)
    for read in (open_table, read_parquet):
        with pytest.raises(TooLarge, match=r"a\.parquet: .* bytes that claim 3,000,000 rows x 1 columns"):
            read(path)


def test_a_footer_that_lies_is_damage(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2], "label": ["x", "y"]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + struct.pack("<I", 2**31 - 1) + whole[-4:])
    with pytest.raises(DamagedFile, match=r"a\.parquet: is not a \.parquet file, or a corrupt one"):
        open_table(path)


HEADERS = {
    "an open quote before a megabyte of lines": (
        '"a,label\n' + "1,2\n" * 300_000,
        "quotation mark left open",
    ),
    "an open quote before a long line": ('"a,label' + "x" * 1_200_000, "quotation mark left open"),
    "100,000 columns": (",".join(f"c{n}" for n in range(100_000)) + "\n1\n", "100,000 columns, more than"),
    "a long name": ("a" * 140_000 + ",label\n1,2\n", "field larger than field limit"),
    "a zero byte": ("a,la\0bel\n1,2\n", "holds zero bytes"),
}


@pytest.mark.parametrize(("text", "says"), HEADERS.values(), ids=HEADERS)
def test_a_header_of_a_table_that_is_none_is_refused_at_once(tmp_path, text, says):
    path = tmp_path / "a.csv"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(DataError, match=says) as refused:
        list(open_table(path).blocks())
    assert len(str(refused.value)) < 500
    assert time.process_time() - began < 10  # it took minutes where the work grew with the square


def test_many_equal_names_of_columns_are_told_apart_in_time_and_told_of_briefly(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(["a"] * 5000) + "\n" + ",".join(["1"] * 5000) + "\n")
    table = open_table(path)
    assert len(set(table.columns)) == 5000
    assert table.columns[:3] == ["a", "a (2)", "a (3)"]
    assert table.columns[-1] == "a (5000)"
    assert len(table.notes) < 30
    path.write_text("a,a (2),a,a\n1,2,3,4\n")
    assert open_table(path).columns == ["a", "a (2)", "a (3)", "a (4)"]


def test_utf_16_without_a_mark_is_told_what_it_may_be(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("a,label\n1,x\n".encode("utf-16-le"))
    with pytest.raises(DamagedFile, match=r"UTF-16 without a mark.*save it in UTF-8"):
        open_table(path)
    path.write_bytes("a,label\n1,x\n".encode("utf-16")[:-1])
    with pytest.raises(DataError, match=r"a\.csv: "):
        list(open_table(path).blocks())


def test_budgets_are_those_that_the_docs_state():
    text = (Path(__file__).parents[2] / "docs" / "promises.md").read_text(encoding="utf-8")
    for name, value in vars(budgets).items():
        if name.isupper() and name != "MB":
            shown = f"{value // budgets.MB} MB" if value % budgets.MB == 0 else f"{value:,}"
            assert f"`{name}` | {shown} |" in text
