"""All stored chats: searched as one types, gone on with, renamed, deleted, exported."""

import asyncio
import threading
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static

from backend.history import ChatRow, HistoryError, Query
from backend.session import SessionError
from tui.export import ExportError
from tui.figures import so_many
from tui.screens.acting import ActingScreen
from tui.shelf import ChatItem, Found, Shelf, export_chat, read_shelf, search_shelf
from tui.text import harmless, one_line
from tui.widgets.chat_list import ChatList, fitted, title_of
from tui.widgets.chat_preview import read_preview
from tui.widgets.key_footer import KeyFooter
from tui.widgets.plain_input import PlainInput, TitleLine

WIDE = 110
"""Columns from which a preview stands beside the list."""

PREVIEW_AFTER_S = 0.06
"""How long a chat has to stay chosen before it is read for the preview."""


TOLD_CELLS = 40
"""Cells of a title where something is said about its chat."""


def _key(
    name: str, keys: str, action: str, footer: str, words: str, *, shown: str | None = None
) -> Binding:
    """A key that goes before those of the line in which is written; '': not in the footer."""
    return Binding(
        keys,
        action,
        footer or words,
        show=bool(footer),
        key_display=shown,
        priority=True,
        tooltip=words,
        id=f"chats.{name}",
    )


class ChatsScreen(Screen[str]):
    """The list of chats with a line to search all of their text.

    What it returns is the message to show in the chat that is open then; None: none.

    Args:
        chat: The chat's screen, which opens chats and says what cannot be done.
        text: What is looked for at first.
    """

    HELP_TITLE: ClassVar[str] = "all chats"
    HELP: ClassVar[str] = (
        "All chats, the one used last first; • marks the one that is open. What you type is "
        "looked for at once in all messages on all branches, in titles and in system prompts: "
        'every word has to be there, in any order and case, and a "phrase in quotes" as it '
        "stands. Enter goes on with the chosen chat, at the message that was found, even if that "
        "is on another branch. A deleted chat is kept for 30 days: ^z takes back the last "
        "deletion, the one before, and so on; ^x shows what was deleted, and enter brings it "
        "back. ^e writes the chat with its figures to a Markdown file in the folder that "
        "phasescope was started in."
    )

    AUTO_FOCUS = "#chats-search"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 (Textual's form)

    BINDINGS: ClassVar[list[BindingType]] = [
        _key("back", "escape,ctrl+o", "back", "back", "Back to the chat.", shown="esc"),
        _key("open", "enter", "open", "go on", "Go on with the chosen chat."),
        _key("restore", "enter", "restore", "restore", "Bring the deleted chat back."),
        _key("delete", "ctrl+d", "delete", "delete", "Delete the chosen chat.", shown="^d"),
        _key("delete_key", "delete", "delete_here", "", "The same, behind the end of the text."),
        _key("undo", "ctrl+z", "undo", "undo", "Take back the last deletion.", shown="^z"),
        _key("rename", "ctrl+t", "rename", "rename", "Give it another title.", shown="^t"),
        _key("export", "ctrl+e", "export", "export", "Write it as Markdown.", shown="^e"),
        _key("new", "ctrl+n", "new_chat", "new", "Begin a new chat.", shown="^n"),
        _key("deleted", "ctrl+x", "show_deleted", "deleted", "Deleted chats or not.", shown="^x"),
        _key("up", "up", "move(-1)", "choose", "The one above.", shown="↑↓"),
        _key("down", "down", "move(1)", "", "The one below."),
        _key("page_up", "pageup", "page(-1)", "", "A page up."),
        _key("page_down", "pagedown", "page(1)", "", "A page down."),
        _key("first", "ctrl+home", "move(-1000000)", "", "The first one."),
        _key("last", "ctrl+end", "move(1000000)", "", "The last one."),
        _key("read_up", "alt+up", "preview(-1)", "", "Scroll the preview up."),
        _key("read_down", "alt+down", "preview(1)", "", "Scroll the preview down."),
    ]

    class Searched(Message):
        """A search found something, or is over.

        Attributes:
            number: Which search.
            problem: Why it could not go on.
        """

        def __init__(
            self, number: int, found: list[Found], *, done: bool, problem: str | None = None
        ) -> None:
            super().__init__()
            self.number = number
            self.found = found
            self.done = done
            self.problem = problem

    def __init__(self, chat: ActingScreen, text: str = "") -> None:
        super().__init__(id="chats")
        self._chat = chat
        self._session = chat.session
        stored = self._session.stored
        if stored is None:
            raise SessionError("no chats are stored here")
        self._stored = stored
        self._path = stored.history.path
        self._label = Static("", id="chats-label", markup=False)
        self._search = PlainInput(
            text, "Search the text of all chats", compact=True, id="chats-search"
        )
        self._title = TitleLine(compact=True, id="chats-title")
        self._count = Static("", id="chats-count", markup=False)
        self._list = ChatList()
        self._empty = Static("", id="chats-empty", markup=False)
        self._preview = Static("", id="chats-preview", markup=False)
        self._shelf: Shelf | None = None
        self._read_problem: str | None = None
        self._search_problem: str | None = None
        self._shows_deleted = False
        self._query = Query("")
        self._found: list[Found] | None = None
        self._replaces = False
        self._searching = False
        self._searches = 0
        self._deletions: list[ChatRow] = []
        self._renamed: dict[str, str] = {}
        self._preview_timer: Timer | None = None
        self._keys_for: tuple[bool, ...] = ()

    def compose(self) -> ComposeResult:
        """What is looked for, the list and the preview, the keys."""
        with Horizontal(id="chats-bar"):
            yield self._label
            yield self._search
            yield self._title
            yield self._count
        with Horizontal(id="chats-body"):
            with Vertical(id="chats-found"):
                yield self._list
                yield self._empty
            with VerticalScroll(id="chats-side", can_focus=False):
                yield self._preview
        yield KeyFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Read the chats; keys are taken meanwhile."""
        for line in (self._search, self._title):
            line.cursor_blink = False
        self._title.display = False
        self._list.open_chat = self._session.chat.id
        self._show()
        self.run_worker(self._read(), group="read")
        self._look_for(self._search.value)

    async def _read(self) -> None:
        try:
            self._shelf = await asyncio.to_thread(read_shelf, self._path)
        except HistoryError as error:
            self._read_problem = str(error)
        self._show()

    # ----------------------------------------------------------------------------- search

    def on_input_changed(self, event: Input.Changed) -> None:
        """Look for what is written."""
        event.stop()
        if event.input is self._search:
            self._look_for(event.value)

    def _look_for(self, text: str) -> None:
        """Search anew, instead of what is searched now."""
        self._query = Query(text)
        self._searches += 1
        self._searching = self._replaces = bool(self._query)
        self._search_problem = None
        if not self._query:
            self.workers.cancel_group(self, "search")
            self._found = None
            self._show()
            return
        work = self._run_search(self._searches, text, deleted=self._shows_deleted)
        self.run_worker(work, group="search", exclusive=True)

    async def _run_search(self, number: int, text: str, *, deleted: bool) -> None:
        ended = threading.Event()
        problem = None

        def give(found: list[Found]) -> None:
            if found:
                self.post_message(self.Searched(number, found, done=False))

        try:
            await asyncio.to_thread(
                search_shelf, self._path, text, give, deleted=deleted, stop=ended.is_set
            )
        except HistoryError as error:
            problem = str(error)
        finally:
            ended.set()
        self.post_message(self.Searched(number, [], done=True, problem=problem))

    def on_chats_screen_searched(self, message: Searched) -> None:
        """Show what was found."""
        if message.number != self._searches:
            return
        # What was found before stays until there is something else to show.
        first = self._replaces
        self._found = message.found if first else [*(self._found or ()), *message.found]
        self._replaces = False
        if message.done:
            self._searching = False
            self._search_problem = message.problem
        self._show(chosen=0 if first else None)

    # ------------------------------------------------------------------------------- show

    @property
    def _problem(self) -> str | None:
        """Why the chats cannot be shown."""
        return self._read_problem or self._search_problem

    def _show(self, chosen: int | None = None) -> None:
        """Show what is known now."""
        items: list[ChatItem] = []
        if self._shelf is not None and self._problem is None:
            items = self._shelf.items(self._found, deleted=self._shows_deleted)
        self._list.show(items, self._query, chosen)
        self._list.display = bool(items)
        self._empty.display = not items
        self._empty.update(Content("" if items else self._why_empty()))
        what = "title" if self._title.display else "deleted" if self._shows_deleted else "chats"
        self._label.update(Content(f"{what} "))
        self._count.update(Content(self._how_many()))
        if not items:
            self._preview.update(Content(""))
        self._keys_changed()

    def _how_many(self) -> str:
        if self._shelf is None or self._problem is not None:
            return ""
        rows = self._shelf.rows(deleted=self._shows_deleted)
        if self._found is None:
            return so_many(len(rows), "chat")
        found = [each for each in self._found if each.chat_id in rows]
        places = sum(each.places for each in found)
        going_on = "…" if self._searching else ""
        return f"{places:,} in {so_many(len(found), 'chat')}{going_on}"

    def _why_empty(self) -> str:
        if self._problem is not None:
            sentence = harmless(self._problem)
            return sentence[:1].upper() + sentence[1:] + "."
        if self._shelf is None or self._searching:
            return "…"
        if self._found is not None:
            where = " in what was deleted" if self._shows_deleted else ""
            return f"Nothing was found{where}. Every word has to be in one message, or in a title."
        if self._shows_deleted:
            return "No chat was deleted. esc goes back to the list."
        return "No chat is stored yet. A chat is kept from its first message on; esc goes back."

    # ---------------------------------------------------------------------------- preview

    def on_chat_list_chosen(self, message: ChatList.Chosen) -> None:
        """Show another chat beside the list."""
        message.stop()
        if self._title.display:
            self._end_rename()
        self._keys_changed()
        self._preview_soon()

    def on_resize(self, event: Resize) -> None:
        """There may be room for the preview now."""
        del event
        self._preview_soon()

    def _preview_soon(self) -> None:
        if self._preview_timer is not None:
            self._preview_timer.stop()
        self._preview_timer = self.set_timer(PREVIEW_AFTER_S, self._begin_preview)

    def _begin_preview(self) -> None:
        item = self._list.chosen
        if item is not None and self.size.width >= WIDE:
            work = self._show_preview(item, self._query)
            self.run_worker(work, group="preview", exclusive=True)

    async def _show_preview(self, item: ChatItem, query: Query) -> None:
        try:
            content = await asyncio.to_thread(read_preview, self._path, item, query)
        except HistoryError as error:
            content = Content(harmless(str(error)))
        if self._list.chosen != item:
            return
        self._preview.update(content)
        self.query_one("#chats-side").scroll_home(animate=False)

    def action_preview(self, by: int) -> None:
        """Scroll the preview."""
        side = self.query_one("#chats-side")
        lines = by * max(1, side.size.height // 2)
        side.scroll_relative(y=lines, animate=False)

    # ------------------------------------------------------------------------ the actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys make sense now; None: shown, but dim."""
        del parameters
        if self._title.display:
            return action == "copy_text"
        deleted = self._shows_deleted
        if action == "undo" and not deleted:
            return bool(self._deletions)
        needs_one = {
            "open": not deleted,
            "rename": not deleted,
            "delete": not deleted,
            "delete_here": not deleted and self._search.cursor_at_end,
            "export": True,
            "restore": deleted,
            "undo": deleted,
        }
        if not needs_one.get(action, True):
            return False
        return True if action not in needs_one or self._list.chosen is not None else None

    def _keys_changed(self) -> None:
        """Show other keys if they are others: the footer is built anew for that."""
        state = (
            self._title.display,
            self._shows_deleted,
            self._list.chosen is not None,
            bool(self._deletions),
        )
        if state != self._keys_for:
            self._keys_for = state
            self.refresh_bindings()

    def action_move(self, by: int) -> None:
        """Choose a chat further up or down."""
        self._list.move(by)

    def action_page(self, by: int) -> None:
        """Choose a chat a page further up or down."""
        self._list.move_pages(by)

    def on_chat_list_opened(self, message: ChatList.Opened) -> None:
        """Do what enter does."""
        message.stop()
        if self._shows_deleted:
            self.action_restore()
        else:
            self.action_open()

    def action_open(self) -> None:
        """Go on with the chosen chat, at the place that was found."""
        item = self._list.chosen
        if item is None:
            return
        row, node_id = item.row, item.node_id
        self._chat.open_stored(row.id)
        if self._session.chat.id != row.id:
            return
        if row.id in self._renamed:
            # It may have been read before its new title was written.
            self._session.rename_chat(row.id, self._renamed[row.id])
        path = {node.id for node in self._session.chat.path()}
        if (
            node_id is None
            or node_id in path
            or self._chat.attempt(lambda: self._session.go_to(node_id))
        ):
            self.dismiss(node_id)

    def action_new_chat(self) -> None:
        """Begin another chat."""
        before = self._session.chat.id
        self._chat.action_new_chat()
        if self._session.chat.id != before:
            self.dismiss(None)

    def action_rename(self) -> None:
        """Write another title in the place of what is looked for."""
        item = self._list.chosen
        if item is None:
            return
        self._title.value = one_line(item.row.title)
        self._title.display = True
        self._search.display = False
        self._title.focus()
        self._title.action_end()
        self._show()

    def on_title_line_left(self, message: TitleLine.Left) -> None:
        """Take the title."""
        item = self._list.chosen
        title = message.title
        if item is not None and title is not None and title != one_line(item.row.title):
            row = item.row
            if not self._chat.attempt(lambda: self._session.rename_chat(row.id, title)):
                return
            assert self._shelf is not None
            self._renamed[row.id] = " ".join(title.split())
            self._shelf.rename(row.id, self._renamed[row.id])
        self._end_rename()

    def _end_rename(self) -> None:
        self._title.display = False
        self._search.display = True
        self._search.focus()
        self._show()
        self._preview_soon()

    def action_delete_here(self) -> None:
        """Delete the chosen chat, where the key deletes no character."""
        self.action_delete()

    def action_delete(self) -> None:
        """Delete the chosen chat; it can be restored."""
        item = self._list.chosen
        if item is None or self._shelf is None:
            return
        row = item.row
        if row.id == self._session.chat.id:
            self._chat.desk.save(row.id)
        if not self._chat.attempt(lambda: self._session.delete_chat(row.id)):
            return
        self._list.open_chat = self._session.chat.id
        self._shelf.delete(row.id)
        self._deletions.append(row)
        self._show()
        self._tell(f"Deleted “{fitted(title_of(row), TOLD_CELLS)}”; ^z brings it back")

    def action_undo(self) -> None:
        """Take back the last deletion; in the list of the deleted, that of the chosen one."""
        if self._shows_deleted:
            self.action_restore()
        elif self._deletions:
            self._restore(self._deletions.pop())

    def action_restore(self) -> None:
        """Bring the chosen deleted chat back."""
        item = self._list.chosen
        if item is not None:
            row = item.row
            self._deletions = [each for each in self._deletions if each.id != row.id]
            self._restore(row)

    def _restore(self, row: ChatRow) -> None:
        if self._shelf is None or row.id not in self._shelf.rows(deleted=True):
            return
        self._stored.restore(row.id)
        self._shelf.restore(row.id)
        self._show()
        places = [at for at, item in enumerate(self._list.items) if item.row.id == row.id]
        if places:
            self._list.choose(places[0])
        self._tell(f"Restored “{fitted(title_of(row), TOLD_CELLS)}”")

    def action_show_deleted(self) -> None:
        """Show the deleted chats, or those that are not."""
        self._shows_deleted = not self._shows_deleted
        self._found = None
        self._show(chosen=0)
        self._look_for(self._search.value)

    def action_export(self) -> None:
        """Write the chosen chat as Markdown."""
        item = self._list.chosen
        if item is not None:
            self.run_worker(self._export(item.row), group="export")

    async def _export(self, row: ChatRow) -> None:
        try:
            file = await asyncio.to_thread(export_chat, self._path, row.id, Path())
        except (HistoryError, ExportError) as error:
            self._chat.say(f"not exported: {error}")
        else:
            self._tell(f"Wrote {file.absolute()}")

    def action_back(self) -> None:
        """Go back to the chat; from the deleted chats to the list."""
        if self._shows_deleted:
            self.action_show_deleted()
        else:
            self.dismiss(None)

    def _tell(self, sentence: str) -> None:
        """Say what was done, instead of what was done before."""
        self.app.clear_notifications()
        self._chat.tell(sentence)
