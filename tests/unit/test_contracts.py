"""The import contracts cover what they say, also for modules that are new."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]

CHILD = {"backend.local"}
"""What only the child process imports, but for the client's end of the pipe."""


def backend_modules() -> set[str]:
    """The rooms of the backend that the window's process may import."""
    rooms = {
        f"backend.{path.stem}"
        for path in (ROOT / "backend").iterdir()
        if path.stem not in {"__init__", "__pycache__"}
    }
    return rooms - CHILD | {"backend.local.process"}


@pytest.mark.parametrize("library", ["llama_cpp", "models.libggml"])
def test_every_room_is_kept_from_llama_cpp(library: str) -> None:
    (contract,) = [c for c in CONTRACTS if library in c.get("forbidden_modules", ())]
    sources = set(contract["source_modules"])
    assert sources - {"models"} == {"tui"} | backend_modules()


@pytest.mark.parametrize("package", ["backend", "backend/local", "models", "tui"])
def test_a_package_imports_nothing_by_itself(package: str) -> None:
    # It is imported with each of its modules, unseen by the contracts on those.
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which libraries are loaded")
def test_the_window_maps_no_library_of_llama_cpp() -> None:
    script = (
        "import tui.app, tui.cli.window, pathlib;print(pathlib.Path('/proc/self/maps').read_text())"
    )
    done = subprocess.run(
        (sys.executable, "-c", script), capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "python" in done.stdout
    assert "ggml" not in done.stdout
    assert "llama" not in done.stdout
