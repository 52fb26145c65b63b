"""Everything that can be done in the chat: keys, palette and help read this one table."""

from typing import NamedTuple

from textual.binding import Binding

from tui.panels import PANELS


class Command(NamedTuple):
    """Something that the user can do.

    Attributes:
        action: The action of the chat screen.
        keys: Keys, as Textual names them.
        shown: The key as it is shown.
        title: In a few words.
        help: In a sentence.
        footer: Word in the footer; None: not there.
    """

    action: str
    keys: str
    shown: str
    title: str
    help: str
    footer: str | None = None


COMMANDS = (
    Command("stop", "escape", "esc", "Stop", "Stop the answer, or close an open panel.", "stop"),
    Command(
        "regenerate",
        "ctrl+r",
        "^r",
        "Rerun",
        "Answer the last message again; the answer before stays stored.",
        "rerun",
    ),
    Command(
        "new_chat",
        "ctrl+n",
        "^n",
        "New chat",
        "Leave this chat (it is stored) for a new one.",
        "new",
    ),
    Command("show_log", "ctrl+l", "^l", "Log", "What llama.cpp says.", "log"),
    Command(
        "restart_engine",
        "f5",
        "F5",
        "Start the engine again",
        "Load the model again, after the engine ended or could not load.",
        "start engine",
    ),
    Command(
        "use_chatml",
        "f8",
        "F8",
        "Use the ChatML template",
        "For a model whose file has no chat template.",
        "use ChatML",
    ),
    Command(
        "drop_cache",
        "f9",
        "F9",
        "Drop the KV cache",
        "The next turn is cold: all is prefilled.",
    ),
    *(
        Command(
            f"open_panel({number})",
            f"alt+{number}",
            f"alt+{number}",
            f"Panel {kind.title}",
            f"Show {kind.title} large, or close it.",
        )
        for number, kind in enumerate(PANELS, start=1)
    ),
    Command("help", "f1", "F1", "Help", "Keys, and what each figure means.", "help"),
)

TYPING = (
    ("enter", "send"),
    ("^j, shift+enter", "new line"),
    ("↑ ↓", "earlier and later messages"),
    ("pgup, pgdn", "scroll the chat"),
    ("^p", "all commands; themes, a picture of the screen"),
    ("^q", "quit; everything is stored"),
)
"""Keys of the composer and of Textual, for the help."""


def bindings() -> list[Binding]:
    """The commands' keys."""
    return [
        Binding(
            command.keys,
            command.action,
            command.footer or command.title,
            show=command.footer is not None,
            key_display=command.shown,
            id=f"chat.{command.action}",
        )
        for command in COMMANDS
    ]
