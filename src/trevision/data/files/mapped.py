"""Arrays on disk that are read in slices of rows and not held in memory."""

from __future__ import annotations

import math
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from trevision.data.progress import Progress
from trevision.files import DamagedFile, DataError
from trevision.npy import open_npz, open_regular, plain_values, read_header

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
        if not math.prod(self.shape):
            return np.empty(self.shape, self.dtype)[rows]
        order = "F" if self.fortran_order else "C"
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)  # type: ignore[call-overload]
        return plain_values(np.array(mapped[rows]), self.path)


def map_npy(path: Path, start: int = 0, end: int | None = None, member: str | None = None) -> MappedRows:
    """The array of an .npy file, or of the `member` of an archive that lies at these bytes of it."""
    with open_regular(path) as (file, size):
        file.seek(start)
        header = read_header(file, (size if end is None else min(end, size)) - start, path, member)
    return MappedRows(path, start + header.offset, header.shape, header.dtype, header.fortran_order)


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
    with open_npz(path) as archive:
        info = archive.info(key)
        if info.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as file:
                file.seek(info.header_offset)
                # The lengths of name and extra field here may differ from those in the archive's directory.
                name, extra = struct.unpack("<26xHH", file.read(LOCAL_HEADER))
            begin = info.header_offset + LOCAL_HEADER + name + extra
            return map_npy(path, begin, begin + info.file_size, key)
        unpacked = scratch / f"{len(list(scratch.iterdir()))}.npy"  # the name in the archive may be a path
        with archive.archive.open(info) as packed, unpacked.open("wb") as file:
            _copy(packed, file, info.file_size, progress)
        try:
            return map_npy(unpacked, member=key)
        except DataError as error:
            raise DamagedFile(str(error).replace(str(unpacked), str(path)), path=path, place=key) from None


def _copy(source: IO[bytes], target: IO[bytes], total: int, progress: Progress | None) -> None:
    done = 0
    while part := source.read(BYTES_AT_ONCE):
        target.write(part)
        done += len(part)
        if progress is not None:
            progress(done, total)
