"""Slash commands: the table of commands as the composer completes and runs it."""

from collections.abc import Callable, Mapping, Sequence

from backend.settings import SamplingChoice
from tui.commands import COMMANDS
from tui.config.kinds import SettingError
from tui.config.presets import all_presets
from tui.config.schema import BY_ID, Settings, names_of
from tui.paths import suggest_models, suggest_paths
from tui.screens.acting import ActingScreen
from tui.slash import Completer, SlashCommand, Suggestion, ranked

SAMPLING = "sampling"

FORGET = "default"
"""Stands for a value that is left to whoever is asked next."""

FREE = ("system", "set", "export", "find", "chats")
"""Commands whose argument can be new: Enter runs what is written, whatever is suggested."""


LONGEST_NAME = 40
"""Characters of a name that is none, as far as it is named."""

MOST_DIGITS = 9
"""No chat has a message whose number has more."""


def slash_commands(settings: Settings, themes: Sequence[str]) -> list[SlashCommand]:
    """The commands that can be written, with what their arguments can be.

    Args:
        settings: The user's settings, with the presets of system prompts.
        themes: Names of the themes.
    """
    completers: Mapping[str, Completer] = {
        "file": suggest_paths,
        "model": suggest_models,
        "export": suggest_paths,
        "theme": _one_of(dict.fromkeys(themes, "")),
        "system": _one_of(all_presets(settings.presets)),
        "set": _one_of({name: BY_ID[f"{SAMPLING}.{name}"].help for name in names_of(SAMPLING)}),
    }
    return [
        SlashCommand(
            command.slash,
            command.hint,
            command.help,
            completers.get(command.slash),
            lines=command.slash == "system",
            free=command.slash in FREE,
        )
        for command in COMMANDS
        if command.slash is not None
    ]


def _one_of(names: Mapping[str, str]) -> Completer:
    def complete(typed: str) -> list[Suggestion]:
        return [Suggestion(name, names[name]) for name in ranked(typed, names)]

    return complete


def run_slash(screen: ActingScreen, name: str, argument: str) -> None:
    """Run a command as it was written, and take it out of the composer unless it is refused."""
    if name == "file":
        screen.composer.attach(argument)
        return
    with_argument: Mapping[str, Callable[[str], bool | None]] = {
        "edit": lambda text: _numbered(screen, screen.action_edit_last, text),
        "copy": lambda text: _numbered(screen, screen.action_copy, text),
        "find": lambda text: screen.action_find(text or None),
        "chats": screen.action_show_chats,
        "title": screen.action_title,
        "export": screen.action_export,
        "system": lambda text: set_system(screen, text),
        "set": lambda text: set_sampling(screen, text),
        "model": screen.action_model,
        "theme": screen.action_theme,
    }
    # It goes first: a command may put something else into the composer.
    written = screen.composer.draft
    screen.composer.accept_command()
    act = with_argument.get(name)
    if act is not None:
        if act(argument) is False:
            screen.composer.load_draft(written)
        return
    command = next(each for each in COMMANDS if each.slash == name)
    screen.run_worker(screen.run_action(command.action))


def _numbered(screen: ActingScreen, act: Callable[[int | None], None], text: str) -> None:
    if not text:
        act(None)
    elif text.isdecimal() and len(text) <= MOST_DIGITS:
        act(int(text))
    else:
        screen.say(f"“{text[:20]}” is no number")


def set_system(screen: ActingScreen, text: str) -> bool:
    """Change the system prompt of the chat: a preset's name or a text; was it done?

    Without either it is only looked at.
    """
    presets = all_presets(screen.start.loaded.settings.presets)
    if not text:
        screen.action_show_behaviour()
        return True
    system = presets.get(text, text) or None
    done = screen.attempt(lambda: screen.session.set_system(system))
    if done:
        which = f"the preset {text}" if text in presets else "set"
        screen.tell(f"The system prompt of this chat is {which} now; the next turn prefills it all")
    return done


def set_sampling(screen: ActingScreen, text: str) -> bool:
    """Change a sampling setting of the chat: `NAME VALUE`; was it done?

    `NAME default` forgets what the chat had chosen; `NAME` alone says what holds, and nothing
    shows all settings.
    """
    name, _, value = text.partition(" ")
    if not name:
        screen.action_show_behaviour()
        return True
    setting = BY_ID.get(f"{SAMPLING}.{name}")
    if setting is None:
        known = ", ".join(names_of(SAMPLING))
        screen.say(f"there is no sampling setting {name[:LONGEST_NAME]}; there are {known}")
        return False
    if value.strip():
        chosen = dict(screen.session.chat.sampling.chosen)
        chosen.pop(name, None)
        try:
            if value.strip() != FORGET:
                chosen[name] = setting.kind.read(value.strip())
        except SettingError as error:
            screen.say(f"{name} {error}")
            return False
        screen.session.set_chat_sampling(SamplingChoice(**chosen))
        screen.tick()
    settled = getattr(screen.session.settled_sampling, name)
    screen.tell(f"{name} is {setting.kind.plain(settled)} in this chat")
    return True
