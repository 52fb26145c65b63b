"""An answer that was cut off is gone on with as if it had never been cut."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from backend.metrics.trace import TurnTrace
from backend.protocol import CacheDropped, ChatMessage, DropCacheRequest, PromptReady
from tests.engine.conftest import MakeTalk
from tests.engine.driver import chatml
from tests.engine.reference import Reference
from tests.engine.talk import GREEDY, Talk
from tests.tiny import (
    tiny_hybrid,
    tiny_llama,
    tiny_mamba,
    tiny_parrot,
    tiny_spm,
    tiny_swa,
)

SMILE = "☺".encode()


def plan_of(trace: TurnTrace) -> PromptReady:
    assert trace.prompt is not None
    return trace.prompt


def check_cut_is_unseen(chat: Talk, question: str, cut: int, whole: int) -> None:
    uncut = chat.ask(question, max_tokens=whole)
    expected = chat.messages.pop()
    chat.messages.clear()
    chat.engine.send(DropCacheRequest())
    chat.one(CacheDropped)

    first = chat.ask(question, max_tokens=cut)
    assert first.token_ids == uncut.token_ids[:cut]
    rest = chat.resume(max_tokens=whole - cut)
    plan = plan_of(rest)
    assert rest.token_ids == uncut.token_ids[cut:]
    assert chat.messages[-1] == expected
    assert (plan.prompt_n, plan.cache.reason, plan.cache.lost) == (1, "appended", 0)
    assert plan.resumed_n == cut
    assert plan.ids == (*plan_of(first).ids, *first.token_ids)

    held = len(plan.ids) + len(rest.token_ids) - 1
    following = plan_of(chat.ask("And then?"))
    assert (following.cache_n, following.cache.reason) == (held, "appended")
    assert following.ids[: len(plan_of(first).ids) + whole] == (
        *plan_of(first).ids,
        *uncut.token_ids,
    )


@pytest.mark.parametrize("model", [tiny_llama, tiny_swa, tiny_mamba, tiny_hybrid, tiny_spm])
def test_the_cut_is_unseen_on_each_kind_of_memory(
    talk: MakeTalk, folder: Path, model: Callable[[Path], Path]
) -> None:
    check_cut_is_unseen(talk(model(folder)), "what about the windmill? " * 6, 9, 30)


def test_the_cut_is_unseen_on_the_starter(talk: MakeTalk, starter: Path) -> None:
    check_cut_is_unseen(talk(starter), "Why is the sky blue?", 12, 40)


def test_an_answer_is_cut_and_gone_on_with_twice(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_llama(folder))
    whole = chat.ask("twice", max_tokens=20).token_ids
    chat.messages.clear()
    chat.ask("twice", cancel_after_tokens=5)
    chat.resume(max_tokens=4)
    last = chat.resume(max_tokens=11)
    assert list(chat.messages[-1].token_ids) == whole
    assert (plan_of(last).prompt_n, plan_of(last).cache.reason) == (1, "appended")


def test_what_the_cache_lost_is_computed_again(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_llama(folder))
    first = chat.ask("lost", max_tokens=6)
    chat.engine.send(DropCacheRequest())
    chat.one(CacheDropped)
    plan = plan_of(chat.resume())
    assert (plan.cache_n, plan.cache.reason) == (0, "dropped")
    assert plan.prompt_n == len(plan_of(first).ids) + 6


# ------------------------------------------------------------------------------ the text


def test_a_character_that_the_cut_went_through_comes_out_whole(
    talk: MakeTalk, folder: Path
) -> None:
    chat = talk(tiny_parrot(folder, b"a", SMILE, b"b"))
    for cut in (1, 2, 3, 4):
        chat.messages.clear()
        chat.ask("say it", max_tokens=cut)
        part = chat.messages[-1].content
        assert part == ("a", "a\ufffd", "a\ufffd", "a☺")[cut - 1]
        rest = chat.resume(max_tokens=5 - cut)
        assert plan_of(rest).drop_chars == part.count("\ufffd")
        assert chat.messages[-1].content == "a☺b"
        assert rest.raw_text == "a☺b"[len(part.rstrip("\ufffd")) :]
    # The next turn finds the answer and its tokens where they are.
    assert plan_of(chat.ask("more")).cache.reason == "appended"


def test_an_engine_that_died_left_half_a_character_out(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_parrot(folder, b"a", SMILE, b"b"))
    chat.ask("say it", max_tokens=3)
    chat.messages[-1] = msgspec.structs.replace(chat.messages[-1], content="a")
    rest = chat.resume(max_tokens=2)
    assert (plan_of(rest).drop_chars, rest.raw_text) == (0, "☺b")


def test_a_stop_string_across_the_cut_ends_the_answer(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_parrot(folder, b"so ENDx"))
    stops = msgspec.structs.replace(GREEDY, stop=("END",))
    chat.ask("say it", stops, max_tokens=5)
    assert chat.messages[-1].content == "so EN"
    rest = chat.resume(stops)
    assert rest.ended is not None
    assert (rest.ended.reason, plan_of(rest).drop_chars) == ("stop", 2)
    assert chat.messages[-1].content == "so "


def test_what_only_began_like_a_stop_string_stays(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_parrot(folder, b"so ENDx"))
    stops = msgspec.structs.replace(GREEDY, stop=("ENT",))
    chat.ask("say it", stops, max_tokens=5)
    rest = chat.resume(stops, max_tokens=2)
    assert (plan_of(rest).drop_chars, rest.raw_text) == (2, "ENDx")
    assert chat.messages[-1].content == "so ENDx"


def test_an_answer_cut_while_thinking_goes_on_thinking(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_parrot(folder, "<think>", b"hm", "</think>", b"ok", "<|im_end|>"))
    first = chat.ask("say it", max_tokens=2)
    assert ("".join(first.thinking), first.thinking_n) == ("h", 2)
    rest = chat.resume()
    record = chat.record(rest)
    assert (record.thinking, record.text) == ("m", "ok")
    assert (rest.thinking_n, record.predicted_n) == (2, 5)
    assert chat.messages[-1].content == "<think>hm</think>ok"
    assert rest.first_answer_ns == rest.token_ns[2]


def test_an_answer_without_its_tokens_is_gone_on_with_as_text(
    talk: MakeTalk, starter: Path, reference: Reference
) -> None:
    chat = talk(starter)
    told = "The sky is blue because <|im_end|> is"
    question = ChatMessage("user", "Why?")
    system = ChatMessage("system", "Be brief.")
    before = reference.tokens_of(starter, chatml(("system", "Be brief."), ("user", "Why?")))
    spelled = reference.tokens_of(starter, told, parse_special=False)
    for ids in ((), (1, 10**6), (5, 6, 7)):
        chat.messages[:] = [system, question, ChatMessage("assistant", told, ids)]
        rest = chat.resume(max_tokens=3)
        assert list(plan_of(rest).ids) == before + spelled
        assert plan_of(rest).resumed_n == len(spelled)
        assert chat.messages[-1].content == told + rest.raw_text
        assert list(chat.messages[-1].token_ids) == spelled + rest.token_ids


def test_half_a_character_without_tokens_is_left_out(
    talk: MakeTalk, folder: Path, reference: Reference
) -> None:
    path = tiny_llama(folder)
    chat = talk(path)
    chat.messages[:] = [ChatMessage("user", "Why?"), ChatMessage("assistant", "so\ufffd")]
    plan = plan_of(chat.resume())
    assert plan.drop_chars == 1
    assert list(plan.ids[-plan.resumed_n :]) == reference.tokens_of(path, "so")


def test_there_must_be_an_answer(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_llama(folder))
    chat.messages.append(ChatMessage("user", "hello"))
    trace = chat._answer(GREEDY, resume=True)
    assert trace.ended is not None
    assert (trace.ended.reason, trace.ended.detail) == (
        "error",
        "there is no answer to go on with",
    )
