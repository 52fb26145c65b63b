"""The stored chats beside the open one: found, named, deleted, and what was being written."""

from backend.chat.tree import well_formed
from backend.history import ChatRow, History
from backend.store import StoreWriter

SAID = "said "
"""Setting in the store, followed by what was said to the user once."""


class StoredChats:
    """The user's chats in the store. Writing never waits; reading is one small query.

    Args:
        history: Reads them.
        store: Writes them.
    """

    def __init__(self, history: History, store: StoreWriter) -> None:
        self._history = history
        self._store = store
        self._drafts: dict[str, str] = {}
        """What was saved here; it may still wait to be written."""

    @property
    def history(self) -> History:
        """The store itself, for reading in this thread."""
        return self._history

    def last(self, *, besides: str) -> ChatRow | None:
        """The chat that was used last, other than one.

        Raises:
            HistoryError: The store cannot be read.
        """
        return next((row for row in self._history.chats(limit=2) if row.id != besides), None)

    def first_time(self, name: str) -> bool:
        """Whether something was never said to the user; from now on it was.

        Raises:
            HistoryError: The store cannot be read.
        """
        key = f"{SAID}{name}"
        if self._history.setting(key) is not None:
            return False
        self._store.set_setting(key, "yes")
        return True

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title."""
        self._store.rename(chat_id, title)

    def delete(self, chat_id: str) -> None:
        """Delete a chat; it can be restored for a while."""
        self._store.delete(chat_id)

    def restore(self, chat_id: str) -> None:
        """Take back that a chat was deleted."""
        self._store.restore(chat_id)

    def empty_trash(self) -> None:
        """Delete for good what was deleted long ago."""
        self._store.purge()

    def save_draft(self, chat_id: str, draft: str) -> None:
        """Keep what is being written in a chat; '' forgets it."""
        self._drafts[chat_id] = well_formed(draft)
        self._store.save_draft(chat_id, self._drafts[chat_id])

    def draft(self, chat_id: str, *, new: bool) -> str | None:
        """What was being written in a chat when it was left.

        Args:
            chat_id: The chat.
            new: It has no message yet: it takes over what was written in another that never got
                one.

        Raises:
            HistoryError: The store cannot be read.
        """
        own = self._drafts.get(chat_id, self._history.draft(chat_id))
        if own or not new:
            return own or None
        orphan = self._history.orphan_draft()
        text = None if orphan is None else self._drafts.get(orphan.chat_id, orphan.text)
        if orphan is None or not text:
            return None
        # In this order: a program that dies in between leaves it twice, not never.
        self.save_draft(chat_id, text)
        self.save_draft(orphan.chat_id, "")
        return text
