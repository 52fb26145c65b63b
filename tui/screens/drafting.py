"""The draft beside the chat: kept across a crash, and counted before it is sent."""

from time import monotonic

import msgspec

from backend.metrics.live import Snapshot
from backend.protocol import PromptCounted
from backend.session import Session
from tui.figures import count, milliseconds
from tui.widgets.composer import Composer
from tui.widgets.pastes import Draft, joined

COUNT_AFTER_S = 0.35
"""How long the draft has to rest before it is counted: rendering it takes the engine's time."""

SAVE_EVERY_S = 1.0
"""How often a draft that changes is stored."""


class StoredDraft(msgspec.Struct, frozen=True):
    """What was being written in a chat.

    Attributes:
        draft: The next message, as `Draft.to_json` gives it.
        edits: The message that was being edited; None if none was.
        edit: What it said then, as `Draft.to_json` gives it.
    """

    draft: str
    edits: str | None = None
    edit: str = ""


class DraftDesk:
    """Follows what is written in the composer.

    Args:
        session: Counts and stores it.
        composer: Where it is written.

    Attributes:
        edits: The message that is being edited; None if none is.
    """

    def __init__(self, session: Session, composer: Composer) -> None:
        self._session = session
        self._composer = composer
        self.edits: str | None = None
        self._changed_s: float | None = None
        self._number: int | None = None
        self._unsaved = False
        self._saved_s = 0.0
        self._kept: dict[str, str] = {}
        """Where nothing is stored, the drafts of the chats that were left."""
        self._early = True
        self._unsent: tuple[str, str] | None = None
        """A chat without a message, and its draft as it was left."""

    def changed(self) -> None:
        """The draft is another one."""
        self._changed_s = monotonic()
        self._number = None
        self._unsaved = True

    def recount(self) -> None:
        """The conversation is another one, so the same draft costs something else."""
        self._changed_s = monotonic()
        self._number = None

    def tick(self, state: Snapshot) -> None:
        """Store and count it when it is time, and show what it costs."""
        now = monotonic()
        if self._unsaved and now - self._saved_s >= SAVE_EVERY_S:
            self.save(self._session.chat.id)
        if self._changed_s is not None and now - self._changed_s >= COUNT_AFTER_S:
            text = self._composer.message
            if not text.strip():
                self._changed_s = None
            else:
                self._number = self._session.count(text, self.edits)
                if self._number is not None:
                    self._changed_s = None
        known = state.draft if state.draft and state.draft.number == self._number else None
        self._composer.set_status("" if known is None else draft_words(known, state))

    def save(self, chat_id: str) -> None:
        """Store what is written now as the draft of a chat."""
        self._unsaved = False
        self._saved_s = monotonic()
        text = self._written()
        self._unsent = (chat_id, text) if text and not len(self._session.chat) else None
        self._store(chat_id, text)

    def _written(self) -> str:
        """What is written, as it is stored; '' where nothing is."""
        aside = self._composer.draft_aside
        if not aside.full_text and self.edits is None:
            return ""
        kept = StoredDraft(aside.to_json())
        if self.edits is not None:
            edit = self._composer.draft.to_json()
            kept = msgspec.structs.replace(kept, edits=self.edits, edit=edit)
        return msgspec.json.encode(kept).decode()

    def _store(self, chat_id: str, text: str) -> None:
        if self._session.stored is not None:
            self._session.stored.save_draft(chat_id, text)
        else:
            self._kept[chat_id] = text

    def _stored(self) -> str | None:
        """What was being written in the open chat; None: nothing.

        A new chat takes over what was being written in one that never got a message.

        Raises:
            HistoryError: The store cannot be read.
        """
        chat, stored = self._session.chat, self._session.stored
        left = self._unsent
        if left is not None and left[0] != chat.id and not len(chat):
            # In this order: a program that dies in between leaves it twice, not never.
            self._store(chat.id, left[1])
            self._store(left[0], "")
            return left[1]
        if stored is None:
            return self._kept.get(chat.id) or None
        return stored.draft(chat.id, new=not len(chat))

    def restore(self) -> None:
        """Write again what was being written in the open chat.

        What was typed before the window knew of it comes behind it.

        Raises:
            HistoryError: The store cannot be read.
        """
        typed, self._early = self._composer.draft if self._early else Draft(), False
        text = self._stored()
        self._composer.end_edit()
        self.edits = None
        self._composer.clear()
        if text is not None:
            self._write(text)
        if typed.full_text:
            self._composer.load_draft(joined([self._composer.draft, typed]))

    def _write(self, text: str) -> None:
        """Write what was stored."""
        try:
            kept = msgspec.json.decode(text, type=StoredDraft)
        except msgspec.DecodeError:
            # It was written by hand, or by a later version: shown as it is, it is not lost.
            self._composer.load_text(text)
            return
        self._composer.restore(kept.draft)
        if kept.edits in {node.id for node in self._session.chat.nodes()}:
            self.begin_edit(kept.edits)
            self._composer.restore(kept.edit)
        self._unsaved = False

    def begin_edit(self, node_id: str, text: str | None = None) -> None:
        """Write a message anew.

        Args:
            node_id: The message.
            text: What it says now; None: as it was.
        """
        users = [node for node in self._session.chat.path() if node.role == "user"]
        number = next((at for at, node in enumerate(users, start=1) if node.id == node_id), None)
        which = "a message of another branch" if number is None else f"message {number}"
        said = self._session.chat.node(node_id).content if text is None else text
        self.edits = node_id
        self._composer.begin_edit(f"editing {which}", said)
        self._composer.focus()

    def end_edit(self) -> None:
        """The message is sent, or left as it was."""
        self.edits = None
        self.changed()


def draft_words(counted: PromptCounted, state: Snapshot) -> str:
    """What a draft costs: its tokens, those that have to be computed, the wait for the first."""
    if counted.problem is not None:
        return counted.problem
    words = [f"draft {count(counted.message_tokens)} tok"]
    if counted.prompt_tokens >= counted.n_ctx:
        total, room = count(counted.prompt_tokens), count(counted.n_ctx)
        return f"{words[0]} · too long: {total} of {room}"
    words.append(f"new {count(counted.prompt_n)} of {count(counted.prompt_tokens)}")
    rate = state.session_prompt_per_second
    if rate:
        words.append(f"first token ≈ {milliseconds(counted.prompt_n / rate * 1000)}")
    return " · ".join(words)
