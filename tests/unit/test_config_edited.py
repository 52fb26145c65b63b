"""Values as lines that are edited, changes of the settings in force, and layers of sampling."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from backend.chat.roles import NO_SYSTEM
from backend.settings import SamplingChoice
from tui.config.change import NotSavedError, changed, in_file, refusal
from tui.config.edited import escaped, fault, shown, typed
from tui.config.kinds import Choice, File, Number, SettingError, Switch, Text, Texts
from tui.config.layers import LLAMA_CPP, MAKERS, Layer, Sampling
from tui.config.load import Flag, Origin, load_settings
from tui.config.presets import BUILT_IN, all_presets, preset_of
from tui.config.schema import SETTINGS, Setting
from tui.screens.behaviour import NO_SYSTEM_ROLE
from tui.text import one_line
from tui.themes import theme_names

CHARACTERS = st.characters(codec="utf-8")


@given(st.lists(st.text(CHARACTERS, min_size=1), min_size=1).map(tuple))
def test_stop_texts_come_back_as_they_were(texts: tuple[str, ...]) -> None:
    line = shown(Texts(), texts)
    assert typed(Texts(), line) == texts
    assert one_line(line) == line


@given(st.text(CHARACTERS, min_size=1))
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert typed(Text(), escaped(text)) == text


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.id)
def test_every_default_can_be_edited_and_kept(setting: Setting) -> None:
    kept = typed(setting.kind, shown(setting.kind, setting.default))
    assert kept == setting.default or (kept is UNSET and setting.default is None)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Number(whole=True, nothing=-1), None),
        (Number(), UNSET),
        (Text(), UNSET),
        (File(), UNSET),
        (Texts(), ()),
    ],
)
def test_an_empty_line_is_no_value_where_there_is_such_a_thing(
    kind: Number | Text | File | Texts, expected: object
) -> None:
    assert typed(kind, "") == expected


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Number(), "warm"),
        (Number(whole=True), "1.5"),
        (Choice(("on", "off")), "of"),
        (Switch(), "maybe"),
        (Texts(), '["a", ""]'),
        (Texts(), '["\\ud800"]'),
        (Text(), "\ud800"),
    ],
)
def test_what_is_wrong_is_refused(kind: Number | Choice | Switch | Text | Texts, line: str) -> None:
    with pytest.raises(SettingError, match=r"^must be"):
        typed(kind, line)
    assert (fault(kind, line) or "").split(" must be")[0]


def test_a_path_starts_from_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(File(), "a.gguf") == str(tmp_path / "a.gguf")
    assert typed(File(lambda: ("chatml",)), "chatml") == "chatml"


# ------------------------------------------------------------------------------------ changes


def test_a_change_keeps_what_stands_above_the_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    loaded = load_settings(
        {"sampling.temp": Flag(0.1, "--temp")},
        path=path,
        environ={"PHASESCOPE_SAMPLING_TOP_K": "3", "PHASESCOPE_NONSENSE": "1"},
    )
    after = changed(loaded, {"sampling.min_p": 0.2, "window.theme": "nord"}, theme_names())
    assert after.settings.sampling == SamplingChoice(temp=0.1, top_k=3, min_p=0.2)
    assert after.origins["sampling.temp"] == Origin("flag", "--temp")
    assert after.origins["sampling.top_k"] == Origin("environment", "PHASESCOPE_SAMPLING_TOP_K")
    assert after.origins["sampling.min_p"].source == "file"
    assert after.problems == loaded.problems
    assert len(after.problems) == 1
    assert in_file(after, "sampling.min_p") == 0.2
    assert in_file(after, "sampling.temp") is UNSET


def test_a_problem_that_was_mended_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("[window]\ntheme = 3\nother = 1\n")
    loaded = load_settings(path=path, environ={})
    after = changed(loaded, {"window.theme": "nord"}, theme_names())
    assert after.settings.window.theme == "nord"
    assert [problem.partition(": ")[2][:8] for problem in after.problems] == ["there is"]


def test_what_is_not_saved_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("[window\n")
    with pytest.raises(NotSavedError, match="nothing was saved"):
        changed(load_settings(path=path, environ={}), {"window.theme": "nord"}, theme_names())
    assert path.read_text() == "[window\n"


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (None, None),
        (Origin("default"), None),
        (Origin("file", "settings.toml:1"), None),
        (Origin("flag", "--temp"), "the flag --temp sets this"),
        (Origin("environment", "PHASESCOPE_X"), "the environment variable PHASESCOPE_X sets"),
    ],
)
def test_only_the_file_can_be_changed(origin: Origin | None, words: str | None) -> None:
    refused = refusal(origin)
    assert refused is None if words is None else refused is not None and words in refused


# ----------------------------------------------------------------------- layers and presets


def test_the_first_that_chose_comes_first() -> None:
    sampling = Sampling(
        SamplingChoice(temp=0.1),
        SamplingChoice(temp=0.2, top_k=5),
        SamplingChoice(temp=0.3, min_p=0.0),
        {"sampling.temp": Origin("flag", "--temp"), "sampling.top_k": Origin("default")},
    )
    assert sampling.layers("temp") == [
        Layer("this chat", 0.1),
        Layer("--temp", 0.2),
        Layer(MAKERS, 0.3),
        Layer(LLAMA_CPP, 0.8),
    ]
    assert sampling.layers("top_k") == [Layer("your settings", 5), Layer(LLAMA_CPP, 40)]
    assert sampling.layers("min_p")[0] == Layer(MAKERS, 0.0)
    assert sampling.layers("stop") == [Layer(LLAMA_CPP, ())]


def test_own_presets_come_before_those_that_are_brought() -> None:
    own = {"tutor": "Mine.", "other": "Another."}
    presets = all_presets(own)
    assert list(presets)[:2] == ["tutor", "other"]
    assert presets["tutor"] == "Mine."
    assert presets["concise"] == BUILT_IN["concise"]
    assert preset_of("Mine.", own) == "tutor"
    assert preset_of(None, own) == "none"
    assert preset_of("Nobody's.", own) is None


def test_the_words_on_a_missing_system_role_are_those_of_the_load() -> None:
    assert NO_SYSTEM_ROLE in NO_SYSTEM
