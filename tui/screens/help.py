"""Help: for the screen that one is on, with the keys in force and, of the chat, its figures."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.events import Key, Resize
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from backend.metrics.live import Snapshot
from tui.commands import COMMANDS, GROUPS, TYPING, Command, binding_name
from tui.panels import PANELS, PanelKind
from tui.text import one_line
from tui.widgets.browser import Browser
from tui.widgets.find_bar import FindBar

HELP_KEY = Binding("f1", "app.screen_help", "help", show=False, id="app.help")
"""F1 of every screen but the chat's; a modal screen needs it among its own bindings."""

WIDEST_KEYS = 20
"""Columns that keys take at most beside what they do."""

LEAST_WORDS = 24
"""Columns of words from which keys stand beside them, not above."""


class Row(NamedTuple):
    """Keys, or what is typed, and what that does."""

    keys: str
    words: str


class Section(NamedTuple):
    """A part of the help: a title over rows or over paragraphs."""

    title: str
    rows: tuple[Row, ...] = ()
    text: str = ""


class HelpScreen(ModalScreen[None]):
    """Sections of help; what is typed filters them.

    Args:
        title: What the help is for.
        sections: In the order in which they are read.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="help.back"),
        Binding("f1", "dismiss", "close", id="help.close"),
        Binding("backspace", "shorten", "shorten the filter", show=False, id="help.shorten"),
        Binding("up", "scroll(-1)", show=False, id="help.up"),
        Binding("down", "scroll(1)", show=False, id="help.down"),
        Binding("pageup", "page(-1)", show=False, id="help.page_up"),
        Binding("pagedown", "page(1)", show=False, id="help.page_down"),
        Binding("home", "end(-1)", show=False, id="help.first"),
        Binding("end", "end(1)", show=False, id="help.last"),
    ]
    AUTO_FOCUS = ""

    def __init__(self, title: str, sections: Sequence[Section]) -> None:
        super().__init__()
        self._title = title
        self._sections = sections
        self._filter = ""
        self._scroll = VerticalScroll(id="help", can_focus=False)
        self._text = Static(markup=False)

    def compose(self) -> ComposeResult:
        """Everything in one scrolling text."""
        with self._scroll:
            yield self._text

    def on_mount(self) -> None:
        """Say what it is for."""
        self._scroll.border_title = f"Help · {self._title}"
        self._show()

    def on_resize(self, event: Resize) -> None:
        """Wrap for the new width."""
        del event
        self.call_after_refresh(self._show)

    def on_key(self, event: Key) -> None:
        """Filter by what is typed."""
        if event.is_printable and event.character:
            event.stop()
            self._find(self._filter + event.character)

    def action_shorten(self) -> None:
        """Take the last character of the filter away."""
        self._find(self._filter[:-1])

    def action_back(self) -> None:
        """Show all again; if all is shown, close."""
        if self._filter:
            self._find("")
        else:
            self.dismiss()

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self._scroll.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by pages."""
        self._scroll.scroll_relative(
            y=by * max(1, self._scroll.scrollable_content_region.height - 1), animate=False
        )

    def action_end(self, by: int) -> None:
        """Go to the beginning or to the end."""
        self._scroll.scroll_to(y=0 if by < 0 else self._scroll.max_scroll_y, animate=False)

    def _find(self, text: str) -> None:
        self._filter = text.lstrip()
        self._scroll.scroll_to(y=0, animate=False)
        self._show()

    def _show(self) -> None:
        width = self._scroll.scrollable_content_region.width - 1
        if width <= 0:
            return
        shown = matching(self._sections, self._filter)
        words = f"only “{one_line(self._filter)}” · esc all" if self._filter else "type to filter"
        self._scroll.border_subtitle = Content.from_markup(
            "$words · [@click=screen.dismiss]F1 closes[/]", words=words
        )
        if not shown:
            self._text.update(Content("Nothing here says that; backspace shortens it."))
            return
        self._text.update(Content("\n\n").join([_laid_out(section, width) for section in shown]))


def help_of(screen: Screen[object]) -> HelpScreen:
    """The help of a screen: its class's paragraph `HELP` and the keys that it takes now.

    A class can name itself with `HELP_TITLE`; keys with an id are listed.
    """
    name = type(screen).__name__.removesuffix("Screen").lower()
    title = str(getattr(screen, "HELP_TITLE", name))
    paragraph = str(getattr(screen, "HELP", ""))
    sections = [Section("", text=paragraph)] if paragraph else []
    named: dict[tuple[str, str], list[str]] = {}
    for each in screen.active_bindings.values():
        binding = each.binding
        # What has no id is Textual's own: scrolling, the focus.
        if not binding.description or binding.id in {None, HELP_KEY.id}:
            continue
        key = screen.app.get_key_display(binding)
        keys = named.setdefault((binding.action, binding.tooltip or binding.description), [])
        if key not in keys:
            keys.append(key)
    rows = tuple(Row(" ".join(keys), words) for (_, words), keys in named.items())
    return HelpScreen(title, [*sections, Section("Keys", rows)])


def chat_help(
    screen: Screen[None], state: Snapshot, keymap: Mapping[str, str], open_panel: int | None
) -> HelpScreen:
    """The help of the chat.

    Args:
        screen: The chat.
        state: What the figures are explained with.
        keymap: The user's own keys, by the ids of bindings.
        open_panel: Number of the panel that is open, from 1; it is explained first.
    """
    app = screen.app
    sections: list[Section] = []
    others = list(PANELS)
    if open_panel is not None:
        sections.append(_explained(others.pop(open_panel - 1), state))
    sections.append(Section("Typing", tuple(Row(keys, words) for keys, words in TYPING)))
    for group, title in GROUPS.items():
        rows = [_command_row(app, each, keymap) for each in COMMANDS if each.group == group]
        sections.append(Section(title, tuple(rows)))
    sections += (
        Section("On a message", _rows_of(app, Browser, keymap)),
        Section("While finding", _rows_of(app, FindBar, keymap)),
        *(_explained(kind, state) for kind in others),
    )
    return HelpScreen("the chat", sections)


def _explained(kind: PanelKind, state: Snapshot) -> Section:
    return Section(kind.title, text=kind.explain(state))


def _command_row(app: App[object], command: Command, keymap: Mapping[str, str]) -> Row:
    """A command: its key in force, what is typed for it, and what it does."""
    own = keymap.get(f"chat.{binding_name(command.action)}") if command.keys else None
    keys = command.shown if own is None else _displayed(app, own)
    slash = f"/{command.slash} {command.hint or ''}".strip() if command.slash else ""
    return Row("  ".join(filter(None, (keys, slash))), f"{command.title}. {command.help}")


def _rows_of(app: App[object], widget: type[DOMNode], keymap: Mapping[str, str]) -> tuple[Row, ...]:
    """The keys of a widget, those with the same words together."""
    bindings = [each for each in widget.BINDINGS if isinstance(each, Binding)]
    words = {each.id: BINDING_WORDS.get(each.id or "", each.description) for each in bindings}
    return tuple(
        Row(
            " ".join(_displayed(app, keymap.get(each.id or "", each.key)) for each in group),
            said,
        )
        for said, group in groupby(bindings, key=lambda each: words[each.id])
        if said
    )


BINDING_WORDS: Mapping[str, str] = {
    "message.up": "the message before, the one after",
    "message.down": "the message before, the one after",
    "message.first": "the first message, the last one",
    "message.last": "the first message, the last one",
    "message.copy": "copy the message",
    "message.copy_block": "copy a block of code; again: the next one",
    "message.edit": "edit your message and have it answered on a new branch",
    "message.rerun": "answer it again; the answer before stays as another version",
    "message.resume": "go on with an answer that was cut off",
    "message.older": "older version, newer version",
    "message.newer": "older version, newer version",
    "message.fold": "fold and unfold",
    "message.write": "back to the composer",
    "message.page_up": "scroll by half a page",
    "message.page_down": "scroll by half a page",
    "find.older": "the place before, further up",
    "find.newer": "the place after, further down",
    "find.close": "end the search",
}
"""More on a key than a footer has room for, by the id of the binding."""


def _displayed(app: App[object], keys: str) -> str:
    """Keys, with commas between, as they are shown."""
    each = [app.get_key_display(made) for made in Binding.make_bindings([Binding(keys, "", "")])]
    return " ".join(dict.fromkeys(each))


def matching(sections: Iterable[Section], text: str) -> list[Section]:
    """The sections that hold a text, of their rows and paragraphs only those that do."""
    query = text.strip().casefold()
    if not query:
        return list(sections)
    found: list[Section] = []
    for section in sections:
        if query in section.title.casefold():
            found.append(section)
            continue
        rows = tuple(row for row in section.rows if query in f"{row.keys} {row.words}".casefold())
        lines = [line for line in section.text.split("\n") if query in line.casefold()]
        if rows or lines:
            found.append(section._replace(rows=rows, text="\n".join(lines)))
    return found


def _laid_out(section: Section, width: int) -> Content:
    """A section wrapped to a width, its words in a column of their own."""
    lines = [Content.styled(section.title, "bold")] if section.title else []
    beside = min(WIDEST_KEYS, max((cell_len(row.keys) for row in section.rows), default=0)) + 2
    for row in section.rows:
        keys = Content.styled(row.keys, "bold")
        if width - beside < LEAST_WORDS:
            lines += [keys, *(Content(f"  {line}") for line in _wrapped(row.words, width - 2))]
            continue
        words = _wrapped(row.words, width - beside)
        if cell_len(row.keys) > beside - 2:
            lines.append(keys)
        else:
            gap = " " * (beside - cell_len(row.keys))
            lines.append(Content.assemble(keys, gap, words.pop(0) if words else ""))
        lines += [Content(" " * beside + line) for line in words]
    if section.text:
        lines += [Content(line) for line in _wrapped(section.text, width)]
    return Content("\n").join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    """Paragraphs wrapped to a width."""
    return [
        line for paragraph in text.split("\n") for line in wrap(paragraph, max(8, width)) or [""]
    ]
