"""The list of chats: a scrolling view of lines in which only what is seen is drawn."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from backend.history import ChatRow, Query
from tui.figures import ago, so_many
from tui.shelf import ChatItem
from tui.text import one_line

HEAD_HEIGHT = 2
"""Lines of a chat: its title, and what is known of it."""

MARK = "▌"
OPEN_MARK = "•"
GUTTER = 2
"""Cells at the left: whether it is chosen, and whether it is the chat that is open."""

ROLES = ("chosen", "title", "dim", "found")

SPEAKERS = {"user": "you", "assistant": "answer", "system": "system prompt"}


class ChatList(ScrollView, can_focus=False):
    """Chats, or places in them, one of them chosen. It has no keys: who has the focus moves it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chat-list--{role}" for role in ROLES}
    DEFAULT_CSS = """
    ChatList {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        & > .chat-list--chosen { background: $primary 30%; }
        & > .chat-list--title { text-style: bold; }
        & > .chat-list--dim { color: $text-muted; }
        & > .chat-list--found { color: $text-warning; text-style: bold underline; }
    }
    """

    class Chosen(Message):
        """Another item, or none, is chosen."""

    class Opened(Message):
        """The item that is chosen was clicked again."""

    def __init__(self) -> None:
        super().__init__(id="chat-list")
        self.open_chat: str | None = None
        self._items: Sequence[ChatItem] = ()
        self._starts: list[int] = []
        self._chosen = 0
        self._clicked: int | None = None
        self._query = Query("")
        self._styles: dict[str, Style] = {}

    def notify_style_update(self) -> None:
        """Forget the styles that lines were drawn in."""
        super().notify_style_update()
        self._styles = {}

    # --------------------------------------------------------------------------- contents

    @property
    def items(self) -> Sequence[ChatItem]:
        """What it shows."""
        return self._items

    @property
    def chosen(self) -> ChatItem | None:
        """The item that is chosen; None where there is none."""
        return self._items[self._chosen] if self._items else None

    def show(self, items: Sequence[ChatItem], query: Query, chosen: int | None = None) -> None:
        """Show items.

        Args:
            items: All of them.
            query: What is marked in them.
            chosen: Which one is chosen; None: the one that is now, or what came in its place.
        """
        before = self.chosen
        self._items = items
        self._query = query
        *self._starts, height = accumulate(map(_height, items), initial=0)
        at = self._place_of(before) if chosen is None else chosen
        self._chosen = max(0, min(at, len(items) - 1))
        self._clicked = None
        self.virtual_size = Size(self.scrollable_content_region.width, height)
        self._keep_in_view()
        self.refresh()
        if self.chosen != before:
            self.post_message(self.Chosen())

    def _place_of(self, item: ChatItem | None) -> int:
        if item is not None:
            same_chat = [at for at, it in enumerate(self._items) if it.row.id == item.row.id]
            for at in same_chat:
                if self._items[at].node_id == item.node_id:
                    return at
            if same_chat:
                return same_chat[0]
        return self._chosen

    # --------------------------------------------------------------------------- choosing

    def choose(self, index: int) -> None:
        """Choose an item and show it; before the first and behind the last there is none."""
        if not self._items:
            return
        index = max(0, min(index, len(self._items) - 1))
        self._clicked = None
        if index != self._chosen:
            self._chosen = index
            self._keep_in_view()
            self.refresh()
            self.post_message(self.Chosen())

    def move(self, by: int) -> None:
        """Choose an item further up or down."""
        self.choose(self._chosen + by)

    def move_pages(self, by: int) -> None:
        """Choose what is pages further up or down."""
        if self._items:
            line = self._starts[self._chosen] + by * max(1, self.size.height - HEAD_HEIGHT)
            self.choose(max(0, bisect_right(self._starts, line) - 1))

    def _keep_in_view(self) -> None:
        if not self._items:
            return
        start, height = self._starts[self._chosen], self.scrollable_content_region.height
        end = start + _height(self._items[self._chosen])
        top = self.scroll_offset.y
        wanted = min(start, max(top, end - height))
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True, immediate=True)

    def on_resize(self, event: Resize) -> None:
        """Keep what is chosen in view."""
        del event
        self._keep_in_view()

    def on_click(self, event: Click) -> None:
        """Choose what is clicked; open it with the second click."""
        offset = event.get_content_offset(self)
        line = -1 if offset is None else offset.y + self.scroll_offset.y
        index = bisect_right(self._starts, line) - 1
        if index < 0 or line >= self.virtual_size.height:
            return
        if index == self._clicked:
            self.post_message(self.Opened())
        else:
            self.choose(index)
            self._clicked = index

    # ---------------------------------------------------------------------------- drawing

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        width = self.size.width
        styles = self._role_styles()
        base = styles["base"]
        line = y + self.scroll_offset.y
        index = bisect_right(self._starts, line) - 1
        if index < 0 or line >= self._starts[index] + _height(self._items[index]):
            return Strip.blank(width, base)
        item, is_chosen = self._items[index], index == self._chosen
        row = line - self._starts[index]
        is_open = row == 0 and item.heads and item.row.id == self.open_chat
        gutter = (MARK if is_chosen else " ") + (OPEN_MARK if is_open else " ")
        room = width - GUTTER - 1
        strip = Strip([Segment(gutter, base), *self._line(item, row, room)])
        strip = strip.adjust_cell_length(width, base)
        if is_chosen:
            ground = Style(bgcolor=styles["chosen"].bgcolor)
            strip = Strip(Segment.apply_style(strip, post_style=ground), width)
        return strip

    def _role_styles(self) -> dict[str, Style]:
        """The style of each role, looked up once per theme."""
        if not self._styles:
            self._styles = {"base": self.rich_style} | {
                role: self.get_component_rich_style(f"chat-list--{role}") for role in ROLES
            }
        return self._styles

    def _line(self, item: ChatItem, row: int, room: int) -> list[Segment]:
        base, dim = self._styles["base"], self._styles["dim"]
        if item.heads and row == 0:
            return self._marked(title_of(item.row), room, self._styles["title"])
        if item.heads and row == 1:
            return [Segment(fitted(facts_of(item.row), room), dim)]
        assert item.hit is not None
        speaker = f"  {SPEAKERS.get(item.hit.role, item.hit.role)}: "
        more = f"  +{item.more:,} more" if item.more else ""
        left = room - len(speaker) - len(more)
        return [
            Segment(speaker, dim),
            *self._marked(one_line(item.hit.excerpt), left, base),
            Segment(more, dim),
        ]

    def _marked(self, text: str, room: int, style: Style) -> list[Segment]:
        """A text cut to its room, with what was looked for marked."""
        shown = fitted(text, room)
        found = self._styles["found"]
        segments: list[Segment] = []
        at = 0
        for begin, end in self._query.spans(text):
            if begin < len(shown):
                segments += [Segment(shown[at:begin], style), Segment(shown[begin:end], found)]
                at = end
        return [*segments, Segment(shown[at:], style)]


def title_of(row: ChatRow) -> str:
    """A chat's title in one line."""
    return one_line(" ".join(row.title.split())) or "(no title)"


def facts_of(row: ChatRow) -> str:
    """What is known of a chat: when, how long, with which model."""
    when = ago(row.updated_at) if row.deleted_at is None else f"deleted {ago(row.deleted_at)}"
    return " · ".join(filter(None, (when, so_many(row.messages, "message"), one_line(row.model))))


def fitted(text: str, room: int) -> str:
    """A text in so many cells at most, with an ellipsis where it was cut."""
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, room - 1).rstrip() + "…" if room > 0 else ""


def _height(item: ChatItem) -> int:
    return HEAD_HEIGHT * item.heads + (item.hit is not None)
