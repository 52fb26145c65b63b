"""Cancelling from another thread, inside a decode call as well as between two."""

import ctypes
import ctypes.util
import sys

from llama_cpp import llama_cpp as lib


class CancelFlag:
    """A flag that llama.cpp itself looks at before each step of a computation.

    llama.cpp asks a C function whether to abort, once per graph node. The C library's `strlen`
    over a small buffer is such a function: 0, "go on", while the buffer is empty; 1, "abort",
    once a byte is written to it. No Python runs in between, so that it costs decode nothing.
    It works on the CPU only; on a GPU the flag counts between two decode calls.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
        self._buffer = ctypes.create_string_buffer(8)
        address = ctypes.cast(library.strlen, ctypes.c_void_p).value
        assert address is not None
        self.callback = lib.ggml_abort_callback(address)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self) -> None:
        """Ask for an end; may be called from any thread."""
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        """Forget what was asked before."""
        self._buffer[0] = b"\x00"

    @property
    def is_set(self) -> bool:
        """Whether an end was asked for."""
        return self._buffer[0] != b"\x00"
