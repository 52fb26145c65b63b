"""Lines to write in beside a list: what is looked for, and another title."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from tui.text import one_line

TAKEN = {"enter", "ctrl+d", "ctrl+e", "ctrl+x"}
"""Keys of a line to write in that have another meaning here."""


class PlainInput(Input, inherit_bindings=False):
    """A line to write in that shows what terminals would obey as pictures.

    It leaves the keys to the screen that this has a use for.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            binding
            for binding in Input.BINDINGS
            if isinstance(binding, Binding) and not TAKEN & set(binding.key.split(","))
        ),
        Binding("end", "end", "end", show=False),
        Binding("delete", "delete_right", "delete", show=False),
    ]

    def validate_value(self, value: str) -> str:
        """Take nothing that is not text of one line."""
        return one_line(value)


class TitleLine(PlainInput):
    """The line in which a chat gets another title."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "save", "save the title", id="chat_title.save"),
        Binding("escape", "leave", "leave it as it was", key_display="esc", id="chat_title.leave"),
    ]

    class Left(Message):
        """The title is written; None: it stays as it was."""

        def __init__(self, title: str | None) -> None:
            super().__init__()
            self.title = title

    def action_save(self) -> None:
        """Give the chat this title."""
        self.post_message(self.Left(self.value))

    def action_leave(self) -> None:
        """Leave the title as it was."""
        self.post_message(self.Left(None))
