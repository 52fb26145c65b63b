"""What a draft would cost: the very figures of the turn that is sent then."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter_ns

import msgspec
import pytest

from backend.local.process import RENDER_LIMIT_S
from backend.metrics.trace import TurnTrace
from backend.protocol import (
    CacheDropped,
    ChatMessage,
    CountRequest,
    DropCacheRequest,
    EngineExited,
    Event,
    Message,
    PromptCounted,
    PromptReady,
    TemplateRuns,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
)
from tests.engine.conftest import MakeTalk
from tests.engine.driver import CONCATENATED, PATIENCE_S, endless_on, engine_settings
from tests.engine.reference import Reference
from tests.engine.talk import GREEDY
from tests.tiny import tiny_hybrid, tiny_llama, tiny_mamba, tiny_spm, tiny_swa


def agree(counted: PromptCounted, trace: TurnTrace) -> None:
    prompt = trace.prompt
    assert prompt is not None
    assert counted.problem is None
    assert (counted.prompt_tokens, counted.cache_n, counted.prompt_n) == (
        prompt.prompt_tokens,
        prompt.cache_n,
        prompt.prompt_n,
    )


def test_counts_are_those_of_the_turn_that_is_sent(
    talk: MakeTalk, starter: Path, reference: Reference
) -> None:
    chat = talk(starter)
    draft = "Why is the sky blue? <|im_end|>"
    counted = chat.count(draft)
    assert counted.message_tokens == len(reference.tokens_of(starter, draft, parse_special=False))
    assert counted.n_ctx == 2048
    first = chat.ask(draft)
    agree(counted, first)
    assert first.prompt is not None
    # The counts before it did not disturb the turn.
    assert first.prompt.first_after_load
    assert first.prompt.cache.reason == "first_turn"
    for unsent in ("A", "And", "And at sunset, say,"):
        chat.count(unsent)
    counted = chat.count("And at sunset?")
    second = chat.ask("And at sunset?")
    agree(counted, second)
    assert second.prompt is not None
    assert second.prompt.cache.reason == "appended"
    assert second.ended is not None
    assert second.ended.perf is not None
    assert second.ended.perf.n_p_eval == second.prompt.prompt_n

    del chat.messages[2:]
    edited = "And in the morning?"
    counted = chat.count(edited)
    third = chat.ask(edited)
    agree(counted, third)
    assert third.prompt is not None
    assert third.prompt.cache.reason == "history_edited"

    chat.engine.send(DropCacheRequest())
    chat.one(CacheDropped)
    counted = chat.count("Thanks!")
    assert counted.cache_n == 0
    fourth = chat.ask("Thanks!")
    agree(counted, fourth)
    assert fourth.prompt is not None
    assert fourth.prompt.cache.reason == "dropped"


@pytest.mark.parametrize("model", [tiny_llama, tiny_swa, tiny_mamba, tiny_hybrid, tiny_spm])
def test_counts_know_what_each_kind_of_memory_keeps(
    talk: MakeTalk, folder: Path, model: Callable[[Path], Path]
) -> None:
    chat = talk(model(folder))
    for text in ("the first message " * 12, "and the second " * 20, "a third"):
        counted = chat.count(text)
        agree(counted, chat.ask(text))
    for keep in (4, 2, 0):
        del chat.messages[keep:]
        counted = chat.count("changed")
        again = chat.count("changed")
        assert again == msgspec.structs.replace(counted, number=again.number)
        agree(counted, chat.ask("changed"))


def test_a_prompt_that_is_too_long_is_counted(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_llama(folder), engine_settings(256), chat_template=CONCATENATED)
    counted = chat.count("x" * 400)
    assert (counted.prompt_tokens, counted.n_ctx, counted.problem) == (400, 256, None)


def test_what_cannot_be_counted_has_a_reason(talk: MakeTalk, folder: Path) -> None:
    refuses = (
        "{% if messages[-1]['content'] == 'no' %}{{ raise_exception('not that') }}{% endif %}"
        + CONCATENATED
    )
    chat = talk(tiny_llama(folder), chat_template=refuses)
    assert chat.count("no") == PromptCounted(1, 0, 0, 0, 0, 0, "the chat template raised: not that")
    assert chat.count("yes").problem is None
    assert chat.count("").problem == "the chat template made an empty prompt"


def test_without_a_model_nothing_is_counted(talk: MakeTalk, folder: Path) -> None:
    chat = talk(folder / "nowhere.gguf")
    assert chat.count("hello").problem == "no model is loaded"


def test_only_the_newest_draft_is_counted_after_what_else_waits(
    talk: MakeTalk, folder: Path
) -> None:
    chat = talk(tiny_llama(folder))
    asked = (ChatMessage("user", "a long message " * 60),)
    turn = TurnRequest(1, "1", "chat", asked, GREEDY, "")
    chat.engine.send(turn)
    for number in range(1, 6):
        chat.engine.send(CountRequest(number, "chat", asked))
    chat.engine.send(msgspec.structs.replace(turn, turn=2, turn_id="2"))
    events = [chat.until(TurnEnded, PromptCounted) for _ in range(3)]
    assert [type(event) for event in events] == [TurnEnded, TurnEnded, PromptCounted]
    counted = events[-1]
    assert isinstance(counted, PromptCounted)
    assert counted.number == 5
    # The prompt is in the cache, all but the token whose logits are needed.
    assert counted.prompt_n == 1
    chat.engine.send(DropCacheRequest())
    assert isinstance(chat.until(CacheDropped, PromptCounted), CacheDropped)


def test_a_template_that_never_ends_on_a_draft_is_ended(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_llama(folder), chat_template=endless_on("loop"))
    chat.ask("hello")
    chat.engine.send(CountRequest(1, "chat", (*chat.messages, ChatMessage("user", "loop"))))
    ended = chat.one(EngineExited)
    assert (ended.expected, ended.kind) == (False, "template")
    assert f"did not end within {RENDER_LIMIT_S:.0f} s" in ended.message


def test_a_count_under_way_does_not_make_a_turn_late(talk: MakeTalk, folder: Path) -> None:
    slow = (
        "{% if messages[-1]['content'] == 'slow' %}{% for a in range(500) %}"
        "{% for b in range(20000) %}{% endfor %}{% endfor %}{% endif %}" + CONCATENATED
    )
    chat = talk(tiny_llama(folder), chat_template=slow)
    chat.engine.send(CountRequest(1, "chat", (ChatMessage("user", "slow"),)))
    end = monotonic() + PATIENCE_S
    while chat.engine._render_deadline is None:
        assert monotonic() < end
        assert not isinstance(chat.engine.wait(0.001), PromptCounted)
    turn = TurnRequest(1, "1", "chat", (ChatMessage("user", "quick"),), GREEDY, "")
    chat.engine.send(turn)
    chat.one(PromptCounted)
    counted_ns = perf_counter_ns()
    accepted = chat.one(TurnAccepted)
    assert accepted.t_ns < counted_ns
    ready = chat.one(PromptReady)
    # Nothing of the wait is in the turn's own steps.
    assert ready.render_ns < counted_ns - accepted.t_ns


def test_that_a_template_runs_is_between_the_two_ends_of_the_pipe(
    talk: MakeTalk, folder: Path
) -> None:
    chat = talk(tiny_llama(folder))
    chat.engine.send(CountRequest(1, "chat", (ChatMessage("user", "hello"),)))
    events: list[Event] = []
    while not any(isinstance(event, PromptCounted) for event in events):
        events.append(chat.until(Message))
    assert not any(isinstance(event, TemplateRuns) for event in events)
    # A count that is done ends nothing later.
    assert chat.engine._render_deadline is None
