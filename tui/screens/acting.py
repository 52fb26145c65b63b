"""What the commands of the chat do, each by the name that the table of commands gives it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from textual.screen import Screen

from backend.chat.tree import Node
from backend.history import HistoryError
from backend.paths import at_home
from backend.session import Session, SessionError
from models.errors import ModelFileError
from models.sniff import check_file
from tui.clipboard import copy
from tui.config.start import WindowStart
from tui.export import ExportError, as_markdown, file_name, write_file
from tui.paths import model_path
from tui.screens.drafting import DraftDesk
from tui.screens.help import chat_help
from tui.screens.log import LogScreen
from tui.screens.tour import TourScreen
from tui.text import harmless, one_line
from tui.widgets.browser import Browser
from tui.widgets.composer import Composer
from tui.widgets.dashboard import Dashboard
from tui.widgets.find_bar import FindBar
from tui.widgets.markdown import code_blocks

LONGEST_TOLD = 400
"""Characters of what is said in a toast at most."""


class ActingScreen(Screen[None]):
    """The actions of the chat, on widgets that the screen puts together.

    Args:
        session: What is driven.
        start: What the window starts with.
    """

    def __init__(self, session: Session, start: WindowStart) -> None:
        super().__init__(id="chat")
        self.session = session
        self.start = start
        self.browser = Browser()
        self.composer = Composer()
        self.dashboard = Dashboard()
        self.find_bar = FindBar()
        self.desk = DraftDesk(session, self.composer)
        self.open_panel: int | None = None
        self._copied: tuple[str, int] | None = None

    def tick(self) -> None:
        """Take in what has come and show it."""
        raise NotImplementedError

    @property
    def is_loading(self) -> bool:
        """Whether an engine starts or a model is loaded."""
        return self.session.snapshot().engine in ("starting", "loading")

    # ------------------------------------------------------------------------- the answer

    def action_stop(self) -> None:
        """Stop the answer or the load; else close the open panel."""
        if self.session.busy or self.is_loading:
            self.session.cancel()
            self.tick()
        elif self.open_panel is not None:
            self.action_open_panel(self.open_panel)

    def action_regenerate(self) -> None:
        """Answer the last message again."""
        self.attempt(self.session.regenerate)

    def action_resume(self) -> None:
        """Go on with an answer that was cut off."""
        self.attempt(self.session.resume)

    def action_edit_last(self, number: int | None = None) -> None:
        """Edit the last message of the user, or the `number`-th."""
        users = [node for node in self.session.chat.path() if node.role == "user"]
        at = len(users) if number is None else number
        if 1 <= at <= len(users):
            self.edit_message(users[at - 1].id)
        elif not users:
            self.say("there is no message of yours to edit yet")
        else:
            self.say(f"there is no message {at}; the chat has {len(users)} of yours")

    def edit_message(self, node_id: str) -> None:
        """Edit a message of the user."""
        if self.session.busy:
            self.say("an answer is still coming; stop it first, or wait for its end")
        else:
            self.desk.begin_edit(node_id)

    def action_step_version(self, by: int) -> None:
        """Go to another version of the last message that has several."""
        chat = self.session.chat
        for node in reversed(chat.path()):
            if len(chat.versions(node.id)) > 1:
                self.go_to_version(node, by)
                return
        self.say("no message of this chat has another version")

    def go_to_version(self, node: Node, by: int) -> None:
        """Go to another version of a message."""
        versions = self.session.chat.versions(node.id)
        at = versions.index(node.id) + by
        if not 0 <= at < len(versions):
            self.say(f"this is the {'oldest' if by < 0 else 'newest'} version")
            return
        if self.attempt(lambda: self.session.go_to(versions[at])):
            self.browser.choose_message(versions[at])

    def action_copy(self, number: int | None = None) -> None:
        """Copy the last answer, or its `number`-th block of code."""
        answers = [node for node in self.session.conversation() if node.node.role == "assistant"]
        if not answers:
            self.say("there is no answer to copy yet")
            return
        node = answers[-1].node
        text = self.browser.text_of(node.id)
        if number is None:
            self.copy_text(text, "the answer")
        else:
            self.copy_block(node.id, text, number)

    def copy_block(self, node_id: str, text: str, number: int | None = None) -> None:
        """Copy a block of code; without a number the next one each time."""
        blocks = code_blocks(text)
        if not blocks:
            self.say("this message has no block of code")
            return
        if number is None:
            before = self._copied
            number = before[1] % len(blocks) + 1 if before and before[0] == node_id else 1
        if not 1 <= number <= len(blocks):
            self.say(f"there is no block {number}; the message has {len(blocks)}")
            return
        self._copied = (node_id, number)
        block = blocks[number - 1]
        kind = f" ({block.language})" if block.language else ""
        self.copy_text(block.text, f"block {number} of {len(blocks)}{kind}")

    def copy_text(self, text: str, what: str) -> None:
        """Copy a text and say so."""
        copy(self.app, text)
        self.tell(f"Copied {what}: {len(text):,} characters")

    # -------------------------------------------------------------------------- the chat

    def action_new_chat(self) -> None:
        """Begin another chat."""
        self.desk.save(self.session.chat.id)
        self.attempt(self.session.new_chat)

    def action_continue_last_chat(self) -> None:
        """Go on with the chat that was used before this one."""
        stored = self.session.stored
        try:
            row = None if stored is None else stored.last(besides=self.session.chat.id)
        except HistoryError as error:
            self.say(str(error))
            return
        if row is None:
            self.say("there is no other chat yet")
        else:
            self.open_stored(row.id)

    def open_stored(self, chat_id: str) -> None:
        """Go on with a stored chat."""
        stored = self.session.stored
        if stored is None or chat_id == self.session.chat.id:
            return
        self.desk.save(self.session.chat.id)

        def open_it() -> None:
            self.session.open_chat(stored.history.load_chat(chat_id))

        self.attempt(open_it)

    def action_title(self, title: str) -> bool:
        """Give this chat another title; whether it has it now."""
        if not len(self.session.chat):
            self.say("this chat has no message yet; its first one will be its title")
            return False
        done = self.attempt(lambda: self.session.rename_chat(self.session.chat.id, title))
        if done:
            self.tell(f"This chat is called “{one_line(self.session.chat.title)}” now")
        return done

    def action_show_chats(self, text: str = "") -> None:
        """Show all chats."""
        # Imported only here: the window opens without it.
        from tui.screens.chats import ChatsScreen  # noqa: PLC0415

        def show(node_id: str | None) -> None:
            if node_id is not None:
                self.browser.focus()
                self.call_after_refresh(self.browser.choose_message, node_id)

        def open_list() -> None:
            self.app.push_screen(ChatsScreen(self, text), show)

        self.attempt(open_list)

    def action_export(self, path: str = "") -> None:
        """Write this chat as Markdown."""
        chat = self.session.chat
        if not len(chat):
            self.say("this chat has no message to export yet")
            return
        records = {
            record.id: record for said in self.session.conversation() for record in said.records
        }
        target = at_home(path) if path else Path(file_name(chat.title, chat.id))
        text = as_markdown(chat, records)

        async def write() -> None:
            try:
                await asyncio.to_thread(write_file, target, text)
            except ExportError as error:
                self.say(f"not exported: {error}")
            else:
                self.tell(f"Wrote {target.absolute()}")

        self.run_worker(write(), name="export")

    # -------------------------------------------------------------------------- the model

    def action_drop_cache(self) -> None:
        """Empty the KV cache."""
        self.attempt(self.session.drop_cache)

    def action_restart_engine(self) -> None:
        """Load the model again."""
        self.attempt(self.session.restart_engine)

    def action_use_template(self, name: str) -> None:
        """Go on with one of our templates."""
        self.attempt(lambda: self.session.use_template(name))

    def action_model(self, path: str) -> bool:
        """Load another model under this chat; whether that could begin.

        A file that is no model leaves what is loaded.
        """

        def load() -> None:
            choice = self.session.chosen_model
            wanted = model_path(path)
            check_file(wanted)
            self.session.load(choice._replace(path=str(wanted), chat_template=None))

        try:
            return self.attempt(load)
        except FileNotFoundError:
            self.say("the current folder is gone; give the whole path of the model")
        except ModelFileError as error:
            self.say(f"no other model is loaded: {error}")
        return False

    def action_show_behaviour(self) -> None:
        """Show system prompt and sampling."""
        if self.session.replaying:
            self.say("a recording is played back; how it behaves was settled then")
            return
        # The start has no use for it.
        from tui.screens.behaviour import BehaviourScreen  # noqa: PLC0415

        self.app.push_screen(BehaviourScreen(self))

    def action_show_settings(self) -> None:
        """Show all settings."""
        from tui.screens.settings import SettingsScreen  # noqa: PLC0415

        self.app.push_screen(SettingsScreen(self))

    def action_show_log(self) -> None:
        """Show llama.cpp's log."""
        self.app.push_screen(LogScreen(self.session))

    # --------------------------------------------------------------------------- the view

    def action_open_panel(self, number: int) -> None:
        """Show one panel in the place of chat and dashboard, or close it."""
        self.open_panel = None if number == self.open_panel else number
        self.set_class(self.open_panel is not None, "-panel")
        self.dashboard.open(self.open_panel)
        self.refresh_bindings()
        self.call_after_refresh(self.tick)

    def action_help(self) -> None:
        """Explain the chat: its keys, commands and figures."""
        keymap = self.start.loaded.settings.keys
        self.app.push_screen(chat_help(self, self.session.snapshot(), keymap, self.open_panel))

    def action_tour(self) -> None:
        """Explain the panels one after the other."""
        self.app.push_screen(TourScreen(self.session))

    def action_find(self, text: str | None = None) -> None:
        """Open the line in which a text to find is written."""
        self.find_bar.open(text)

    def action_browse(self) -> None:
        """Go to the messages."""
        self.browser.focus()

    def action_leave_messages(self) -> None:
        """Go from the messages to the composer; while an answer comes, Esc stops it instead."""
        self.composer.focus()

    def action_write(self) -> None:
        """Go to the composer."""
        self.composer.focus()

    def action_begin_command(self, name: str) -> None:
        """Write the beginning of a slash command before what is written."""
        if self.composer.read_only:
            self.say("a recording is played back; it takes no commands that are written")
            return
        written = self.composer.text
        start = f"/{name} "
        self.composer.insert(f"{start}\n" if written else start, (0, 0))
        self.composer.move_cursor((0, len(start)))
        self.composer.focus()

    def action_scroll_chat(self, pages: int) -> None:
        """Scroll the conversation by half pages."""
        self.browser.scroll_pages(pages / 2)

    def action_theme(self, name: str = "") -> None:
        """Choose a theme by its name, or from a list."""
        if not name:
            self.app.search_themes()
        elif name in self.app.available_themes:
            self.app.theme = name
        else:
            self.say(f"there is no theme {one_line(name)}")

    def action_quit(self) -> None:
        """Leave phasescope."""
        self.app.exit()

    # ----------------------------------------------------------------------------- saying

    def attempt(self, act: Callable[[], None]) -> bool:
        """Do something that may not be possible now; whether it was."""
        try:
            act()
        except (SessionError, HistoryError) as error:
            self.say(str(error))
            return False
        self.tick()
        return True

    def say(self, sentence: str) -> None:
        """Say why something is not done."""
        text = _brief(sentence)
        self.notify(text[:1].upper() + text[1:] + ".", markup=False, severity="warning")

    def tell(self, sentence: str) -> None:
        """Say what was done."""
        self.notify(_brief(sentence) + ".", markup=False)


def _brief(sentence: str) -> str:
    """A sentence as a toast has room for it, whatever it quotes."""
    text = harmless(sentence)
    return text if len(text) <= LONGEST_TOLD else f"{text[: LONGEST_TOLD - 1]}…"
