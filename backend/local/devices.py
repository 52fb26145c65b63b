"""The devices that llama.cpp can compute on."""

import ctypes
from pathlib import Path

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library


def device_names() -> tuple[str, ...]:
    """Names of all devices of this build, e.g. `CPU`, `CUDA0`, `Metal`."""
    folder = Path(llama_cpp.__file__).parent / "lib"
    registry = load_shared_library("ggml", folder)
    base = load_shared_library("ggml-base", folder)
    registry.ggml_backend_dev_count.restype = ctypes.c_size_t
    registry.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    registry.ggml_backend_dev_get.restype = ctypes.c_void_p
    base.ggml_backend_dev_name.argtypes = [ctypes.c_void_p]
    base.ggml_backend_dev_name.restype = ctypes.c_char_p
    return tuple(
        base.ggml_backend_dev_name(registry.ggml_backend_dev_get(index)).decode()
        for index in range(registry.ggml_backend_dev_count())
    )
