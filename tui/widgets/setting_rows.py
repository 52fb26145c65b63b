"""Rows of settings: a list to move in, and what a row is edited with, in its place."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.geometry import Offset, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.text import one_line

Part = Literal["plain", "strong", "dim", "heading", "fault", "cursor"]

WIDEST_NAME = 26
WIDEST_VALUE = 30
MOST_OPTIONS = 12
"""Of a list that opens."""

LONGEST_WORDS = 500
"""Characters of the words on an option at most."""


class Row(NamedTuple):
    """A setting.

    Attributes:
        value: As it is read.
        origin: Where the value is from, in a few words.
        is_set: Somebody chose it: it is marked.
    """

    id: str
    name: str
    value: str
    origin: str = ""
    is_set: bool = False


class Section(NamedTuple):
    """Rows that belong together.

    Attributes:
        title: '' draws none.
        faults: Sentences above the rows.
    """

    title: str
    rows: tuple[Row, ...]
    faults: tuple[str, ...] = ()


class _Line(NamedTuple):
    """A line of the list."""

    kind: Literal["row", "heading", "fault"]
    text: str = ""
    row: Row | None = None


def wrapped(text: str, width: int) -> list[str]:
    """A sentence in lines of at most a width."""
    lines: list[str] = []
    rest = text
    width = max(1, width)
    while len(rest) > width:
        at = rest.rfind(" ", 0, width + 1)
        at = at if at > 0 else width
        lines.append(rest[:at])
        rest = rest[at:].lstrip()
    return [*lines, rest]


class RowList(ScrollView, inherit_bindings=False):
    """The list, drawn line by line."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "rows--plain",
        "rows--strong",
        "rows--dim",
        "rows--heading",
        "rows--fault",
        "rows--cursor",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "change", "change", id="rows.change"),
        Binding("up", "move(-1)", "move", key_display="↑↓", id="rows.up"),
        Binding("down", "move(1)", "down", show=False, id="rows.down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="rows.page_up"),
        Binding("pagedown", "page(1)", "page down", show=False, id="rows.page_down"),
        Binding("home", "move(-9999)", "first", show=False, id="rows.first"),
        Binding("end", "move(9999)", "last", show=False, id="rows.last"),
    ]

    class Clicked(Message):
        """A row was clicked."""

        def __init__(self, row_id: str) -> None:
            super().__init__()
            self.row_id = row_id

    class Scrolled(Message):
        """The lines stand elsewhere."""

    class Wanted(Message):
        """A key asks for the current row to be edited, or for another row.

        Attributes:
            rows, pages: How far to go; none of both: to edit.
        """

        def __init__(self, rows: int = 0, pages: int = 0) -> None:
            super().__init__()
            self.rows = rows
            self.pages = pages

    def __init__(self, *, can_focus: bool) -> None:
        super().__init__()
        self.can_focus = can_focus
        self.current: str | None = None
        self._sections: Sequence[Section] = ()
        self._faults: dict[str, str] = {}
        self._lines: list[_Line] = []
        self._styles: dict[Part, Style] = {}
        self._longest_name = self._longest_value = 1

    @property
    def rows(self) -> list[Row]:
        """All rows, in order."""
        return [line.row for line in self._lines if line.row is not None]

    @property
    def name_width(self) -> int:
        """Columns of the names, with what stands before them."""
        return max(1, min(self._longest_name, WIDEST_NAME, self.size.width * 2 // 5)) + 4

    @property
    def value_width(self) -> int:
        """Columns of the values."""
        room = self.size.width - self.name_width
        return max(1, min(self._longest_value, WIDEST_VALUE, room * 3 // 5)) + 1

    def show(self, sections: Sequence[Section], faults: dict[str, str]) -> None:
        """Show rows; the current one stays if it is still there.

        Args:
            sections: What to show.
            faults: Sentences that stand under rows, by their ids.
        """
        self._sections, self._faults = sections, faults
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.size.width - 3
        lines: list[_Line] = []
        for section in self._sections:
            if section.title:
                lines.append(_Line("heading", section.title))
            for fault in section.faults:
                lines += (_Line("fault", text) for text in wrapped(one_line(fault), width))
            for row in section.rows:
                lines.append(_Line("row", row=row))
                if row.id in self._faults:
                    sentence = one_line(self._faults[row.id])
                    lines += (_Line("fault", text) for text in wrapped(sentence, width))
        self._lines = lines
        # They only grow: columns stand still while rows are filtered.
        self._longest_name = max([self._longest_name, *(len(row.name) for row in self.rows)])
        self._longest_value = max([self._longest_value, *(len(row.value) for row in self.rows)])
        ids = [row.id for row in self.rows]
        if self.current not in ids:
            self.current = ids[0] if ids else None
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def line_of(self, row_id: str | None) -> int | None:
        """Which line a row is."""
        for at, line in enumerate(self._lines):
            if line.row is not None and line.row.id == row_id:
                return at
        return None

    def make_current(self, row_id: str) -> None:
        """Go to a row."""
        self.current = row_id
        self.scroll_to_current()
        self.refresh()

    def scroll_to_current(self) -> None:
        """Bring the current row into view, with its heading if it is the first below one."""
        at = self.line_of(self.current)
        if at is None:
            return
        first = at
        while first and self._lines[first - 1].row is None and at - first < 3:
            first -= 1
        last = at
        while last + 1 < len(self._lines) and self._lines[last + 1].kind == "fault":
            last += 1
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if last >= top + height:
            top = last - height + 1
        top = min(top, first if at - first < height else at)
        self.scroll_to(y=top, animate=False, immediate=True)

    # ---------------------------------------------------------------------------- drawing

    def notify_style_update(self) -> None:
        """Forget the styles that lines were drawn in."""
        super().notify_style_update()
        self._styles = {}

    def _style(self, part: Part) -> Style:
        style = self._styles.get(part)
        if style is None:
            style = self._styles[part] = self.get_component_rich_style(f"rows--{part}")
        return style

    def render_line(self, y: int) -> Strip:
        """One line."""
        at = self.scroll_offset.y + y
        width = self.size.width
        line = self._lines[at] if at < len(self._lines) else _Line("heading")
        if line.row is not None:
            segments = self._row(line.row)
        elif line.kind == "fault":
            segments = [Segment(f" ! {line.text}", self._style("fault"))]
        else:
            segments = [Segment(f" {line.text}", self._style("heading"))]
        return Strip(segments).adjust_cell_length(width, self._style("plain"))

    def _row(self, row: Row) -> list[Segment]:
        is_current = row.id == self.current
        name, value = self.name_width, self.value_width
        mark = f"{'▸' if is_current else ' '}{'•' if row.is_set else ' '} "
        texts: list[tuple[str, Part]] = [
            (fitted(mark + one_line(row.name), name - 1) + " ", "plain"),
            (fitted(one_line(row.value), value - 1) + " ", "strong" if row.is_set else "plain"),
            (one_line(row.origin), "dim"),
        ]
        if is_current:
            whole = "".join(text for text, _ in texts)
            return [Segment(set_cell_size(whole, self.size.width), self._style("cursor"))]
        return [Segment(text, self._style(part)) for text, part in texts]

    # ----------------------------------------------------------------------------- events

    def on_resize(self) -> None:
        """Break sentences anew."""
        self._lay_out()
        self.scroll_to_current()
        self.post_message(self.Scrolled())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Say that the rows moved."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def action_change(self) -> None:
        """Ask for the current row to be edited."""
        self.post_message(self.Wanted())

    def action_move(self, by: int) -> None:
        """Ask for another row."""
        self.post_message(self.Wanted(rows=by))

    def action_page(self, by: int) -> None:
        """Ask for a row pages away."""
        self.post_message(self.Wanted(pages=by))

    def on_click(self, event: events.Click) -> None:
        """Say which row was clicked."""
        at = self.scroll_offset.y + event.y
        row = self._lines[at].row if 0 <= at < len(self._lines) else None
        if row is not None:
            self.post_message(self.Clicked(row.id))


def fitted(text: str, width: int) -> str:
    """A text in a width; where it is too long it says so."""
    cut = set_cell_size(text, width)
    if width > 1 and cut.rstrip() != text.rstrip():
        return set_cell_size(text, width - 1) + "…"
    return cut


class EditLeft(Message):
    """The value stays as it was."""


class KeyCaught(Message):
    """A key was pressed."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class OptionRemoved(Message):
    """An option is to go."""

    def __init__(self, option: str) -> None:
        super().__init__()
        self.option = option


class ValueInput(Input):
    """A value that is edited; tab stays with it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "as it was", id="setting.leave"),
        Binding("enter", "submit", "keep", id="setting.keep"),
        Binding("tab,shift+tab", "submit", show=False, id="setting.keep_too"),
    ]

    def validate_value(self, value: str) -> str:
        """Take nothing that a terminal would obey."""
        return one_line(value)

    def action_leave(self) -> None:
        """Ask to be closed."""
        self.post_message(EditLeft())


class ChoiceList(OptionList):
    """What a setting can be."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,tab,shift+tab", "leave", "as it was", key_display="esc", id="options.leave"
        ),
        Binding("enter,space", "select", "keep", key_display="enter", id="options.keep"),
        Binding("delete", "remove", "remove", id="options.remove"),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id, compact=True, markup=False)
        self._removable: frozenset[str] = frozenset()

    def offer(
        self,
        options: Sequence[tuple[str, str]],
        current: str | None,
        removable: frozenset[str] = frozenset(),
    ) -> None:
        """Show options.

        Args:
            options: What each is called, and words on it.
            current: The one to begin with.
            removable: Those that can be removed.
        """
        self._removable = removable
        self.clear_options()
        self.add_options(
            Option(
                Content.assemble(
                    (one_line(name), "bold"), one_line(words and f"  {words[:LONGEST_WORDS]}")
                ),
                id=name,
            )
            for name, words in options
        )
        names = [name for name, _ in options]
        self.highlighted = names.index(current) if current in names else 0

    def action_leave(self) -> None:
        """Ask to be closed."""
        self.post_message(EditLeft())

    def action_remove(self) -> None:
        """Ask for an option to be taken away."""
        option = self.highlighted_option
        if option is not None and option.id in self._removable:
            self.post_message(OptionRemoved(option.id))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what may be removed can be."""
        del parameters
        option = self.highlighted_option
        return action != "remove" or (option is not None and option.id in self._removable)


class KeyCatcher(Static, can_focus=True):
    """Takes the next key, whatever it is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "as it was", id="catcher.leave"),
    ]

    def __init__(self) -> None:
        super().__init__("press the new key; esc leaves", id="setting-key", markup=False)

    async def _on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self.post_message(EditLeft() if event.key == "escape" else KeyCaught(event.key))


Check = Callable[[str], str | None]
"""From what is typed to what is wrong with it, in a sentence; None: nothing."""


class SettingRows(Container):
    """A list of settings that are edited where they stand.

    Args:
        can_focus: Whether the list takes the focus itself.
    """

    class Moved(Message):
        """Another row is the current one; None: there is none."""

        def __init__(self, rows: "SettingRows", row_id: str | None) -> None:
            super().__init__()
            self.rows = rows
            self.row_id = row_id

    class Activated(Message):
        """A row is to be edited."""

        def __init__(self, rows: "SettingRows", row_id: str) -> None:
            super().__init__()
            self.rows = rows
            self.row_id = row_id

    class Edited(Message):
        """A row has a new value: a text that passed the check, an option or a key."""

        def __init__(self, rows: "SettingRows", row_id: str, text: str) -> None:
            super().__init__()
            self.rows = rows
            self.row_id = row_id
            self.text = text

    class Browsed(Message):
        """An option is looked at; None: none is any more, and none was kept."""

        def __init__(self, rows: "SettingRows", row_id: str, option: str | None) -> None:
            super().__init__()
            self.rows = rows
            self.row_id = row_id
            self.option = option

    def __init__(self, *, can_focus: bool, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.list = RowList(can_focus=can_focus)
        self._input = ValueInput(compact=True, id="setting-input")
        self._input.cursor_blink = False
        self._options = ChoiceList("setting-options")
        self._catcher = KeyCatcher()
        self._sections: Sequence[Section] = ()
        self._faults: dict[str, str] = {}
        self._editing: str | None = None
        self._editor: Widget | None = None
        self._check: Check = lambda _text: None
        self._before = ""
        self._back: Widget | None = None

    def compose(self) -> ComposeResult:
        """The list, and over it what edits."""
        yield self.list
        for editor in (self._input, self._options, self._catcher):
            editor.display = False
            yield editor

    # ------------------------------------------------------------------------------- rows

    @property
    def current(self) -> str | None:
        """The row that the keys act on."""
        return self.list.current

    @property
    def editing(self) -> str | None:
        """The row that is being edited."""
        return self._editing

    def fault(self, row_id: str) -> str | None:
        """What is said to be wrong with a row."""
        return self._faults.get(row_id)

    def show(self, sections: Sequence[Section]) -> None:
        """Show rows."""
        before = self.current
        self._sections = sections
        self.list.show(sections, self._faults)
        self._place()
        if self.current != before:
            self.post_message(self.Moved(self, self.current))

    def set_fault(self, row_id: str, sentence: str | None) -> None:
        """Say under a row what is wrong with it, or that nothing is."""
        if self._faults.get(row_id) == sentence:
            return
        if sentence is None:
            del self._faults[row_id]
        else:
            self._faults[row_id] = sentence
        self.list.show(self._sections, self._faults)
        self.list.scroll_to_current()
        self._place()

    def go_to(self, row_id: str) -> None:
        """Make a row the current one."""
        if row_id != self.current and self.list.line_of(row_id) is not None and self.finish():
            self.list.make_current(row_id)
            self.post_message(self.Moved(self, row_id))

    def move(self, by: int) -> None:
        """Go rows up or down; by more than there are: to the end."""
        ids = [row.id for row in self.list.rows]
        if ids and self.current in ids:
            at = ids.index(self.current) + by
            if at < 0:
                self.list.scroll_relative(y=by, animate=False)
            self.go_to(ids[min(max(0, at), len(ids) - 1)])

    def page(self, by: int) -> None:
        """Go pages up or down."""
        self.move(by * max(1, self.list.size.height - 1))

    def activate(self) -> None:
        """Ask for the current row to be edited."""
        if self.current is not None and self.finish():
            self.post_message(self.Activated(self, self.current))

    # ---------------------------------------------------------------------------- editing

    def edit_text(self, row_id: str, text: str, check: Check) -> None:
        """Let a row be edited as a line of text."""
        self._check = check
        self._input.value = text
        self._before = self._input.value
        self._input.cursor_position = len(self._before)
        self._open(row_id, self._input)

    def edit_choice(self, row_id: str, names: Sequence[str], current: str) -> None:
        """Let one of several be chosen, beginning with one."""
        self._options.offer([(name, "") for name in names], current)
        self._open(row_id, self._options)

    def edit_key(self, row_id: str) -> None:
        """Let a key be pressed."""
        self._open(row_id, self._catcher)

    def _open(self, row_id: str, editor: Widget) -> None:
        self._back = self.screen.focused
        self._editing, self._editor = row_id, editor
        editor.display = True
        self._place()
        editor.focus()

    def finish(self) -> bool:
        """Keep what is being typed, as far as it is right; whether nothing is open then."""
        if self._editor is self._input and self._editing is not None:
            text = self._input.value
            if self._check(text) is not None:
                self._input.focus()
                return False
            if text != self._before:
                self._keep(text)
                return True
        if self._editing is not None:
            self._leave()
        return True

    def _keep(self, text: str) -> None:
        row_id = self._editing
        self._close()
        if row_id is not None:
            self.set_fault(row_id, None)
            self.post_message(self.Edited(self, row_id, text))

    def _leave(self) -> None:
        row_id, editor = self._editing, self._editor
        self._close()
        if row_id is not None:
            self.set_fault(row_id, None)
            if editor is self._options:
                self.post_message(self.Browsed(self, row_id, None))

    def _close(self) -> None:
        editor, self._editor, self._editing = self._editor, None, None
        if editor is None:
            return
        if editor.has_focus and self._back is not None:
            self._back.focus()
        editor.display = False

    def _place(self) -> None:
        """Put what edits over its row."""
        if self._editor is None:
            return
        at = self.list.line_of(self._editing)
        width, height = self.size
        if at is None or width <= 0 or height <= 0:
            return
        x = min(self.list.name_width, max(0, width - 12))
        y = at - self.list.scroll_offset.y
        self._editor.styles.width = max(12, self.list.size.width - x)
        if self._editor is self._options:
            rows = max(1, min(self._options.option_count, MOST_OPTIONS, height))
            self._options.styles.height = rows
            y = max(0, min(y + 1, height - rows))
        self._editor.styles.offset = Offset(x, y)

    # ----------------------------------------------------------------------------- events

    def on_resize(self) -> None:
        """Put what edits where its row is now."""
        self._place()

    def on_row_list_wanted(self, message: RowList.Wanted) -> None:
        """Do what a key asks for."""
        message.stop()
        if message.rows:
            self.move(message.rows)
        elif message.pages:
            self.page(message.pages)
        else:
            self.activate()

    def on_row_list_scrolled(self, message: RowList.Scrolled) -> None:
        """Go along with the row."""
        message.stop()
        self._place()

    def on_row_list_clicked(self, message: RowList.Clicked) -> None:
        """One click goes to a row, another one edits it."""
        message.stop()
        if message.row_id == self.current:
            self.activate()
        else:
            self.go_to(message.row_id)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what is wrong while it is typed."""
        event.stop()
        if self._editing is not None and event.input is self._input:
            is_new = self._input.value != self._before
            self.set_fault(self._editing, self._check(self._input.value) if is_new else None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep what was typed, unless it is wrong."""
        event.stop()
        self.finish()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Say which option is looked at."""
        event.stop()
        self.refresh_bindings()
        if self._editing is not None and event.option_id is not None:
            self.post_message(self.Browsed(self, self._editing, event.option_id))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Keep an option."""
        event.stop()
        if event.option_id is not None:
            self._keep(event.option_id)

    def on_edit_left(self, message: EditLeft) -> None:
        """Leave it as it was."""
        message.stop()
        self._leave()

    def on_key_caught(self, message: KeyCaught) -> None:
        """Keep a key."""
        message.stop()
        self._keep(message.key)
