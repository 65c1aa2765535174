"""Arrays in .npy and .npz files, read strictly.

numpy's own reader believes the header: some crash the process, others ask for more memory than there is. Here
the header is a short literal with exact keys, a type from a list, and a size that must be in the file.
"""

from __future__ import annotations

import ast
import math
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from trevision.budgets import ARRAY_HEADER_BYTES, check_unpacked
from trevision.files import DamagedFile, DataError

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_KEYS = {"descr", "fortran_order", "shape"}
_TYPE = re.compile(r"[<>|=]?([biufcSUMm])([0-9]{1,9})(\[[0-9]{0,9}[A-Za-z]{1,2}\])?")
_SIZES = {
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8, 16),
    "c": (8, 16),
    "M": (8,),
    "m": (8,),
}
_LITERAL = re.compile(r"[\w\s'\"<>|=:,(){}\[\]+-]*", re.ASCII)
_MOST_AXES = 32
_LONGEST_EMPTY = 1_000_000
"""How long an axis may be in an array without values, which takes no place in a file."""
_LARGEST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_BYTES_AT_ONCE = 2**24
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Header:
    """What an array is like, and how many bytes come before its values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)


def read_header(file: IO[bytes], available: int, path: Path, member: str | None = None) -> Header:
    """The header of an array; afterwards the file stands at its values.

    Parameters
    ----------
    file
        The file, at the array's begin.
    available
        The bytes from there to the end.
    path, member
        The file, and the name of the array in an archive, for errors.

    Raises
    ------
    DamagedFile
        If it is no array, or one that the file cannot hold.
    DataError
        If its values are neither numbers nor text.
    """
    where = str(path) if member is None else f"{path}: the array {member}"
    try:
        begin = file.read(8)
        if not begin:
            raise ValueError("the file is empty")
        if begin[:6] != _MAGIC or len(begin) < 8:
            raise ValueError("it does not begin as an array does")
        count = _LENGTH_BYTES.get((begin[6], begin[7]))
        if count is None:
            raise ValueError(f"it is of the unknown version {begin[6]}.{begin[7]}")
        length = int.from_bytes(file.read(count), "little")
        if length > ARRAY_HEADER_BYTES:
            raise ValueError(f"its header has {length:,} bytes, more than the {ARRAY_HEADER_BYTES:,} allowed")
        text = file.read(length)
        if len(text) < length:
            raise ValueError("it ends within its header")
        header = _parsed(text.decode("utf-8"), 8 + count + length, where, path)
        held = available - header.offset
        if header.size * header.dtype.itemsize > held:
            raise ValueError(
                f"it ends before its array does: {header.size * header.dtype.itemsize:,} bytes for the shape "
                f"{_short(header.shape)}, but there are {held:,}"
            )
        return header
    except DataError:
        raise
    except ValueError as error:
        what = "is not an .npy file" if member is None else "is no array"
        raise DamagedFile(f"{where} {what}, or a corrupt one ({error})", path=path, place=member) from None


def _parsed(text: str, offset: int, where: str, path: Path) -> Header:
    """The header in a text. A ValueError says what is wrong with it."""
    if not _LITERAL.fullmatch(text):
        raise ValueError("its header has signs that no header has")
    try:
        stored = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", text).strip())  # Python 2 wrote 10L
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError("its header is no dictionary") from None
    if not isinstance(stored, dict) or stored.keys() != _KEYS or type(stored["fortran_order"]) is not bool:
        raise ValueError(f"its header must have the entries {', '.join(sorted(_KEYS))}")
    dtype = _dtype(stored["descr"], where, path)
    shape = stored["shape"]
    if not isinstance(shape, tuple) or not all(type(axis) is int and 0 <= axis < 2**63 for axis in shape):
        raise ValueError("its shape must be whole numbers, 0 or more")
    if len(shape) > _MOST_AXES:
        raise ValueError(f"it has {len(shape)} axes")
    if 0 in shape and max(shape) > _LONGEST_EMPTY:
        raise ValueError(f"its shape {_short(shape)} has no values")
    return Header(shape, dtype, stored["fortran_order"], offset)


def _dtype(descr: Any, where: str, path: Path) -> np.dtype[Any]:
    if descr in ("|O", "O"):
        # Object arrays are pickles, and a pickle runs code.
        raise DataError(
            f"{where} holds Python objects, which are not loaded; save numbers as x.astype(float) and "
            "labels as y.astype(str)",
            path=path,
        )
    found = _TYPE.fullmatch(descr) if isinstance(descr, str) else None
    if found is None:
        raise DataError(f"{where} must hold numbers or text, got {_short(descr)}", path=path)
    kind, size = found[1], int(found[2])
    if size not in _SIZES.get(kind, (size,)) or size == 0:
        raise ValueError(f"its type {descr} has {'no' if size == 0 else 'an unknown'} size")
    try:
        dtype: np.dtype[Any] = np.dtype(descr)
        return dtype
    except (TypeError, ValueError):  # a text too long, or a type that this machine has not
        raise ValueError(f"its type {descr} is unknown") from None


def _short(value: Any) -> str:
    return repr(value)[:80]


def plain_values(values: np.ndarray, path: Path) -> np.ndarray:
    """Values as they were read, in this machine's byte order; a text that is none is a `DamagedFile`."""
    kind = values.dtype.kind
    if kind == "b":
        truth: np.ndarray = values.view(np.uint8) != 0  # any byte but 0 and 1 would be a third truth value
        return truth
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if kind == "U" and values.size:
        signs = np.ascontiguousarray(values).reshape(-1).view(np.uint32)
        lone = (signs >= _SURROGATES.start) & (signs < _SURROGATES.stop)
        if signs.max() > _LARGEST_CHARACTER or lone.any():
            raise DamagedFile(f"{path}: holds a text with a sign that Unicode has not", path=path)
    return values


def _read_values(file: IO[bytes], header: Header, path: Path, member: str | None = None) -> np.ndarray:
    flat = np.empty(header.size, header.dtype)
    content = flat.view(np.uint8)
    done = 0
    while done < len(content):
        part = file.read(min(_BYTES_AT_ONCE, len(content) - done))
        if not part:
            raise DamagedFile(f"{path}: ends before its array does; write it again", path=path, place=member)
        content[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    return plain_values(flat, path).reshape(header.shape, order="F" if header.fortran_order else "C")


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """An open file and its size. A folder, a pipe or a device is refused: reading from one may never end."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "is a folder" if stat.S_ISDIR(mode) else "is a pipe or a device"
            raise DataError(f"{path}: cannot be read: it must be a file, but {what}", path=path)
        with path.open("rb") as file:
            yield file, path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file", path=path) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})", path=path) from None


def read_array(path: Path) -> np.ndarray:
    """The array of an .npy file."""
    with open_regular(path) as (file, size):
        return _read_values(file, read_header(file, size, path), path)


def read_numbers(path: Path) -> np.ndarray:
    """The real numbers of an .npy file, as float64."""
    array = read_array(path)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: must hold an array of real numbers, got {array.dtype}", path=path)
    return array.astype(np.float64)


class Npz:
    """An open .npz file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, size: int) -> None:
        self.path = path
        self.archive = archive
        self._infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        check_unpacked(path, sum(info.file_size for info in archive.infolist()), size)

    @property
    def names(self) -> list[str]:
        """The names of its arrays."""
        return list(self._infos)

    def info(self, name: str) -> zipfile.ZipInfo:
        """Where an array is in the archive."""
        info = self._infos[name]
        if info.compress_type not in _PACKINGS:
            raise DamagedFile(
                f"{self.path}: the array {name} is packed in a way that numpy never uses", path=self.path
            )
        return info

    def read(self, name: str) -> np.ndarray:
        """An array."""
        info = self.info(name)
        with self.archive.open(info) as file:
            header = read_header(file, info.file_size, self.path, name)
            values = _read_values(file, header, self.path, name)
            while file.read(_BYTES_AT_ONCE):  # to the end, where the checksum is compared
                pass
        return values


@contextmanager
def open_npz(path: Path) -> Iterator[Npz]:
    """An open .npz file. Errors while it is open become one line about the file."""
    with open_regular(path) as (file, size):
        if file.read(len(_MAGIC)) == _MAGIC:
            raise DataError(
                f"{path}: is one array, not an .npz; write it with np.savez(path, x=x, y=y)", path=path
            )
        try:
            with zipfile.ZipFile(file) as archive:
                yield Npz(path, archive, size)
        except (DataError, MemoryError):
            raise
        except Exception as error:  # a corrupt archive raises almost anything
            raise DamagedFile(
                f"{path}: is not an .npz file, or a corrupt one ({error or type(error).__name__})", path=path
            ) from error
