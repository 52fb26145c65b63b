"""The transcript with a place in it: messages are chosen and acted on, text is found."""

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import ClassVar, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Blur, Click, Focus
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from tui.widgets.answers import LiveAnswer
from tui.widgets.entries import Entry
from tui.widgets.find import Hit, find_hits
from tui.widgets.transcript import GUTTER, SLICE_S, Transcript

Act = Literal["copy", "copy_block", "edit", "rerun", "resume", "older", "newer"]

MARKUP = str.maketrans("", "", "*_`~")
"""Characters of Markdown that are not shown and can stand inside a word."""

LAID_OUT_AFTER_S = 0.05
"""How long to wait before looking again whether an old entry is laid out."""

MARK = "▌"


class Found(NamedTuple):
    """A place of the text that is looked for.

    Attributes:
        at: Its entry.
        parts: Its parts on the entry's lines.
        name: Its message (an entry without one stands for itself), and which of the places in it
            this is; it stays the same when other entries come and go.
    """

    at: int
    parts: tuple[Hit, ...]
    name: tuple[object, int]


class Browser(Transcript):
    """The conversation. Focused, it has keys for the message that is chosen.

    A click does not take the focus from the composer, except one on a message's name.
    """

    FOCUS_ON_CLICK = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "choose(-1)", "choose", key_display="↑↓", id="message.up"),
        Binding("down,j", "choose(1)", "down", show=False, id="message.down"),
        Binding("home,g", "choose(-1000000)", "first", show=False, id="message.first"),
        Binding("end,G", "choose(1000000)", "last", show=False, id="message.last"),
        Binding("c", "act('copy')", "copy", id="message.copy"),
        Binding("b", "act('copy_block')", "copy code", id="message.copy_block"),
        Binding("e", "act('edit')", "edit", id="message.edit"),
        Binding("r", "act('rerun')", "rerun", id="message.rerun"),
        Binding("o", "act('resume')", "go on", id="message.resume"),
        Binding("left,h", "act('older')", "version", key_display="←→", id="message.older"),
        Binding("right,l", "act('newer')", show=False, id="message.newer"),
        Binding("space,enter", "fold", "fold", key_display="space", id="message.fold"),
        Binding("tab,i", "screen.write", "write", key_display="tab", id="message.write"),
        Binding("escape", "screen.leave_messages", "write", show=False, id="message.leave"),
        Binding("pageup", "screen.scroll_chat(-1)", show=False, id="message.page_up"),
        Binding("pagedown", "screen.scroll_chat(1)", show=False, id="message.page_down"),
    ]

    class Wanted(Message):
        """The user wants something done with a message."""

        def __init__(self, act: Act, entry: Entry) -> None:
            super().__init__()
            self.act = act
            self.entry = entry

    class FindChanged(Message):
        """More, or other, places of the text that is looked for are known."""

    def __init__(self) -> None:
        super().__init__()
        self._chosen: Entry | None = None
        self._replaced: str | None = None
        """The message that was chosen and is not there now: an answer takes its place."""
        self._query = ""
        self._found: list[Found] = []
        self._current = 0
        self._kept: tuple[object, int] | None = None
        """The place that was the current one, while it is looked for again."""
        self._next_to_search = -1
        self._search_timer: Timer | None = None
        self._marks: dict[int, list[tuple[Hit, int]]] = {}

    # ------------------------------------------------------------------------- a message

    @property
    def chosen(self) -> Entry | None:
        """The entry that is chosen; None while the view is not focused."""
        return self._chosen

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these entries; what was chosen stays chosen.

        While an answer is given again, or gone on with, the message before it is chosen.
        """
        was_live = bool(self.entries) and isinstance(self.entries[-1], LiveAnswer)
        super().show(entries)
        chosen = self._chosen
        if chosen is not None and all(entry is not chosen for entry in entries):
            node = chosen.said.node.id if chosen.said is not None else None
            self._chosen = self._message(node)
            if self._chosen is None:
                self._replaced = node
                self._chosen = self._last_choosable() if self.has_focus else None
        is_live = bool(entries) and isinstance(entries[-1], LiveAnswer)
        if self._chosen is not None and self._replaced is not None and was_live and not is_live:
            self._chosen = self._message(self._replaced) or self._last_choosable()
            self._replaced = None
        self._search_again()

    def _message(self, node_id: str | None) -> Entry | None:
        """The entry of a message."""
        messages = (entry for entry in self.entries if entry.said is not None)
        return next((e for e in messages if e.said and e.said.node.id == node_id), None)

    def _last_choosable(self) -> Entry | None:
        messages = (entry for entry in reversed(self.entries) if entry.said is not None)
        return next(messages, None)

    def on_focus(self, event: Focus) -> None:
        """Choose the newest message."""
        del event
        if self._chosen is None:
            self._choose(self._last_choosable())

    def on_blur(self, event: Blur) -> None:
        """Choose none."""
        del event
        self._chosen = self._replaced = None
        self.refresh()

    def choose_message(self, node_id: str) -> None:
        """Choose the entry of a message and show it, as soon as it is laid out.

        It is not shown any more if the user chooses another meanwhile.
        """
        for at, entry in enumerate(self.entries):
            if entry.said is not None and entry.said.node.id == node_id:
                self._choose(entry)
                if self.line_of(at) is None:
                    self.set_timer(LAID_OUT_AFTER_S, partial(self._choose_again, entry))

    def _choose_again(self, entry: Entry) -> None:
        if self._chosen is entry and entry.said is not None:
            self.choose_message(entry.said.node.id)

    def text_of(self, node_id: str) -> str:
        """What a message says, without thinking; '' if it is not shown."""
        entry = self._message(node_id)
        return "" if entry is None else entry.text

    def action_choose(self, by: int) -> None:
        """Choose an entry further up or down."""
        entries = [entry for entry in self.entries if not isinstance(entry, LiveAnswer)]
        places = [at for at, entry in enumerate(entries) if entry is self._chosen]
        if entries:
            at = places[0] if places else len(entries)
            self._choose(entries[min(max(0, at + by), len(entries) - 1)])

    def _choose(self, entry: Entry | None) -> None:
        self._chosen = entry
        self._replaced = None
        if entry is not None:
            index = next(at for at, other in enumerate(self.entries) if other is entry)
            self._bring_into_view(index, 0, entry.height)
        self.refresh()
        self.refresh_bindings()

    def _bring_into_view(self, index: int, first: int, last: int) -> None:
        """Scroll, if need be, so that lines of an entry can be seen."""
        start = self.line_of(index)
        if start is None:
            return
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if start + first < top or start + first >= top + height:
            self.scroll_to(y=max(0, start + first - height // 3), animate=False, force=True)
        elif start + last > top + height:
            wanted = min(start + first, start + last - height)
            self.scroll_to(y=wanted, animate=False, force=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys make sense for what is chosen; None: shown, but dim."""
        entry = self._chosen
        if action == "fold":
            possible = entry is not None and entry.fold_row is not None
        elif action == "act" and entry is not None:
            possible = self._can(str(parameters[0]), entry)
        else:
            return True
        return True if possible else None

    def _can(self, act: str, entry: Entry) -> bool:
        said = entry.said
        if said is None:
            return act == "copy"
        cut = said.node.state != "whole" and entry is self._last_choosable()
        possible = {
            "edit": said.node.role == "user",
            "resume": cut,
            "older": said.versions > 1,
            "newer": said.versions > 1,
        }
        return possible.get(act, True)

    def action_act(self, act: Act) -> None:
        """Ask for something to be done with the chosen message."""
        if self._chosen is not None:
            self.post_message(self.Wanted(act, self._chosen))

    def action_fold(self) -> None:
        """Fold or unfold the chosen message."""
        if self._chosen is not None:
            self._toggle(self._chosen)

    def _toggle(self, entry: Entry) -> None:
        index = next((at for at, other in enumerate(self.entries) if other is entry), None)
        if index is not None and entry.fold_row is not None:
            entry.toggle()
            self.relayout(index)
            self._search_again()

    def on_click(self, event: Click) -> None:
        """Fold or unfold where that is offered; choose the message whose name was clicked."""
        offset = event.get_content_offset(self)
        place = self.entry_at(offset.y) if offset is not None else None
        if place is None or self.text_selection is not None:
            return
        index, row = place
        entry = self.entries[index]
        if row == entry.fold_row:
            self._toggle(entry)
        elif row == 0 and entry.said is not None:
            self.focus()
            self._choose(entry)

    # ------------------------------------------------------------------------------- find

    def find(self, query: str) -> None:
        """Look for a text, from the newest message back; '' ends it."""
        self._query = query.casefold()
        self._current = 0
        self._found = []
        self._kept = None
        self._search_again()
        self._go_to_current()

    @property
    def finding(self) -> tuple[int, int, bool]:
        """Which place is the current one (from 1; 0: none), how many, and whether that is all."""
        found = len(self._found)
        return (self._current + 1 if found else 0), found, self._next_to_search < 0

    def step(self, by: int) -> None:
        """Go to an older (1) or newer (-1) place; after the last comes the first."""
        if self._found:
            self._kept = None
            self._current = (self._current + by) % len(self._found)
            self._go_to_current()
            self.post_message(self.FindChanged())

    def _lay_out_again(self) -> None:
        """What was found stands on other lines now."""
        super()._lay_out_again()
        if self._query:
            self._search_again()

    def _search_again(self) -> None:
        if self._found and self._kept is None:
            self._kept = self._found[self._current].name
        self._found = []
        self._marks = {}
        self._next_to_search = len(self.entries) - 1 if self._query.strip() else -1
        self._search_more()
        self._current = min(self._current, max(0, len(self._found) - 1))
        self.refresh()

    def _search_more(self) -> None:
        """Look through older entries for a slice of time."""
        end = perf_counter() + SLICE_S
        while self._next_to_search >= 0 and perf_counter() < end:
            index = self._next_to_search
            if self.line_of(index) is None:
                # It is not laid out yet.
                break
            self._next_to_search -= 1
            self._search_in(index)
        if self._search_timer is not None:
            self._search_timer.stop()
        self._search_timer = (
            self.set_timer(SLICE_S, self._search_more) if self._next_to_search >= 0 else None
        )
        self.post_message(self.FindChanged())

    def _search_in(self, index: int) -> None:
        entry = self.entries[index]
        if isinstance(entry, LiveAnswer):
            # Its lines still change; it is looked through when it is whole.
            return
        if entry.hides(self._query):
            entry.toggle()
            self.relayout(index)
        raw = entry.text.casefold().translate(MARKUP)
        words = self._query.translate(MARKUP).split()
        if entry.fold_row is None and not all(word in raw for word in words):
            return
        lines = [entry.line(row).text for row in range(entry.height)]
        message = entry if entry.said is None else entry.said.node.id
        hits = find_hits(lines, self._query)
        for number, parts in reversed(list(enumerate(hits))):
            found = Found(index, parts, (message, number))
            for part in parts:
                self._marks.setdefault(index, []).append((part, len(self._found)))
            if found.name == self._kept:
                self._current = len(self._found)
                self._kept = None
            self._found.append(found)

    def _go_to_current(self) -> None:
        if self._found:
            at, parts, _ = self._found[self._current]
            if parts:
                self._bring_into_view(at, parts[0].row, parts[-1].row + 1)
            self.refresh()

    # --------------------------------------------------------------------------- painting

    def marked(self, strip: Strip, index: int, row: int) -> Strip:
        """A line of an entry: in the gutter whether it is chosen, in it what was found."""
        for hit, number in self._marks.get(index, ()):
            if hit.row == row:
                role = "current" if number == self._current else "found"
                strip = _styled(strip, hit, self.role_style(role))
        if self._chosen is not None and self.entries[index] is self._chosen:
            style = self.role_style("selected")
            gutter = Strip.blank(GUTTER, style) if row >= self._chosen.height - 1 else None
            return Strip.join([gutter or _mark(style), strip])
        return super().marked(strip, index, row)


def _mark(style: Style) -> Strip:
    return Strip([Segment(MARK.ljust(GUTTER), style)])


def _styled(strip: Strip, hit: Hit, style: Style) -> Strip:
    width = max(strip.cell_length, hit.end)
    before, found, after = strip.divide([hit.start, hit.end, width])
    return Strip.join([before, found.apply_style(style), after])
