"""The composer: a message of any number of lines, with the ones before at hand."""

import asyncio
import unicodedata
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets.text_area import Selection

from backend.chat.attachment import AttachmentError, read_attachment
from tui.slash import (
    Invocation,
    Parsed,
    PlainMessage,
    Refusal,
    SlashCommand,
    escaped,
    parse,
    ranked,
)
from tui.text import harmless, one_line
from tui.widgets.completion import Completion, CompletionList
from tui.widgets.folding import FoldingArea
from tui.widgets.pastes import OPENING, Draft, Fold, joined, size_words
from tui.widgets.recall import Recall


class Composer(FoldingArea):
    """Where messages are written. Enter sends; nothing that is written is lost.

    Attributes:
        commands: The slash commands; while there are none, a slash is only a character.
    """

    class Submitted(Message):
        """The user wants to send what is written; it stays until `accept` is called."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Invoked(Message):
        """The user wants to run a slash command; it stays until `accept_command` is called."""

        def __init__(self, command: SlashCommand, argument: str) -> None:
            super().__init__()
            self.command = command
            self.argument = argument

    class DraftChanged(Message):
        """What would be sent is another text than before."""

    class EditLeft(Message):
        """The user left the editing of a message; the former draft is back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "send", id="composer.send"),
        Binding(
            "ctrl+j,shift+enter,alt+enter",
            "newline",
            "newline",
            key_display="^j",
            id="composer.newline",
        ),
        Binding("pageup", "screen.scroll_chat(-1)", show=False, id="composer.page_up"),
        Binding("pagedown", "screen.scroll_chat(1)", show=False, id="composer.page_down"),
        Binding("alt+a", "select_all", show=False, id="composer.select_all"),
        Binding("up", "earlier", show=False, id="composer.earlier"),
        Binding("down", "later", show=False, id="composer.later"),
        Binding("escape", "leave_edit", "leave as it was", id="composer.leave_edit"),
    ]

    def __init__(self) -> None:
        super().__init__(id="composer")
        self.commands: Sequence[SlashCommand] = ()
        self._recall = Recall()
        self._announced = Draft()
        self._status = ""
        self._aside: Draft | None = None
        self._command: SlashCommand | None = None
        self._completions = CompletionList(self._take)
        self._dismissed = False
        self._wanted: tuple[SlashCommand, str, str] | None = None
        self._looking = False

    def on_mount(self) -> None:
        """Put the list of completions where it can stand above the composer."""
        assert isinstance(self.parent, Widget)
        self.parent.mount(self._completions, before=self)

    def set_status(self, status: str) -> None:
        """Show one line in the lower border, cut to the width."""
        if status != self._status:
            self._status = status
            self.border_subtitle = Content(one_line(status))

    # --------------------------------------------------------------- messages and drafts

    def remember(self, text: str) -> None:
        """Add a message to those that can be called back."""
        self._recall.remember(self._message(text))

    def remember_all(self, texts: Iterable[str]) -> None:
        """Add messages of before, oldest first, in front of those that can be called back."""
        self._recall.remember_before(map(self._message, texts))

    def accept(self) -> None:
        """What is written has been sent."""
        self._recall.remember(self.draft)
        if self.is_editing:
            self.end_edit()
        else:
            self.load_draft(Draft())

    def give_back(self, text: str) -> None:
        """A message was refused: put it back in front of what has been written since."""
        message = self._message(text)
        message = self._recall.find(message.full_text) or message
        written = self.draft
        if written.full_text.strip():
            message = joined([message, Draft(("\n",)), written])
        self.load_draft(message)

    def restore(self, stored: str) -> bool:
        """Write a draft again that was kept with `draft.to_json()`.

        Returns:
            Whether it was one; if not, nothing is changed.
        """
        try:
            draft = Draft.from_json(stored)
        except ValueError:
            return False
        self.load_draft(draft)
        return True

    def _message(self, text: str) -> Draft:
        return Draft((escaped(text, self.commands),))

    # --------------------------------------------------------------- editing a message

    @property
    def is_editing(self) -> bool:
        """Whether a message that was sent is being edited."""
        return self._aside is not None

    @property
    def draft_aside(self) -> Draft:
        """What is kept of the next message: the former draft while a sent one is edited."""
        return self.draft if self._aside is None else self._aside

    def begin_edit(self, label: str, text: str) -> None:
        """Write a sent message anew; the draft is kept aside.

        Args:
            label: What is done, such as `editing message 2`.
            text: The message.
        """
        if self._aside is None:
            self._aside = self.draft
        self.border_title = Content(f"{one_line(label)} · esc leaves it as it was")
        self.add_class("-editing")
        self.load_draft(self._message(text))
        self.refresh_bindings()

    def end_edit(self) -> None:
        """Go back to the draft that was kept aside."""
        if self._aside is None:
            return
        draft, self._aside = self._aside, None
        self.border_title = None
        self.remove_class("-editing")
        self.load_draft(draft)
        self.refresh_bindings()

    def action_leave_edit(self) -> None:
        """Leave the message as it was."""
        self.end_edit()
        self.post_message(self.EditLeft())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc is the composer's only while a message is edited."""
        if action == "leave_edit":
            return self.is_editing
        return super().check_action(action, parameters)

    # ---------------------------------------------------------------------------- keys

    async def _on_key(self, event: Key) -> None:
        """Leave Enter and Alt with a key to the bindings; both would be typed otherwise.

        The composer's own bindings run here and now: Textual would run them after the key has
        gone up to the screen, and what is typed meanwhile would come before them.
        """
        if self._completions.is_open and self._choose(event.key):
            event.stop()
            event.prevent_default()
            return
        own = None if event.is_printable else self.screen.active_bindings.get(event.key)
        if own is not None and own.node is self and own.enabled:
            event.prevent_default()
            # What does nothing here, as copying where nothing is selected, is for the others.
            if await self.app.run_action(own.binding.action, self):
                event.stop()
            return
        if event.key == "enter" or event.key.startswith("alt+"):
            event.prevent_default()
            return
        typed = event.character
        if typed is not None and unicodedata.category(typed) == "Cf":
            # Joiners of emoji and of Persian: not printable by themselves, but text.
            event.stop()
            event.prevent_default()
            self.insert(typed)
            return
        await super()._on_key(event)

    def action_submit(self) -> None:
        """Ask for sending, or for the command that is written."""
        match self._parsed():
            case PlainMessage(message):
                self.post_message(self.Submitted(message))
            case Invocation(command, argument):
                self._command = command
                self.post_message(self.Invoked(command, argument))
            case Refusal(sentence):
                self._warn(sentence)

    @property
    def message(self) -> str:
        """What enter would send; '' where it would run a command."""
        parsed = self._parsed()
        return parsed.text if isinstance(parsed, PlainMessage) else ""

    def _parsed(self) -> Parsed:
        text = self.full_text
        # What is folded is never a command.
        is_typed = self.document.get_line(0).startswith("/")
        return parse(text, self.commands) if is_typed else PlainMessage(text)

    def action_newline(self) -> None:
        """Begin a new line."""
        if not self.read_only:
            self.insert("\n")

    def action_earlier(self) -> None:
        """Up a line; from the first one, to the message before."""
        if self.cursor_location[0] > 0 or not self._step(-1):
            self.action_cursor_up()

    def action_later(self) -> None:
        """Down a line; from the last one, to the message after."""
        last = self.document.line_count - 1
        if self.cursor_location[0] < last or not self._step(1):
            self.action_cursor_down()

    def _step(self, by: int) -> bool:
        """Go to another message; what was changed here stays."""
        draft = None if self.is_editing else self._recall.step(by, self.draft)
        if draft is None:
            return False
        self.load_draft(draft)
        return True

    def _warn(self, sentence: str) -> None:
        self.notify(harmless(sentence), severity="warning", markup=False)

    # ------------------------------------------------------------------- slash commands

    def accept_command(self) -> None:
        """The command that was asked for has run: what is written below it stays."""
        command, self._command = self._command, None
        if command is None:
            return
        last = self.document.line_count - 1
        if command.lines or last == 0:
            self.clear()
        else:
            self.delete((0, 0), (1, 0))

    def attach(self, path: str) -> None:
        """Read a text file and put it, folded, in the place of the command that asked for it.

        A file that cannot be taken is named, and what is written stays.
        """
        command, self._command = self._command, None
        line = self.document.get_line(0) if command is not None else None
        self.run_worker(self._attach_file(path, line))

    async def _attach_file(self, path: str, line: str | None) -> None:
        try:
            fold = await asyncio.to_thread(_read_fold, path)
        except AttachmentError as error:
            self._warn(str(error))
            return
        if line is not None and self.document.get_line(0) == line:
            after = "\n" if self.document.line_count == 1 else ""
            self.insert_fold(fold, ((0, 0), (0, len(line))), after)
            self.move_cursor(self.document.end)
        else:
            self.insert_fold(fold)

    # ----------------------------------------------------------------------- completion

    def update_suggestion(self) -> None:
        """After each change of the text: tell of it, and complete a command."""
        super().update_suggestion()
        draft = self.draft
        if draft.parts != self._announced.parts:
            self._announced = draft
            if not self._is_unfolding:
                self.post_message(self.DraftChanged())
        self._complete()

    def watch_selection(self, before: Selection, selection: Selection) -> None:
        """Completions belong to the place at the end of the first line."""
        if before != selection:
            self._complete()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Completions, and the looks of what has the focus, are only where keys go."""
        super().watch_has_focus(has_focus)
        if has_focus:
            self._complete()
        else:
            self._completions.close()

    def _complete(self) -> None:
        """Show what the first line can become."""
        line = self.document.get_line(0)
        if not line.startswith("/"):
            self._dismissed = False
        if not self._is_completing(line):
            self._wanted = None
            self._completions.close()
            return
        name, space, argument = line[1:].partition(" ")
        if not space:
            self._show(self._command_completions(name))
            return
        command = next((each for each in self.commands if each.name == name), None)
        if command is None or command.complete is None:
            self._completions.close()
            return
        self._wanted = (command, argument, line)
        if not self._looking:
            self._looking = True
            self.run_worker(self._look())

    def _is_completing(self, line: str) -> bool:
        return (
            line.startswith("/")
            and not self._dismissed
            and not self.read_only
            and self.has_focus
            and OPENING not in line
            and self.selection == Selection.cursor((0, len(line)))
        )

    def _command_completions(self, name: str) -> list[Completion]:
        by_name = {command.name: command for command in self.commands}
        return [
            Completion(
                f"/{found} {by_name[found].hint or ''}".rstrip(),
                by_name[found].help,
                f"/{found}" if by_name[found].hint is None else f"/{found} ",
            )
            for found in ranked(name, by_name)
        ]

    async def _look(self) -> None:
        """Ask for what is wanted, one thing at a time: only the last answer counts."""
        try:
            while (wanted := self._wanted) is not None and wanted[0].complete is not None:
                command, argument, line = wanted
                found = await asyncio.to_thread(wanted[0].complete, argument)
                if self._wanted is wanted:
                    self._wanted = None
                    self._show(
                        [
                            Completion(each.text, each.help, f"/{command.name} {each.text}")
                            for each in found
                        ],
                        line,
                    )
        finally:
            self._looking = False

    def _show(self, completions: Sequence[Completion], line: str | None = None) -> None:
        if line is None or self._is_completing(line):
            self._completions.show(completions, self.region.y)

    def _choose(self, key: str) -> bool:
        """Take a key of the open list; False: it is none."""
        match key:
            case "up" | "down":
                self._completions.move(1 if key == "down" else -1)
            case "escape":
                self._dismissed = True
                self._wanted = None
                self._completions.close()
            case "tab":
                if self._wanted is None:
                    self._take(self._completions.chosen)
            case "enter":
                if self._is_complete(self.document.get_line(0)):
                    return False
                self._take(self._completions.chosen)
            case _:
                return False
        return True

    def _is_complete(self, line: str) -> bool:
        """Whether Enter runs the command as it is written, with the list open."""
        if self._wanted is not None:
            return True
        parsed = parse(line, self.commands)
        if not isinstance(parsed, Invocation):
            return False
        command, argument = parsed
        chosen = self._completions.chosen.line
        if chosen.rstrip() == line.rstrip():
            return True
        if self._completions.was_moved or " " not in line:
            return False
        return command.free or not argument or not chosen.casefold().startswith(line.casefold())

    def _take(self, completion: Completion) -> None:
        line = self.document.get_line(0)
        if completion.line != line:
            self.replace(completion.line, (0, 0), (0, len(line)), maintain_selection_offset=False)


def _read_fold(path: str) -> Fold:
    attachment = read_attachment(path)
    return Fold(f"{attachment.name}, {size_words(attachment.text)}", attachment.markdown)
