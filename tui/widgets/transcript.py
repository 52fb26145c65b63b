"""The conversation: a scrolling view of lines in which only what is seen is painted.

Entries are laid out once per width; a chat of any length costs the same while an answer grows.
Old entries are laid out from the newest back, in slices between other work.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile
from time import perf_counter

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Offset, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from tui.graphemes import around, clusters
from tui.widgets.answers import LiveAnswer
from tui.widgets.entries import Entry, Look
from tui.widgets.markdown import NO_BREAK, MarkdownLines

SLICE_S = 0.012
"""Longest time that laying out old entries holds the window."""

STEPS_PER_SCREEN = 6
"""Steps in which a growing answer scrolls by one screen."""

MANY = 50
"""New entries from which the older ones are laid out later."""

MARGIN = 1
"""Cells between the text and the scroll bar."""

ROLES = (
    "you",
    "model",
    "thinking",
    "figures",
    "notice",
    "fault",
    "prefill",
    "decode",
    "reused",
    "heading",
    "code",
    "link",
    "rule",
    "found",
    "current",
    "selected",
)

GUTTER = 1
"""Cells at the left in which a selected entry is marked."""


class Transcript(ScrollView, can_focus=True):
    """Entries one under the other, the newest in view until the user scrolls up."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES = {f"transcript--{role}" for role in ROLES}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self._entries: list[Entry] = []
        self._first = 0
        self._starts: list[int] = []
        self._look: Look | None = None
        self._width = 0
        self._follows = True
        self._past_timer: Timer | None = None
        self._base: Style | None = None
        self.fold_thinking = True

    def notify_style_update(self) -> None:
        """Forget the style that all lines stand on."""
        super().notify_style_update()
        self._base = None

    # ------------------------------------------------------------------------- contents

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, oldest first."""
        return self._entries

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the newest line while it is in view."""
        super().watch_scroll_y(old_value, new_value)
        self._follows = round(new_value) >= self.max_scroll_y

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these entries; those at the beginning that are shown already stay as they are."""
        pairs = zip(self._entries, entries, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        fresh = entries[same:]
        if same < self._first or len(fresh) > MANY:
            self._entries = list(entries)
            self._follows = True
            self._lay_out_again()
            return
        del self._entries[same:]
        if self._look is not None:
            for start in self._starts[same - self._first :][:1]:
                self._unselect_from(start)
            del self._starts[same - self._first :]
        for entry in fresh:
            self._add(entry)
        self._resized()

    def follow(self) -> None:
        """Go to the newest entry, and stay there."""
        self._follows = True
        self._resized()

    def relayout(self, index: int) -> None:
        """Lay one entry out again, after it was folded or unfolded."""
        if self._look is None or index < self._first:
            return
        entry = self._entries[index]
        before = entry.height
        entry.layout(self._look, self._width)
        grown = entry.height - before
        for at in range(index - self._first + 1, len(self._starts)):
            self._starts[at] += grown
        if not isinstance(entry, LiveAnswer):
            self._follows = False
        self._resized()

    def _add(self, entry: Entry) -> None:
        """Put an entry behind the last one, laid out once the width is known."""
        self._entries.append(entry)
        if self._look is not None:
            entry.layout(self._look, self._width)
            self._starts.append(self._laid_out_height())

    def grow(self, thinking: Sequence[str], answer: Sequence[str]) -> None:
        """Let the answer that is coming grow to these pieces."""
        last = self._entries[-1] if self._entries else None
        if not isinstance(last, LiveAnswer):
            return
        unchanged = last.grow(thinking, answer)
        if unchanged is None or not self._starts:
            return
        first = self._starts[-1] + unchanged
        self._take_height()
        self.refresh_lines(first, self.virtual_size.height - first)

    # --------------------------------------------------------------------------- layout

    def on_resize(self, event: Resize) -> None:
        """Lay everything out for a new width."""
        del event
        width = max(1, self.scrollable_content_region.width - MARGIN - GUTTER)
        if width != self._width or self._look is None:
            self._width = width
            self._look = self._look or self._make_look()
            self._lay_out_again()
        elif self._follows:
            self._resized()

    def restyle(self) -> None:
        """Draw everything in the theme of the moment."""
        self._look = self._make_look()
        self._lay_out_again()

    def role_style(self, role: str) -> Style:
        """The style of a role in the theme of the moment."""
        assert self._look is not None
        return self._look.styles[role]

    def _make_look(self) -> Look:
        styles = {role: self.get_component_rich_style(f"transcript--{role}") for role in ROLES}
        code = styles["code"]
        ground = code.bgcolor.name if code.bgcolor is not None else "default"
        plain_code = Style(color=code.color, bgcolor=code.bgcolor)
        markdown = {f"markdown.h{level}": styles["heading"] for level in range(1, 7)}
        markdown |= {
            "markdown.code": plain_code,
            "markdown.link": styles["link"],
            "markdown.link_url": styles["figures"],
            "markdown.hr": styles["rule"],
            "markdown.block_quote": styles["thinking"],
            "markdown.item.bullet": styles["link"],
            "markdown.item.number": styles["link"],
            "markdown.table.border": styles["rule"],
            "markdown.table.header": styles["heading"],
        }
        code_theme = "github-dark" if self.app.current_theme.dark else "xcode"
        renderer = MarkdownLines(markdown, code_theme, ground)
        return Look(renderer, styles, fold_thinking=self.fold_thinking)

    def _lay_out_again(self) -> None:
        """Lay out what can be seen at once and the older entries later."""
        self._first = len(self._entries)
        self._starts = []
        if self._look is None or self._width <= 0:
            return
        self._unselect_from(0)
        self._lay_out_older(until_height=3 * max(1, self.size.height))
        self._resized()

    def _lay_out_older(self, *, until_height: int = 0) -> int:
        """Lay out entries before the first that is, for a slice of time; how many lines."""
        assert self._look is not None
        end = perf_counter() + SLICE_S
        fresh: list[Entry] = []
        lines = 0
        while self._first > 0 and (lines < until_height or perf_counter() < end):
            self._first -= 1
            entry = self._entries[self._first]
            entry.layout(self._look, self._width)
            fresh.append(entry)
            lines += entry.height
        starts: list[int] = []
        at = 0
        for entry in reversed(fresh):
            starts.append(at)
            at += entry.height
        self._starts = starts + [start + lines for start in self._starts]
        if self._past_timer is not None:
            self._past_timer.stop()
        self._past_timer = (
            self.set_timer(SLICE_S, self._more_of_the_past) if self._first > 0 else None
        )
        return lines

    def _more_of_the_past(self) -> None:
        """Lay out a further slice, keeping the view where it is."""
        if self._look is None or not self._first:
            return
        added = self._lay_out_older()
        self._resized()
        if not self._follows:
            self.scroll_to(y=self.scroll_offset.y + added, animate=False, force=True)

    def _laid_out_height(self) -> int:
        """Lines of the entries that have a start."""
        if not self._starts:
            return 0
        last = self._entries[self._first + len(self._starts) - 1]
        return self._starts[-1] + last.height

    def _resized(self) -> None:
        """Tell the scroll bar of a new height, and paint all that is in view."""
        self._take_height()
        self.refresh()

    def _take_height(self) -> None:
        """Tell the scroll bar of a new height, and stay at the end if that is in view.

        The size is set without the layout of the whole screen that Textual would do: nothing
        but the scroll bar depends on it. While an answer comes, the height grows by several
        lines at once: the view then stands still between the steps and only the lines that are
        new are painted.
        """
        height = self._laid_out_height()
        if self._entries and isinstance(self._entries[-1], LiveAnswer):
            step = max(1, self.size.height // STEPS_PER_SCREEN)
            height = -(-height // step) * step
        size = Size(self._width, height)
        if size != self.virtual_size:
            self.set_reactive(Transcript.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        if self._follows:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    # -------------------------------------------------------------------------- painting

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        at = y + self.scroll_offset.y
        width = self.size.width
        index = bisect_right(self._starts, at) - 1
        if self._base is None:
            self._base = self.rich_style
        style = self._base
        if index < 0:
            return Strip.blank(width, style)
        entry = self._entries[self._first + index]
        row = at - self._starts[index]
        if row >= entry.height:
            return Strip.blank(width, style)
        strip = self.marked(entry.line(row), self._first + index, row)
        strip = strip.apply_style(style).adjust_cell_length(width, style)
        selection = self.text_selection
        if selection is not None:
            strip = self._with_selection(strip, selection, at)
        return _whole_clusters(strip).apply_offsets(0, at)

    def marked(self, strip: Strip, index: int, row: int) -> Strip:
        """A line of an entry with the gutter before it."""
        del index, row
        return Strip.join([Strip.blank(GUTTER), strip])

    def entry_at(self, y: int) -> tuple[int, int] | None:
        """The entry, and its line, at a line of what is in view."""
        at = y + self.scroll_offset.y
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return None
        row = at - self._starts[index]
        entry = self._entries[self._first + index]
        return (self._first + index, row) if row < entry.height else None

    def line_of(self, index: int) -> int | None:
        """The line that an entry begins at; None while it is not laid out."""
        at = index - self._first
        return self._starts[at] if 0 <= at < len(self._starts) else None

    def _with_selection(self, strip: Strip, selection: Selection, at: int) -> Strip:
        span = selection.get_span(at)
        if span is None:
            return strip
        # Textual counts characters.
        text = strip.text
        start = max(GUTTER, cell_len(text[: around(text, span[0])[0]]))
        last = len(text) if span[1] < 0 else around(text, span[1])[1]
        end = max(start, cell_len(text[:last]))
        style = self.screen.get_component_rich_style("screen--selection")
        if style.color == style.bgcolor:
            # The text keeps its colours.
            style = Style(bgcolor=style.bgcolor)
        before, chosen, after = strip.divide([start, end, strip.cell_length])
        marked = Strip(Segment.apply_style(chosen, post_style=style), chosen.cell_length)
        return Strip.join([before, marked, after])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that is selected with the mouse, without the gutter."""
        rows = [
            entry.line(row).text.rstrip().replace(NO_BREAK, " ")
            for entry in self._entries[self._first :]
            for row in range(entry.height)
        ]
        start, end = map(_behind_gutter, selection)
        if start is not None and start.y < len(rows):
            start = Offset(around(rows[start.y], start.x)[0], start.y)
        if end is not None and end.y < len(rows):
            end = Offset(around(rows[end.y], end.x)[1], end.y)
        return Selection(start, end).extract("\n".join(rows)), "\n"

    def _unselect_from(self, line: int) -> None:
        """Select nothing any more if what is selected reaches to a line that changes."""
        selection = self.text_selection
        if selection is not None and (selection.end is None or selection.end.y >= line):
            self.screen.clear_selection()

    def selection_updated(self, selection: Selection | None) -> None:
        """Paint the selection."""
        del selection
        self.refresh()

    def scroll_pages(self, pages: float) -> None:
        """Scroll by pages; up is negative."""
        lines = round(pages * max(1, self.size.height - 1))
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, force=True)


def _behind_gutter(offset: Offset | None) -> Offset | None:
    return None if offset is None else Offset(max(0, offset.x - GUTTER), offset.y)


def _whole_clusters(strip: Strip) -> Strip:
    """The strip with each character made of several as a segment: Textual adds up their parts."""
    text = strip.text
    cuts = sorted({cell_len(text[:at]) for span in clusters(text) for at in span})
    return Strip.join(strip.divide([*cuts, strip.cell_length])) if cuts else strip
