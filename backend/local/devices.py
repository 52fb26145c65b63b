"""The devices that llama.cpp can compute on."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library

from backend.protocol import DeviceFacts

Kind = Literal["cpu", "gpu", "igpu", "accelerator"]

KINDS: tuple[Kind, ...] = ("cpu", "gpu", "igpu", "accelerator")
"""By ggml's `ggml_backend_dev_type`."""


def device_names() -> tuple[str, ...]:
    """Names of all devices of this build, e.g. `CPU`, `CUDA0`, `Metal`."""
    registry, base = _libraries()
    return tuple(_text(base.ggml_backend_dev_name(device)) for device in _devices(registry))


def device_facts(names: Sequence[str]) -> tuple[DeviceFacts, ...]:
    """What ggml tells of the devices with these names, their memory as it is now.

    Others are not asked: a GPU that is asked for its memory is woken for it.
    """
    registry, base = _libraries()
    return tuple(
        _facts(base, device)
        for device in _devices(registry)
        if _text(base.ggml_backend_dev_name(device)) in names
    )


def _facts(base: ctypes.CDLL, device: int) -> DeviceFacts:
    number = base.ggml_backend_dev_type(device)
    kind: Kind = KINDS[number] if 0 <= number < len(KINDS) else "accelerator"
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    base.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    # Of main memory ggml claims on most systems that all of it is free, for want of knowledge.
    assumed = kind == "cpu" and free.value == total.value
    return DeviceFacts(
        name=_text(base.ggml_backend_dev_name(device)),
        description=_text(base.ggml_backend_dev_description(device)).strip(),
        kind=kind,
        total_bytes=total.value or None,
        free_bytes=None if assumed or not total.value else free.value,
    )


def _devices(registry: ctypes.CDLL) -> list[int]:
    """Handles of all devices."""
    return [
        registry.ggml_backend_dev_get(index) for index in range(registry.ggml_backend_dev_count())
    ]


def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The library with the registry of devices, and the one that tells of each; both typed."""
    folder = Path(llama_cpp.__file__).parent / "lib"
    registry = load_shared_library("ggml", folder)
    base = load_shared_library("ggml-base", folder)
    registry.ggml_backend_dev_count.restype = ctypes.c_size_t
    registry.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    registry.ggml_backend_dev_get.restype = ctypes.c_void_p
    for function in (base.ggml_backend_dev_name, base.ggml_backend_dev_description):
        function.argtypes = [ctypes.c_void_p]
        function.restype = ctypes.c_char_p
    base.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    base.ggml_backend_dev_type.restype = ctypes.c_int
    size = ctypes.POINTER(ctypes.c_size_t)
    base.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, size, size]
    base.ggml_backend_dev_memory.restype = None
    return registry, base


def _text(name: bytes | None) -> str:
    return (name or b"").decode(errors="replace")
