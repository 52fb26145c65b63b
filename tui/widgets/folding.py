"""A text area in which long pieces stand folded, each as one placeholder."""

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.events import Click, Paste
from textual.geometry import Offset
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from tui.graphemes import clusters
from tui.widgets.pastes import (
    EDITABLE_CHARACTERS,
    EDITABLE_LINES,
    Draft,
    Fold,
    Folds,
    is_editable,
    is_long_paste,
    label_at,
    line_count,
    normalised,
    on_screen,
    raw,
    size_label,
    spans,
)

Span = tuple[Location, Location]


class _Placed(Edit):
    """An edit whose text is as it stands in the document."""


class _WholeClusters(Text):
    """A text in which a character made of several has one style, the cursor's too."""

    def stylize(self, style: str | Style, start: int = 0, end: int | None = None) -> None:
        for first, last in clusters(self.plain):
            if first < start < last:
                start = first
            if end is not None and first < end < last:
                end = last
        super().stylize(style, start, end)


class FoldingArea(TextArea):
    """A text area whose document holds placeholders; what it gives out is the real text.

    A placeholder is one unit, and so is a character made of several, such as a flag: the cursor
    never stops in it, and what removes a part of it removes it whole.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"folding--fold"}
    DEFAULT_CSS = """
    FoldingArea > .folding--fold { color: $text-accent; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+u", "unfold", "unfold", show=False, id="composer.unfold"),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
        )
        # A blinking cursor wakes the window, and takes a core from decode, twice a second.
        self.cursor_blink = False
        self._folds = Folds()
        self._is_unfolding = False
        """An edit is under way that changes nothing of what would be sent."""

    # ---------------------------------------------------------------- what is written

    @property
    def draft(self) -> Draft:
        """What is written, as data."""
        return self._folds.decode(self.document.text)

    @property
    def full_text(self) -> str:
        """What is written, folded pieces in full."""
        return self.draft.full_text

    @property
    def text(self) -> str:
        """What is written, with a label for each folded piece."""
        return raw(self.document.text)

    @text.setter
    def text(self, value: str) -> None:
        self.load_text(value)

    def get_text_range(self, start: Location, end: Location) -> str:
        """The real text between two places."""
        return self._folds.decode(super().get_text_range(start, end)).full_text

    def load_text(self, text: str) -> None:
        """Replace what is written; nothing of before can be undone."""
        self.load_draft(Draft((text,)))

    def load_draft(self, draft: Draft) -> None:
        """Replace what is written; the cursor is behind it."""
        self._folds.clear()
        super().load_text(self._folds.encode_draft(draft))
        self.move_cursor(self.document.end)

    # ------------------------------------------------------------------------- edits

    def edit(self, edit: Edit) -> EditResult:
        """Carry out an edit; one that cuts into a placeholder takes it whole."""
        if not isinstance(edit, _Placed):
            row, column = edit.top
            before = self.document.get_line(row)[:column]
            edit.text = self._folds.encode(edit.text, self.document.text, before)
        top, bottom = edit.top, edit.bottom
        if top == bottom:
            # In front of a placeholder rather than in it.
            edit.from_location = edit.to_location = self._span_around(top)[0]
        else:
            edit.from_location = self._span_around(top)[0]
            edit.to_location = self._span_around(bottom)[1]
        result = super().edit(edit)
        replaced = self._folds.decode(result.replaced_text).full_text
        return EditResult(result.end_location, replaced)

    def insert_fold(self, fold: Fold, span: Span | None = None, after: str = "") -> None:
        """Put a folded piece in the place of a span, or of what is selected."""
        start, end = sorted(self.selection if span is None else span)
        placed = self._folds.place(fold, self.document.text) + after
        result = self.edit(_Placed(placed, start, end, maintain_selection_offset=False))
        self.move_cursor(result.end_location)

    def insert_pasted(self, text: str) -> None:
        """Put a paste in the place of what is selected, folded if it is long."""
        text = normalised(text)
        if is_long_paste(text):
            self.insert_fold(Fold(size_label("pasted", text), text))
        else:
            self.replace(text, *self.selection, maintain_selection_offset=False)
            self.move_cursor(self.cursor_location)

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        if not self.read_only:
            self.insert_pasted(event.text)
            self.focus()

    def action_paste(self) -> None:
        """Paste what was cut or copied here."""
        if not self.read_only:
            self.insert_pasted(self.app.clipboard)

    # -------------------------------------------------------------------- placeholders

    def validate_selection(self, selection: Selection) -> Selection:
        """Keep both ends out of placeholders: moving into one goes on to its other end."""
        before = self.selection
        return Selection(
            self._beside(selection.start, before.start), self._beside(selection.end, before.end)
        )

    def _beside(self, location: Location, before: Location) -> Location:
        start, end = self._span_around(location)
        return end if before <= start else start

    def _span_around(self, location: Location) -> Span:
        """The placeholder or cluster that a place is within; else the place itself, twice."""
        row, column = location
        if row < self.document.line_count:
            line = self.document.get_line(row)
            for start, end in (*spans(line), *clusters(line)):
                if start < column < end:
                    return (row, start), (row, end)
        return location, location

    def _placeholders(self) -> list[Span]:
        return [
            ((row, start), (row, end))
            for row, line in enumerate(self.document.lines)
            for start, end in spans(line)
        ]

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor, if it is where the document still has a line.

        Textual's undo takes lines away before it moves the cursor; when that takes the scroll bar
        away too, it would look for a line that is no more.
        """
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)

    def action_unfold(self) -> None:
        """Show the text of the placeholder at the cursor, or of the nearest one, to be edited."""
        found = self._placeholders()
        if not found or self.read_only:
            raise SkipAction
        row, column = self.cursor_location

        def distance(span: Span) -> tuple[int, int]:
            return min((abs(row - at[0]), abs(column - at[1])) for at in span)

        self._unfold(min(found, key=distance))

    def _unfold(self, span: Span) -> None:
        (row, start), (_row, end) = span
        line = self.document.get_line(row)
        text = self._folds.decode(line[start:end]).full_text
        if not is_editable(text):
            small = len(text) <= EDITABLE_CHARACTERS and line_count(text) <= EDITABLE_LINES
            why = (
                "it has characters that stand for others here"
                if small
                else f"at most {EDITABLE_LINES:,} lines and {EDITABLE_CHARACTERS:,} characters can"
            )
            label = on_screen(label_at(line, (start, end)))
            self.notify(f"{label}: cannot be edited here, {why}. It is sent whole.", markup=False)
            return
        self._is_unfolding = True
        try:
            self.replace(text, *span, maintain_selection_offset=False)
        finally:
            self._is_unfolding = False

    async def on_click(self, event: Click) -> None:
        """Unfold the placeholder that is clicked."""
        if self.read_only or not self.selection.is_empty:
            return
        row, column = self.get_target_document_location(event)
        for start, end in spans(self.document.get_line(row)):
            if start <= column < end:
                self._unfold(((row, start), (row, end)))
                return

    def get_line(self, line_index: int) -> Text:
        """A line as it is shown: control characters as pictures, placeholders in brackets."""
        line = self.document.get_line(line_index)
        shown = _WholeClusters(on_screen(line), end="", no_wrap=True)
        found = spans(line)
        if found:
            style = self.get_component_rich_style("folding--fold")
            for start, end in found:
                shown.stylize(style, start, end)
        return shown
