"""What a turn takes over from the cache: to the token, and with the reason."""

import re
from pathlib import Path

from tests.engine.conftest import MakeDriver
from tests.engine.driver import (
    CONCATENATED,
    SMOLLM_SYSTEM,
    Driver,
    chatml,
    common_length,
    engine_settings,
    next_question,
)
from tests.engine.reference import Reference
from tests.tiny import tiny_llama, tiny_mamba

QUESTIONS = (
    "Why is the sky blue?",
    "And at sunset? Say it in one sentence.",
    "Name three colours:\n- red\n-",
    "Grüße, 漢字 and 🙂 — what are these?",
    "def f(x):\n\treturn x  # what does it do?",
    "Thanks!",
)

CLOCK = "{{ strftime_now('%H:%M:%S.%f') }} " + CONCATENATED
DATE = "{{ strftime_now('%Y') }} " + CONCATENATED


def test_a_chat_of_six_turns_computes_only_what_is_new(
    starter_engine: Driver, starter: Path, reference: Reference
) -> None:
    starter_engine.fresh_chat()
    told: list[int] = []
    cells = 0
    for question in QUESTIONS:
        turn = starter_engine.ask(question, 24)
        record = turn.record
        if told:
            expected = told + reference.tokens_of(starter, next_question(question))
            assert record.cache.reason == "appended"
        else:
            text = chatml(("system", SMOLLM_SYSTEM), ("user", question))
            expected = reference.tokens_of(starter, text, add_special=True)
        assert list(turn.prompt.ids) == expected
        assert (record.prompt_tokens, record.cache_n) == (len(expected), cells)
        assert record.prompt_n == len(expected) - cells
        assert record.cache.hit_ratio == cells / len(expected)
        assert (record.cache.at, record.cache.lost) == (None, 0)
        cells = len(expected) + len(turn.ids) - 1
        assert turn.cells == cells
        told = expected + list(turn.ids[:-1] if record.stop.reason == "eog" else turn.ids)


def test_an_answer_that_ended_by_itself_is_reused_whole(
    starter_engine: Driver, starter: Path, reference: Reference
) -> None:
    starter_engine.fresh_chat()
    first = starter_engine.ask("What is the capital of France? Answer in one word.", None)
    assert first.record.stop.reason == "eog"
    second = starter_engine.ask("And of Italy?", 2)
    cells = len(first.prompt.ids) + len(first.ids) - 1
    assert second.record.cache_n == cells
    # The end token that the model chose is the one that the template writes: <|im_end|>.
    new = reference.tokens_of(starter, next_question("And of Italy?"))
    assert second.prompt.ids == first.prompt.ids + first.ids[:-1] + tuple(new)
    assert second.record.prompt_n == len(new)


def test_after_twenty_tokens_all_but_the_last_are_reused(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder), chat_template=CONCATENATED)
    driver.start()
    first = driver.ask("x" * 152, 20)
    assert (first.record.prompt_tokens, first.record.predicted_n) == (152, 20)
    assert first.cells == 171
    second = driver.ask("x", 1).record
    assert (second.prompt_tokens, second.cache_n, second.prompt_n) == (173, 171, 2)


def test_the_same_prompt_again_computes_one_token(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    first = tiny_engine.ask("the same again", 5)
    again = tiny_engine.regenerate()
    p = len(first.prompt.ids)
    assert again.record.cache.reason == "regenerated"
    assert again.prompt.ids == first.prompt.ids
    assert (again.record.cache_n, again.record.prompt_n) == (p - 1, 1)
    assert (again.record.cache.at, again.record.cache.lost) == (p, 5)
    assert again.ids == first.ids


def test_a_chat_sent_three_times_with_limit_one(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    first = tiny_engine.ask("thrice", 1).record
    p = first.prompt_tokens
    assert p is not None
    assert (first.cache_n, first.prompt_n) == (0, p)
    for _ in range(2):
        again = tiny_engine.regenerate().record
        assert (again.prompt_tokens, again.cache_n, again.prompt_n) == (p, p - 1, 1)


def test_an_edit_keeps_what_stands_before_it(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    tiny_engine.ask("the first message", 6)
    tiny_engine.ask("the second message, to be changed", 6)
    third = tiny_engine.ask("the third message", 6)
    held = [*third.prompt.ids, *third.ids][: third.cells]
    edited = tiny_engine.edit(1, "the second message, now another")
    common = common_length(held, edited.prompt.ids)
    cache = edited.record.cache
    assert cache.reason == "history_edited"
    assert (cache.at, cache.kept, cache.lost) == (common, common, len(held) - common)
    assert edited.record.cache_n == common
    assert cache.before is not None
    assert cache.after is not None
    assert cache.before.startswith(" to be changed")
    assert cache.after.startswith(" now another")


def test_a_dropped_cache_is_cold(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    first = tiny_engine.ask("before the drop", 4)
    tiny_engine.session.drop_cache()
    second = tiny_engine.ask("after the drop", 4).record
    assert (second.cache.reason, second.cache_n) == ("dropped", 0)
    assert second.prompt_n == second.prompt_tokens
    # The drop itself emptied the cache, so the turn lost nothing.
    assert second.cache.lost == 0
    assert first.cells > 0
    assert tiny_engine.ask("and on", 4).record.cache.reason == "appended"


def test_another_system_prompt_loses_all_behind_it(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    tiny_engine.session.set_system("be brief")
    first = tiny_engine.ask("hello", 4)
    tiny_engine.session.set_system("be kind")
    second = tiny_engine.ask("hello", 4)
    held = [*first.prompt.ids, *first.ids][: first.cells]
    common = common_length(held, second.prompt.ids)
    assert second.record.cache.reason == "system_changed"
    assert (second.record.cache.at, second.record.cache_n) == (common, common)
    assert second.record.cache.before is not None
    assert second.record.cache.before.startswith(" brief")


def test_another_chat_keeps_the_common_beginning(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    first = tiny_engine.ask("one chat", 4)
    tiny_engine.session.new_chat()
    second = tiny_engine.ask("other chat", 4)
    common = common_length(first.prompt.ids, second.prompt.ids)
    assert second.record.cache.reason == "chat_switched"
    assert second.record.cache_n == common > 0


def test_loading_again_names_what_changed(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder))
    driver.start()
    session = driver.session
    assert driver.ask("first", 4).record.cache.reason == "first_turn"
    session.load(session.chosen_model._replace(settings=engine_settings(1024)))
    driver.loaded()
    changed = driver.ask("second", 4).record
    assert (changed.cache.reason, changed.cache_n) == ("settings_changed", 0)
    assert changed.context is not None
    assert changed.context.n_ctx == 1024
    session.load(session.chosen_model._replace(path=str(tiny_mamba(folder))))
    driver.loaded()
    other = driver.ask("third", 4).record
    assert (other.cache.reason, other.cache_n) == ("model_changed", 0)
    assert other.model is not None
    assert other.model.architecture == "mamba"
    session.restart_engine()
    driver.loaded()
    assert driver.ask("fourth", 4).record.cache.reason == "engine_restarted"


def test_a_template_with_a_clock_names_it(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder), chat_template=CLOCK)
    driver.start()
    first = driver.ask("what is the time", 4)
    second = driver.ask("and now", 4)
    cache = second.record.cache
    common = common_length([*first.prompt.ids, *first.ids][: first.cells], second.prompt.ids)
    assert cache.reason == "template_rewrote"
    assert (cache.at, cache.kept) == (common, common)
    assert common < len("00:00:00.000000")
    clock = re.compile(r"[\d:.]* what")
    assert cache.before is not None
    assert cache.after is not None
    assert cache.before != cache.after
    assert clock.match(cache.before + " what")
    assert clock.match(cache.after + " what")
    assert cache.hint == "the template prints the time"


def test_a_template_with_a_date_loses_nothing(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder), chat_template=DATE)
    driver.start()
    first = driver.ask("what day is it", 4)
    second = driver.ask("and now", 4).record
    assert (second.cache.reason, second.cache_n) == ("appended", first.cells)
