"""`phasescope chats`: the stored chats on the command line."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from backend.chat.tree import Chat
from backend.history import ChatRow, History
from backend.metrics.record import TurnRecord
from tests.unit.stored import answer, save, some_record
from tui.cli import chats as chats_module
from tui.cli.chats import ago, chats, short_length, table
from tui.figures import figures_line

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)

SKY = "5" * 28 + "0000"
SEA = "7" * 28 + "0000"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def store(data_folder: Path) -> Iterator[History]:
    """A chat about the sky with two answers, then one about the sea."""
    history = History(data_folder / "chats.db")
    sky = Chat(SKY, system="be kind")
    question = sky.add_user("Why is the sky blue?")
    first = answer(sky, "1", "Scattering.")
    sky.back_to_question(question.id)
    second = answer(sky, "2", "<think>hm</think>Because.")
    save(history, sky, question, first, second)
    for turn in (1, 2):
        history.save_record(SKY, some_record(turn), ())
    sea = Chat(SEA)
    save(history, sea, sea.add_user("And the \x1b[2Jsea?"))
    yield history
    history.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(chats, list(arguments))


def printed(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def the_error(result: Result, code: int = 1) -> str:
    """The one sentence of a failure."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("Error: "))
    return line.removeprefix("Error: ")


def titles() -> list[str]:
    return [row["title"] for row in json.loads(printed("list", "--json"))["chats"]]


# -------------------------------------------------------------------------------- the list


@pytest.mark.usefixtures("store")
def test_without_a_command_the_chats_are_listed() -> None:
    lines = printed().splitlines()
    assert lines == printed("list").splitlines()
    assert lines[0].split() == ["id", "title", "when", "date", "messages", "model"]
    assert lines[1].startswith("77777777  And the \x1b[2Jsea?  ")
    assert lines[2].startswith("55555555  Why is the sky blue?  just now  20")
    assert lines[2].endswith("         3  Scripted-1B")


def test_the_list_is_there_as_json(store: History) -> None:
    told = json.loads(printed("--json"))
    assert told == json.loads(printed("list", "--json"))
    assert told == {"chats": [row._asdict() for row in store.chats()]}


def test_a_new_store_has_nothing_to_list() -> None:
    result = run()
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "there is no chat yet\n")
    assert json.loads(printed("--json")) == {"chats": []}


def rows() -> list[ChatRow]:
    def row(chat_id: str, title: str, age: timedelta, model: str = "SmolLM2") -> ChatRow:
        then = (NOW - age).isoformat()
        return ChatRow(chat_id, title, then, then, 12, model, None)

    return [
        row("a" * 32, "Why is the sky blue? " * 9, timedelta(minutes=5)),
        row("b" * 32, "漢字 " * 30, timedelta(days=3), "A-model-of-a-very-long-name-" * 3),
        row("c" * 32, "\x1b[2Jodd", timedelta(days=400)),
    ]


@pytest.mark.parametrize("columns", [250, 120, 100, 99, 80, 60, 40, 20, 12])
def test_a_table_fits_the_terminal(columns: int) -> None:
    lines = table(rows(), columns, NOW).splitlines()
    assert len(lines) == 4
    assert all(cell_len(line) <= columns for line in lines)
    assert [line[:8] for line in lines[1:]] == ["aaaaaaaa", "bbbbbbbb", "cccccccc"]
    assert "\x1b" not in "".join(lines)
    if columns >= 60:
        assert "Why is the s" in lines[1]
        assert "5 min ago" in lines[1]
        assert "3 days ago" in lines[2]
    assert ("2026-01-07" in lines[2]) == (columns >= 100)


def test_columns_stand_below_each_other() -> None:
    head, *lines = table(rows(), 120, NOW).splitlines()
    at = cell_len(head.partition("when")[0])
    for line, age in zip(lines, ["5 min ago", "3 days ago", "1 year ago"], strict=True):
        assert cell_len(line.partition(age)[0]) == at


def test_a_pipe_gets_titles_whole() -> None:
    assert ("Why is the sky blue? " * 9).strip() in table(rows(), None, NOW)


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=1), "yesterday"),
        (timedelta(days=2), "2 days ago"),
        (timedelta(days=7), "1 week ago"),
        (timedelta(days=29), "4 weeks ago"),
        (timedelta(days=30), "1 month ago"),
        (timedelta(days=364), "12 months ago"),
        (timedelta(days=730), "2 years ago"),
    ],
)
def test_how_long_ago_in_words(age: timedelta, words: str) -> None:
    assert ago(age.total_seconds()) == words


def test_short_ids_tell_chats_apart() -> None:
    assert short_length([]) == short_length(["a" * 32, "b" * 32]) == 8
    assert short_length(["a" * 10 + "b", "a" * 10 + "c"]) == 11


# ---------------------------------------------------------------------------- show, export


@pytest.mark.usefixtures("store")
def test_a_chat_is_shown_as_text_with_its_figures() -> None:
    text = printed("show", "5555")
    assert text == (
        f"Why is the sky blue? ({SKY})\n\n"
        "System prompt:\nbe kind\n\n"
        "You:\nWhy is the sky blue?\n\n"
        "Scripted-1B (version 2 of 2):\n(thinking) hm\n(answer)\nBecause.\n"
        f"  {figures_line(some_record(2), why=True)}\n"
    )


def test_a_chat_is_shown_as_json(store: History) -> None:
    told = json.loads(printed("show", SKY, "--json"))
    assert (told["id"], told["title"], told["system"]) == (SKY, "Why is the sky blue?", "be kind")
    assert told["sampling"] == {}
    assert [(m["id"], m["parent"], m["in_use"]) for m in told["messages"][1:]] == [
        ("1", told["messages"][0]["id"], False),
        ("2", told["messages"][0]["id"], True),
    ]
    assert msgspec.convert(told["turns"], list[TurnRecord]) == store.records(SKY)


@pytest.mark.usefixtures("store")
def test_last_is_the_chat_used_last() -> None:
    assert printed("show", "last").startswith("And the")


@pytest.mark.usefixtures("store")
def test_what_goes_to_a_terminal_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[2J" in printed("show", "7777")

    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    class Sys:
        stdout = Terminal

    monkeypatch.setattr(chats_module, "sys", Sys)
    for arguments in (["list"], ["show", "last"], ["export", "last", "-o", "-"], ["search", "sea"]):
        text = printed(*arguments)
        assert "␛[2J" in text
        assert "\x1b" not in text


@pytest.mark.usefixtures("store")
def test_a_chat_is_exported_to_a_file_named_after_it(tmp_path: Path) -> None:
    assert printed("export", "5555") == "Why-is-the-sky-blue.md\n"
    text = (tmp_path / "Why-is-the-sky-blue.md").read_text(encoding="utf-8")
    assert text.startswith("# Why is the sky blue?\n")
    assert text == printed("export", "5555", "-o", "-")
    assert "Scattering" not in text
    assert "Scattering" in printed("export", "5555", "-o", "-", "--branches")
    message = the_error(run("export", "5555"))
    assert message == (
        "Why-is-the-sky-blue.md is there already: name another with -o, or give --force"
    )
    printed("export", "5555", "--branches", "--force")
    assert "Scattering" in (tmp_path / "Why-is-the-sky-blue.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("store")
def test_a_file_that_cannot_be_written_is_named() -> None:
    message = the_error(run("export", "last", "-o", "nowhere/chat.md"))
    assert message.startswith("nowhere/chat.md cannot be written: ")


# ---------------------------------------------------------------------- delete, name, find


@pytest.mark.usefixtures("store")
def test_a_deleted_chat_can_be_brought_back_as_the_command_says() -> None:
    told = printed("rm", "5555", "last", "5555")
    undo = "to undo: phasescope chats restore"
    assert told.splitlines() == [
        f"deleted “Why is the sky blue?” (55555555); {undo} 55555555",
        f"deleted “And the \x1b[2Jsea?” (77777777); {undo} 77777777",
    ]
    assert titles() == []
    assert "55555555" in printed("--deleted")
    assert len(json.loads(printed("list", "--deleted", "--json"))["chats"]) == 2
    assert the_error(run("show", "5555")) == "the chat 5555 was deleted; restore it first"
    assert printed("restore", "55555555").startswith("restored “Why")
    assert titles() == ["Why is the sky blue?"]
    printed("restore", "last")
    assert len(titles()) == 2


@pytest.mark.usefixtures("store")
def test_of_several_chats_none_is_deleted_if_one_is_not_there() -> None:
    assert "no chat whose id begins with 9999" in the_error(run("rm", "5555", "9999"))
    assert len(titles()) == 2


@pytest.mark.usefixtures("store")
def test_a_chat_is_given_another_title() -> None:
    assert printed("rename", "5555", "  Sky \n blue ") == "renamed to “Sky blue” (55555555)\n"
    assert "Sky blue" in titles()
    assert "the title is empty" in the_error(run("rename", "5555", " "), 2)


@pytest.mark.usefixtures("store")
def test_text_is_found_in_all_branches() -> None:
    assert printed("search", "SCATTERING").splitlines() == [
        "55555555  Why is the sky blue?",
        "    answer: Scattering.",
    ]
    assert printed("search", "blue", "sky").splitlines() == [
        "55555555  Why is the sky blue?",
        "    you: Why is the sky blue?",
    ]
    hits = json.loads(printed("search", '"sky blue"', "--json"))
    assert hits["query"] == '"sky blue"'
    assert [(hit["chat"], hit["role"]) for hit in hits["hits"]] == [(SKY, "title"), (SKY, "user")]


@pytest.mark.usefixtures("store")
def test_what_is_not_found_is_said() -> None:
    result = run("search", "windmill")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing was found\n")
    assert json.loads(printed("search", "windmill", "--json"))["hits"] == []


# ----------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["show"],
        ["show", "a", "b"],
        ["rm"],
        ["restore"],
        ["search"],
        ["search", " "],
        ["search", '""'],
        ["rename", "5555"],
        ["list", "--nonsense"],
        ["--json", "list"],
        ["--deleted", "search", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert len(the_error(run(*arguments), 2)) > 0


@pytest.mark.parametrize("command", [["show"], ["export"], ["rm"], ["rename"]])
@pytest.mark.usefixtures("store")
def test_a_chat_that_is_not_there_exits_with_1(command: list[str]) -> None:
    ending = ["title"] if command == ["rename"] else []
    message = the_error(run(*command, "99\x1b99", *ending))
    assert message == "there is no chat whose id begins with 99␛99"
    assert "too short" in the_error(run(*command, "9", *ending))


def test_a_store_that_is_none_exits_with_1(data_folder: Path) -> None:
    (data_folder / "chats.db").write_bytes(b"<html>not here</html>" * 200)
    for arguments in (["list"], ["show", "last"], ["search", "x"]):
        assert "move the file away to begin a new one" in the_error(run(*arguments))


def test_what_is_damaged_is_named_and_the_rest_shown(store: History, data_folder: Path) -> None:
    other = sqlite3.connect(data_folder / "chats.db")
    other.execute("UPDATE turns SET record = '{' WHERE turn = 2")
    other.commit()
    other.close()
    result = run("show", SKY)
    assert result.exit_code == 0
    assert "Because." in result.stdout
    assert result.stderr.startswith("phasescope: a turn's figures in ")
    assert len(result.stderr.splitlines()) == 1
    assert store.chat_row(SKY).messages == 3


def test_a_chat_whose_time_is_damaged_is_listed(data_folder: Path, store: History) -> None:
    other = sqlite3.connect(data_folder / "chats.db")
    other.execute("UPDATE chats SET updated_at = 'yesterday'")
    other.commit()
    other.close()
    result = run("list")
    assert result.exit_code == 0
    assert result.stdout.count("—") >= len(store.chats())
