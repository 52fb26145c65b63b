"""The settings in force: their layers, and every wrong entry named with its place."""

import inspect
import os
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from backend.paths import settings_path
from backend.settings import EngineSettings, SamplingChoice, SamplingSettings
from tui.config.load import Flag, Loaded, Origin, load_settings
from tui.config.schema import (
    BY_VARIABLE,
    DEFAULTS,
    NAMED,
    SECTIONS,
    SETTINGS,
    ChatSettings,
    ModelSettings,
    Setting,
    Settings,
    WindowSettings,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def read(file: Path, text: str | bytes, **environ: str) -> Loaded:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_settings(path=file, environ=environ)


def told(file: Path, text: str | bytes, **environ: str) -> list[str]:
    """The problems, without the folder of the file."""
    return [problem.replace(str(file), "F") for problem in read(file, text, **environ).problems]


# ------------------------------------------------------------------------------- the table


def test_every_field_has_one_row_in_the_table() -> None:
    fields = [
        f"{section}.{name}"
        for section in SECTIONS
        if section not in NAMED
        for name in getattr(Settings(), section).__struct_fields__
    ]
    assert sorted(setting.id for setting in SETTINGS) == sorted(fields)
    assert tuple(SECTIONS) == Settings.__struct_fields__


def test_engine_and_sampling_can_be_set_whole() -> None:
    names = {setting.name for setting in SETTINGS}
    assert set(EngineSettings.__struct_fields__) <= names
    assert set(SamplingSettings.__struct_fields__) <= names


@pytest.mark.parametrize("struct", [ModelSettings, ChatSettings, WindowSettings, Settings])
def test_every_field_is_explained_where_it_is_declared(struct: type[msgspec.Struct]) -> None:
    explained = inspect.getdoc(struct) or ""
    for name in inspect.get_annotations(struct):
        assert f"    {name}: " in explained


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.id)
def test_a_default_is_allowed_and_can_be_written(setting: Setting) -> None:
    written = setting.kind.plain(setting.default)
    if written is None:
        # It is written by leaving it out; words say what holds then.
        assert setting.default is None
        assert setting.unset
    else:
        assert setting.kind.check(written) == setting.default


def test_the_model_section_is_what_an_engine_takes() -> None:
    model = ModelSettings(n_ctx=512, type_k="q8_0", path="m.gguf")
    assert model.engine == EngineSettings(n_ctx=512, type_k="q8_0")
    assert type(model.engine) is EngineSettings


# ---------------------------------------------------------------------------------- layers


def test_without_anything_all_is_default(file: Path) -> None:
    loaded = load_settings(path=file, environ={})
    assert loaded.settings == Settings()
    assert loaded.settings.sampling == SamplingChoice()
    assert loaded.problems == ()
    assert {str(origin) for origin in loaded.origins.values()} == {"default"}


def test_each_layer_stands_over_the_ones_before(file: Path) -> None:
    file.write_text("[sampling]\ntemp = 0.1\ntop_k = 1\nmin_p = 0.5\n")
    environ = {"PHASESCOPE_SAMPLING_TOP_K": "2", "PHASESCOPE_SAMPLING_MIN_P": "0.25"}
    flags = {"sampling.min_p": Flag(0.125, "--min-p")}
    loaded = load_settings(flags, path=file, environ=environ)
    assert loaded.settings.sampling == SamplingChoice(temp=0.1, top_k=2, min_p=0.125)
    assert loaded.origins["sampling.temp"] == Origin("file", f"{file}:2")
    assert loaded.origins["sampling.top_k"] == Origin("environment", "PHASESCOPE_SAMPLING_TOP_K")
    assert loaded.origins["sampling.min_p"] == Origin("flag", "--min-p")
    assert loaded.origins["sampling.top_p"] == Origin("default")


def test_a_file_can_set_everything(file: Path) -> None:
    template = file.with_name("my template.jinja")
    template.write_text("{{ messages }}")
    loaded = read(
        file,
        """
[model]
path = "models/a.gguf"
n_ctx = 512
n_batch = 64
n_ubatch = 32
n_threads = 3
n_threads_batch = 4
n_gpu_layers = 5
flash_attn = "on"
type_k = "q8_0"
type_v = "q4_0"
swa_full = true
chat_template = "my template.jinja"
[sampling]
temp = 0
top_k = 3
top_p = 1
min_p = 0.125
typical_p = 0.5
xtc_probability = 0.25
xtc_threshold = 0.2
repeat_penalty = 1.5
repeat_last_n = -1
presence_penalty = -0.5
frequency_penalty = 0.5
seed = 7
max_tokens = 9
stop = ["\\n", "User:"]
[chat]
system = "brief"
offer_last_chat = false
[presets]
brief = "Be brief."
"two words" = "Say it in two words."
[window]
theme = "nord"
reduced_motion = true
glyphs = "plain"
fold_thinking = false
[keys]
"chat.regenerate" = "ctrl+g, f6"
chat.stop = ["f7", "f8"]
""",
    )
    assert loaded.problems == ()
    settings = loaded.settings
    assert settings.model == ModelSettings(
        path=str(file.parent / "models" / "a.gguf"),
        n_ctx=512,
        n_batch=64,
        n_ubatch=32,
        n_threads=3,
        n_threads_batch=4,
        n_gpu_layers=5,
        flash_attn="on",
        type_k="q8_0",
        type_v="q4_0",
        swa_full=True,
        chat_template=str(template),
    )
    assert settings.sampling.settled() == SamplingSettings(
        temp=0.0,
        top_k=3,
        top_p=1.0,
        min_p=0.125,
        typical_p=0.5,
        xtc_probability=0.25,
        xtc_threshold=0.2,
        repeat_penalty=1.5,
        repeat_last_n=-1,
        presence_penalty=-0.5,
        frequency_penalty=0.5,
        seed=7,
        max_tokens=9,
        stop=("\n", "User:"),
    )
    assert settings.chat == ChatSettings(system="brief", offer_last_chat=False)
    assert dict(settings.presets) == {"brief": "Be brief.", "two words": "Say it in two words."}
    assert settings.system_prompt == "Be brief."
    assert settings.window == WindowSettings("nord", True, "plain", False)
    assert dict(settings.keys) == {"chat.regenerate": "ctrl+g,f6", "chat.stop": "f7,f8"}
    assert {loaded.origins[setting.id].source for setting in SETTINGS} == {"file"}


def test_a_system_prompt_that_is_no_preset_is_a_text(file: Path) -> None:
    assert read(file, '[chat]\nsystem = "Be kind."').settings.system_prompt == "Be kind."
    assert read(file, "").settings.system_prompt is None


@pytest.mark.parametrize("section", ["sampling.temp = 0.5", "sampling = {temp = 0.5}"])
def test_other_ways_of_writing_the_same_in_toml_are_the_same(section: str, file: Path) -> None:
    loaded = read(file, section)
    assert loaded.problems == ()
    assert loaded.settings.sampling.temp == 0.5


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbf[sampling]\r\ntemp = 0.5\r\n", b"[sampling]\ntemp=0.5"]
)
def test_windows_files_are_read_too(text: bytes, file: Path) -> None:
    loaded = read(file, text)
    assert (loaded.settings.sampling.temp, loaded.problems) == (0.5, ())


def test_minus_one_stands_for_no_number(file: Path) -> None:
    sampling = read(file, "[sampling]\nseed = -1\nmax_tokens = -1").settings.sampling
    assert sampling == SamplingChoice(seed=None, max_tokens=None)
    # It is a choice: it stands over what another layer says.
    assert sampling.over(SamplingChoice(seed=3)).seed is None


@pytest.mark.parametrize("name", ["chatml", "{home}/t.jinja"])
def test_a_template_is_a_name_or_a_file(
    name: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(file.parent))
    monkeypatch.setenv("USERPROFILE", str(file.parent))
    (file.parent / "t.jinja").write_text("{{ 1 }}")
    text = f'[model]\nchat_template = "{name.replace("{home}", "~")}"'
    loaded = read(file, text)
    assert loaded.problems == ()
    assert loaded.settings.model.chat_template == name.replace("{home}", str(file.parent))


# ------------------------------------------------------------------------------- the file's place


def test_the_data_folder_moves_the_settings_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("PHASESCOPE_SETTINGS", raising=False)
    assert settings_path() == tmp_path / "settings.toml"
    (tmp_path / "settings.toml").write_text("[sampling]\ntemp = 0.5")
    assert load_settings().settings.sampling.temp == 0.5


def test_another_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PHASESCOPE_SETTINGS", str(tmp_path / "mine.toml"))
    assert load_settings().problems == (
        f"PHASESCOPE_SETTINGS: there is no file {tmp_path / 'mine.toml'}",
    )
    (tmp_path / "mine.toml").write_text("[sampling]\ntemp = 0.5")
    loaded = load_settings()
    assert (loaded.settings.sampling.temp, loaded.problems) == (0.5, ())


def test_reading_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(tmp_path / "data"))
    assert load_settings().problems == ()
    assert not (tmp_path / "data").exists()


# -------------------------------------------------------------------------------- problems


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("tmp = 1", "there is no setting 'tmp' in [sampling]; did you mean 'temp'?"),
        ("qqqq = 1", "there is no setting 'qqqq' in [sampling]"),
        ("n_ctx = 1", "there is no setting 'n_ctx' in [sampling]; it belongs in [model]"),
        ("temp.x = 1", "there is no setting 'temp.x' in [sampling]; did you mean 'temp'?"),
        ('temp = "hot"', "temp = 'hot' must be a finite number"),
        ("temp = true", "temp = true must be a finite number"),
        ("temp = nan", "temp = nan must be a finite number"),
        ("temp = -inf", "temp = -inf must be a finite number"),
        ("temp = 1e999", "temp = inf must be a finite number"),
        ("temp = 2020-01-01", "temp = 2020-01-01 must be a finite number"),
        ("top_k = -1", "top_k = -1 must be a whole number of at least 0"),
        ("top_k = 2.5", "top_k = 2.5 must be a whole number of at least 0"),
        ("top_k = true", "top_k = true must be a whole number of at least 0"),
        ("top_k = 2147483648", "top_k = 2147483648 must be a whole number from 0 to 2147483647"),
        ("top_p = 1.5", "top_p = 1.5 must be a finite number from 0 to 1"),
        ("min_p = -0.1", "min_p = -0.1 must be a finite number from 0 to 1"),
        ("typical_p = 2", "typical_p = 2 must be a finite number from 0 to 1"),
        ("xtc_probability = 2", "xtc_probability = 2 must be a finite number from 0 to 1"),
        ("xtc_threshold = 2", "xtc_threshold = 2 must be a finite number from 0 to 1"),
        ("repeat_penalty = 0", "repeat_penalty = 0 must be a finite number above 0"),
        ("repeat_last_n = -2", "repeat_last_n = -2 must be a whole number of at least -1"),
        (
            "seed = 4294967296",
            "seed = 4294967296 must be a whole number from 0 to 4294967295 (or -1)",
        ),
        ("max_tokens = -2", "max_tokens = -2 must be a whole number of at least 0 (or -1)"),
        ("stop = 3", "stop = 3 must be a list of texts, none of them empty"),
        ('stop = ["a", ""]', "stop = ['a', ''] must be a list of texts, none of them empty"),
        ('stop = ["a", 1]', "stop = ['a', 1] must be a list of texts, none of them empty"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line(line: str, sentence: str, file: Path) -> None:
    text = f"# mine\n[sampling]\n{line}\n\n[model]\nn_ctx = 5\n"
    loaded = read(file, text)
    assert told(file, text) == [f"F:3: {sentence}"]
    # Everything else still counts.
    assert loaded.settings == Settings(model=ModelSettings(n_ctx=5))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "[samplng]\ntemp = 1\ntop_k = 1",
            ["F:1: there is no section [samplng]; did you mean 'sampling'?"],
        ),
        ("temp = 1", ["F:1: 'temp' stands outside of its section, [sampling]"]),
        ("tempp = 1", ["F:1: there is no setting 'tempp'; did you mean 'temp'?"]),
        ("sampling = 3", ["F:1: [sampling] is a section, not a value"]),
        ("[[sampling]]\ntop_p = 1", ["F:1: a section has one pair of brackets, not two"]),
        (
            '[model]\nflash_attn = "of"',
            ["F:2: flash_attn = 'of' must be one of auto, on, off; did you mean 'off'?"],
        ),
        ('[model]\nswa_full = "yes"', ["F:2: swa_full = 'yes' must be true or false"]),
        ("[model]\nswa_full = 1", ["F:2: swa_full = 1 must be true or false"]),
        ("[model]\nn_threads = 513", ["F:2: n_threads = 513 must be a whole number from 1 to 512"]),
        ("[model]\nn_ctx = 0", ["F:2: n_ctx = 0 must be a whole number of at least 1"]),
        (
            "[model]\nn_gpu_layers = -2",
            ["F:2: n_gpu_layers = -2 must be a whole number of at least -1"],
        ),
        ('[model]\npath = ""', ["F:2: path = '' must be the path of a file, in quotes"]),
        ("[model]\npath = 1", ["F:2: path = 1 must be the path of a file, in quotes"]),
        ("[presets]\na = 1", ["F:2: 'a' = 1 must be a text in quotes"]),
        ('[presets]\n"" = "x"', ["F:2: a name in [presets] is empty"]),
        ("[keys]\nchat.stop = [1]", ["F:2: 'chat.stop' = [1] must be a text in quotes"]),
        ("[chat]\nsystem = true", ["F:2: system = true must be a text in quotes"]),
    ],
)
def test_every_kind_of_mistake_is_told(text: str, sentences: list[str], file: Path) -> None:
    assert told(file, text) == sentences


@pytest.mark.parametrize("type_name", ["q3_k", "F16", ""])
def test_a_cache_type_that_llama_cpp_does_not_take_is_refused(type_name: str, file: Path) -> None:
    (problem,) = told(file, f'[model]\ntype_k = "{type_name}"')
    assert f"type_k = '{type_name}' must be one of f32, f16, bf16, q8_0" in problem


def test_a_template_that_is_not_there_is_named(file: Path) -> None:
    (problem,) = told(file, '[model]\nchat_template = "chatlm"')
    assert problem.startswith("F:2: chat_template = ")
    assert "cannot be read (No such file or directory)" in problem
    (file.parent / "binary").write_bytes(b"\xff\xfe")
    (problem,) = told(file, '[model]\nchat_template = "binary"')
    assert problem.endswith("it is not UTF-8 text")


def test_problems_come_in_the_order_of_the_file(file: Path) -> None:
    text = "[sampling]\ntmp = 1\ntop_k = = 2\ntop_p = 7\n[wndow]\n"
    assert [problem.split(":")[1] for problem in told(file, text)] == ["2", "3", "4", "5"]


def test_many_problems_are_told_in_few_lines(file: Path) -> None:
    problems = told(file, "\n".join(f"x{number} = 1" for number in range(100)))
    assert len(problems) == 21
    assert problems[-1] == "and 80 more problems"


def test_what_a_file_says_is_never_a_command_of_the_terminal(file: Path) -> None:
    problems = told(file, '[sampling]\n"\\u001b[2J\\n" = 1\ntemp = "\\u001b]0;x\\u0007\\u202e"\n')
    assert len(problems) == 2
    assert not any(character in "".join(problems) for character in "\x1b\n\x07\u202e")


def test_a_long_value_is_cut_in_the_sentence(file: Path) -> None:
    (problem,) = told(file, f'[sampling]\ntemp = "{"x" * 5000}"')
    assert len(problem) < 150


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[sampling]\ntemp = 0.5 # \xff", "F: this is not UTF-8 text; no settings were read"),
        (b"#" * (1 << 20) + b"\n", "F: this is too large for a settings file; it was not read"),
    ],
)
def test_a_file_that_is_no_text_is_one_problem(content: bytes, sentence: str, file: Path) -> None:
    assert told(file, content) == [sentence]
    assert read(file, content).settings == Settings()


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    loaded = load_settings(path=tmp_path, environ={})
    assert loaded.problems == (f"{tmp_path}: this is not a file; no settings were read",)


# ----------------------------------------------------------------------------- environment


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("PHASESCOPE_SAMPLING_TEMP", "0.2", "sampling.temp", 0.2),
        ("PHASESCOPE_SAMPLING_SEED", "-1", "sampling.seed", None),
        ("PHASESCOPE_MODEL_N_CTX", "4096", "model.n_ctx", 4096),
        ("PHASESCOPE_MODEL_SWA_FULL", "Yes", "model.swa_full", True),
        ("PHASESCOPE_MODEL_PATH", "rel/m.gguf", "model.path", "rel/m.gguf"),
        ("PHASESCOPE_WINDOW_FOLD_THINKING", "0", "window.fold_thinking", False),
        ("PHASESCOPE_WINDOW_THEME", "nord", "window.theme", "nord"),
        ("PHASESCOPE_SAMPLING_STOP", "User:", "sampling.stop", ("User:",)),
        ("PHASESCOPE_SAMPLING_STOP", r"\n\x41", "sampling.stop", ("\nA",)),
        ("PHASESCOPE_SAMPLING_STOP", r'["a b", "\n"]', "sampling.stop", ("a b", "\n")),
        ("PHASESCOPE_SAMPLING_STOP", "[INST]", "sampling.stop", ("[INST]",)),
    ],
)
def test_a_variable_sets_what_it_names(
    variable: str, text: str, name: str, value: object, file: Path
) -> None:
    loaded = load_settings(path=file, environ={variable: text})
    assert loaded.problems == ()
    assert attrgetter(name)(loaded.settings) == value
    assert str(loaded.origins[name]) == variable


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert len(BY_VARIABLE) == len(SETTINGS)


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        ("PHASESCOPE_SAMPLING_TEMP", "hot", "'hot' must be a finite number"),
        ("PHASESCOPE_SAMPLING_TEMP", "nan", "'nan' must be a finite number"),
        ("PHASESCOPE_SAMPLING_TEMP", "Infinity", "'Infinity' must be a finite number"),
        ("PHASESCOPE_MODEL_N_CTX", "4096.0", "'4096.0' must be a whole number of at least 1"),
        ("PHASESCOPE_MODEL_SWA_FULL", "perhaps", "'perhaps' must be true or false"),
        (
            "PHASESCOPE_WINDOW_GLYPHS",
            "ascii",
            "'ascii' must be one of auto, unicode, plain",
        ),
        (
            "PHASESCOPE_SAMPLING_TMEP",
            "1",
            "there is no such setting; did you mean 'PHASESCOPE_SAMPLING_TEMP'?",
        ),
    ],
)
def test_a_wrong_variable_is_named_and_the_file_counts(
    variable: str, text: str, sentence: str, file: Path
) -> None:
    content = "[sampling]\ntemp = 0.5\n[model]\nn_ctx = 64"
    loaded = read(file, content, **{variable: text})
    assert loaded.problems == (f"{variable}: {sentence}",)
    assert (loaded.settings.sampling.temp, loaded.settings.model.n_ctx) == (0.5, 64)


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_of_many_digits_is_no_crash(digits: int, file: Path) -> None:
    number = "9" * digits
    problems = told(file, f"[sampling]\ntemp = {number}", PHASESCOPE_SAMPLING_TOP_P=number)
    assert [problem.partition(":")[0] for problem in problems] == ["F", "PHASESCOPE_SAMPLING_TOP_P"]


def test_an_empty_variable_sets_nothing(file: Path) -> None:
    loaded = load_settings(path=file, environ={"PHASESCOPE_SAMPLING_TEMP": "", "OTHER": "1"})
    assert (loaded.settings, loaded.problems) == (Settings(), ())


def test_the_variables_of_the_folders_are_no_settings(file: Path) -> None:
    environ = {"PHASESCOPE_DATA_DIR": "/x", "PHASESCOPE_SETTINGS": "/y"}
    assert load_settings(path=file, environ=environ).problems == ()


def test_a_home_folder_that_there_is_not_is_no_end(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[model]\npath = "~nobody-has-this-name/x"\nchat_template = "~nobody/x"\n')
    loaded = load_settings(path=path, environ={})
    assert loaded.settings.model.path == str(tmp_path / "~nobody-has-this-name/x")
    (problem,) = loaded.problems
    assert "chat_template" in problem
    assert "it cannot be read" in problem


def test_the_settings_of_a_home_folder_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PHASESCOPE_SETTINGS", "~nobody-has-this-name/settings.toml")
    assert settings_path() == Path("~nobody-has-this-name/settings.toml")


def test_a_whole_number_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"[sampling]\ntop_k = {'1' * 400}\ntop_p = 0.5\n")
    loaded = load_settings(path=path, environ={})
    assert loaded.settings.sampling.chosen == {"top_p": 0.5}
    (problem,) = loaded.problems
    assert problem.endswith("must be a whole number from 0 to 2147483647")


def test_half_a_character_is_no_text() -> None:
    # What Linux makes of a variable that is not UTF-8.
    environ = {"PHASESCOPE_CHAT_SYSTEM": "\udcff", "PHASESCOPE_SAMPLING_STOP": '["\\ud800"]'}
    loaded = load_settings(environ=environ)
    assert loaded.settings == DEFAULTS
    assert len([each for each in loaded.problems if "must be valid Unicode" in each]) == 2


@pytest.mark.skipif(os.name == "nt", reason="a device that never ends")
def test_a_template_that_never_ends_is_not_read() -> None:
    loaded = load_settings(environ={"PHASESCOPE_MODEL_CHAT_TEMPLATE": "/dev/zero"})
    (problem,) = loaded.problems
    assert "it is not a file" in problem


def test_a_template_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    loaded = load_settings(environ={"PHASESCOPE_MODEL_CHAT_TEMPLATE": str(file)})
    (problem,) = loaded.problems
    assert "too large" in problem


def test_a_named_file_of_which_the_system_does_not_tell_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PHASESCOPE_SETTINGS", "a" * 300)
    (problem,) = load_settings().problems
    assert "it cannot be read" in problem
