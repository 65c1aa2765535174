"""Read pickled dictionaries of arrays without executing anything that a file asks for."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

DTYPES: dict[str, np.dtype[np.integer[Any]]] = {"u1": np.dtype("u1"), "i8": np.dtype("<i8")}
"""The types of arrays that are read: bytes, and whole numbers of eight bytes."""


class PickledArray:
    """Stands in for a pickled numpy array, so that a file cannot even run numpy's unpickling."""

    __slots__ = ("content", "dtype", "shape")
    content: bytes
    dtype: str
    shape: tuple[int, ...]

    def __init__(self, *_: object) -> None:
        self.content, self.dtype, self.shape = b"", "u1", (0,)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, dtype, fortran_order, self.content = state
        if not isinstance(dtype, _Dtype) or fortran_order or not isinstance(self.content, bytes):
            raise pickle.UnpicklingError("an array that is not of whole numbers in row-major order")
        self.dtype = dtype.code

    def to_numpy(self) -> np.ndarray:
        """The array. Raises a ValueError if its shape does not fit its content."""
        return np.frombuffer(self.content, DTYPES[self.dtype]).reshape(self.shape).copy()


class _Dtype:
    """Stands in for a pickled numpy dtype; only those of `DTYPES` are allowed."""

    __slots__ = ("code",)

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code
        if self.code not in DTYPES:
            raise pickle.UnpicklingError(f"an array of dtype {code!r} instead of {' or '.join(DTYPES)}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Byte order and alignment: the order must be that of `DTYPES`; a byte has none."""
        if self.code != "u1" and state[1] not in ("<", b"<"):
            raise pickle.UnpicklingError(f"an array in the byte order {state[1]!r}")


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in an old pickle protocol."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, numbers, strings and arrays; a file cannot call anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file needs")
        return _ADMITTED[module, name]


def unpickle(content: bytes, encoding: str = "ASCII") -> Any:
    """What `content` describes, its arrays as `PickledArray`. A corrupt pickle raises almost anything.

    `encoding` is that of the strings of Python 2; "bytes" leaves them as bytes.
    """
    return _ArrayUnpickler(io.BytesIO(content), encoding=encoding).load()
