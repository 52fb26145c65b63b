"""What a turn may keep of the cache, and why: one character is one token."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.local.kv import Conversation, KvCache, MemoryKind, common_prefix
from backend.protocol import CacheOutcome, CacheReason, ChatMessage, LoadCause
from tests.unit.memories import SequenceMemory

Template = Callable[[tuple[ChatMessage, ...]], str]


def plain(messages: tuple[ChatMessage, ...]) -> str:
    """`u:hi|a:` and so on; `s:` is the system prompt."""
    return "".join(f"{message.role[0]}:{message.content}|" for message in messages) + "a:"


def led_by(words: str) -> Template:
    """A template that writes some words of its own first."""
    return lambda messages: f"{words} {plain(messages)}"


def spell(tokens: list[int]) -> str:
    return "".join(map(chr, tokens))


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def said(text: str) -> ChatMessage:
    return ChatMessage("assistant", text)


def system(text: str) -> ChatMessage:
    return ChatMessage("system", text)


class Kind(NamedTuple):
    memory: SequenceMemory
    kind: MemoryKind


def full() -> Kind:
    return Kind(SequenceMemory(), MemoryKind(n_swa=0, rolls_back=True))


def sliding(window: int, slack: int = 0) -> Kind:
    return Kind(
        SequenceMemory(window=window, slack=slack), MemoryKind(n_swa=window, rolls_back=True)
    )


def recurrent() -> Kind:
    return Kind(SequenceMemory(recurrent=True), MemoryKind(n_swa=0, rolls_back=False))


class Engine:
    """A context with its cache, driven through turns as `backend.local.turn` does it."""

    def __init__(self, kind: Kind | None = None, cause: LoadCause = "start") -> None:
        self.memory, memory_kind = kind or full()
        self.kv = KvCache(self.memory, memory_kind, cause)

    def turn(
        self,
        *messages: ChatMessage,
        answer: str = "",
        chat: str = "chat",
        template: Template = plain,
        ids: list[int] | None = None,
        continues: bool = False,
    ) -> CacheOutcome:
        """A turn whose answer is ended by the limit: its last token is never decoded."""
        outcome, new = self.plan(
            *messages, chat=chat, template=template, ids=ids, continues=continues
        )
        self.memory.decode(new)
        self.kv.tokens += new
        for token in map(ord, answer[:-1]):
            self.memory.decode([token])
            self.kv.tokens.append(token)
        self.kv.answered(answer)
        return outcome

    def plan(
        self,
        *messages: ChatMessage,
        chat: str = "chat",
        template: Template = plain,
        ids: list[int] | None = None,
        continues: bool = False,
    ) -> tuple[CacheOutcome, list[int]]:
        text = template(messages)
        tokens = [ord(character) for character in text] if ids is None else ids
        outcome = self.kv.plan(Conversation(chat, messages, text, tokens, continues), spell)
        return outcome, tokens[outcome.kept :]

    def resume(self, *messages: ChatMessage) -> tuple[CacheOutcome, list[int]]:
        """The plan of a turn that goes on with the last message."""
        told = messages[-1].content
        text = plain(messages[:-1]) + told
        tokens = [ord(character) for character in text]
        turn = Conversation("chat", messages, text, tokens, resumed=told)
        outcome = self.kv.plan(turn, spell)
        return outcome, tokens[outcome.kept :]

    def answer(self, new: list[int], whole: str, more: str) -> None:
        """Compute what a plan left over, and an answer, which is `whole` now, by `more`."""
        tokens = [*new, *map(ord, more[:-1])]
        self.memory.decode(tokens)
        self.kv.tokens += tokens
        self.kv.answered(whole)

    def cancelled(self, *messages: ChatMessage, at: int) -> None:
        """A turn whose prefill is stopped after `at` new tokens."""
        _, new = self.plan(*messages)
        self.memory.decode(new[:at])
        self.kv.tokens += new
        self.kv.recount()


# ---------------------------------------------------------------------------------- reasons


def test_the_first_turn_keeps_nothing_and_loses_nothing() -> None:
    outcome = Engine().turn(user("hi"), answer="yo")
    assert outcome == CacheOutcome("first_turn", None, 0, 0, None, None)


def test_an_appended_message_keeps_all_that_is_held() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    held = list(engine.kv.tokens)
    assert spell(held) == "u:hi|a:y"
    outcome = engine.turn(user("hi"), said("yo"), user("so"))
    assert outcome == CacheOutcome("appended", None, 8, 0, None, None)


def test_152_tokens_20_answered_and_one_appended_leave_two_to_compute() -> None:
    engine = Engine()
    prompt = list(range(1000, 1152))
    answer = "".join(map(chr, range(2000, 2020)))
    engine.turn(user("q"), answer=answer, ids=prompt)
    ids = [*prompt, *map(ord, answer), 3000]
    outcome, new = engine.plan(user("q"), said(answer), user("r"), ids=ids)
    assert (outcome.reason, outcome.kept, len(new)) == ("appended", 171, 2)


def test_a_regenerated_answer_computes_one_token_again() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="hello")
    outcome, new = engine.plan(user("hi"))
    # "u:hi|a:" has 7 tokens and "hell" of the answer is held behind them.
    assert outcome == CacheOutcome("regenerated", 7, 6, 5, "hell", "")
    assert spell(new) == ":"


def test_an_answer_of_one_token_leaves_the_cache_equal_to_its_prompt() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="y")
    outcome = engine.turn(user("hi"), answer="y")
    assert outcome == CacheOutcome("regenerated", None, 6, 1, None, None)


def test_an_edited_message_shows_both_texts() -> None:
    engine = Engine()
    engine.turn(user("hi there"), answer="yo")
    outcome = engine.turn(user("hi you"))
    assert outcome == CacheOutcome("history_edited", 5, 5, 9, "there|a:y", "you|a:")


def test_an_excerpt_is_twelve_tokens_long() -> None:
    engine = Engine()
    engine.turn(user("abcdefghijklmnopqrstuvwxyz"))
    outcome = engine.turn(user("zyxwvutsrqponmlkjihgfedcba"))
    assert (outcome.before, outcome.after) == ("abcdefghijkl", "zyxwvutsrqpo")


def test_an_answer_that_was_changed_counts_as_edited() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    outcome = engine.turn(user("hi"), said("no"), user("so"))
    assert (outcome.reason, outcome.at) == ("history_edited", 7)


def test_a_changed_system_prompt() -> None:
    engine = Engine()
    engine.turn(system("be kind"), user("hi"), answer="yo")
    outcome = engine.turn(system("be rude"), user("hi"), said("yo"), user("so"))
    assert outcome == CacheOutcome("system_changed", 5, 5, 13, "kind|u:hi|a:", "rude|u:hi|a:")


def test_a_system_prompt_that_was_added() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    outcome = engine.turn(system("be rude"), user("hi"), said("yo"), user("so"))
    assert (outcome.reason, outcome.kept) == ("system_changed", 0)


def test_another_chat_names_itself_even_if_it_begins_alike() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo", chat="one")
    outcome = engine.turn(user("hi"), chat="two")
    assert (outcome.reason, outcome.kept) == ("chat_switched", 6)


def test_a_template_with_a_clock_is_named_where_the_time_stands() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo", template=led_by("now 12:00:01"))
    outcome = engine.turn(
        user("hi"), said("yo"), user("so"), answer="ok", template=led_by("now 12:00:02")
    )
    assert outcome == CacheOutcome(
        "template_rewrote",
        11,
        11,
        10,
        "1 u:hi|a:y",
        "2 u:hi|a:yo|",
        hint="the template prints the time",
    )
    same = engine.turn(
        *(user("hi"), said("yo"), user("so"), said("ok"), user("no")),
        template=led_by("now 12:00:02"),
    )
    assert same.reason == "appended"


TIME = "the template prints the time"
DATE = "the template prints the date"


@pytest.mark.parametrize(
    ("before", "now", "hint"),
    [
        ("at 12:00:01 sharp", "at 12:00:02 sharp", TIME),
        ("09:59", "10:00", TIME),
        ("(12:00:01.250000)", "(12:00:01.9)", TIME),
        ("11:59 AM", "12:00 PM", TIME),
        ("2026-01-31T12:00:01+01:00", "2026-01-31T12:00:09+01:00", TIME),
        # Midnight passes: the date is what differs first.
        ("2026-01-31 23:59:58", "2026-02-01 00:00:01", DATE),
        ("Today Date: 31 Jan 2026.", "Today Date: 01 Feb 2026.", DATE),
        ("Saturday, 31 January 2026", "Sunday, 1 February 2026", DATE),
        ("January 9, 2026", "January 10, 2026", DATE),
        ("31.1.2026", "1.2.2026", DATE),
        # No clock, or only one side of one.
        ("version 12", "version 13", None),
        ("1.2.3.4", "1.2.3.5", None),
        ("64:90", "64:91", None),
        ("12:00", "noon", None),
        ("12:00 one", "12:00 two", None),
        ("May I", "May we", None),
    ],
)
def test_only_a_clock_is_called_one(before: str, now: str, hint: str | None) -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo", template=led_by(before))
    outcome = engine.turn(user("hi"), said("yo"), user("so"), template=led_by(now))
    assert (outcome.reason, outcome.hint) == ("template_rewrote", hint)


def test_a_date_that_stays_loses_nothing() -> None:
    today = led_by("31 Jan 2026")
    engine = Engine()
    engine.turn(user("hi"), answer="yo", template=today)
    outcome = engine.turn(user("hi"), said("yo"), user("so"), template=today)
    assert (outcome.reason, outcome.hint, outcome.lost) == ("appended", None, 0)


def test_a_time_in_a_message_is_not_the_templates() -> None:
    def forgets(messages: tuple[ChatMessage, ...]) -> str:
        return plain(messages[-1:])

    engine = Engine()
    engine.turn(user("11:00"), answer="yo", template=forgets)
    outcome = engine.turn(user("11:00"), said("yo"), user("12:00"), template=forgets)
    assert (outcome.reason, outcome.hint) == ("template_rewrote", None)


def test_a_template_that_trims_an_answer_rewrote_it() -> None:
    def trims(messages: tuple[ChatMessage, ...]) -> str:
        return plain(tuple(ChatMessage(m.role, m.content.strip()) for m in messages))

    engine = Engine()
    engine.turn(user("hi"), answer="  yo", template=trims)
    outcome = engine.turn(user("hi"), said("  yo"), user("so"), template=trims)
    assert (outcome.reason, outcome.at) == ("template_rewrote", 7)


def test_the_same_text_in_other_tokens_is_retokenized() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo!")
    messages = (user("hi"), said("yo!"), user("so"))
    ids = [ord(character) for character in plain(messages)]
    outcome = engine.turn(*messages, ids=[*ids[:7], 5000, *ids[9:]])
    assert (outcome.reason, outcome.at, outcome.kept) == ("retokenized", 7, 7)


def test_a_dropped_cache_is_named_once() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    assert engine.kv.drop() == 8
    assert len(engine.memory) == 0
    cold = engine.turn(user("hi"), said("yo"), user("so"), answer="ok")
    assert cold == CacheOutcome("dropped", None, 0, 0, None, None)
    warm = engine.turn(user("hi"), said("yo"), user("so"), said("ok"), user("no"))
    assert warm.reason == "appended"


def test_dropping_an_empty_cache_is_no_reason() -> None:
    engine = Engine()
    assert engine.kv.drop() == 0
    assert engine.turn(user("hi")).reason == "first_turn"


@pytest.mark.parametrize("cause", ["engine_restarted", "model_changed", "settings_changed"])
@pytest.mark.parametrize(
    "messages",
    [
        (user("hi"), said("yo"), user("so")),
        # The only message is answered again, or an unanswered one waits before it.
        (user("hi"),),
        (user("hi"), user("so")),
    ],
)
def test_a_new_context_says_why_it_was_made(
    cause: LoadCause, messages: tuple[ChatMessage, ...]
) -> None:
    engine = Engine(cause=cause)
    assert engine.turn(*messages, answer="ok", continues=True).reason == cause
    later = engine.turn(*messages, said("ok"), user("no"), continues=True)
    assert later.reason == "appended"


def test_a_stored_chat_in_a_fresh_program_was_in_another_engine() -> None:
    messages = (system("be kind"), user("hi"), said("yo"), user("so"))
    outcome = Engine(cause="start").turn(*messages, continues=True)
    assert outcome.reason == "engine_restarted"


@pytest.mark.parametrize(
    "cause", ["start", "engine_restarted", "model_changed", "settings_changed"]
)
def test_a_fresh_chat_lost_nothing_by_a_load(cause: LoadCause) -> None:
    engine = Engine(cause=cause)
    assert engine.turn(system("be kind"), user("hi"), continues=False).reason == "first_turn"


ASKED = (system("be kind"), user("hi"), said("yo"), user("so"))


@pytest.mark.parametrize(
    ("drop", "chat", "messages", "stamp", "reason"),
    [
        (True, "other", (system("be rude"), user("ho")), "2", "dropped"),
        (False, "other", (system("be rude"), user("ho")), "2", "chat_switched"),
        (False, "chat", (system("be rude"), user("ho")), "2", "system_changed"),
        (False, "chat", (system("be kind"), user("ho")), "2", "history_edited"),
        (False, "chat", ASKED, "2", "regenerated"),
        (False, "chat", (*ASKED, said("ok"), user("no")), "2", "template_rewrote"),
        (False, "chat", (*ASKED, said("ok"), user("no")), "1", "appended"),
    ],
)
def test_the_first_reason_that_holds_is_given(
    drop: bool, chat: str, messages: tuple[ChatMessage, ...], stamp: str, reason: CacheReason
) -> None:
    engine = Engine()
    engine.turn(*ASKED, answer="ok", template=lambda shown: f"1 {plain(shown)}")
    if drop:
        engine.kv.drop()
    outcome = engine.turn(*messages, chat=chat, template=lambda shown: f"{stamp} {plain(shown)}")
    assert outcome.reason == reason


def test_a_message_after_one_that_was_stopped_in_prefill_is_appended() -> None:
    engine = Engine()
    engine.cancelled(user("hi there"), at=5)
    assert spell(engine.kv.tokens) == "u:hi "
    outcome = engine.turn(user("hi there"), user("so"))
    assert outcome == CacheOutcome("appended", None, 5, 0, None, None)


def test_the_very_same_prompt_keeps_all_but_one_token() -> None:
    engine = Engine()
    ids = [1, 2, 3, 4]
    engine.turn(user("hi"), ids=ids)
    outcome, new = engine.plan(user("hi"), ids=ids)
    assert (outcome.kept, new) == (3, [4])


def test_a_prompt_of_one_token_is_computed_again() -> None:
    engine = Engine()
    engine.turn(user("h"), ids=[7])
    outcome, new = engine.plan(user("h"), ids=[7])
    assert (outcome.kept, outcome.lost, outcome.no_rollback, new) == (0, 1, False, [7])


def test_an_answer_that_is_gone_on_with_is_appended_to() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    outcome, new = engine.resume(user("hi"), said("yo"))
    assert outcome == CacheOutcome("appended", None, 8, 0, None, None)
    assert spell(new) == "o"
    engine.answer(new, "yo there", " there")
    later = engine.turn(user("hi"), said("yo there"), user("so"))
    assert (later.reason, later.kept, later.lost) == ("appended", 14, 0)


def test_an_answer_is_gone_on_with_twice() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    for told, new in (("yo", " there"), ("yo there", " you")):
        outcome, rest = engine.resume(user("hi"), said(told))
        assert (outcome.reason, len(rest)) == ("appended", 1)
        engine.answer(rest, told + new, new)


def test_an_answer_that_was_changed_before_it_is_gone_on_with_was_edited() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    outcome, _ = engine.resume(user("hi"), said("no"))
    assert (outcome.reason, outcome.at) == ("history_edited", 7)


def test_an_answer_that_was_not_gone_on_with_after_all_stays_as_it_was() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    _, new = engine.resume(user("hi"), said("yo"))
    engine.memory.decode(new)
    engine.kv.tokens += new
    later = engine.turn(user("hi"), said("yo"), user("so"))
    assert (later.reason, later.kept) == ("appended", 9)


# --------------------------------------------------------------------------------- rollback


def test_a_sliding_window_is_rolled_back_only_while_the_window_is_whole() -> None:
    # 2,000 tokens, window 512, the oldest cell at 979: position 1,400 needs 888 and on.
    prompt = list(range(1, 2001))
    outcomes = {}
    for at in (1490, 1491, 1400, 500):
        engine = Engine(sliding(512, 2000 - 979 - 512))
        engine.turn(user("q"), ids=prompt)
        assert engine.memory.position_range() == (979, 1999)
        edited = [*prompt[:at], 9999]
        outcomes[at], new = engine.plan(user("r"), ids=edited)
        engine.memory.decode(new)
        assert engine.memory.sound
    assert outcomes[1491].kept == 1491
    assert not outcomes[1491].no_rollback
    for at in (1490, 1400, 500):
        assert (outcomes[at].kept, outcomes[at].lost, outcomes[at].no_rollback) == (0, 2000, True)
        assert outcomes[at].at == at


def test_a_window_that_has_forgotten_nothing_is_rolled_back_anywhere() -> None:
    engine = Engine(sliding(64, 10))
    engine.turn(user("q"), ids=list(range(70)))
    outcome, _ = engine.plan(user("r"), ids=[0, 1, 2, 999])
    assert (outcome.kept, outcome.no_rollback) == (3, False)


def test_an_edit_at_300_of_601_with_a_window_of_64_is_a_miss() -> None:
    engine = Engine(sliding(64))
    engine.turn(user("q"), ids=list(range(601)))
    outcome, new = engine.plan(user("r"), ids=[*range(300), *range(2000, 2301)])
    assert (outcome.kept, outcome.lost, len(new)) == (0, 601, 601)
    assert outcome.no_rollback
    assert (outcome.reason, outcome.at) == ("history_edited", 300)
    assert len(engine.memory) == 0


def test_recurrent_memory_appends_and_cannot_go_back() -> None:
    engine = Engine(recurrent())
    engine.turn(user("hi"), answer="yo")
    appended = engine.turn(user("hi"), said("yo"), user("so"), answer="ok")
    assert (appended.reason, appended.kept, appended.no_rollback) == ("appended", 8, False)
    again = engine.turn(user("hi"), said("yo"), user("so"))
    assert (again.reason, again.kept, again.no_rollback) == ("regenerated", 0, True)
    assert again.lost == len("u:hi|a:yo|u:so|a:o")
    assert engine.memory.sound


def test_recurrent_memory_starts_over_after_an_abort() -> None:
    engine = Engine(recurrent())
    engine.turn(user("hi"), answer="yo")
    _, new = engine.plan(user("hi"), said("yo"), user("so"))
    # The abort's clean-up fails unseen: positions claim what was never computed.
    engine.memory.claim(len(new))
    engine.kv.tokens += new
    engine.kv.recount()
    assert engine.kv.tokens == []
    assert len(engine.memory) == 0
    outcome = engine.turn(user("hi"), said("yo"), user("so"), user("no"))
    assert (outcome.kept, outcome.lost, outcome.no_rollback) == (0, 0, True)
    assert engine.memory.sound


def test_an_aborted_prefill_keeps_what_was_computed() -> None:
    engine = Engine()
    engine.turn(user("hi"), answer="yo")
    engine.cancelled(user("hi"), said("yo"), user("so"), at=3)
    assert spell(engine.kv.tokens) == "u:hi|a:yo|u"
    engine.cancelled(user("ha"), at=0)
    assert spell(engine.kv.tokens) == "u:h"


# ------------------------------------------------------------------------------- properties

TEXT = st.text("ab", min_size=1, max_size=12)
APPEND = st.tuples(st.just("append"), TEXT, st.integers(0, 9))
EDIT = st.tuples(st.just("edit"), TEXT, st.integers(0, 9))
REGENERATE = st.tuples(st.just("regenerate"), st.just(""), st.integers(0, 9))
CANCEL = st.tuples(st.just("cancel"), TEXT, st.integers(0, 30))
DROP = st.tuples(st.just("drop"), st.just(""), st.just(0))
STEPS = st.lists(st.one_of(APPEND, EDIT, REGENERATE, CANCEL, DROP), max_size=14)
KINDS = st.one_of(
    st.builds(full),
    st.builds(sliding, st.integers(1, 20), st.integers(0, 20)),
    st.builds(recurrent),
)


def greatest_sound_prefix(memory: SequenceMemory, held: list[int], ids: list[int]) -> int:
    """Found by trying: the longest shared beginning at whose end the memory is whole."""
    return max(
        at
        for at in range(min(len(held), len(ids) - 1) + 1)
        if held[:at] == ids[:at] and memory.whole_at(at)
    )


@given(KINDS, STEPS)
def test_the_book_keeping_is_true_and_the_most_that_is_sound_is_kept(
    kind: Kind, steps: list[tuple[str, str, int]]
) -> None:
    engine = Engine(kind)
    memory, kv = engine.memory, engine.kv
    chat: list[ChatMessage] = []
    started_over = False
    for action, text, number in steps:
        if action == "drop":
            end = len(memory)
            assert kv.drop() == end
            assert kv.tokens == []
            assert len(memory) == 0
            continue
        questions = [at for at, message in enumerate(chat) if message.role == "user"]
        if action == "edit" and questions:
            del chat[questions[number % len(questions)] :]
        if action == "regenerate" and questions:
            del chat[questions[-1] + 1 :]
        else:
            chat.append(user(text or "a"))

        held, end = list(kv.tokens), len(memory)
        assert len(held) == end
        ids = [ord(character) for character in plain(tuple(chat))]
        expected = greatest_sound_prefix(memory, held, ids)
        cells = memory.cells
        assert kv.would_keep(ids) == expected
        assert (kv.tokens, memory.cells) == (held, cells)
        outcome, new = engine.plan(*chat)

        common = common_prefix(held, ids)
        assert outcome.kept == expected
        assert outcome.lost == len(held) - expected
        assert outcome.at == (common if common < len(held) else None)
        unsound = expected < min(common, len(ids) - 1)
        assert outcome.no_rollback == (unsound or started_over)
        started_over = action == "cancel" and not kind.kind.rolls_back
        assert outcome.kept + len(new) == len(ids)
        assert new

        if action == "cancel":
            memory.decode(new[:number])
            kv.tokens += new
            kv.recount()
        else:
            memory.decode(new)
            kv.tokens += new
            answer = "b" * number
            for token in map(ord, answer[:-1]):
                memory.decode([token])
                kv.tokens.append(token)
            kv.answered(answer)
            if answer:
                chat.append(said(answer))
        assert memory.sound
        assert len(kv.tokens) == len(memory)
        assert all(kv.tokens[at] == token for at, token in memory.cells.items())
