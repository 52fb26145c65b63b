"""Writes to the store, beside the client's loop, and repeated until they succeed."""

import struct
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from backend.chat.tree import Node
from backend.history.database import HistoryError
from backend.history.writing import KEPT_DELETED, ChatHead, History
from backend.metrics.record import TurnRecord

RETRY_S = 0.5
"""Seconds between two attempts at a write that fails."""

Write = Callable[[History], object]


class StoreWriter:
    """Writes to a store in a thread of its own, so that nobody waits for a disk or a lock.

    Writes are done in the order in which they came. One that fails is tried again, and those
    behind it wait: a message is never stored without the one it follows. A newer version of what
    still waits replaces it: of a message or a chat in its place, of anything else at the end, so
    that a draft is not forgotten before the message that it became is stored. What can never be
    stored, because of what it holds, is left out and named.

    Args:
        path: The database file; it is opened with the first write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, str], Write] = {}
        self._problem: str | None = None
        self._lost: str | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str | None:
        """What is not written and why, in one sentence; None while all is well."""
        with self._changed:
            return self._problem or self._lost

    @property
    def busy(self) -> bool:
        """Whether something is not written yet."""
        with self._changed:
            return bool(self._waiting)

    def save_chat(self, chat: ChatHead) -> None:
        """Store a chat's title, system prompt, sampling settings and place."""
        self._put(("chat", chat.id), lambda history: history.save_chat(chat))

    def save_message(self, chat_id: str, node: Node) -> None:
        """Store a message, or its newer version."""
        self._put(("message", node.id), lambda history: history.save_message(chat_id, node))

    def remove_message(self, node_id: str) -> None:
        """Forget a message that was taken back."""
        self._put(("message", node_id), lambda history: history.remove_message(node_id))

    def save_record(self, chat_id: str, record: TurnRecord, prompt_ids: Sequence[int]) -> None:
        """Store a turn's record with the tokens of its prompt."""
        ids = tuple(prompt_ids)
        self._put(("record", record.id), lambda history: history.save_record(chat_id, record, ids))

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title; it stays whatever `save_chat` brings."""
        self._put_last(("title", chat_id), lambda history: history.rename(chat_id, title))

    def delete(self, chat_id: str) -> None:
        """Take a chat out of the list. It is kept for a while and can be restored."""
        self._put_last(("deleted", chat_id), lambda history: history.delete(chat_id))

    def restore(self, chat_id: str) -> None:
        """Take a deleted chat back into the list."""
        self._put_last(("deleted", chat_id), lambda history: history.restore(chat_id))

    def purge(self, older_than: timedelta = KEPT_DELETED) -> None:
        """Forget chats for good that were deleted so long ago."""
        self._put_last(("purge", ""), lambda history: history.purge(older_than))

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is being written in a chat, which need not be stored yet; '' forgets it."""
        self._put_last(("draft", chat_id), lambda history: history.save_draft(chat_id, text))

    def set_setting(self, name: str, value: str) -> None:
        """Remember something for later runs."""
        self._put_last(("setting", name), lambda history: history.set_setting(name, value))

    def close(self, timeout: float) -> None:
        """Write what can be written within `timeout` seconds; the rest is lost."""
        with self._changed:
            written = self._changed.wait_for(lambda: not self._waiting, timeout)
            self._closed = True
            self._changed.notify_all()
        # A thread that still waits for a lock ends by itself, or with the process.
        if written and self._thread is not None:
            self._thread.join(timeout)

    def _put(self, key: tuple[str, str], write: Write) -> None:
        with self._changed:
            self._waiting[key] = write
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _put_last(self, key: tuple[str, str], write: Write) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._put(key, write)

    def _run(self) -> None:
        history: History | None = None
        while (first := self._first()) is not None:
            key, write = first
            try:
                history = history or History(self._path)
                write(history)
            except HistoryError as error:
                self._failed(str(error))
            except (TypeError, ValueError, OverflowError, struct.error) as error:
                # No repetition would help, and what waits behind it must not be lost too.
                self._lost = f"a part of the {key[0]} cannot be stored: {error}"
                self._written(key, write)
            else:
                self._written(key, write)
        if history is not None:
            history.close()

    def _first(self) -> tuple[tuple[str, str], Write] | None:
        """What is to be written next; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return None if self._closed else next(iter(self._waiting.items()))

    def _written(self, key: tuple[str, str], write: Write) -> None:
        with self._changed:
            self._problem = None
            # A newer version may have come meanwhile; it has its own turn.
            if self._waiting.get(key) is write:
                del self._waiting[key]
            self._changed.notify_all()

    def _failed(self, problem: str) -> None:
        with self._changed:
            self._problem = problem
            self._changed.wait_for(lambda: self._closed, RETRY_S)
