"""Array files that were made to harm, or are damaged, end in one line before any memory is set aside."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trevision.data.files.arrays import npz_members
from trevision.data.files.mapped import map_npy, map_npz_member
from trevision.files import DataError, TooLarge
from trevision.npy import open_npz, read_array

GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"


def npy(header: str, content: bytes = b"\0" * 48, version: tuple[int, int] = (1, 0)) -> bytes:
    """An .npy file with any header."""
    text = header.encode("latin-1") + b"\n"
    return (
        b"\x93NUMPY"
        + bytes(version)
        + len(text).to_bytes(2 if version[0] == 1 else 4, "little")
        + text
        + content
    )


def zipped(members: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


HARMFUL = {
    "a text without length in a negative shape": "{'descr':'<U0','fortran_order':True,'shape':(-1,)}",
    "a text without length": "{'descr':'<U0','fortran_order':False,'shape':(3,)}",
    "a size that wraps to nothing": "{'descr':'<f8','fortran_order':False,'shape':(4294967296,4294967296)}",
    "2^31 rows": "{'descr':'<f8','fortran_order':False,'shape':(2147483648,3)}",
    "2^62 rows without columns": "{'descr':'<f8','fortran_order':False,'shape':(4611686018427387904,0)}",
    "a longer array than the file": "{'descr':'<f8','fortran_order':False,'shape':(7,)}",
    "no end": "{'descr':'<f8','fortran_order':False,'shape':(2,",
    "an open quote": "{'descr':'<f8,'fortran_order':False,'shape':(2,)}",
    "no dictionary": "[1, 2]",
    "a key too many": "{'descr':'<f8','fortran_order':False,'shape':(2,),'more':1}",
    "a key too few": "{'descr':'<f8','shape':(2,)}",
    "an order that is a number": "{'descr':'<f8','fortran_order':1,'shape':(2,)}",
    "a shape with truth values": "{'descr':'<f8','fortran_order':False,'shape':(True,)}",
    "a shape of fractions": "{'descr':'<f8','fortran_order':False,'shape':(2.0,)}",
    "nested brackets": "(" * 2000,
    "many minus signs": "-" * 4000 + "1",
    "a long number": "{'descr':'<f8','fortran_order':False,'shape':(" + "1" * 3900 + ",)}",
    "many axes": "{'descr':'<f8','fortran_order':False,'shape':(" + "1," * 40 + ")}",
    "a call": "{'descr':'<f8','fortran_order':False,'shape':tuple([2])}",
    "an unknown type": "{'descr':'<f7','fortran_order':False,'shape':(2,)}",
    "no type": "{'descr':None,'fortran_order':False,'shape':(2,)}",
    "a list for a type": "{'descr':[('a','<f8')],'fortran_order':False,'shape':(2,)}",
    "a huge text": "{'descr':'<U999999999','fortran_order':False,'shape':(2,)}",
    "Python objects": "{'descr':'|O','fortran_order':False,'shape':(2,)}",
    "control characters": "{'descr':'<f8','fortran_order':False,'shape':(2,)}\0",
    "a huge header": GOOD + " " * 60_000,
}


@pytest.mark.parametrize("header", HARMFUL.values(), ids=HARMFUL)
def test_a_header_that_lies_is_refused_in_one_line_that_names_the_file(tmp_path, header):
    plain, archive, packed = (tmp_path / name for name in ("a.npy", "stored.npz", "packed.npz"))
    plain.write_bytes(npy(header))
    archive.write_bytes(zipped({"a.npy": npy(header)}))
    packed.write_bytes(zipped({"a.npy": npy(header)}, zipfile.ZIP_DEFLATED))
    readings = {
        lambda: read_array(plain): plain,
        lambda: map_npy(plain)[:]: plain,
        lambda: npz_members(archive): archive,
        lambda: npz_members(packed): packed,
        lambda: map_npz_member(archive, "a", tmp_path)[:]: archive,
        lambda: map_npz_member(packed, "a", tmp_path)[:]: packed,
    }
    for read, path in readings.items():
        with pytest.raises(DataError) as refused:
            read()
        assert str(refused.value).startswith(str(path))
        assert len(str(refused.value)) < 600


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(tmp_path, version):
    values = np.arange(6.0).reshape(2, 3)
    (tmp_path / "a.npy").write_bytes(npy(GOOD, values.tobytes(), version))
    assert np.array_equal(read_array(tmp_path / "a.npy"), values)


def test_whole_numbers_as_python_2_wrote_them_are_read(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(GOOD.replace("2, 3", "2L, 3L")))
    assert read_array(tmp_path / "a.npy").shape == (2, 3)


SCALARS = (hnp.integer_dtypes(endianness="?") | hnp.floating_dtypes(endianness="?") | hnp.boolean_dtypes()
           | hnp.unicode_string_dtypes(max_len=4) | hnp.byte_string_dtypes(max_len=4))  # fmt: skip


@given(hnp.arrays(SCALARS, hnp.array_shapes(min_dims=0, min_side=0)), st.sampled_from("CF"), st.booleans())
def test_what_numpy_writes_is_read_as_numpy_reads_it(tmp_path_factory, values, order, packed):
    values = np.asarray(values, order=order)
    if values.dtype.kind == "U" and any(0xD800 <= ord(c) < 0xE000 for text in values.flat for c in text):
        return
    folder = tmp_path_factory.mktemp("arrays")
    np.save(folder / "a.npy", values)
    (np.savez_compressed if packed else np.savez)(folder / "a.npz", a=values)
    expected = np.load(folder / "a.npy")
    for got in (read_array(folder / "a.npy"), npz_members(folder / "a.npz")["a"]):
        assert got.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, expected)


def test_an_array_whose_name_lacks_the_suffix_is_read(tmp_path):
    (tmp_path / "a.npz").write_bytes(zipped({"probs": npy(GOOD)}))
    assert npz_members(tmp_path / "a.npz")["probs"].shape == (2, 3)
    assert map_npz_member(tmp_path / "a.npz", "probs", tmp_path).shape == (2, 3)


def test_a_text_with_a_sign_that_unicode_has_not_is_refused(tmp_path):
    for sign in (0x110000, 0xD800):
        content = np.array([sign, 65], "<u4").tobytes()
        (tmp_path / "a.npy").write_bytes(npy("{'descr':'<U1','fortran_order':False,'shape':(2,)}", content))
        for read in (read_array, lambda path: map_npy(path)[:]):
            with pytest.raises(DataError, match="Unicode"):
                read(tmp_path / "a.npy")


def test_a_small_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        file.write(npy("{'descr':'|u1','fortran_order':False,'shape':(300000000,)}", b""))
        for _ in range(300):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    with (
        pytest.raises(TooLarge, match=r"bomb\.npz: .* bytes that unpack to .* unpack it first"),
        open_npz(path),
    ):
        pass


def test_a_pipe_is_refused_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(DataError, match="pipe or a device"):
        npz_members(tmp_path / "pipe.npz")


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="needs a limit on memory")
def test_no_lying_header_makes_the_command_crash_or_take_memory(tmp_path):
    for number, header in enumerate(HARMFUL.values()):
        (tmp_path / f"{number}.npz").write_bytes(
            zipped({"probs.npy": npy(header), "labels.npy": npy(header)})
        )
    script = """
import resource, sys
from pathlib import Path
from trevision.cli import main
import trevision.cli.estimate
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
for path in sorted(Path(sys.argv[1]).glob("*.npz")):
    try:
        main(["estimate", str(path), "--out", sys.argv[1] + "/out"])
    except SystemExit as stopped:
        print(path.name, stopped.code)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1::2] == ["2"] * len(HARMFUL)
    assert "Traceback" not in done.stderr
