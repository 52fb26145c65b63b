"""What a path that is being typed can become."""

import os
from pathlib import Path

import pytest

from models.starter import starter_path
from tui.paths import MAX_SUGGESTIONS, model_path, suggest_models, suggest_paths


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("notes.txt", "my notes.txt", ".hidden", "план.txt"):
        (tmp_path / name).write_text("x", "utf-8")
    for name in ("sources", "漢字", ".git"):
        (tmp_path / name).mkdir()
    (tmp_path / "sources" / "main.py").write_text("x", "utf-8")
    return tmp_path


def suggested(typed: str) -> list[str]:
    """The suggestions' texts."""
    return [suggestion.text for suggestion in suggest_paths(typed)]


def test_folders_come_first_and_hidden_names_only_after_a_dot() -> None:
    assert suggested("") == ["sources/", "漢字/", "my notes.txt", "notes.txt", "план.txt"]
    assert suggested(".") == [".git/", ".hidden"]


def test_a_name_that_begins_so_stands_before_one_that_contains_it() -> None:
    assert suggested("no") == ["notes.txt", "my notes.txt"]
    assert suggested("пл") == ["план.txt"]
    assert suggested("漢") == ["漢字/"]


def test_a_folder_goes_on(folder: Path) -> None:
    assert [s.more for s in suggest_paths("sou")] == [True]
    assert suggested("sources/") == ["sources/main.py"]
    assert suggested(f"{folder}/sources/m") == [f"{folder}/sources/main.py"]


def test_home_quotes_and_backslashes_are_understood() -> None:
    assert suggested("~") == ["~/"]
    assert suggested("~/sou") == ["~/sources/"]
    assert suggested('"my no') == ["my notes.txt"]
    if os.name != "nt":
        assert suggested("my\\ no") == ["my notes.txt"]


def test_a_folder_that_is_not_there_suggests_nothing() -> None:
    assert suggested("nowhere/a") == []
    assert suggested("notes.txt/") == []
    assert suggested("a\x00/b") == []


@pytest.mark.parametrize("name", ["line\nend", "es\x1b[2Jcape"])
def test_names_that_cannot_be_typed_are_left_out(folder: Path, name: str) -> None:
    (folder / "sources" / name).write_text("x")
    assert suggested("sources/") == ["sources/main.py"]


def test_a_large_folder_suggests_a_bounded_number(folder: Path) -> None:
    for index in range(10_000):
        (folder / "sources" / f"f{index:05}").touch()
    assert suggested("sources/")[:2] == ["sources/f00000", "sources/f00001"]
    assert len(suggested("sources/")) == MAX_SUGGESTIONS
    assert suggested("sources/f0999")[:10] == [f"sources/f0999{digit}" for digit in range(10)]


def test_for_a_model_the_starter_folders_and_gguf_files_are_suggested(folder: Path) -> None:
    (folder / "B.GGUF").write_bytes(b"GGUF")
    (folder / "sources" / "a.gguf").write_bytes(b"GGUF")
    assert [found.text for found in suggest_models("")] == [
        "starter",
        "sources/",
        "漢字/",
        "B.GGUF",
    ]
    assert [found.text for found in suggest_models("sources/")] == ["sources/a.gguf"]


def test_the_starter_has_a_name(folder: Path) -> None:
    assert model_path("starter") == starter_path()
    assert model_path("./starter") == folder / "starter"
    assert model_path("~/x.gguf") == folder / "x.gguf"
