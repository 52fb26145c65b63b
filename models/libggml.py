"""libggml-base's GGUF reader through ctypes: the only place in `models` with native code.

Nothing is loaded by importing this module; the library is loaded by the first `GgufFile`.
It can abort the process on hostile input, so files are opened in child processes only.
"""

import ctypes
import os
import re
import struct
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from models.errors import printable

MOST_ELEMENTS = 4096
"""Longest array of numbers that is read: far more than llama.cpp's limit of 512 layers."""

_STRING = 8
_ARRAY = 9
_INTEGERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 7: "?", 10: "Q", 11: "q"}
"""Formats of `enum gguf_type`'s integer and boolean members (gguf.h), as `struct` writes them."""

_FLOAT32 = 6
_NUMBERS = {kind: code for kind, code in _INTEGERS.items() if code != "?"} | {6: "f", 12: "d"}

_FUNCTION = re.compile(r"^\w+: ")
"""The name of the C function before a line of the log."""

_DIMENSIONS = 4
"""Dimensions of a ggml tensor (`GGML_MAX_DIMS`)."""

_LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _InitParams(ctypes.Structure):
    """`struct gguf_init_params`: without `ctx`, tensor data is neither allocated nor read."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


class GgufReadError(Exception):
    """The library refused the file, or a value is not of the kind that was asked for."""


class TensorEntry(NamedTuple):
    """One tensor of a file.

    Attributes:
        name: Its name.
        type: Name of its ggml type, in capitals (`F32`, `Q4_1`, `Q4_K`).
        shape: Elements along each of the four dimensions, the row length first.
        offset: Bytes from the start of the data section.
        size: Its bytes.
    """

    name: str
    type: str
    shape: tuple[int, int, int, int]
    offset: int
    size: int


class GgufFile:
    """An opened GGUF header; a context manager that frees it.

    Args:
        path: A file that `models.sniff.check_file` has passed.

    Raises:
        GgufReadError: The library refused the file; the message is its reason.
    """

    def __init__(self, path: Path) -> None:
        self._lib = _library()
        name = str(path).encode() if sys.platform == "win32" else os.fsencode(path)
        with _CapturedLog(self._lib) as log:
            handle = self._lib.gguf_init_from_file(name, _InitParams(no_alloc=True, ctx=None))
        if not handle:
            raise GgufReadError(log.reason())
        self._handle = ctypes.c_void_p(handle)
        self._keys = {
            self._lib.gguf_get_key(self._handle, index).decode(errors="replace"): index
            for index in range(self._lib.gguf_get_n_kv(self._handle))
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lib.gguf_free(self._handle)

    def text(self, key: str) -> str | None:
        """The string at a key, or None without the key.

        Raises:
            GgufReadError: The value is no string.
        """
        index = self._keys.get(key)
        if index is None:
            return None
        if self._lib.gguf_get_kv_type(self._handle, index) != _STRING:
            raise GgufReadError(f"{key} is no text")
        value: bytes = self._lib.gguf_get_val_str(self._handle, index)
        return value.decode(errors="replace")

    def integer(self, key: str) -> int | None:
        """The integer or boolean at a key, or None without the key.

        Raises:
            GgufReadError: The value is no integer.
        """
        values = self.integers(key)
        if values is None:
            return None
        if isinstance(values, tuple):
            raise GgufReadError(f"{key} is a list where one number belongs")
        return values

    def integers(self, key: str) -> int | tuple[int, ...] | None:
        """The integer at a key, or all integers of an array, or None without the key.

        Raises:
            GgufReadError: The value is of another type, or an array of more than
                `MOST_ELEMENTS` elements.
        """
        index = self._keys.get(key)
        if index is None:
            return None
        kind: int = self._lib.gguf_get_kv_type(self._handle, index)
        if kind == _ARRAY:
            return self._array(key, index)
        if kind not in _INTEGERS:
            raise GgufReadError(f"{key} is no whole number")
        return _unpack(self._lib.gguf_get_val_data(self._handle, index), kind, 1)[0]

    def number(self, key: str) -> float | None:
        """The integer or float at a key, or None without the key; it may be no number (nan).

        Raises:
            GgufReadError: The value is of another type.
        """
        index = self._keys.get(key)
        if index is None:
            return None
        kind: int = self._lib.gguf_get_kv_type(self._handle, index)
        if kind not in _NUMBERS:
            raise GgufReadError(f"{key} is no number")
        layout = struct.Struct(f"={_NUMBERS[kind]}")
        address = self._lib.gguf_get_val_data(self._handle, index)
        (value,) = layout.unpack(ctypes.string_at(address, layout.size))
        return _as_written(value) if kind == _FLOAT32 else value

    def length(self, key: str) -> int | None:
        """Elements of the array at a key; None without the key or where it is no array."""
        index = self._keys.get(key)
        if index is None or self._lib.gguf_get_kv_type(self._handle, index) != _ARRAY:
            return None
        return int(self._lib.gguf_get_arr_n(self._handle, index))

    @property
    def data_offset(self) -> int:
        """Bytes before the data section."""
        return int(self._lib.gguf_get_data_offset(self._handle))

    def tensors(self) -> Iterator[TensorEntry]:
        """All tensors in the file's order."""
        lib, handle = self._lib, self._handle
        for index in range(lib.gguf_get_n_tensors(handle)):
            type_name: bytes = lib.ggml_type_name(lib.gguf_get_tensor_type(handle, index))
            shape = (ctypes.c_int64 * _DIMENSIONS).from_address(
                lib.gguf_get_tensor_ne(handle, index)
            )
            yield TensorEntry(
                name=lib.gguf_get_tensor_name(handle, index).decode(errors="replace"),
                type=type_name.decode().upper(),
                shape=(shape[0], shape[1], shape[2], shape[3]),
                offset=lib.gguf_get_tensor_offset(handle, index),
                size=lib.gguf_get_tensor_size(handle, index),
            )

    def _array(self, key: str, index: int) -> tuple[int, ...]:
        kind: int = self._lib.gguf_get_arr_type(self._handle, index)
        if kind not in _INTEGERS:
            raise GgufReadError(f"{key} is no list of whole numbers")
        count: int = self._lib.gguf_get_arr_n(self._handle, index)
        if count > MOST_ELEMENTS:
            raise GgufReadError(f"{key} has {count} elements, more than {MOST_ELEMENTS}")
        if count == 0:
            return ()
        return _unpack(self._lib.gguf_get_arr_data(self._handle, index), kind, count)


def _unpack(address: int, kind: int, count: int) -> tuple[int, ...]:
    """Integers of one GGUF type that lie at an address."""
    layout = struct.Struct(f"={count}{_INTEGERS[kind]}")
    return tuple(int(value) for value in layout.unpack(ctypes.string_at(address, layout.size)))


def _as_written(value: float) -> float:
    """The shortest decimal that is this 32-bit float: 0.95, not 0.949999988079071."""
    decimals = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((number for number in decimals if ctypes.c_float(number).value == value), value)


class _CapturedLog:
    """Takes the library's log over for a while, so that a refusal's reason is known.

    The callback that was set before is put back: the library may be shared with llama.cpp.
    """

    def __init__(self, lib: ctypes.CDLL) -> None:
        self._lib = lib
        self._lines: list[str] = []
        self._callback = _LogCallback(self._take)
        self._before = (ctypes.c_void_p(), ctypes.c_void_p())

    def _take(self, _level: int, text: bytes, _data: object) -> None:
        self._lines.append(text.decode(errors="replace"))

    def __enter__(self) -> Self:
        callback, data = self._before
        self._lib.ggml_log_get(ctypes.byref(callback), ctypes.byref(data))
        self._lib.ggml_log_set(ctypes.cast(self._callback, ctypes.c_void_p), None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lib.ggml_log_set(*self._before)

    def reason(self) -> str:
        """The first line that was logged, without the name of the C function."""
        lines = [line for line in "".join(self._lines).splitlines() if line.strip()]
        if not lines:
            return "the header ends too early"
        return printable(_FUNCTION.sub("", lines[0])).strip()


@cache
def _library() -> ctypes.CDLL:
    """Loads libggml-base from the llama_cpp package, which is not imported for it.

    Raises:
        ImportError: The package or its library is not installed.
    """
    for path in _library_paths():
        if path.is_file():
            return _with_signatures(ctypes.CDLL(str(path)))
    raise ImportError("libggml-base is missing: install llama-cpp-python")


def _library_paths() -> Iterator[Path]:
    """Where llama_cpp keeps its libraries, with their name on each system."""
    names = {
        "win32": ("ggml-base.dll", "libggml-base.dll"),
        "darwin": ("libggml-base.dylib", "libggml-base.so"),
    }.get(sys.platform, ("libggml-base.so",))
    override = os.environ.get("LLAMA_CPP_LIB_PATH")
    if override:
        folders = [Path(override)]
    else:
        spec = find_spec("llama_cpp")
        locations = (spec.submodule_search_locations if spec else None) or ()
        folders = [Path(location) / "lib" for location in locations]
    for folder in folders:
        for name in names:
            yield folder / name


def _with_signatures(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Declares argument and result types of the functions used (gguf.h, ggml.h)."""
    pointer, index = ctypes.c_void_p, ctypes.c_int64
    lib.gguf_init_from_file.argtypes = (ctypes.c_char_p, _InitParams)
    lib.gguf_init_from_file.restype = pointer
    lib.gguf_free.argtypes = (pointer,)
    lib.gguf_free.restype = None
    by_file = {
        "gguf_get_n_kv": ctypes.c_int64,
        "gguf_get_n_tensors": ctypes.c_int64,
        "gguf_get_data_offset": ctypes.c_size_t,
    }
    for name, result in by_file.items():
        getattr(lib, name).argtypes = (pointer,)
        getattr(lib, name).restype = result
    by_index = {
        "gguf_get_key": ctypes.c_char_p,
        "gguf_get_kv_type": ctypes.c_int,
        "gguf_get_val_str": ctypes.c_char_p,
        "gguf_get_val_data": pointer,
        "gguf_get_arr_type": ctypes.c_int,
        "gguf_get_arr_n": ctypes.c_size_t,
        "gguf_get_arr_data": pointer,
        "gguf_get_tensor_name": ctypes.c_char_p,
        "gguf_get_tensor_type": ctypes.c_int,
        "gguf_get_tensor_ne": pointer,
        "gguf_get_tensor_offset": ctypes.c_size_t,
        "gguf_get_tensor_size": ctypes.c_size_t,
    }
    for name, kind in by_index.items():
        getattr(lib, name).argtypes = (pointer, index)
        getattr(lib, name).restype = kind
    lib.ggml_type_name.argtypes = (ctypes.c_int,)
    lib.ggml_type_name.restype = ctypes.c_char_p
    lib.ggml_log_get.argtypes = (pointer, pointer)
    lib.ggml_log_get.restype = None
    lib.ggml_log_set.argtypes = (pointer, pointer)
    lib.ggml_log_set.restype = None
    return lib
