"""The draft beside the chat: kept across a crash, and counted before it is sent."""

from time import monotonic

import msgspec

from backend.metrics.live import Snapshot
from backend.protocol import PromptCounted
from backend.session import Session
from tui.figures import count, milliseconds
from tui.widgets.composer import Composer

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
            text = self._composer.full_text
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
        if self._session.stored is None:
            return
        aside = self._composer.draft_aside
        if not aside.full_text and self.edits is None:
            self._session.stored.save_draft(chat_id, "")
            return
        kept = StoredDraft(aside.to_json())
        if self.edits is not None:
            edit = self._composer.draft.to_json()
            kept = msgspec.structs.replace(kept, edits=self.edits, edit=edit)
        self._session.stored.save_draft(chat_id, msgspec.json.encode(kept).decode())

    def restore(self) -> None:
        """Write again what was being written in the open chat.

        Raises:
            HistoryError: The store cannot be read.
        """
        chat, stored = self._session.chat, self._session.stored
        text = None if stored is None else stored.draft(chat.id, new=not len(chat))
        self._composer.end_edit()
        self.edits = None
        self._composer.clear()
        if text is None:
            return
        try:
            kept = msgspec.json.decode(text, type=StoredDraft)
        except msgspec.DecodeError:
            # It was written by hand, or by a later version: shown as it is, it is not lost.
            self._composer.load_text(text)
            return
        self._composer.restore(kept.draft)
        if kept.edits is not None and kept.edits in {node.id for node in chat.path()}:
            self.begin_edit(kept.edits)
            self._composer.restore(kept.edit)
        self._unsaved = False

    def begin_edit(self, node_id: str, text: str | None = None) -> None:
        """Write a message of the open branch anew.

        Args:
            node_id: The message.
            text: What it says now; None: as it was.
        """
        users = [node for node in self._session.chat.path() if node.role == "user"]
        number = next(at for at, node in enumerate(users, start=1) if node.id == node_id)
        said = users[number - 1].content if text is None else text
        self.edits = node_id
        self._composer.begin_edit(f"editing message {number}", said)
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
        return f"{words[0]} · the prompt has {total}, the context holds {room}"
    words.append(f"new {count(counted.prompt_n)} of {count(counted.prompt_tokens)}")
    rate = state.session_prompt_per_second
    if rate:
        words.append(f"first token ≈ {milliseconds(counted.prompt_n / rate * 1000)}")
    return " · ".join(words)
