"""What counts as a slash command, and what a wrong one says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.slash import (
    Invocation,
    PlainMessage,
    Refusal,
    SlashCommand,
    escaped,
    parse,
    ranked,
)

FILE = SlashCommand("file", "PATH", "Put a text file into the message.")
HELP = SlashCommand("help", None, "Keys.")
PANEL = SlashCommand("panel", "[NUMBER]", "Show a panel.")
SYSTEM = SlashCommand("system-prompt", "TEXT", "Set the system prompt.", lines=True)
COMMANDS = (FILE, HELP, PANEL, SYSTEM)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "hello /help",
        " /help",
        "/etc/passwd is a file",
        "/file/name",
        "/Help",
        "/help2",
        "/help!",
        "/help\nme",
        "// a comment",
        "//usr/bin",
        "/* a comment */",
        "/ help",
    ],
)
def test_what_does_not_begin_with_a_slash_and_a_name_is_a_message(text: str) -> None:
    assert parse(text, COMMANDS) == PlainMessage(text)


@pytest.mark.parametrize(
    ("text", "command", "argument"),
    [
        ("/help", HELP, ""),
        ("/help  ", HELP, ""),
        ("/panel", PANEL, ""),
        ("/panel 2", PANEL, "2"),
        ("/file  my notes.txt ", FILE, "my notes.txt"),
        ("/file a.txt\nWhat is this?", FILE, "a.txt"),
        ("/system-prompt You are\n  a pirate", SYSTEM, "You are\n  a pirate"),
    ],
)
def test_a_command_comes_with_its_argument(text: str, command: SlashCommand, argument: str) -> None:
    assert parse(text, COMMANDS) == Invocation(command, argument)


@pytest.mark.parametrize(("text", "sent"), [("//help", "/help"), ("///x y", "//x y")])
def test_two_slashes_send_one(text: str, sent: str) -> None:
    assert parse(text, COMMANDS) == PlainMessage(sent)


@pytest.mark.parametrize(
    ("text", "nearest"), [("/hlep", "help"), ("/fil a.txt", "file"), ("/system x", "system-prompt")]
)
def test_an_unknown_command_names_the_nearest(text: str, nearest: str) -> None:
    refused = parse(text, COMMANDS)
    assert isinstance(refused, Refusal)
    assert refused.suggestions[0] == nearest
    assert f"Did you mean /{nearest}?" in refused.sentence


def test_an_unknown_command_like_no_other_tells_how_to_send_it() -> None:
    assert parse("/qqq", COMMANDS) == Refusal(
        "There is no command /qqq. //qqq sends it as a message."
    )


def test_a_missing_argument_and_one_too_many_are_refused() -> None:
    assert parse("/file ", COMMANDS) == Refusal("/file needs its argument: /file PATH.")
    refused = parse("/help me please", COMMANDS)
    assert isinstance(refused, Refusal)
    assert refused.sentence.startswith("/help takes no argument")


def test_without_commands_a_slash_is_a_character() -> None:
    assert parse("/help", ()) == PlainMessage("/help")
    assert parse("//help", ()) == PlainMessage("//help")
    assert escaped("/help", ()) == "/help"


@given(st.text("/fileh p\n-é", max_size=12))
def test_an_escaped_message_is_always_a_message_again(text: str) -> None:
    assert parse(escaped(text, COMMANDS), COMMANDS) == PlainMessage(text)


def test_names_that_begin_so_come_first_then_those_that_contain_it_then_its_letters() -> None:
    names = ["abort", "tab", "table", "star-tab", "t-a-b", "TABS"]
    assert ranked("tab", names) == ["tab", "table", "TABS", "star-tab", "t-a-b"]
    assert ranked("", names) == names
    assert ranked("xyz", names) == []
