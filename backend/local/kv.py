"""The KV cache of the child's one sequence: what is in it, what a turn may keep, and why."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from backend.chat.clock import clock_at
from backend.protocol import CacheOutcome, CacheReason, ChatMessage, LoadCause

EXCERPT_TOKENS = 12
"""Tokens shown on each side of the place where a prompt left the cache."""


class Memory(Protocol):
    """What the cache needs of a context (`backend.local.llama.Context` has it)."""

    def clear_memory(self) -> None:
        """Empty it."""

    def remove_from(self, position: int) -> bool:
        """Drop all from a position on; False where that is not possible."""

    def position_range(self) -> tuple[int, int]:
        """First and last position held; -1 where it is empty."""


class MemoryKind(NamedTuple):
    """What decides where a rollback is sound.

    Attributes:
        n_swa: Window of the sliding-window layers; 0 without any, or if all cells are kept.
        rolls_back: False for recurrent and hybrid models: their state has no past.
    """

    n_swa: int
    rolls_back: bool


class Conversation(NamedTuple):
    """What a turn asks, as far as the cache's reason depends on it.

    Attributes:
        text, ids: The prompt; of an answer that is gone on with, all of it that stays.
        continues: An earlier turn of the chat reached a model's cache, perhaps another one.
        resumed: The end of `text` that is of an answer which is gone on with; then the last
            message is that answer. None: a new answer is asked for.
    """

    chat_id: str
    messages: tuple[ChatMessage, ...]
    text: str
    ids: Sequence[int]
    continues: bool = False
    resumed: str | None = None

    @property
    def held(self) -> "Held":
        """What the cache will hold for it."""
        if self.resumed is None:
            return Held(self.chat_id, self.messages, "", self.text)
        text = self.text[: len(self.text) - len(self.resumed)]
        return Held(self.chat_id, self.messages[:-1], self.messages[-1].content, text)


class Held(NamedTuple):
    """What the cache was last filled with."""

    chat_id: str
    messages: tuple[ChatMessage, ...]
    answer: str
    text: str


class KvCache:
    """Book-keeping of the tokens in the cache.

    Attributes:
        tokens: The tokens whose state is in the cache, in order.
    """

    def __init__(self, memory: Memory, kind: MemoryKind, cause: LoadCause) -> None:
        self.tokens: list[int] = []
        self._memory = memory
        self._kind = kind
        self._cause: LoadCause | None = cause
        self._held: Held | None = None
        self._dropped = False
        self._cleared = False

    def drop(self) -> int:
        """Empty the cache on request; how many tokens it held."""
        held = len(self.tokens)
        self._dropped = self._dropped or held > 0
        self._clear()
        return held

    def would_keep(self, ids: Sequence[int]) -> int:
        """How many tokens `plan` would keep for a prompt; nothing is changed."""
        return self._sound(_wanted(ids, common_prefix(self.tokens, ids)))

    def plan(self, turn: Conversation, spell: "Speller") -> CacheOutcome:
        """Keep what a turn can reuse, drop the rest, and say why.

        At least one prompt token is always computed, because its logits are needed.
        """
        ids = turn.ids
        common = common_prefix(self.tokens, ids)
        wanted = _wanted(ids, common)
        reason = self._reason(turn, common)
        differs = common < len(self.tokens)
        before = spell(self.tokens[common : common + EXCERPT_TOKENS]) if differs else None
        after = spell(list(ids[common : common + EXCERPT_TOKENS])) if differs else None
        hint = None
        if reason == "template_rewrote" and self._held is not None and before and after:
            hint = _clock_hint(self._held, turn, before, after)
        held = len(self.tokens)
        kept = self._keep(self._sound(wanted))
        no_rollback = kept < wanted or self._cleared
        self._cause = None
        self._dropped = self._cleared = False
        self._held = turn.held
        return CacheOutcome(
            reason=reason,
            at=common if differs else None,
            kept=kept,
            lost=held - kept,
            before=before,
            after=after,
            no_rollback=no_rollback,
            hint=hint,
        )

    def answered(self, answer: str) -> None:
        """Note the answer that followed the last plan; one that was gone on with, whole."""
        if self._held is not None:
            self._held = self._held._replace(answer=answer)

    def recount(self) -> None:
        """After an aborted or failed decode: believe the context on what is in the cache."""
        if not self._kind.rolls_back:
            # Its clean-up can fail unseen: positions then claim what was never computed.
            self._cleared = True
            self._clear()
            return
        _, last = self._memory.position_range()
        del self.tokens[last + 1 :]

    def _clear(self) -> None:
        self._memory.clear_memory()
        self.tokens.clear()

    def _sound(self, count: int) -> int:
        """`count` where all that is held can be rolled back to so many tokens, else 0."""
        return count if count == len(self.tokens) or self._can_roll_back_to(count) else 0

    def _keep(self, count: int) -> int:
        """Roll back to `count` tokens, which is sound; how many are left."""
        if count == len(self.tokens):
            return count
        if count == 0 or not self._memory.remove_from(count):
            self._clear()
            return 0
        del self.tokens[count:]
        return count

    def _can_roll_back_to(self, position: int) -> bool:
        """Whether the state at a position is whole.

        A sliding window has thrown away what lies more than `n_swa` behind its newest token;
        `remove_from` reports success all the same.
        """
        if not self._kind.rolls_back:
            return False
        first, _ = self._memory.position_range()
        return first <= max(0, position - self._kind.n_swa)

    def _reason(self, turn: Conversation, common: int) -> CacheReason:
        if self._dropped:
            return "dropped"
        if self._cause is not None and turn.continues:
            return "engine_restarted" if self._cause == "start" else self._cause
        if self._held is None:
            return "first_turn"
        if self._held.chat_id != turn.chat_id:
            return "chat_switched"
        return self._changed(self._held, turn, common)

    def _changed(self, held: Held, turn: Conversation, common: int) -> CacheReason:
        before = [(message.role, message.content) for message in held.messages]
        now = [(message.role, message.content) for message in turn.messages]
        if _system(before) != _system(now):
            return "system_changed"
        same = common_prefix(before, now)
        if same == len(now):
            return "regenerated"
        if same < len(before) or (
            now[same][0] == "assistant" and held.answer and now[same][1] != held.answer
        ):
            return "history_edited"
        if common >= min(len(self.tokens), len(turn.ids) - 1):
            return "appended"
        told = held.text + held.answer
        return "retokenized" if turn.text.startswith(told) else "template_rewrote"


class Speller(Protocol):
    """Turns tokens into text."""

    def __call__(self, tokens: list[int], /) -> str:
        """The text of `tokens`, control tokens spelled out."""


def _wanted(ids: Sequence[int], common: int) -> int:
    """Tokens of a prompt that need not be computed, of so many that are held."""
    return min(common, len(ids) - 1)


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """Length of the longest common beginning."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))


def _clock_hint(held: Held, turn: Conversation, before: str, after: str) -> str | None:
    """That the template prints the time or date, if the place where it rewrote text is one.

    Args:
        held: What the cache holds.
        turn: What is asked now.
        before: What the cache holds where their tokens part.
        after: What the prompt has there.
    """
    told = held.text + held.answer
    place = common_prefix(told, turn.text)
    clock = clock_at(told, turn.text, place)
    if clock is None or not (_stands(before, told, place) and _stands(after, turn.text, place)):
        return None
    said = [*(message.content for message in (*held.messages, *turn.messages)), held.answer]
    if any(clock.before in text or clock.after in text for text in said):
        return None
    return f"the template prints the {clock.kind}"


def _stands(excerpt: str, text: str, place: int) -> bool:
    """Whether an excerpt of a text holds what stands at a place."""
    return 0 <= text.rfind(excerpt, 0, place + len(excerpt)) > place - len(excerpt)


def _system(messages: Sequence[tuple[str, str]]) -> str | None:
    return messages[0][1] if messages and messages[0][0] == "system" else None
