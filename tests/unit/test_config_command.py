"""`phasescope settings`: where they are, what they are, what is wrong."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tui.cli.main import phasescope


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(tmp_path))
    return tmp_path / "settings.toml"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(phasescope, ["settings", *arguments])


def rows(result: Result) -> dict[str, str]:
    """Origin of each line."""
    return {
        left.strip(): origin
        for left, _, origin in (line.rpartition("  # ") for line in result.stdout.splitlines())
        if left
    }


def test_the_path_of_the_file(file: Path) -> None:
    result = run("path")
    assert (result.stdout, result.exit_code) == (f"{file}\n", 0)


def test_each_setting_is_shown_with_its_origin(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(
        '[sampling]\nstop = ["\\u001b[2J", "b"]\nseed = -1\n[presets]\n"a b" = "A B"\n'
        '[keys]\n"chat.regenerate" = "f12"\n'
    )
    monkeypatch.setenv("PHASESCOPE_WINDOW_REDUCED_MOTION", "on")
    result = run()
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    shown = rows(result)
    assert shown['stop = ["\\u001b[2J", "b"]'] == f"{file}:2"
    assert shown["seed = -1"] == f"{file}:3"
    assert shown['"a b" = "A B"'] == f"{file}:5"
    assert shown['"chat.regenerate" = "f12"'] == f"{file}:7"
    assert shown["reduced_motion = true"] == "PHASESCOPE_WINDOW_REDUCED_MOTION"
    assert shown["# temp: 0.8"] == "default"
    assert shown["# n_ctx: as trained, up to 8192"] == "default"


def test_nothing_wrong_is_said_so(file: Path) -> None:
    file.write_text('[window]\ntheme = "phasescope-projector"\n')
    result = run("check")
    assert (result.stdout, result.exit_code) == ("No problems found.\n", 0)


def test_everything_wrong_is_named(file: Path) -> None:
    file.write_text('[window]\ntheme = "nrd"\n[sampling]\ntemp = hot\n[keys]\nchat.stp = "f7"\n')
    result = run("check")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{file}:4: this is not TOML: invalid value",
        f"{file}:2: there is no theme 'nrd'; did you mean 'nord'?",
        f"{file}:6: there is nothing called 'chat.stp' to give keys to; did you mean 'chat.stop'?",
    ]
    shown = run("show")
    assert shown.exit_code == 0
    assert len(shown.stderr.splitlines()) == 3


def test_another_word_is_wrong_usage() -> None:
    assert run("shwo").exit_code == 2
