"""Saving single settings: the file keeps all else, and a broken one is left alone."""

import stat
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from backend.settings import SamplingChoice
from tui.config.load import load_settings
from tui.config.save import SaveError, literal, save, template
from tui.config.schema import NAMED, SECTIONS, SETTINGS, Settings

MINE = """\
# My settings.

[sampling] # for code
top_k = 5   # few
temp = 0.25 # cool

# The rest
stop = [
  "a",  # first
  "b",
]

[window]
theme = 'nord'

[other]
what = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(MINE)
    return path


def settings(path: Path) -> Settings:
    return load_settings(path=path, environ={}).settings


# -------------------------------------------------------------------------- an existing file


def test_only_the_value_changes(file: Path) -> None:
    save(file, {"sampling.temp": 0.5, "window.theme": "dracula"})
    changed = MINE.replace("temp = 0.25 # cool", "temp = 0.5 # cool").replace(
        "theme = 'nord'", 'theme = "dracula"'
    )
    assert file.read_text() == changed


def test_a_setting_that_was_not_there_joins_its_section(file: Path) -> None:
    save(file, {"sampling.min_p": 0.1, "chat.offer_last_chat": False})
    text = file.read_text()
    assert tomllib.loads(text) == tomllib.loads(MINE) | {
        "sampling": {"top_k": 5, "temp": 0.25, "stop": ["a", "b"], "min_p": 0.1},
        "chat": {"offer_last_chat": False},
    }
    for line in MINE.splitlines():
        assert line in text


def test_a_setting_is_taken_out(file: Path) -> None:
    save(file, {"sampling.temp": UNSET, "sampling.seed": UNSET, "chat.system": UNSET})
    assert file.read_text() == MINE.replace("temp = 0.25 # cool\n", "")


def test_nothing_to_change_changes_nothing(file: Path) -> None:
    save(file, {})
    assert file.read_text() == MINE


def test_none_is_written_as_its_number_or_left_out(file: Path) -> None:
    save(file, {"model.n_ctx": 512})
    save(file, {"sampling.seed": None, "sampling.max_tokens": None, "model.n_ctx": None})
    written = tomllib.loads(file.read_text())
    assert written["sampling"]["seed"] == written["sampling"]["max_tokens"] == -1
    assert "n_ctx" not in written["model"]
    sampling = settings(file).sampling
    assert (sampling.seed, sampling.max_tokens) == (None, None)


@pytest.mark.parametrize(
    "before",
    ["[keys]\nchat.stop = 'f7'\n", "[keys]\n'chat.stop' = 'f7'\n", "keys.chat.stop='f7'\n"],
)
def test_a_binding_is_found_however_it_is_written(before: str, file: Path) -> None:
    file.write_text(before)
    save(file, {"keys.chat.stop": "f8"})
    assert dict(settings(file).keys) == {"chat.stop": "f8"}
    save(file, {"keys.chat.stop": UNSET, "keys.chat.regenerate": "ctrl+g"})
    assert dict(settings(file).keys) == {"chat.regenerate": "ctrl+g"}


def test_an_inline_section_stays_one(file: Path) -> None:
    file.write_text("sampling = {temp = 0.5, top_k = 3}  # short\n")
    save(file, {"sampling.temp": 0.75})
    assert file.read_text() == "sampling = {temp = 0.75, top_k = 3}  # short\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"[sampling]\r\n# cool\r\ntemp = 1\r\n", b"[sampling]\r\n# cool\r\ntemp = 0.5\r\n"),
        (b"\xef\xbb\xbf[sampling]\ntemp = 1\n", b"\xef\xbb\xbf[sampling]\ntemp = 0.5\n"),
        ("[sampling]\n# kühl\ntemp = 1".encode(), "[sampling]\n# kühl\ntemp = 0.5".encode()),
    ],
    ids=["line ends", "byte order mark", "no last line end"],
)
def test_bytes_around_a_value_stay(before: bytes, after: bytes, file: Path) -> None:
    file.write_bytes(before)
    save(file, {"sampling.temp": 0.5})
    assert file.read_bytes() == after


@given(
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip),
    text=st.text(st.characters(codec="utf-8"), max_size=200),
)
def test_any_text_comes_back_as_it_was(
    name: str, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("any") / "settings.toml"
    file.write_text(MINE)
    save(file, {f"presets.{name}": text, "sampling.stop": ("x", text + "y")})
    loaded = load_settings(path=file, environ={})
    assert dict(loaded.settings.presets) == {name: text}
    assert loaded.settings.sampling.stop == ("x", text + "y")
    # The section that MINE has and phasescope has not.
    assert len(loaded.problems) == 1


def test_no_stop_texts_is_a_choice_too(file: Path) -> None:
    save(file, {"sampling.stop": ()})
    assert settings(file).sampling.stop == ()


# -------------------------------------------------------------------------------- a new file


def test_a_new_file_is_the_template_with_what_is_set(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "settings.toml"
    save(file, {"sampling.temp": 0.25})
    assert file.read_text() == template().replace("# temp = 0.8", "temp = 0.25")
    assert settings(file) == Settings(sampling=SamplingChoice(temp=0.25))


def test_every_setting_has_its_place_in_the_template(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    for setting in SETTINGS:
        if setting.default is not None:
            save(file, {setting.id: setting.default})
    loaded = load_settings(path=file, environ={})
    assert loaded.problems == ()
    lines = template().splitlines()
    written = file.read_text().splitlines()
    assert len(written) == len(lines)
    for before, after in zip(lines, written, strict=True):
        assert after in {before, before.removeprefix("# ")}
    for setting in SETTINGS:
        if setting.default is not None:
            assert loaded.origins[setting.id].source == "file"


def test_the_template_sets_nothing_and_each_line_of_it_is_right(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    save(file, {})
    loaded = load_settings(path=file, environ={})
    assert (loaded.settings, loaded.problems) == (Settings(), ())
    assert list(tomllib.loads(template())) == list(SECTIONS)
    # With every comment mark taken away that stands before a setting, all of it counts.
    lines = [line.removeprefix("# ") if " = " in line else line for line in template().splitlines()]
    file.write_text("\n".join(lines).replace('"model.gguf"', '"/m.gguf"'))
    loaded = load_settings(path=file, environ={})
    assert loaded.problems == ()
    assert {loaded.origins[setting.id].source for setting in SETTINGS} == {"file"}
    assert all(getattr(loaded.settings, section) for section in NAMED)


def test_a_preset_of_a_new_file_stands_in_its_section(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    save(file, {"presets.mine": "Be brief."})
    lines = file.read_text().splitlines()
    at = lines.index('mine = "Be brief."')
    assert lines.index("[presets]") < at < lines.index("[window]")
    assert not any(line.startswith("#") for line in lines[at : lines.index("[window]")])


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("sampling.temp", "hot", "sampling.temp: 'hot' must be a finite number; nothing was saved"),
        (
            "sampling.top_p",
            7,
            "sampling.top_p: 7 must be a finite number from 0 to 1; nothing was saved",
        ),
        ("sampling.tmp", 1, "there is no setting 'sampling.tmp'; nothing was saved"),
        ("presets", "x", "there is no setting 'presets'; nothing was saved"),
        ("presets.a", 1, "presets.a: 'a' = 1 must be a text in quotes; nothing was saved"),
    ],
)
def test_a_wrong_value_is_not_saved(name: str, value: object, sentence: str, file: Path) -> None:
    with pytest.raises(SaveError) as caught:
        save(file, {"model.n_ctx": 512, name: value})
    assert str(caught.value) == sentence
    assert file.read_text() == MINE


@pytest.mark.parametrize(
    "content",
    [
        b"[sampling]\ntemp = = 1\n",
        b"[sampling]\ntemp = 1\ntemp = 2\n",
        b"[sampling]\n[sampling]\n",
        b"[sampling\n",
        b"x = [\n",
        b"# \xff\n",
        b"sampling = 3\n",
        b"[[sampling]]\n",
    ],
)
def test_a_broken_file_is_never_written_over(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(SaveError, match="nothing was saved") as caught:
        save(file, {"sampling.temp": 0.5})
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == content
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="nothing was saved"):
        save(tmp_path / "file" / "settings.toml", {"sampling.temp": 0.5})


# ------------------------------------------------------------------------------------- disk


def test_a_write_that_fails_leaves_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tui.config.save.os.fsync", full)
    with pytest.raises(SaveError, match="No space left on device"):
        save(file, {"sampling.temp": 0.5})
    assert file.read_text() == MINE
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_mode_stays(file: Path) -> None:
    file.chmod(0o640)
    save(file, {"sampling.temp": 0.5})
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_to_the_file_stays_one(file: Path) -> None:
    link = file.with_name("link.toml")
    link.symlink_to(file)
    save(link, {"sampling.temp": 0.5})
    assert link.is_symlink()
    assert settings(file).sampling.temp == 0.5


@pytest.mark.parametrize("value", [True, 3, 0.5, 1e-7, 'a"\\\n\x7f\x1b', ["a", "\t"], "", "ü☺"])
def test_a_literal_is_toml_on_one_line(value: object) -> None:
    written = literal(value)
    assert "\n" not in written
    assert tomllib.loads(f"x = {written}") == {"x": value}
