"""The line in which a text to find is written."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class FindBar(Horizontal):
    """A text to find, and which of how many places is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # The text's own key for enter would get it first.
        Binding(
            "enter,up,ctrl+f", "step(1)", "older", key_display="↑", priority=True, id="find.older"
        ),
        Binding("shift+enter,down", "step(-1)", "newer", key_display="↓", id="find.newer"),
        Binding("escape", "close", "close", id="find.close"),
    ]

    class Changed(Message):
        """Another text is to be found."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Stepped(Message):
        """Another place is wanted: an older (1) or a newer one (-1)."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Closed(Message):
        """The user has found what was looked for, or not."""

    def __init__(self) -> None:
        super().__init__(id="find")
        self._input = Input(placeholder="Find in this chat", compact=True, id="find-text")
        self._input.cursor_blink = False
        self._count = Static("", id="find-count", markup=False)

    def compose(self) -> ComposeResult:
        """The text and the count."""
        yield Static("find ", id="find-label", markup=False)
        yield self._input
        yield self._count

    def open(self, text: str | None) -> None:
        """Show it, with another text if one is given."""
        self.display = True
        if text is not None:
            self._input.value = text
        self._input.focus()
        self.post_message(self.Changed(self._input.value))

    def show_count(self, current: int, found: int, *, complete: bool) -> None:
        """Say which place of how many is shown; there may be more while it is not complete."""
        if not self._input.value.strip():
            words = ""
        elif not found:
            words = "nothing found" if complete else "…"
        else:
            words = f"{current} of {found}{'' if complete else '+'}"
        self._count.update(Content(words))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Look for the new text."""
        event.stop()
        self.post_message(self.Changed(event.value))

    def action_step(self, by: int) -> None:
        """Ask for another place."""
        self.post_message(self.Stepped(by))

    def action_close(self) -> None:
        """Hide it."""
        self.display = False
        self.post_message(self.Closed())
