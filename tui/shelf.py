"""The stored chats as a screen holds them: read once, changed at once, while the store writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from backend.history import ChatRow, HistoryReader, SearchHit
from backend.history.values import now
from tui.export import as_markdown, file_name, write_file

HITS_SHOWN = 3
"""Places of one chat that a list of what was found has."""

HAND_OVER_S = 0.1
"""How often a search hands over what it found."""

NAMES_TRIED = 100
"""Names that are tried for a file, where the first ones are there already."""


class Found(NamedTuple):
    """What a search found in one chat.

    Attributes:
        places: In how many messages, system prompts and titles it was.
        hits: The first of these, the title not among them.
    """

    chat_id: str
    places: int
    hits: tuple[SearchHit, ...]


class ChatItem(NamedTuple):
    """Something in the list that can be chosen: a chat, or a place in it.

    Attributes:
        hit: What was found; None: the chat itself.
        heads: It shows the chat's own lines above the place: the first of its chat does.
        more: Further places of the chat that the list does not have; said with the last one.
    """

    row: ChatRow
    hit: SearchHit | None = None
    heads: bool = True
    more: int = 0

    @property
    def node_id(self) -> str | None:
        """The message that was found, if it is one."""
        return None if self.hit is None else self.hit.node_id


class Shelf:
    """Chats and deleted chats, each newest first.

    Args:
        rows: The chats.
        deleted: The deleted ones.
    """

    def __init__(self, rows: Sequence[ChatRow] = (), deleted: Sequence[ChatRow] = ()) -> None:
        self._rows = {row.id: row for row in rows}
        self._deleted = {row.id: row for row in deleted}

    def rows(self, *, deleted: bool = False) -> Mapping[str, ChatRow]:
        """The chats, or the deleted ones, by their ids, newest first."""
        return self._deleted if deleted else self._rows

    def delete(self, chat_id: str) -> None:
        """Take a chat out."""
        row = self._rows.pop(chat_id)._replace(deleted_at=now())
        self._deleted = {chat_id: row, **self._deleted}

    def restore(self, chat_id: str) -> None:
        """Take a deleted chat back in, to its place."""
        row = self._deleted.pop(chat_id)._replace(deleted_at=None)
        rows = [*self._rows.values(), row]
        rows.sort(key=lambda each: each.updated_at, reverse=True)
        self._rows = {each.id: each for each in rows}

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title."""
        self._rows[chat_id] = self._rows[chat_id]._replace(title=title)

    def items(self, found: Sequence[Found] | None, *, deleted: bool) -> list[ChatItem]:
        """What the list shows: all chats, or what was found in them."""
        rows = self.rows(deleted=deleted)
        if found is None:
            return [ChatItem(row) for row in rows.values()]
        return [
            item
            for each in found
            if each.chat_id in rows
            for item in _items(rows[each.chat_id], each)
        ]


def _items(row: ChatRow, found: Found) -> Iterator[ChatItem]:
    if not found.hits:
        yield ChatItem(row)
    last = len(found.hits) - 1
    for at, hit in enumerate(found.hits):
        more = max(0, found.places - HITS_SHOWN) if at == last == HITS_SHOWN - 1 else 0
        yield ChatItem(row, hit, heads=at == 0, more=more)


# ------------------------------------------------------------------- reading, in a thread


def read_shelf(path: Path) -> Shelf:
    """The chats of a store.

    Raises:
        HistoryError: It cannot be read.
    """
    with closing(HistoryReader(path)) as reader:
        return Shelf(reader.chats(), reader.chats(deleted=True))


def search_shelf(
    path: Path,
    text: str,
    give: Callable[[list[Found]], object],
    *,
    deleted: bool,
    stop: Callable[[], bool],
) -> None:
    """Search a store, chat by chat.

    Args:
        path: The store.
        text: What is looked for.
        give: Gets what was found since the last time.
        deleted: Search in the deleted chats instead.
        stop: Once it says yes, that is all.

    Raises:
        HistoryError: The store cannot be read.
    """
    if stop():
        return
    found: list[Found] = []
    given_s = monotonic()
    with closing(HistoryReader(path)) as reader:
        hits = reader.search(text, stop=stop, deleted=deleted)
        for chat_id, group in groupby(hits, key=lambda hit: hit.chat.id):
            places = list(group)
            inside = [hit for hit in places if hit.role != "title"]
            found.append(Found(chat_id, len(places), tuple(inside[:HITS_SHOWN])))
            if monotonic() - given_s >= HAND_OVER_S:
                give(found)
                found, given_s = [], monotonic()
    give(found)


def export_chat(path: Path, chat_id: str, folder: Path) -> Path:
    """Write a stored chat as Markdown to a new file in a folder; the file.

    Raises:
        HistoryError: The store cannot be read.
        ExportError: The file cannot be written.
    """
    with closing(HistoryReader(path)) as reader:
        chat = reader.load_chat(chat_id)
        text = as_markdown(chat, reader.records_by_id(chat_id))
    name = Path(file_name(chat.title, chat.id))
    for number in range(1, NAMES_TRIED + 1):
        ending = "" if number == 1 else f"-{number}"
        file = folder / f"{name.stem}{ending}{name.suffix}"
        if not file.exists() or number == NAMES_TRIED:
            break
    write_file(file, text)
    return file
