"""What becomes of a chat: its tree, its records, and both in the store as they happen."""

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple
from uuid import uuid4

from backend.chat.tree import Chat, Node, NodeState
from backend.history import ChatHead
from backend.metrics.record import TurnRecord
from backend.metrics.trace import TurnTrace
from backend.protocol import ChatMessage, PastTurn, TurnEnded
from backend.store import StoreWriter

SAVE_EVERY_S = 1.0
"""How often an answer in progress is stored."""


class Said(NamedTuple):
    """A message of the branch in use, as a reader wants it.

    Attributes:
        node: The message.
        version, versions: Which one it is of those in its place, from 1, and how many there are.
        records: Of an answer: the records of the turns that made it, as far as there are any.
    """

    node: Node
    version: int
    versions: int
    records: tuple[TurnRecord, ...]


class ChatKeeper:
    """Keeps one chat at a time.

    Args:
        store: Writes it; None stores nothing.
        chat: The chat.
        records: The records of its turns.

    Attributes:
        chat: The chat that is open.
        question: The message that the turn under way brought with it; None in one that answers
            again or goes on with an answer.
        resumed: The answer that the turn under way goes on with, as it was before.
    """

    def __init__(
        self, store: StoreWriter | None, chat: Chat, records: Sequence[TurnRecord] = ()
    ) -> None:
        self._store = store
        self.open(chat, records)

    def open(self, chat: Chat, records: Sequence[TurnRecord] = ()) -> None:
        """Turn to another chat."""
        self.chat = chat
        self._records = {record.id: record for record in records}
        self.question: str | None = None
        self._leaf_before: str | None = None
        self._answer: Node | None = None
        self.resumed: Node | None = None
        self._under_way = False
        self._saved_s = 0.0

    @property
    def records(self) -> tuple[TurnRecord, ...]:
        """The records of the chat's turns, as far as they are known."""
        return tuple(self._records.values())

    def conversation(self) -> list[Said]:
        """The branch in use, oldest message first, without an answer that is under way."""
        said: list[Said] = []
        for node in self.chat.path():
            if self._under_way and self._answer is not None and node.id == self._answer.id:
                break
            versions = self.chat.versions(node.id)
            records = [self._records[turn] for turn in node.turn_ids if turn in self._records]
            place = versions.index(node.id) + 1
            said.append(Said(node, place, len(versions), tuple(records)))
        return said

    def past(self) -> tuple[PastTurn, ...]:
        """The turns of the chat, on all its branches, oldest first."""
        return tuple(_past(record) for record in self._records.values())

    @property
    def last_turn(self) -> int:
        """The highest number of a turn of the chat; 0 before the first."""
        return max((record.turn for record in self._records.values()), default=0)

    # ------------------------------------------------------------------------ a turn begins

    def ask(self, text: str) -> Node:
        """A new message of the user, after the last one."""
        before = self.chat.leaf
        return self._asked(self.chat.add_user(text), before)

    def edit(self, node_id: str, text: str) -> Node:
        """A message of the user replaced, on a new branch.

        Raises:
            ChatError: There is no such message of the user.
        """
        before = self.chat.leaf
        return self._asked(self.chat.edit(node_id, text), before)

    def _asked(self, node: Node, before: str | None) -> Node:
        self._begin(before)
        self.question = node.id
        self._save_message(node)
        return node

    def answer_again(self, node_id: str | None) -> None:
        """Go back to a question, for another answer to it.

        Raises:
            ChatError: There is no such message.
        """
        before = self.chat.leaf
        self.chat.back_to_question(node_id)
        self._begin(before)

    def resume(self, node: Node) -> None:
        """Go on with an answer that was cut off."""
        before = self.chat.leaf
        self.chat.go_to(node.id)
        self._begin(before)
        self.resumed = self._answer = node

    def nothing_asked(self) -> None:
        """A turn that fails before anything is asked."""
        self._begin(self.chat.leaf)

    def _begin(self, leaf_before: str | None) -> None:
        self.question = None
        self._leaf_before = leaf_before
        self._answer = None
        self.resumed = None
        self._under_way = True
        self._saved_s = 0.0

    def follow(
        self, messages: Sequence[ChatMessage], *, asks: bool = False, resumes: bool = False
    ) -> None:
        """Bring the chat to a conversation that was recorded.

        Args:
            messages: The conversation.
            asks: Its last message is a new one of the user.
            resumes: Its last message is an answer that is gone on with.
        """
        before = self.chat.leaf
        self.chat.follow(messages)
        self._begin(before)
        leaf = self.chat.leaf
        self.question = leaf if asks else None
        if resumes and leaf is not None:
            self.resumed = self._answer = self.chat.node(leaf)

    # -------------------------------------------------------------------------- a turn goes on

    def progress(self, trace: TurnTrace, model: str) -> None:
        """Store the first token at once and the rest now and then: a kill costs a second."""
        now = monotonic()
        if trace.token_ids and now - self._saved_s >= SAVE_EVERY_S:
            self._saved_s = now
            self._put_answer(trace, trace.answer_ids, model, "partial")

    def end(self, trace: TurnTrace, event: TurnEnded, record: TurnRecord, *, refused: bool) -> bool:
        """A turn is over; whether the chat went back to a branch that it had left.

        Args:
            trace: The turn.
            event: How it ended.
            record: Its record.
            refused: It was not answered in part: a new message of the user is taken back.
        """
        question = self.question
        if refused and question is not None:
            self.chat.take_back(question)
            if self._store is not None:
                self._store.remove_message(question)
        else:
            self._store_answer(trace, event, record)
        went_back = (refused or (question is None and self._answer is None)) and (
            self.chat.leaf != self._leaf_before
        )
        if went_back:
            self.chat.return_to(self._leaf_before)
        self.question = None
        self.resumed = None
        self._under_way = False
        self._records[record.id] = record
        if self._store is not None:
            self._store.save_chat(ChatHead.of(self.chat))
            self._store.save_record(
                self.chat.id, record, trace.prompt.ids if trace.prompt is not None else ()
            )
        return went_back

    def _store_answer(self, trace: TurnTrace, event: TurnEnded, record: TurnRecord) -> None:
        ended = event.reason == "eog"
        ids = trace.answer_ids[:-1] if ended else trace.answer_ids
        # A question gets its answer even if that is empty: many templates want turns in pairs.
        if trace.token_ids or ended or self.question is not None:
            state: NodeState = "whole" if event.reason in ("eog", "stop") else "cut"
            name = record.model.name if record.model is not None else ""
            self._put_answer(trace, ids, name, state)

    def _put_answer(
        self, trace: TurnTrace, ids: tuple[int, ...], model: str, state: NodeState
    ) -> None:
        turn_id = trace.requested.request.turn_id
        known, before = self._answer, self.resumed
        node = Node(
            id=uuid4().hex if known is None else known.id,
            parent=self.chat.leaf if known is None else known.parent,
            role="assistant",
            content=trace.content,
            token_ids=ids,
            lead=trace.prompt.lead if trace.prompt else "",
            turn_ids=(turn_id,) if before is None else (*before.turn_ids, turn_id),
            model=model,
            state=state,
        )
        self._answer = self.chat.put(node)
        self._save_message(self._answer)

    # ---------------------------------------------------------------------------- the store

    def save_head(self) -> None:
        """Store the chat's title, settings and place, if it has a message."""
        if self._store is not None and len(self.chat):
            self._store.save_chat(ChatHead.of(self.chat))

    def _save_message(self, node: Node) -> None:
        if self._store is not None:
            self._store.save_chat(ChatHead.of(self.chat))
            self._store.save_message(self.chat.id, node)


def _past(record: TurnRecord) -> PastTurn:
    """A turn in brief; how far a prefill came that did not end is not on record."""
    prompt_n = record.prompt_n if record.timings.ttft_ms is not None else None
    return PastTurn(record.turn, record.cache_n, prompt_n, record.predicted_n)
