"""The store of one user: chats and turn records, written as they happen."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from backend.chat.tree import Chat, Node
from backend.history.reading import HistoryReader
from backend.history.values import before_now, now, pack_ids
from backend.metrics.record import TurnRecord
from backend.settings import SamplingChoice

KEPT_DELETED = timedelta(days=30)
"""How long a deleted chat can be restored."""


class ChatHead(NamedTuple):
    """A chat without its messages, as it was at one moment."""

    id: str
    title: str
    system: str | None
    leaf: str | None
    sampling: SamplingChoice = SamplingChoice()

    @classmethod
    def of(cls, chat: Chat) -> "ChatHead":
        """The head of a chat as it is now."""
        return cls(chat.id, chat.title, chat.system, chat.leaf, chat.sampling)


class History(HistoryReader):
    """The store of one user; several copies of the program may use it at once."""

    def save_chat(self, chat: Chat | ChatHead) -> None:
        """Store a chat's title, system prompt, sampling settings and place (not its messages).

        A title that a user gave with `rename` stays, also one that was given in another window.

        What makes a chat one that was used now is another system prompt or setting, or a
        message: neither another title nor another place.
        """
        moment = now()
        self._write(
            "INSERT INTO chats (id, title, system, leaf, sampling, created_at, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "title = CASE WHEN named THEN title ELSE excluded.title END, "
            "system = excluded.system, leaf = excluded.leaf, "
            "sampling = excluded.sampling, updated_at = CASE "
            "WHEN system IS NOT excluded.system OR sampling IS NOT excluded.sampling "
            "THEN excluded.updated_at ELSE updated_at END",
            (
                chat.id,
                chat.title,
                chat.system,
                chat.leaf,
                msgspec.json.encode(chat.sampling).decode(),
                moment,
                moment,
            ),
        )

    def save_message(self, chat_id: str, node: Node) -> None:
        """Store a message, or its newer version.

        A message of the user brings a chat back that was deleted meanwhile, in another window.
        """
        moment = now()
        with self._together():
            written = self._write(
                "INSERT INTO messages (id, chat_id, parent, role, content, token_ids, lead, "
                "turn_ids, model, state, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET content = excluded.content, "
                "token_ids = excluded.token_ids, lead = excluded.lead, "
                "turn_ids = excluded.turn_ids, model = excluded.model, state = excluded.state "
                "WHERE (content, token_ids, lead, turn_ids, model, state) IS NOT "
                "(excluded.content, excluded.token_ids, excluded.lead, excluded.turn_ids, "
                "excluded.model, excluded.state)",
                (
                    node.id,
                    chat_id,
                    node.parent,
                    node.role,
                    node.content,
                    pack_ids(node.token_ids),
                    node.lead,
                    " ".join(node.turn_ids),
                    node.model,
                    node.state,
                    moment,
                ),
            )
            if written:
                self._write("UPDATE chats SET updated_at = ? WHERE id = ?", (moment, chat_id))
                if node.role == "user":
                    self.restore(chat_id)

    def remove_message(self, node_id: str) -> None:
        """Forget a message that was taken back."""
        self._write("DELETE FROM messages WHERE id = ?", (node_id,))

    def save_record(self, chat_id: str, record: TurnRecord, prompt_ids: Sequence[int]) -> None:
        """Store a turn's record with the tokens of its prompt."""
        text = msgspec.json.encode(record).decode()
        self._write(
            "INSERT OR REPLACE INTO turns (id, chat_id, turn, prompt_ids, record) "
            "VALUES (?, ?, ?, ?, ?)",
            (record.id, chat_id, record.turn, pack_ids(prompt_ids), text),
        )

    # ------------------------------------------------------------------- chats as a whole

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title, in one line; a blank one changes nothing."""
        line = " ".join(title.split())
        if line:
            self._write("UPDATE chats SET title = ?, named = 1 WHERE id = ?", (line, chat_id))

    def delete(self, chat_id: str) -> None:
        """Take a chat out of the list. It is kept for a while and can be restored."""
        self._write(
            "UPDATE chats SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL", (now(), chat_id)
        )

    def restore(self, chat_id: str) -> None:
        """Take a deleted chat back into the list."""
        self._write("UPDATE chats SET deleted_at = NULL WHERE id = ?", (chat_id,))

    def purge(self, older_than: timedelta = KEPT_DELETED) -> int:
        """Forget chats for good that were deleted so long ago; their number.

        What they held is overwritten in the file. One that somebody still writes to stays.
        """
        limit = before_now(older_than)
        if not self._rows(
            "SELECT 1 FROM chats WHERE deleted_at <= ? AND updated_at <= ?", (limit, limit)
        ):
            return 0
        self._write("PRAGMA secure_delete = ON")
        with self._together():
            self._write(
                "DELETE FROM drafts WHERE chat_id IN "
                "(SELECT id FROM chats WHERE deleted_at <= ? AND updated_at <= ?)",
                (limit, limit),
            )
            forgotten = self._write(
                "DELETE FROM chats WHERE deleted_at <= ? AND updated_at <= ?", (limit, limit)
            )
        self._write("PRAGMA wal_checkpoint(TRUNCATE)")
        return forgotten

    # ------------------------------------------------------------------- drafts, settings

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is being written in a chat, which need not be stored yet; '' forgets it."""
        if not text:
            self._write("DELETE FROM drafts WHERE chat_id = ?", (chat_id,))
            return
        self._write(
            "INSERT INTO drafts (chat_id, text, updated_at) VALUES (?, ?, ?) "
            "ON CONFLICT (chat_id) DO UPDATE SET text = excluded.text, "
            "updated_at = excluded.updated_at",
            (chat_id, text, now()),
        )

    def set_setting(self, name: str, value: str) -> None:
        """Remember something for later runs."""
        self._write("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
