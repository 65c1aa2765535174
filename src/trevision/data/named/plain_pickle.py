"""Read pickled dictionaries of arrays without executing anything that a file asks for.

A pickle is a program for a small machine. Here the machine knows only what such dictionaries need.
Python's own would set memory aside for any number in the program: nine bytes can take gigabytes.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES: dict[str, np.dtype[np.integer[Any]]] = {"u1": np.dtype("u1"), "i8": np.dtype("<i8")}
"""The types of arrays that are read: bytes, and whole numbers of eight bytes."""


def _short(value: object) -> str:
    return repr(value)[:40] if isinstance(value, str | bytes) else f"a {type(value).__name__}"


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

    def __init__(self, code: object, *_: object) -> None:
        known = code.decode("latin1") if isinstance(code, bytes) else code
        if not isinstance(known, str) or known not in DTYPES:
            raise pickle.UnpicklingError(f"an array of dtype {_short(code)} instead of {' or '.join(DTYPES)}")

        self.code = known

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Byte order and alignment: the order must be that of `DTYPES`; a byte has none."""
        if self.code != "u1" and state[1] not in ("<", b"<"):
            raise pickle.UnpicklingError(f"an array in the byte order {_short(state[1])}")


def _encode(text: object, encoding: object) -> bytes:
    """How Python 3 writes bytes in an old pickle protocol."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("text in an unknown encoding")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


def unpickle(content: bytes, encoding: str = "ASCII") -> Any:
    """What `content` describes, its arrays as `PickledArray`. A corrupt pickle raises almost anything.

    `encoding` is that of the strings of Python 2; "bytes" leaves them as bytes.
    """
    machine = _Machine(encoding)
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "STOP":
            return machine.pop()
        machine.step(opcode.name, argument)
    raise pickle.UnpicklingError("it ends too early")


_PLAIN = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
"""Instructions that push their argument."""
_OLD_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


class _Machine:
    """The stack and the memory of a pickle, and what each instruction does to them."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise pickle.UnpicklingError("a mark where a value is due")
        return value

    def _since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise pickle.UnpicklingError("no mark where one is due")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def step(self, name: str, argument: Any) -> None:
        """Do one instruction."""
        if name in ("PROTO", "FRAME"):
            return
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memory[len(self.memory) if name == "MEMOIZE" else argument] = self.stack[-1]
        elif name in ("APPEND", "APPENDS"):
            values = [self.pop()] if name == "APPEND" else self._since_mark()
            self._on_top(list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self._since_mark() if name == "SETITEMS" else [self.pop(), self.pop()][::-1]
            self._on_top(dict).update(_pairs(values))
        elif name == "BUILD":
            state = self.pop()
            if not isinstance(state, tuple):
                raise pickle.UnpicklingError("a state that is none")
            self._on_top(PickledArray | _Dtype).__setstate__(state)
        else:
            self.stack.append(self._made(name, argument))

    def _on_top(self, kind: Any) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise pickle.UnpicklingError("an instruction for another kind of value")
        return self.stack[-1]

    def _made(self, name: str, argument: Any) -> Any:
        """The value that an instruction pushes."""
        if name in _PLAIN:
            return bytes(argument) if isinstance(argument, bytearray) else argument
        if name in _OLD_TEXTS:
            raw = argument.encode("latin-1")
            return raw if self.encoding == "bytes" else raw.decode(self.encoding)
        if name in _CONSTANTS:
            return _CONSTANTS[name]()
        if name in _SHORT_TUPLES:
            return tuple([self.pop() for _ in range(_SHORT_TUPLES[name])][::-1])
        if name == "MARK":
            return _MARK
        if name == "TUPLE":
            return tuple(self._since_mark())
        if name == "LIST":
            return self._since_mark()
        if name == "DICT":
            return _pairs(self._since_mark())
        if name in ("GET", "BINGET", "LONG_BINGET"):
            return self.memory[argument]
        if name == "GLOBAL":
            return _admitted(*argument.split(" ", 1))
        if name == "STACK_GLOBAL":
            member, module = self.pop(), self.pop()
            return _admitted(module, member)
        if name == "REDUCE":
            arguments, makes = self.pop(), self.pop()
            if not callable(makes) or not isinstance(arguments, tuple):
                raise pickle.UnpicklingError("a call of what cannot be called")
            return makes(*arguments)
        raise pickle.UnpicklingError(f"the instruction {name}, which no such file needs")


def _admitted(module: Any, name: Any) -> Any:
    if not isinstance(module, str) or not isinstance(name, str) or (module, name) not in _ADMITTED:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file needs"[:200])
    return _ADMITTED[module, name]


def _pairs(values: list[Any]) -> dict[Any, Any]:
    """A dictionary of keys and values in turn. Keys are plain, as nested ones could take ages to compare."""
    keys = values[::2]
    if len(values) % 2 or not all(isinstance(key, str | bytes | int) for key in keys):
        raise pickle.UnpicklingError("a dictionary whose keys are not plain")
    return dict(zip(keys, values[1::2], strict=True))
