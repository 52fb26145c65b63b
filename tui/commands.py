"""Everything that can be done in the chat; keys, palette, slash commands and help read it here."""

from typing import Literal, NamedTuple

from textual.binding import Binding

from tui.panels import PANELS

Group = Literal["chat", "messages", "model", "view"]

GROUPS: dict[Group, str] = {
    "chat": "Chats",
    "messages": "Messages",
    "model": "Model",
    "view": "View",
}


class Command(NamedTuple):
    """Something that the user can do.

    Attributes:
        action: The action of the chat screen.
        keys: Keys, as Textual names them; '' where there is none.
        shown: The key as it is shown.
        title: In a few words.
        help: In a sentence.
        group: Where it stands in the help.
        footer: Word in the footer; None: not there.
        slash: Name of the slash command; None: there is none.
        hint: What the argument of the slash command is; None: it takes none.
    """

    action: str
    keys: str
    shown: str
    title: str
    help: str
    group: Group = "view"
    footer: str | None = None
    slash: str | None = None
    hint: str | None = None


COMMANDS = (
    Command(
        "stop",
        "escape",
        "esc",
        "Stop",
        "Stop the answer, or close what is open.",
        "messages",
        "stop, close",
    ),
    Command(
        "regenerate",
        "ctrl+r",
        "^r",
        "Rerun",
        "Answer the last message again; the answer before stays as another version.",
        "messages",
        "rerun",
        "retry",
    ),
    Command(
        "resume",
        "ctrl+g",
        "^g",
        "Go on",
        "Go on with an answer that was cut off.",
        "messages",
        slash="continue",
    ),
    Command(
        "edit_last",
        "alt+e",
        "alt+e",
        "Edit",
        "Change your last message (or the N-th) and have it answered on a new branch.",
        "messages",
        slash="edit",
        hint="[N]",
    ),
    Command(
        "step_version(-1)",
        "alt+left",
        "alt+←",
        "Older version",
        "Of the last message that has several versions, go to the one before.",
        "messages",
    ),
    Command(
        "step_version(1)",
        "alt+right",
        "alt+→",
        "Newer version",
        "Go to the version after.",
        "messages",
    ),
    Command(
        "copy",
        "alt+c",
        "alt+c",
        "Copy",
        "Copy the last answer, or its N-th block of code, to the clipboard.",
        "messages",
        slash="copy",
        hint="[N]",
    ),
    Command(
        "find",
        "ctrl+f",
        "^f",
        "Find",
        "Find text in this chat.",
        "messages",
        slash="find",
        hint="[TEXT]",
    ),
    Command(
        "file",
        "",
        "",
        "File",
        "Put a text file into the message.",
        "messages",
        slash="file",
        hint="PATH",
    ),
    Command(
        "new_chat",
        "ctrl+n",
        "^n",
        "New chat",
        "Leave this chat (it is stored) for a new one.",
        "chat",
        "new",
        "new",
    ),
    Command(
        "show_chats",
        "ctrl+o",
        "^o",
        "Chats",
        "All chats: search them, go on with one, rename, delete, export.",
        "chat",
        "chats",
        "chats",
        "[TEXT]",
    ),
    Command(
        "continue_last_chat",
        "alt+l",
        "alt+l",
        "Last chat",
        "Go on with the chat before this one.",
        "chat",
        slash="last",
    ),
    Command(
        "title",
        "",
        "",
        "Title",
        "Give this chat another title.",
        "chat",
        slash="title",
        hint="TEXT",
    ),
    Command(
        "export",
        "",
        "",
        "Export",
        "Write this chat with its figures to a Markdown file.",
        "chat",
        slash="export",
        hint="[PATH]",
    ),
    Command(
        "show_behaviour",
        "f6",
        "F6",
        "Behaviour",
        "System prompt and sampling of this chat.",
        "model",
        slash="behaviour",
    ),
    Command(
        "system",
        "",
        "",
        "System prompt",
        "Choose a preset by its name (none: no prompt), or give the text; alone it shows all.",
        "model",
        slash="system",
        hint="[TEXT]",
    ),
    Command(
        "set",
        "",
        "",
        "Sampling",
        "Set a sampling setting of this chat: /set temp 0.2; /set temp default forgets it.",
        "model",
        slash="set",
        hint="[NAME VALUE]",
    ),
    Command(
        "model",
        "",
        "",
        "Model",
        "Load another GGUF file under this chat.",
        "model",
        slash="model",
        hint="PATH",
    ),
    Command(
        "restart_engine",
        "f5",
        "F5",
        "Start the engine again",
        "Load the model again, after the engine ended or could not load.",
        "model",
        "start engine",
        "restart",
    ),
    Command(
        "use_template('chatml')",
        "f8",
        "F8",
        "Use the ChatML template",
        "For a chat model whose file has no chat template.",
        "model",
        "use ChatML",
    ),
    Command(
        "use_template('completion')",
        "shift+f8",
        "shift+F8",
        "Plain completion",
        "For a base model: it writes on where your text ends, without a template.",
        "model",
        "completion",
    ),
    Command(
        "drop_cache",
        "f9",
        "F9",
        "Drop the KV cache",
        "The next turn is cold: all is prefilled.",
        "model",
        slash="drop",
    ),
    Command("show_log", "ctrl+l", "^l", "Log", "What llama.cpp says.", "model", slash="log"),
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
    Command("browse", "shift+tab", "tab", "Messages", "Choose a message to copy, edit, rerun."),
    Command(
        "show_settings",
        "f7",
        "F7",
        "Settings",
        "Themes, keys, defaults; kept in settings.toml.",
        footer=None,
        slash="settings",
    ),
    Command("theme", "", "", "Theme", "Choose a theme.", slash="theme", hint="[NAME]"),
    Command("tour", "", "", "Tour", "The panels, one after the other, explained.", slash="tour"),
    Command(
        "help",
        "f1",
        "F1",
        "Help",
        "Keys, and what each figure means.",
        footer="help",
        slash="help",
    ),
    Command("quit", "", "", "Quit", "Leave phasescope; everything is stored.", slash="quit"),
)

TYPING = (
    ("enter", "send"),
    ("^j, shift+enter", "new line"),
    ("↑ ↓", "earlier and later messages"),
    ("/", "commands, with tab to complete them"),
    ("alt+a", "select all that is written"),
    ("alt+u, click", "show a folded paste to edit it"),
    ("tab", "to the messages and back"),
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
            # Textual's text area has F5 to F7 for selecting; it would get them first.
            priority=command.keys in {"f5", "f6", "f7"},
            id=f"chat.{binding_name(command.action)}",
        )
        for command in COMMANDS
        if command.keys
    ]


def binding_name(action: str) -> str:
    """An action as a name that stands in a key map: `open_panel(1)` is `open_panel.1`."""
    name, _, argument = action.rstrip(")").partition("(")
    return f"{name}.{argument.strip(chr(39))}" if argument else name
