"""Turns files: every form of an entry, and every wrong one named before anything runs."""

import json
from pathlib import Path

import pytest

from backend.settings import EngineSettings, SamplingChoice
from backend.turns import (
    DropCache,
    ModelChange,
    NewChat,
    Regenerate,
    SettingsChange,
    SystemChange,
    TurnsError,
    UserTurn,
    parse_turns,
    read_turns,
)


def parse(*entries: object) -> list[object]:
    return list(parse_turns(json.dumps(entries).encode(), "t.json"))


def test_every_form_of_an_entry() -> None:
    assert parse(
        "hello",
        {"user": "and"},
        {"system": "be kind"},
        {"edit": 1, "user": "other"},
        {"regenerate": True},
        {"drop_cache": True},
        {"model": "/models/b.gguf"},
        {"set": {"n_ctx": 512, "temp": 0}},
        {"cancel_after_tokens": 3, "user": "stop in decode"},
        {"cancel_at_prompt_token": 7, "user": "stop in prefill"},
        {"new_chat": True},
        "again",
    ) == [
        UserTurn("hello"),
        UserTurn("and"),
        SystemChange("be kind"),
        UserTurn("other", edit=1),
        Regenerate(),
        DropCache(),
        ModelChange("/models/b.gguf"),
        SettingsChange({"n_ctx": 512}, {"temp": 0.0}),
        UserTurn("stop in decode", cancel_after_tokens=3),
        UserTurn("stop in prefill", cancel_at_prompt_token=7),
        NewChat(),
        UserTurn("again"),
    ]


def test_an_edit_can_be_cancelled_too() -> None:
    (_, edit) = parse("one", {"edit": 0, "user": "two", "cancel_after_tokens": 1})
    assert edit == UserTurn("two", edit=0, cancel_after_tokens=1)


def test_no_entries_are_no_turns() -> None:
    assert parse() == []


def test_settings_change_what_they_name_and_leave_the_rest() -> None:
    changes = {
        "n_batch": 64,
        "type_k": "q8_0",
        "flash_attn": "on",
        "swa_full": True,
        "seed": 4_294_967_295,
        "max_tokens": None,
        "stop": ["\n\n"],
    }
    (change,) = parse({"set": changes})
    assert isinstance(change, SettingsChange)
    engine = change.apply_to_engine(EngineSettings(n_ctx=512, n_threads=3))
    assert engine == EngineSettings(
        n_ctx=512, n_threads=3, n_batch=64, type_k="q8_0", flash_attn="on", swa_full=True
    )
    sampling = change.apply_to_sampling(SamplingChoice(temp=0.0, max_tokens=9))
    assert sampling == SamplingChoice(temp=0.0, seed=4_294_967_295, max_tokens=None, stop=("\n\n",))


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        (5, "must be a string or an object"),
        (None, "must be a string or an object"),
        (["hello"], "must be a string or an object"),
        ({}, "must be a string or an object"),
        ("", "the message is empty"),
        (" \n", "the message is empty"),
        ({"user": "\t"}, "the message is empty"),
        ({"user": 5}, "Expected `str`"),
        ({"user": "x", "tokens": 3}, "unknown key 'tokens'"),
        ({"users": "x"}, "unknown keys 'users'"),
        ({"edit": 0}, 'has no "user"'),
        ({"cancel_after_tokens": 2}, 'has no "user"'),
        ({"edit": "0", "user": "x"}, "Expected `int"),
        ({"edit": 0.5, "user": "x"}, "Expected `int"),
        ({"edit": True, "user": "x"}, "Expected `int"),
        ({"edit": -1, "user": "x"}, "there is no user message -1"),
        ({"edit": 1, "user": "x"}, "there is no user message 1"),
        ({"cancel_after_tokens": 0, "user": "x"}, '"cancel_after_tokens" must be at least 1'),
        (
            {"cancel_at_prompt_token": -1, "user": "x"},
            '"cancel_at_prompt_token" must be at least 0',
        ),
        ({"cancel_after_tokens": "many", "user": "x"}, "Expected `int"),
        ({"regenerate": False}, '"regenerate" must be true'),
        ({"regenerate": 1}, '"regenerate" must be true'),
        ({"drop_cache": "yes"}, '"drop_cache" must be true'),
        ({"new_chat": None}, '"new_chat" must be true'),
        ({"new_chat": True, "model": "b"}, "unknown key 'model'"),
        ({"system": None}, "Expected `str`"),
        ({"system": "x", "user": "y"}, "unknown key 'system'"),
        ({"model": 5}, "Expected `str`"),
        ({"model": ""}, '"model" is empty'),
        ({"set": 5}, '"set" must be an object of settings'),
        ({"set": {}}, '"set" must be an object of settings'),
        (
            {"set": {"n_ctxt": 512}},
            "unknown setting 'n_ctxt'; there are flash_attn, frequency_penalty, max_tokens,",
        ),
        ({"set": {"n_ctx": "512"}}, "Expected `int"),
        ({"set": {"n_ctx": 0}}, '"n_ctx" must be at least 1'),
        ({"set": {"n_ctx": 10**30}}, '"n_ctx" must be at most 2147483647'),
        ({"set": {"n_batch": -4}}, '"n_batch" must be at least 1'),
        ({"set": {"n_ubatch": 0}}, '"n_ubatch" must be at least 1'),
        ({"set": {"n_threads": 0}}, '"n_threads" must be at least 1'),
        ({"set": {"n_threads_batch": 0}}, '"n_threads_batch" must be at least 1'),
        ({"set": {"n_gpu_layers": -2}}, '"n_gpu_layers" must be at least -1'),
        ({"set": {"n_batch": None}}, "Expected `int`"),
        ({"set": {"flash_attn": "maybe"}}, "Invalid enum value 'maybe'"),
        ({"set": {"type_k": "q3_k"}}, "q3_k is no cache type; there are f32, f16"),
        ({"set": {"type_v": "Q8_0"}}, "Q8_0 is no cache type"),
        ({"set": {"swa_full": 1}}, "Expected `bool`"),
        ({"set": {"temp": "hot"}}, "Expected `float`"),
        ({"set": {"top_k": -1}}, '"top_k" must be at least 0'),
        ({"set": {"top_p": 1.5}}, '"top_p" must be at most 1'),
        ({"set": {"top_p": -0.5}}, '"top_p" must be at least 0'),
        ({"set": {"min_p": 2}}, '"min_p" must be at most 1'),
        ({"set": {"repeat_penalty": 0}}, '"repeat_penalty" must be more than 0'),
        ({"set": {"seed": -1}}, '"seed" must be at least 0'),
        ({"set": {"seed": 4_294_967_296}}, '"seed" must be at most 4294967295'),
        ({"set": {"max_tokens": -1}}, '"max_tokens" must be at least 0'),
        ({"set": {"stop": "x"}}, "Expected `array`"),
    ],
)
def test_a_wrong_entry_is_named_by_its_number(entry: object, cause: str) -> None:
    with pytest.raises(TurnsError) as caught:
        parse("fine", entry, "never reached")
    message = str(caught.value)
    assert message.startswith("t.json, entry 1: ")
    assert cause in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("entries", "number", "cause"),
    [
        ([{"regenerate": True}], 0, "there is no message to answer again"),
        (["one", {"new_chat": True}, {"regenerate": True}], 2, "no message to answer again"),
        (["one", {"new_chat": True}, {"edit": 0, "user": "x"}], 2, "no user message 0"),
        (["one", "two", {"edit": 0, "user": "x"}, {"edit": 1, "user": "y"}], 3, "user message 1"),
    ],
)
def test_what_can_never_be_edited_or_answered_again_is_known_before(
    entries: list[object], number: int, cause: str
) -> None:
    with pytest.raises(TurnsError, match=cause) as caught:
        parse(*entries)
    assert f"entry {number}: " in str(caught.value)


def test_edits_count_the_messages_of_their_branch() -> None:
    entries = parse(
        "one",
        "two",
        {"edit": 1, "user": "x"},
        {"regenerate": True},
        "three",
        {"edit": 2, "user": "y"},
    )
    assert len(entries) == 6


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "t.json is not JSON: "),
        (b'["hello"', "t.json is not JSON: "),
        (b'["\xff"]', "t.json is not JSON: "),
        (b'["\\ud800"]', "t.json is not JSON: "),
        (b"[" * 100_000, "t.json is not JSON: "),
        (b'{"user": "hello"}', "t.json must be a JSON array of turns"),
        (b'"hello"', "t.json must be a JSON array of turns"),
    ],
    ids=["empty", "cut", "not utf-8", "lone surrogate", "deep", "object", "string"],
)
def test_what_is_no_array_is_named(data: bytes, cause: str) -> None:
    with pytest.raises(TurnsError) as caught:
        parse_turns(data, "t.json")
    assert str(caught.value).startswith(cause)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "turns.json"
    path.write_text('["☺️ hello"]', encoding="utf-8")
    assert read_turns(path) == [UserTurn("☺️ hello")]
    # As some editors save it: with a byte order mark.
    path.write_text('["hello"]', encoding="utf-8-sig")
    assert read_turns(path) == [UserTurn("hello")]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TurnsError, match=r"nowhere\.json cannot be read: No such file"):
        read_turns(tmp_path / "nowhere.json")
    with pytest.raises(TurnsError, match="cannot be read"):
        read_turns(tmp_path)
