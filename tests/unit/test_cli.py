"""The command line without a model: usage, refusals, and what `ask` prints."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from backend.chat.chatml import CHATML
from backend.chat.tree import Chat
from backend.history import History
from backend.protocol import Event, LoadFailed, LoadRequest
from backend.recording import read_recording
from backend.settings import EngineSettings, SamplingChoice
from models.starter import starter_path
from tests.fake_engine import ScriptedEngine, failed, turn_events
from tests.unit.sessions import Answers, Loads, answered, in_turn, loaded
from tests.unit.stored import save
from tui.cli.main import main, phasescope
from tui.cli.options import engine_options, sampling_options, window_model
from tui.config.load import Flags, load_settings
from tui.config.schema import SETTINGS, ModelSettings, Settings

ENGINE_FLAGS = {
    "-m", "--model", "-c", "--ctx-size", "-b", "--batch-size", "-ub", "--ubatch-size",
    "-t", "--threads", "-tb", "--threads-batch", "-ngl", "--gpu-layers", "-fa", "--flash-attn",
    "-ctk", "--cache-type-k", "-ctv", "--cache-type-v", "--swa-full", "--chat-template",
    "--chat-template-file",
}  # fmt: skip
SAMPLING_FLAGS = {
    "-n", "--predict", "-s", "--seed", "--temp", "--top-k", "--top-p", "--min-p",
    "--typical", "--xtc-probability", "--xtc-threshold", "--repeat-penalty", "--repeat-last-n",
    "--presence-penalty", "--frequency-penalty", "-r", "--reverse-prompt", "--system",
}  # fmt: skip


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(folder))
    return folder


def run(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(phasescope, [str(argument) for argument in arguments], input=text)


def the_error(result: Result, code: int) -> str:
    """The one sentence of a failure."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("Error: "))
    return line


# --------------------------------------------------------------------------------- help


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ([], ENGINE_FLAGS | SAMPLING_FLAGS | {"--chat", "--version"}),
        (["ask"], ENGINE_FLAGS | SAMPLING_FLAGS | {"--turns", "--json", "--record"}),
        (["bench"], ENGINE_FLAGS | {"-p", "-n", "-d", "-r", "--json"}),
        (["doctor"], {"--json"}),
        (["record"], ENGINE_FLAGS | SAMPLING_FLAGS | {"--chat"}),
        (["replay"], {"--speed"}),
    ],
    ids=["phasescope", "ask", "bench", "doctor", "record", "replay"],
)
def test_help_lists_every_option(command: list[str], flags: set[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    words = set(result.stdout.replace(",", " ").split())
    assert flags <= words


def test_help_lists_every_command() -> None:
    listed = run("--help").stdout.partition("Commands:")[2]
    assert [line.split()[0] for line in listed.splitlines() if line.strip()] == [
        "ask",
        "bench",
        "chats",
        "doctor",
        "record",
        "replay",
        "settings",
    ]


def test_the_version_is_told() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("phasescope")


# -------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nonsense"],
        ["nonsense"],
        ["ask", "-c", "0", "hi"],
        ["ask", "-c", "many", "hi"],
        ["ask", "-b", "0", "hi"],
        ["ask", "-t", "-1", "hi"],
        ["ask", "-fa", "maybe", "hi"],
        ["ask", "-ctk", "q3_k", "hi"],
        ["ask", "--temp", "hot", "hi"],
        ["ask", "--top-p", "1.5", "hi"],
        ["ask", "--min-p", "-0.1", "hi"],
        ["ask", "--top-k", "-1", "hi"],
        ["ask", "--repeat-penalty", "0", "hi"],
        ["ask", "--seed", "-2", "hi"],
        ["ask", "--seed", "4294967296", "hi"],
        ["ask", "-t", "513", "hi"],
        ["ask", "--typical", "1.5", "hi"],
        ["ask", "--xtc-probability", "2", "hi"],
        ["ask", "--repeat-last-n", "-2", "hi"],
        ["ask", "-r", "", "hi"],
        ["ask", "--chat-template", "chatlm", "hi"],
        ["ask", "--chat-template", "chatml", "--chat-template-file", __file__, "hi"],
        ["ask", "--chat-template-file", "nowhere.jinja", "hi"],
        ["ask", "one", "two"],
        ["ask", ""],
        ["ask", " \n"],
        ["ask", "-"],
        ["ask"],
        ["ask", "--turns", "nowhere.json"],
        ["bench", "-p", "0", "-n", "0"],
        ["bench", "-r", "0"],
        ["bench", "-d", "-1"],
        ["record"],
        ["replay"],
        ["replay", "nowhere.jsonl"],
        ["replay", __file__, "--speed", "-1"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert len(the_error(run(*arguments, text=""), 2)) > len("Error: ")


def test_a_prompt_and_a_turns_file_exclude_each_other(tmp_path: Path) -> None:
    turns = tmp_path / "turns.json"
    turns.write_text("[]")
    assert "not both" in the_error(run("ask", "hi", "--turns", turns), 2)


@click.command()
@engine_options
@sampling_options
@click.pass_obj
def probe(seen: list[Settings], *, given: Flags) -> None:
    """What flags make of the settings."""
    seen.append(load_settings(given).settings)


def settings_with(line: str) -> Settings:
    seen: list[Settings] = []
    result = CliRunner().invoke(probe, shlex.split(line), obj=seen)
    assert result.exit_code == 0, result.output
    return seen[0]


SHORT = (
    "-c 512 -b 64 -ub 32 -t 3 -tb 4 -ngl 5 -fa on -ctk q8_0 -ctv q4_0 --swa-full -n 9 -s 7 "
    "--temp 0.5 --top-k 3 --top-p 0.25 --min-p 0.125 --repeat-penalty 1.5 -r User: -r '[a]\\n'"
)

LONG = (
    "--ctx-size 512 --batch-size 64 --ubatch-size 32 --threads 3 --threads-batch 4 "
    "--gpu-layers 5 --flash-attn on --cache-type-k q8_0 --cache-type-v q4_0 --swa-full "
    "--predict 9 --seed 7 --temp 0.5 --top-k 3 --top-p 0.25 --min-p 0.125 --repeat-penalty 1.5 "
    "--reverse-prompt User: --reverse-prompt '[a]\\n'"
)


@pytest.mark.parametrize("line", [SHORT, LONG], ids=["short", "long"])
def test_llama_cpps_spelling_sets_what_it_names(line: str) -> None:
    settings = settings_with(line)
    assert settings.model.engine == EngineSettings(
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
    )
    assert settings.sampling == SamplingChoice(
        temp=0.5,
        top_k=3,
        top_p=0.25,
        min_p=0.125,
        repeat_penalty=1.5,
        seed=7,
        max_tokens=9,
        stop=("User:", "[a]\n"),
    )


def test_the_other_samplers_have_their_flags() -> None:
    line = (
        "--typical 0.5 --xtc-probability 0.25 --xtc-threshold 0.2 --repeat-last-n -1 "
        "--presence-penalty -0.5 --frequency-penalty 0.75"
    )
    assert settings_with(line).sampling == SamplingChoice(
        typical_p=0.5,
        xtc_probability=0.25,
        xtc_threshold=0.2,
        repeat_last_n=-1,
        presence_penalty=-0.5,
        frequency_penalty=0.75,
    )


def test_without_a_flag_nothing_is_chosen() -> None:
    # So that the settings file and the model's makers can.
    assert settings_with("") == Settings()


def write_settings(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "settings.toml").write_text(text)


def test_flags_stand_over_the_settings_file(data_folder: Path) -> None:
    write_settings(
        data_folder,
        "[model]\nn_ctx = 64\nswa_full = true\n[sampling]\nseed = 3\nmax_tokens = 5\ntop_k = 1\n"
        '[chat]\nsystem = "brief"\n[presets]\nbrief = "Be brief."\nkind = "Be kind."\n',
    )
    settings = settings_with("--no-swa-full -s -1 -n -1 --system kind")
    assert settings.model.engine == EngineSettings(n_ctx=64)
    assert settings.sampling == SamplingChoice(seed=None, max_tokens=None, top_k=1)
    assert settings.system_prompt == "Be kind."


def test_help_tells_every_default() -> None:
    told = " ".join(run("--help").stdout.split())
    for setting in SETTINGS:
        if setting.flags:
            assert f"Default: {setting.default_words}." in told


# ----------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ('["one", {"usr": "two"}]', "turns.json, entry 1: unknown keys 'usr'"),
        ("not json", "turns.json is not JSON: "),
        ('{"user": "hello"}', "turns.json must be a JSON array of turns"),
    ],
)
def test_a_bad_turns_file_is_refused_before_anything_runs(
    content: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.cli.ask.LocalEngine", lambda _folder: pytest.fail("it was started"))
    turns = tmp_path / "turns.json"
    turns.write_text(content)
    assert cause in the_error(run("ask", "--turns", turns), 1)


@pytest.mark.parametrize("content", [b"", b"GGUF\x03\x00", b"<html>", b"{}"])
def test_what_is_no_recording_is_not_replayed(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(content)
    assert "is not a phasescope recording" in the_error(run("replay", file), 1)


def test_a_recording_of_another_version_is_not_replayed(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text('{"phasescope_recording": 99}\n')
    assert "recording format 99" in the_error(run("replay", file), 1)


@pytest.mark.parametrize("arguments", [["record"], ["ask", "hello", "--record"]])
def test_a_file_that_is_there_is_not_recorded_over(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "precious.txt"
    file.write_text("precious")
    assert "exists already; name another file" in the_error(run(*arguments, file), 1)
    assert file.read_text() == "precious"


def test_a_template_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    file.write_bytes(b"\xff\xfe")
    message = the_error(run("ask", "hello", "--chat-template-file", file), 1)
    assert "template.jinja is not a readable template" in message


def test_what_an_error_quotes_is_no_command_for_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "turns.json"
    file.write_text(json.dumps([{"set": {"type_k": "\x1b]0;mine\x07"}}]))
    monkeypatch.setattr(sys, "argv", ["phasescope", "ask", "--turns", str(file)])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr().err
    assert end.value.code == 1
    assert "␛]0;mine␇ is no cache type" in told


def test_the_window_needs_a_terminal(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    assert "use: phasescope ask PROMPT" in the_error(run("-m", model), 1)


def test_a_store_that_cannot_be_used_is_named(data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "chats.db").write_text("this is no database" * 100)
    assert "chats.db cannot be used" in the_error(run("--chat", "last"), 1)


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ("settings", [], "the window needs a terminal"),
        ("turns", ["--chat", "last"], "chats.db cannot be used: no such table: turns"),
    ],
)
def test_a_store_that_is_damaged_in_part_is_no_traceback(
    data_folder: Path, table: str, arguments: list[str], message: str
) -> None:
    data_folder.mkdir()
    history = History(data_folder / "chats.db")
    chat = Chat()
    save(history, chat, chat.add_user("hello"))
    history.close()
    other = sqlite3.connect(data_folder / "chats.db")
    other.execute(f"DROP TABLE {table}")
    other.close()
    assert message in the_error(run(*arguments), 1)


def test_a_model_used_last_of_which_the_system_does_not_tell_is_none() -> None:
    assert window_model(ModelSettings(), "a" * 300).path is None


def test_a_machine_without_a_model_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.cli.options.starter_path", lambda: None)
    assert "[starter]" in the_error(run("ask", "hello"), 1)


def test_the_starter_has_a_name_for_who_used_another_model_last() -> None:
    model = msgspec.structs.replace(Settings().model, path="starter")
    assert window_model(model, "/gone.gguf").path == str(starter_path())


# ---------------------------------------------------------------------------------- ask


class Asked:
    """`ask` on a scripted engine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.engines: list[ScriptedEngine] = []
        self.answers: Answers = answered
        self.loads: Loads = loaded
        self._turns = folder / "turns.json"
        monkeypatch.setattr("tui.cli.ask.LocalEngine", self._make)

    def _make(self, _folder: Path) -> ScriptedEngine:
        self.engines.append(ScriptedEngine(self.answers, self.loads))
        return self.engines[-1]

    def __call__(self, *arguments: str | Path, text: str | None = None) -> Result:
        return run("ask", "-m", "model.gguf", *arguments, text=text)

    def turns(self, *entries: object) -> Result:
        self._turns.write_text(json.dumps(entries))
        return self("--json", "--turns", self._turns)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    return Asked(monkeypatch, tmp_path)


def records(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def reasons(result: Result) -> list[str]:
    return [json.loads(line)["stop"]["reason"] for line in result.stdout.splitlines()]


def test_text_goes_to_stdout_and_figures_to_stderr(asked: Asked) -> None:
    result = asked("hello")
    assert result.exit_code == 0
    assert result.stdout == "well then\n"
    # 40 tokens in 489 ms, two gaps in 200 ms.
    assert result.stderr == (
        "ttft 500 ms · prefill 40 @ 81.8/s · decode 3 @ 10.0/s · reused 0/40\n"
    )
    assert not asked.engines[0].alive


@pytest.mark.parametrize("arguments", [["-"], []])
def test_the_prompt_can_come_from_standard_input(arguments: list[str], asked: Asked) -> None:
    asked(*arguments, text="from a pipe\n")
    assert asked.engines[0].turns[0].messages[-1].content == "from a pipe\n"


def test_json_is_one_record_a_line_and_nothing_else(asked: Asked) -> None:
    result = asked("hello", "--json", "--temp", "0")
    (record,) = records(result)
    assert result.stderr == ""
    assert (record["schema"], record["turn"], record["text"]) == (1, 1, "well then")
    assert record["predicted_n"] == 3
    assert set(record) >= {
        "id", "started_at", "engine", "first_after_load", "model", "context", "sampling",
        "prompt_tokens", "cache_n", "prompt_n", "thinking_n", "timings", "cache", "kv", "machine",
        "stop", "thinking", "warnings",
    }  # fmt: skip


def test_a_turns_file_is_run_entry_by_entry(asked: Asked) -> None:
    result = asked.turns(
        {"system": "be kind"},
        "one",
        {"user": "two", "cancel_after_tokens": 2},
        {"edit": 1, "user": "three", "cancel_at_prompt_token": 5},
        {"regenerate": True},
        {"drop_cache": True},
        {"set": {"temp": 0, "max_tokens": 4}},
        "four",
        {"set": {"n_ctx": 512}},
        "five",
        {"model": "other.gguf"},
        {"new_chat": True},
        "six",
    )
    assert result.exit_code == 0, result.output
    assert len(records(result)) == 7
    (engine,) = asked.engines
    kinds = [type(request).__name__ for request in engine.requests]
    assert kinds == [
        "LoadRequest",
        *["TurnRequest"] * 4,
        "DropCacheRequest",
        "TurnRequest",
        "LoadRequest",
        "TurnRequest",
        "LoadRequest",
        "TurnRequest",
    ]
    spoken = [[message.content for message in turn.messages] for turn in engine.turns]
    assert spoken == [
        ["be kind", "one"],
        ["be kind", "one", "well then", "two"],
        ["be kind", "one", "well then", "three"],
        ["be kind", "one", "well then", "three"],
        ["be kind", "one", "well then", "three", "well then", "four"],
        ["be kind", "one", "well then", "three", "well then", "four", "well then", "five"],
        ["six"],
    ]
    scripts = [(turn.cancel_after_tokens, turn.cancel_at_prompt_token) for turn in engine.turns]
    assert scripts[1:3] == [(2, None), (None, 5)]
    assert [turn.sampling.max_tokens for turn in engine.turns][3:] == [None, 4, 4, 4]
    assert [load.settings.n_ctx for load in engine.loads] == [None, 512, 512]
    assert engine.loads[2].model_path.endswith("other.gguf")


def test_every_turn_yields_a_record_a_failed_one_too(asked: Asked) -> None:
    asked.answers = in_turn(
        lambda request: failed(request.turn, "prompt_too_long", "it is too long"),
        answered,
    )
    # The first message is refused, so that there is nothing to answer again or to edit.
    result = asked.turns("long", {"regenerate": True}, {"edit": 0, "user": "short"}, "fine")
    assert result.exit_code == 1
    assert reasons(result) == ["error", "error", "error", "eog"]
    assert [record["turn"] for record in records(result)] == [1, 2, 3, 4]
    assert "phasescope: it is too long" in result.stderr
    assert "Traceback" not in result.stderr


def load_fails(message: str) -> Loads:
    return lambda _request: [LoadFailed(message)]


def test_without_a_model_every_turn_fails_and_nothing_else_does(asked: Asked) -> None:
    asked.loads = load_fails("model.gguf is empty")
    result = asked.turns({"drop_cache": True}, "one", {"new_chat": True}, "two")
    assert result.exit_code == 1
    assert reasons(result) == ["error", "error"]
    assert "Traceback" not in result.stderr


def test_an_engine_that_dies_while_it_loads_ends_the_wait(asked: Asked) -> None:
    def crash(_request: LoadRequest) -> list[Event]:
        asked.engines[0].die()
        return []

    asked.loads = in_turn(crash, loaded)
    result = asked.turns({"drop_cache": True}, "one")
    assert reasons(result) == ["eog"]
    assert len(asked.engines) == 2


def test_a_failure_is_told_in_one_line(asked: Asked) -> None:
    asked.loads = load_fails("model.gguf is empty; \x1b[2J fetch it again")
    result = asked("hello")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "phasescope: model.gguf is empty; ␛[2J fetch it again\n"


def test_a_file_gets_the_text_as_it_is(asked: Asked) -> None:
    asked.answers = lambda request: turn_events(
        request.turn, token_s=[0.5, 0.6], pieces=["\x1b[2J", "☺️"], reason="length"
    )
    assert asked("hello").stdout == "\x1b[2J☺️\n"


def test_ask_can_be_recorded(asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    assert asked("hello", "--record", file).exit_code == 0
    kinds = [type(line.event).__name__ for line in read_recording(file).lines]
    assert kinds[0] == "ChatOpened"
    assert kinds[-1] == "TurnEnded"


def test_the_settings_reach_the_engine(asked: Asked, data_folder: Path) -> None:
    write_settings(
        data_folder,
        '[model]\nn_ctx = 64\nchat_template = "chatml"\n[sampling]\ntemp = 0.5\ntop_k = 1\n'
        '[chat]\nsystem = "Be brief."\n',
    )
    result = asked("hello", "--top-k", "3")
    assert result.exit_code == 0
    (engine,) = asked.engines
    assert engine.loads[0].settings == EngineSettings(n_ctx=64)
    assert engine.loads[0].chat_template == CHATML
    assert (engine.turns[0].sampling.temp, engine.turns[0].sampling.top_k) == (0.5, 3)
    assert engine.turns[0].messages[0].content == "Be brief."


def test_what_is_wrong_with_the_settings_is_told_and_the_rest_counts(
    asked: Asked, data_folder: Path
) -> None:
    write_settings(data_folder, "[sampling]\ntmp = 1\ntop_k = 3\n")
    result = asked("hello")
    assert result.exit_code == 0
    assert result.stdout == "well then\n"
    assert result.stderr.splitlines()[0] == (
        f"phasescope: {data_folder / 'settings.toml'}:2: there is no setting 'tmp' in [sampling]; "
        "did you mean 'temp'?"
    )
    assert asked.engines[0].turns[0].sampling.top_k == 3


def test_a_model_named_in_the_settings_is_the_one(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engines: list[ScriptedEngine] = []

    def make(_folder: Path) -> ScriptedEngine:
        engines.append(ScriptedEngine(answered, loaded))
        return engines[-1]

    monkeypatch.setattr("tui.cli.ask.LocalEngine", make)
    write_settings(data_folder, f"[model]\npath = {json.dumps(str(tmp_path / 'a.gguf'))}\n")
    assert run("ask", "hello").exit_code == 0
    assert run("ask", "-m", "b.gguf", "hello").exit_code == 0
    models = [engine.loads[0].model_path for engine in engines]
    assert models == [str(tmp_path / "a.gguf"), str(Path("b.gguf").absolute())]


class Interrupted(ScriptedEngine):
    """Ctrl-C is pressed while it is waited for the answer's end."""

    def wait(self, timeout: float | None = None) -> Event | None:
        event = super().wait(timeout)
        if event is None:
            raise KeyboardInterrupt
        return event


def test_ctrl_c_exits_with_130_and_keeps_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engines: list[ScriptedEngine] = []

    def make(_folder: Path) -> ScriptedEngine:
        engines.append(Interrupted(lambda request: answered(request)[:4]))
        return engines[-1]

    monkeypatch.setattr("tui.cli.ask.LocalEngine", make)
    file = tmp_path / "session.jsonl"
    result = run("ask", "-m", "model.gguf", "--record", file, "hello")
    assert result.exit_code == 130
    assert result.stdout == "well \n"
    assert [type(request).__name__ for request in engines[0].requests][-1] == "CancelRequest"
    assert not engines[0].alive
    assert type(read_recording(file).lines[-1].event).__name__ == "TurnEnded"


def test_a_pipe_gets_utf8_whatever_the_code_page_of_the_system() -> None:
    script = "from tui.cli.main import speak_utf8; speak_utf8(); print('漢字')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
    )
    assert done.stdout.decode().strip() == "漢字"


def test_an_option_before_a_command_is_not_dropped_in_silence() -> None:
    result = run("-m", "other.gguf", "doctor")
    assert result.exit_code == 2
    assert "-m stands before doctor" in result.stderr


@pytest.mark.parametrize("option", ["--temp", "--top-p", "--min-p", "--repeat-penalty"])
def test_a_number_that_is_none_is_refused(option: str) -> None:
    result = run("ask", option, "nan", "hello")
    assert result.exit_code == 2
    assert "finite" in result.stderr or "range" in result.stderr


# ------------------------------------------------------------------------------ modules


@pytest.mark.parametrize(
    ("statement", "foreign"),
    [
        (
            "import tui.cli; from tui.config.load import load_settings; load_settings()",
            {"textual", "rich", "llama_cpp", "numpy", "tomlkit", "tomllib"},
        ),
        (
            "import tui.cli.ask, tui.cli.bench, tui.cli.doctor",
            {"textual", "rich", "llama_cpp", "tomlkit"},
        ),
        ("import backend.session, backend.local.process", {"textual", "rich", "llama_cpp", "tui"}),
        ("import models.gguf, models.memory", {"textual", "llama_cpp", "backend", "tui"}),
    ],
)
def test_what_is_imported_stays_light(statement: str, foreign: set[str]) -> None:
    script = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert foreign & set(done.stdout.split()) == set()
