"""Themes and keys of the settings against those that there are."""

from pathlib import Path

import pytest

from tui.config.known import bindings_of_the_window, checked, key_fault
from tui.config.load import Loaded, load_settings
from tui.config.schema import EXAMPLES
from tui.themes import theme_names

BINDINGS = {
    "chat.stop": "escape",
    "chat.regenerate": "ctrl+r",
    "chat.new_chat": "ctrl+n",
    "log.back": "escape,ctrl+l,q",
}


def check(folder: Path, text: str) -> Loaded:
    file = folder / "settings.toml"
    file.write_text(text)
    loaded = checked(load_settings(path=file, environ={}), ("phasescope", "nord"), BINDINGS)
    problems = tuple(problem.replace(str(file), "F") for problem in loaded.problems)
    return loaded._replace(problems=problems)


def test_what_there_is_stays(tmp_path: Path) -> None:
    loaded = check(
        tmp_path, '[window]\ntheme = "nord"\n[keys]\n"chat.stop" = "f7"\nchat.regenerate="?"\n'
    )
    assert loaded.problems == ()
    assert loaded.settings.window.theme == "nord"
    assert dict(loaded.settings.keys) == {"chat.stop": "f7", "chat.regenerate": "?"}


def test_a_theme_that_is_none_is_named_and_the_default_shown(tmp_path: Path) -> None:
    loaded = check(tmp_path, '[window]\ntheme = "nrd"\nreduced_motion = true')
    assert loaded.problems == ("F:2: there is no theme 'nrd'; did you mean 'nord'?",)
    assert loaded.settings.window.theme == "phasescope"
    assert loaded.settings.window.reduced_motion
    assert str(loaded.origins["window.theme"]) == "default"


def test_a_theme_out_of_the_environment_is_named_by_its_variable(tmp_path: Path) -> None:
    environ = {"PHASESCOPE_WINDOW_THEME": "zzz"}
    loaded = checked(load_settings(path=tmp_path / "none", environ=environ), ("phasescope",), {})
    assert loaded.problems == ("PHASESCOPE_WINDOW_THEME: there is no theme 'zzz'",)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "chat.regenrate = 'f7'",
            (
                "there is nothing called 'chat.regenrate' to give keys to; "
                "did you mean 'chat.regenerate'?"
            ),
        ),
        ("chat.stop = 'contrl+g'", "'contrl+g' is no key: there is no 'contrl' to hold"),
        ("chat.stop = 'escpe'", "'escpe' is no key; did you mean 'escape'?"),
        ("chat.stop = 'f7,'", "'' is no key"),
        ("chat.stop = 'ctrl+n'", "ctrl+n is the key of chat.new_chat already"),
        ('chat.stop = "ctrl+\\u001b"', "'ctrl+\\x1b' is no key"),
    ],
)
def test_keys_that_cannot_be_are_named_and_the_others_count(
    line: str, sentence: str, tmp_path: Path
) -> None:
    loaded = check(tmp_path, f"[keys]\nlog.back = 'f9'\n{line}\n")
    assert loaded.problems == (f"F:3: {sentence}",)
    assert dict(loaded.settings.keys) == {"log.back": "f9"}
    assert "keys.log.back" in loaded.origins
    assert not any(name.startswith("keys.chat") for name in loaded.origins)


def test_two_bindings_can_change_places(tmp_path: Path) -> None:
    loaded = check(tmp_path, "[keys]\nchat.regenerate = 'ctrl+n'\nchat.new_chat = 'ctrl+r'\n")
    assert loaded.problems == ()


def test_a_key_given_twice_goes_to_the_first(tmp_path: Path) -> None:
    loaded = check(tmp_path, "[keys]\nchat.regenerate = 'f7'\nchat.new_chat = 'f6,f7'\n")
    assert loaded.problems == ("F:3: f7 is the key of chat.regenerate already",)
    assert dict(loaded.settings.keys) == {"chat.regenerate": "f7"}


def test_a_place_that_did_not_become_free_is_not_given_away(tmp_path: Path) -> None:
    loaded = check(tmp_path, "[keys]\nchat.new_chat = 'nokey'\nchat.regenerate = 'ctrl+n'\n")
    assert loaded.problems == (
        "F:2: 'nokey' is no key",
        "F:3: ctrl+n is the key of chat.new_chat already",
    )
    assert dict(loaded.settings.keys) == {}


def test_another_screen_may_use_the_same_key(tmp_path: Path) -> None:
    assert check(tmp_path, "[keys]\nlog.back = 'ctrl+r'\n").problems == ()


@pytest.mark.parametrize(
    "key",
    ["f1", "ctrl+g", "ctrl+shift+left", "alt+1", "?", "+", "ctrl+slash", "question_mark", "é"],
)
def test_keys_of_textual_are_keys(key: str) -> None:
    assert key_fault(key) is None


def test_every_key_of_the_window_can_be_named() -> None:
    bindings = bindings_of_the_window()
    assert {"chat.regenerate", "composer.send", "help.back", "log.back"} <= bindings.keys()
    for keys in bindings.values():
        for key in keys.split(","):
            assert key_fault(key) is None


def test_the_example_in_the_template_can_be_taken(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[keys]\n{EXAMPLES['keys']}\n")
    loaded = checked(
        load_settings(path=file, environ={}), ("phasescope",), bindings_of_the_window()
    )
    assert loaded.problems == ()
    assert loaded.settings.keys


def test_the_settings_of_the_readme_can_be_taken(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "settings.toml"
    file.write_text(example)
    loaded = checked(load_settings(path=file, environ={}), theme_names(), bindings_of_the_window())
    assert loaded.problems == ()
    assert loaded.settings.keys


def test_the_settings_of_the_readme_are_right(tmp_path: Path) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    text = readme.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    loaded = load_settings(path=file, environ={})
    assert "[keys]" in text
    assert checked(loaded, theme_names(), bindings_of_the_window()).problems == ()
