"""The composer: a message of any number of lines, with the ones before at hand."""

import unicodedata
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea

from tui.text import harmless


class Composer(TextArea):
    """Where messages are written. Enter sends; nothing that is written is lost."""

    class Submitted(Message):
        """The user wants to send what is written; it stays until `accept` is called."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

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
        Binding("up", "earlier", show=False, id="composer.earlier"),
        Binding("down", "later", show=False, id="composer.later"),
    ]

    def __init__(self) -> None:
        super().__init__(
            id="composer",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
        )
        # A blinking cursor wakes the window, and takes a core from decode, twice a second.
        self.cursor_blink = False
        self._sent: list[str] = []
        self._place = 0
        self._edited: dict[int, str] = {}

    def remember(self, text: str) -> None:
        """Add a message to those that can be called back."""
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self._place = len(self._sent)
        self._edited.clear()

    def accept(self) -> None:
        """What is written has been sent."""
        self.remember(self.text)
        self.clear()

    def give_back(self, text: str) -> None:
        """A message was refused: put it back in front of what has been written since."""
        written = self.text
        self.load_text(f"{text}\n{written}" if written.strip() else text)
        self.move_cursor(self.document.end)

    def get_line(self, line_index: int) -> Text:
        """A line as it is shown: pasted control characters as pictures."""
        return Text(harmless(self.document.get_line(line_index)), end="", no_wrap=True)

    async def _on_key(self, event: Key) -> None:
        """Leave Enter and Alt with a key to the bindings; both would be typed otherwise."""
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
        """Ask for sending."""
        self.post_message(self.Submitted(self.text))

    def action_newline(self) -> None:
        """Begin a new line."""
        self.insert("\n")

    def action_earlier(self) -> None:
        """Up a line; from the first one, to the message before."""
        if self.cursor_location[0] > 0 or self._place == 0:
            self.action_cursor_up()
            return
        self._show(self._place - 1)

    def action_later(self) -> None:
        """Down a line; from the last one, to the message after."""
        last = self.document.line_count - 1
        if self.cursor_location[0] < last or self._place >= len(self._sent):
            self.action_cursor_down()
            return
        self._show(self._place + 1)

    def _show(self, place: int) -> None:
        """Go to a message, or behind the last one to the draft; what was changed here stays."""
        self._edited[self._place] = self.text
        self._place = place
        sent = self._sent[place] if place < len(self._sent) else ""
        self.load_text(self._edited.get(place, sent))
        self.move_cursor(self.document.end)
