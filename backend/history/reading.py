"""What the store gives back: chats, records, drafts, and what is looked for in all of them."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from backend.chat.tree import Chat, Node
from backend.history.database import Database, HistoryError
from backend.history.search import Query
from backend.history.values import unpack_ids
from backend.metrics.record import TurnRecord
from backend.settings import SamplingChoice

LEAST_ID_LENGTH = 4
"""Characters that a beginning of a chat's id has at least."""

LONGEST_RECALLED = 100_000
"""Characters of a message that can still be called back in another chat."""

LAST = "last"
"""Stands for the id of the chat that was used last."""

_ROWS = """
SELECT id, title, created_at, updated_at,
    (SELECT count(*) FROM messages WHERE chat_id = chats.id),
    coalesce((
        SELECT model FROM messages WHERE chat_id = chats.id AND role = 'assistant'
        ORDER BY created_at DESC, rowid DESC LIMIT 1
    ), ''),
    deleted_at
FROM chats
WHERE EXISTS (SELECT 1 FROM messages WHERE chat_id = chats.id)
"""


class ChatRow(NamedTuple):
    """A stored chat in a list.

    Attributes:
        created_at, updated_at: UTC, ISO 8601; when it began and when it last changed.
        messages: How many it has on all branches.
        model: Name of the model that gave its newest answer; '' where unknown.
        deleted_at: When it was deleted; None if it was not.
    """

    id: str
    title: str
    created_at: str
    updated_at: str
    messages: int
    model: str
    deleted_at: str | None


class SearchHit(NamedTuple):
    """A place that has what was looked for.

    Attributes:
        node_id: The message; None in a title or a system prompt.
        excerpt: One line of it, as it is: it may hold anything.
    """

    chat: ChatRow
    node_id: str | None
    role: Literal["title", "system", "user", "assistant"]
    excerpt: str


class Draft(NamedTuple):
    """A message that was being written."""

    chat_id: str
    text: str
    updated_at: str


class HistoryReader(Database):
    """Reads the store; each of its methods raises `HistoryError` where that cannot be read.

    Attributes:
        problems: What could not be read and was left out, one sentence each.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.problems: list[str] = []

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # ---------------------------------------------------------------------------- the list

    def chats(self, *, deleted: bool = False, limit: int | None = None) -> list[ChatRow]:
        """All chats that have a message, the one used last first.

        Args:
            deleted: Those that were deleted instead, the one deleted last first.
            limit: So many at most; None: all.
        """
        which = "deleted_at IS NOT NULL" if deleted else "deleted_at IS NULL"
        rows = self._rows(
            f"{_ROWS} AND {which} ORDER BY coalesce(deleted_at, updated_at) DESC, rowid DESC "
            "LIMIT ?",
            (-1 if limit is None else limit,),
        )
        return [ChatRow(*row) for row in rows]

    def chat_row(self, chat_id: str) -> ChatRow:
        """A chat's row in the list, deleted or not.

        Raises:
            HistoryError: There is none of this id.
        """
        for row in self._rows(f"{_ROWS} AND id = ?", (chat_id,)):
            return ChatRow(*row)
        raise HistoryError(f"there is no chat {chat_id}")

    def find_chat(self, text: str, *, deleted: bool = False) -> str:
        """The id of the chat that somebody means.

        Args:
            text: An id, a beginning of one, or `last`.
            deleted: Look among those that were deleted instead.

        Raises:
            HistoryError: There is none, or there are several.
        """
        wanted = text.strip()
        rows = self.chats(deleted=deleted)
        if any(row.id == wanted for row in rows):
            return wanted
        if wanted.lower() == LAST:
            if not rows:
                raise HistoryError("no chat was deleted" if deleted else "there is no chat yet")
            return rows[0].id
        if len(wanted) < LEAST_ID_LENGTH:
            raise HistoryError(
                f"{wanted!r} is too short: give {LEAST_ID_LENGTH} or more characters of a "
                f"chat's id, or {LAST}"
            )
        found = _beginning_with(wanted, rows)
        if len(found) > 1:
            raise HistoryError(
                f"{len(found)} chats have an id that begins with {wanted}: give more of it"
            )
        if found:
            return found[0]
        if _beginning_with(wanted, self.chats(deleted=not deleted)):
            raise HistoryError(
                f"the chat {wanted} was not deleted"
                if deleted
                else f"the chat {wanted} was deleted; restore it first"
            )
        kind = "deleted chat" if deleted else "chat"
        raise HistoryError(f"there is no {kind} whose id begins with {wanted}")

    def search(
        self, text: str, *, stop: Callable[[], bool] = lambda: False, deleted: bool = False
    ) -> Iterator[SearchHit]:
        """Look for text in all messages on all branches, titles and system prompts.

        The chat used last comes first; within a chat the title, the system prompt, and the
        messages, oldest first. Each is given out when it is found.

        Args:
            text: Words, all of which a place has, and "phrases in quotes"; see `Query`.
            stop: Asked for each message; once it says yes, that is all.
            deleted: Look in chats that were deleted instead.
        """
        query = Query(text)
        if not query:
            return
        for row in self.chats(deleted=deleted):
            if query.matches(row.title):
                yield SearchHit(row, None, "title", query.excerpt(row.title))
            for (system,) in self._rows(
                "SELECT system FROM chats WHERE id = ? AND system IS NOT NULL", (row.id,)
            ):
                if query.matches(system):
                    yield SearchHit(row, None, "system", query.excerpt(system))
            messages = self._rows(
                "SELECT id, role, content FROM messages WHERE chat_id = ? "
                "ORDER BY created_at, rowid",
                (row.id,),
            )
            for node_id, role, content in messages:
                if stop():
                    return
                if query.matches(content):
                    yield SearchHit(row, node_id, role, query.excerpt(content))

    def recent_messages(self, limit: int) -> list[str]:
        """What the user wrote last in all chats, oldest first, nothing twice.

        Messages with a large file in them are left out: all of these are kept in memory.
        """
        found: dict[str, None] = {}
        try:
            rows = self._db.execute(
                "SELECT content FROM messages WHERE role = 'user' AND length(content) <= ? AND "
                "chat_id IN (SELECT id FROM chats WHERE deleted_at IS NULL) ORDER BY rowid DESC",
                (LONGEST_RECALLED,),
            )
            for (content,) in rows:
                if len(found) >= limit:
                    break
                found.setdefault(content)
            rows.close()
        except sqlite3.Error as error:
            raise self._error(error) from error
        return list(found)[::-1]

    # ---------------------------------------------------------------------------- one chat

    def load_chat(self, chat_id: str) -> Chat:
        """A stored chat with all its branches.

        What is damaged is mended as far as it can be and named in `problems`.

        Raises:
            HistoryError: There is none of this id.
        """
        heads = self._rows(
            "SELECT title, system, leaf, sampling FROM chats WHERE id = ?", (chat_id,)
        )
        if not heads:
            raise HistoryError(f"there is no chat {chat_id}")
        ((title, system, leaf, sampling),) = heads
        rows = self._rows(
            "SELECT id, parent, role, content, token_ids, lead, turn_ids, model, state "
            "FROM messages WHERE chat_id = ? ORDER BY rowid",
            (chat_id,),
        )
        chat = Chat(chat_id, system=system)
        chat.sampling = self._sampling(title, sampling)
        nodes = [
            Node(
                id=node_id,
                parent=parent,
                role=role,
                content=content,
                token_ids=unpack_ids(token_ids),
                lead=lead,
                turn_ids=tuple(turn_ids.split()),
                model=model,
                state=state,
            )
            for node_id, parent, role, content, token_ids, lead, turn_ids, model, state in rows
        ]
        for node in _parents_first(nodes):
            chat.put(node)
        known = {node.id for node in nodes}
        if leaf in known:
            chat.put(chat.node(leaf))
        elif leaf is None:
            chat.leaf = None
        chat.title = title
        return chat

    def records(self, chat_id: str) -> list[TurnRecord]:
        """The records of a chat's turns, oldest first; a damaged one is left out and named."""
        records: list[TurnRecord] = []
        for (text,) in self._rows(
            "SELECT record FROM turns WHERE chat_id = ? ORDER BY rowid", (chat_id,)
        ):
            try:
                records.append(msgspec.json.decode(text, type=TurnRecord))
            except (msgspec.DecodeError, UnicodeError) as error:
                self._note(f"a turn's figures in {self.path} are damaged and left out: {error}")
        return records

    def records_by_id(self, chat_id: str) -> dict[str, TurnRecord]:
        """The same by their ids, which messages name."""
        return {record.id: record for record in self.records(chat_id)}

    def prompt_ids(self, turn_id: str) -> tuple[int, ...]:
        """The tokens of a turn's prompt.

        Raises:
            HistoryError: There is no such turn.
        """
        for (ids,) in self._rows("SELECT prompt_ids FROM turns WHERE id = ?", (turn_id,)):
            return unpack_ids(ids)
        raise HistoryError(f"there is no turn {turn_id}")

    def _sampling(self, title: str, text: str) -> SamplingChoice:
        try:
            return msgspec.json.decode(text, type=SamplingChoice)
        except msgspec.DecodeError as error:
            self._note(f"the sampling settings of {title!r} are damaged and left out: {error}")
            return SamplingChoice()

    # ------------------------------------------------------------------- drafts, settings

    def draft(self, chat_id: str) -> str | None:
        """What was being written in a chat; None if nothing was."""
        for (text,) in self._rows("SELECT text FROM drafts WHERE chat_id = ?", (chat_id,)):
            return str(text)
        return None

    def orphan_draft(self) -> Draft | None:
        """The newest draft whose chat has no stored message; None if there is none."""
        for row in self._rows(
            "SELECT chat_id, text, updated_at FROM drafts WHERE NOT EXISTS "
            "(SELECT 1 FROM messages WHERE messages.chat_id = drafts.chat_id) "
            "ORDER BY updated_at DESC, rowid DESC LIMIT 1"
        ):
            return Draft(*row)
        return None

    def setting(self, name: str) -> str | None:
        """Something remembered from an earlier run; None if nothing is."""
        for (value,) in self._rows("SELECT value FROM settings WHERE name = ?", (name,)):
            return str(value)
        return None


def _beginning_with(text: str, rows: Iterable[ChatRow]) -> list[str]:
    return [row.id for row in rows if row.id.startswith(text.lower())]


def _parents_first(nodes: list[Node]) -> list[Node]:
    """Messages in the order in which they can be put into a chat: as they were stored, mostly.

    A damaged file may have lost a message that others follow, or have messages that follow each
    other in a circle: the first of those then begins a branch.
    """
    known = {node.id for node in nodes}
    placed: dict[str, Node] = {}
    left = nodes
    while left:
        later: list[Node] = []
        for node in left:
            if node.parent is None or node.parent in placed:
                placed[node.id] = node
            elif node.parent in known:
                later.append(node)
            else:
                placed[node.id] = msgspec.structs.replace(node, parent=None)
        if len(later) == len(left):
            later[0] = msgspec.structs.replace(later[0], parent=None)
        left = later
    return list(placed.values())
