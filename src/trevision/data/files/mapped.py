"""Arrays on disk that are read in slices of rows and not held in memory."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from trevision.data.progress import Progress
from trevision.files import DataError

LOCAL_HEADER = 30  # bytes of a zip member's header before its name and extra field
BYTES_AT_ONCE = 2**24


@dataclass(frozen=True, eq=False)
class MappedRows:
    """A 1-D or 2-D array in a file. Slices of rows are read when needed.

    The file is mapped again for each slice. Pages of a lasting map would count as memory of this process,
    and a whole pass would fill it.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool = False

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        if not self.shape:
            raise DataError(f"{self.path}: must hold arrays with rows, got a single value")
        order = "F" if self.fortran_order else "C"
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)  # type: ignore[call-overload]
        return np.array(mapped[rows])


def map_npy(path: Path, start: int = 0) -> MappedRows:
    """The array of an .npy file, or of one that begins `start` bytes into another file."""
    with path.open("rb") as file:
        file.seek(start)
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran_order, dtype = read(file)
        offset = file.tell()
    if dtype.hasobject:
        raise DataError(f"{path}: holds Python objects, which are not loaded; save numbers or astype(str)")
    if path.stat().st_size < offset + dtype.itemsize * int(np.prod(shape)):
        raise DataError(f"{path}: ends before its array does; write it again")
    return MappedRows(path, offset, shape, dtype, fortran_order)


def map_npz_member(path: Path, key: str, scratch: Path, progress: Progress | None = None) -> MappedRows:
    """An array of an .npz file, mapped in the file, or unpacked first if it is compressed.

    Parameters
    ----------
    path
        The file.
    key
        The name of the array.
    scratch
        A folder to unpack into.
    progress
        Called with the progress of unpacking.
    """
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{key}.npy")
        if info.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as file:
                file.seek(info.header_offset)
                # The lengths of name and extra field here may differ from those in the archive's directory.
                name, extra = struct.unpack("<26xHH", file.read(LOCAL_HEADER))
            return map_npy(path, info.header_offset + LOCAL_HEADER + name + extra)
        unpacked = scratch / f"{key}.npy"
        with archive.open(info) as packed, unpacked.open("wb") as file:
            _copy(packed, file, info.file_size, progress)
        return map_npy(unpacked)


def _copy(source: IO[bytes], target: IO[bytes], total: int, progress: Progress | None) -> None:
    done = 0
    while part := source.read(BYTES_AT_ONCE):
        target.write(part)
        done += len(part)
        if progress is not None:
            progress(done, total)
