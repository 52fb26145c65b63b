"""Settings: every one of them with where it is from, edited in place and saved at once."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import UNSET
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static

from backend.session import ModelChoice, SessionError
from backend.session.choice import TemplateFileError, template_text
from tui.commands import COMMANDS, binding_name
from tui.config.change import NotSavedError, in_file, refusal, value_of
from tui.config.edited import fault, shown, typed
from tui.config.kinds import Choice, SettingError, Stored, Switch, quoted
from tui.config.load import DEFAULT, Loaded, Origin
from tui.config.schema import BY_ID, SETTINGS, Setting
from tui.paths import model_path
from tui.saving import keep
from tui.screens.acting import ActingScreen
from tui.text import harmless, one_line
from tui.widgets.key_footer import KeyFooter
from tui.widgets.setting_rows import Row, Section, SettingRows

if TYPE_CHECKING:
    from tui.app import PhasescopeApp

TITLES = {
    "model": "Model: acts when it is loaded",
    "chat": "Chat: how a new one begins",
    "window": "Window",
    "keys": "Keys",
}
"""The sections that stand here; sampling and presets have a screen of their own."""

THEME = "window.theme"

PREVIEW_S = 0.06
"""How long a theme is looked at before the window takes it on: the list may be rushed through."""

LATER = {
    "chat.system": "Acts on new chats from the next start on.",
    "chat.offer_last_chat": "Acts at the next start.",
}


class SearchLine(Input):
    """The text that rows are filtered by; it has the focus while nothing is edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.change", "change", id="settings.change"),
        Binding("up", "screen.move(-1)", "move", key_display="↑↓", id="settings.up"),
        Binding("down", "screen.move(1)", "down", show=False, id="settings.down"),
        Binding(
            "pageup", "screen.page(-1)", "page", key_display="pgup pgdn", id="settings.page_up"
        ),
        Binding("pagedown", "screen.page(1)", "page down", show=False, id="settings.page_down"),
        Binding("ctrl+home", "screen.move(-9999)", "first", show=False, id="settings.first"),
        Binding("ctrl+end", "screen.move(9999)", "last", show=False, id="settings.last"),
    ]


class SettingsScreen(Screen[None]):
    """All settings but sampling.

    Args:
        chat: The chat under it, with the session.

    Attributes:
        previews_theme: A theme is looked at that is not chosen yet.
    """

    HELP: ClassVar[str] = (
        "F7 shows every setting with its value and where that is from: the default, a line of "
        "settings.toml, an environment variable or a flag; the last two come before the file, so "
        "what they set cannot be changed here. Type to find a setting, enter changes it where it "
        "stands, ^r goes back to the default, ^z takes the last change back. Each change is "
        "written to settings.toml at once and keeps the file's comments; a file that is broken is "
        "left alone. Themes show while you move through their list. Model settings act when the "
        "model is loaded: ^l does that. For a key, enter and then the new key."
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", key_display="esc", id="settings.back"),
        Binding("f7", "leave", "back", show=False, id="settings.leave"),
        Binding("ctrl+r", "default", "default", key_display="^r", id="settings.default"),
        Binding("ctrl+z", "undo", "undo", key_display="^z", id="settings.undo"),
        Binding("ctrl+l", "load", "load the model", key_display="^l", id="settings.load"),
    ]
    AUTO_FOCUS = "#settings-search"

    app: "PhasescopeApp"

    def __init__(self, chat: ActingScreen) -> None:
        super().__init__()
        self._chat = chat
        self._search = SearchLine(
            placeholder="Type to find a setting", compact=True, id="settings-search"
        )
        self._search.cursor_blink = False
        self._rows = SettingRows(can_focus=False, id="settings-rows")
        self._detail = Static("", id="settings-detail", markup=False)
        self._bindings_by_id: dict[str, str] = {}
        self._binding_words: dict[str, str] = {}
        self._undo: list[tuple[str, Stored]] = []
        self._unloaded: set[str] = set()
        self._preview: Timer | None = None
        self._theme_before = ""
        self.previews_theme = False

    def compose(self) -> ComposeResult:
        """What to find, the rows, what the current one means, and the keys."""
        yield Static("", id="settings-title", markup=False)
        yield self._search
        yield self._rows
        yield self._detail
        yield KeyFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show what is known at once, and the keys when they are gathered."""
        title = f" Settings · {one_line(str(self._loaded.path))}"
        self.query_one("#settings-title", Static).update(Content(title))
        self._show()
        self.run_worker(self._gather_keys(), name="gather the keys")

    async def _gather_keys(self) -> None:
        # It imports every screen and widget.
        from tui.config.known import bindings_of_the_window  # noqa: PLC0415

        found = await asyncio.to_thread(bindings_of_the_window)
        self._bindings_by_id = dict(sorted(found.items()))
        self._binding_words = binding_words()
        self._show()

    # ------------------------------------------------------------------------ what is shown

    @property
    def _loaded(self) -> Loaded:
        return self.app.start.loaded

    def _show(self) -> None:
        words = self._search.value.lower().split()
        loaded = self._loaded
        sections: list[Section] = []
        if loaded.problems and not words:
            sections.append(Section("Problems", (), loaded.problems))
        for section, title in TITLES.items():
            rows = self._key_rows(loaded) if section == "keys" else _rows(loaded, section)
            found = tuple(row for row in rows if self._is_meant(row, title, words))
            if found:
                sections.append(Section(title, found))
        if not any(section.rows for section in sections):
            sections.append(Section("", (), ("no setting is called that",)))
        self._rows.show(sections)
        self._show_detail()
        self.refresh_bindings()

    def _key_rows(self, loaded: Loaded) -> Iterable[Row]:
        own = loaded.settings.keys
        for binding, keys in self._bindings_by_id.items():
            name = f"keys.{binding}"
            origin = loaded.origins.get(name, DEFAULT)
            yield Row(
                name, binding, own.get(binding, keys), short(origin), is_set=origin != DEFAULT
            )

    def _is_meant(self, row: Row, title: str, words: list[str]) -> bool:
        text = f"{row.id} {row.name} {row.value} {title} {self._help(row.id)}".lower()
        return all(word in text for word in words)

    def _help(self, name: str) -> str:
        setting = BY_ID.get(name)
        if setting is not None:
            return setting.help
        return self._binding_words.get(name.partition(".")[2], "")

    def _show_detail(self) -> None:
        name = self._rows.current
        self._detail.update(Content(harmless("" if name is None else self._words(name))))

    def _words(self, name: str) -> str:
        """What is to be said of a setting."""
        loaded = self._loaded
        origin = loaded.origins.get(name, DEFAULT)
        setting = BY_ID.get(name)
        if setting is None:
            default = self._bindings_by_id.get(name.partition(".")[2], "")
        else:
            default = setting.default_words
        refused = refusal(origin)
        where = f"Set in {one_line(str(origin))}." if origin.source == "file" else ""
        load = ""
        if self._offers_load:
            load = "The model is still loaded as before: ^l loads it anew."
        words = (
            self._help(name),
            f"Default: {default}.",
            where,
            f"Not to be changed here: {refused}." if refused else "",
            LATER.get(name, ""),
            load,
        )
        return " ".join(one_line(word) for word in words if word)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the rows."""
        if event.input is self._search:
            self._show()

    def on_setting_rows_moved(self, message: SettingRows.Moved) -> None:
        """Explain another row."""
        del message
        self._show_detail()
        self.refresh_bindings()

    # --------------------------------------------------------------------------- the keys

    def action_back(self) -> None:
        """Show all rows again; else leave."""
        if self._search.value:
            self._search.value = ""
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Go back to the chat, unless something that is being typed is wrong."""
        if self._rows.finish():
            if self.previews_theme:
                self._end_preview()
                self.app.theme = self._theme_before
            self.dismiss()

    def action_move(self, by: int) -> None:
        """Go rows up or down."""
        self._rows.move(by)

    def action_page(self, by: int) -> None:
        """Go pages up or down."""
        self._rows.page(by)

    def action_change(self) -> None:
        """Edit the current row."""
        self._rows.activate()

    def action_default(self) -> None:
        """Take the current setting out of the file."""
        name = self._rows.current
        if name is not None and self._may_change(name):
            self._change(name, UNSET)

    def action_undo(self) -> None:
        """Take the last change back."""
        if self._undo:
            name, value = self._undo.pop()
            self._search.value = ""
            self._show()
            self._rows.go_to(name)
            self._change(name, value, undoes=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys make sense now."""
        del parameters
        match action:
            case "default":
                name = self._rows.current if self._rows.editing is None else None
                origin = None if name is None else self._loaded.origins.get(name)
                return origin is not None and origin.source == "file"
            case "undo":
                return bool(self._undo) and self._rows.editing is None
            case "load":
                replaying = self._chat.session.replaying
                return self._offers_load or not (self._is_loaded or replaying)
            case _:
                return True

    # -------------------------------------------------------------------------- the change

    def _may_change(self, name: str) -> bool:
        refused = refusal(self._loaded.origins.get(name))
        self._rows.set_fault(name, refused)
        return refused is None

    def on_setting_rows_activated(self, message: SettingRows.Activated) -> None:
        """Let a setting be edited as its kind wants it."""
        name = message.row_id
        if not self._may_change(name):
            return
        setting = BY_ID.get(name)
        if setting is None:
            self._rows.edit_key(name)
            return
        value = value_of(self._loaded.settings, name)
        match setting.kind:
            case Switch():
                self._change(name, not value)
            case Choice(options):
                self._rows.edit_choice(name, options, value)
            case _ if name == THEME:
                self._theme_before = self.app.theme
                names = sorted(self.app.available_themes)
                self._rows.edit_choice(name, names, self._theme_before)
            case kind:
                text = shown(kind, value)
                self._rows.edit_text(name, text, lambda typed_text: fault(kind, typed_text))

    def on_setting_rows_edited(self, message: SettingRows.Edited) -> None:
        """Save a new value."""
        name, text = message.row_id, message.text
        setting = BY_ID.get(name)
        if setting is None:
            self._bind(name, text)
        elif name == THEME:
            self._end_preview()
            self.app.theme = text
            self._change(name, text)
        else:
            try:
                self._change(name, typed(setting.kind, text))
            except SettingError as error:
                # A file that was there while it was typed may be gone.
                self._rows.set_fault(name, f"{quoted(text)} {error}")

    def _bind(self, name: str, key: str) -> None:
        """Give a key to what has none, or say who has it."""
        from tui.config.known import clash_of, key_fault  # noqa: PLC0415

        binding = name.partition(".")[2]
        chosen = {**self._loaded.settings.keys}
        chosen.pop(binding, None)
        clash = clash_of({**chosen, binding: key}, self._bindings_by_id)
        fault = key_fault(key) or (None if clash is None else clash[1])
        self._rows.set_fault(name, fault)
        if fault is None:
            self._change(name, key)

    def _change(self, name: str, value: Stored, *, undoes: bool = False) -> None:
        # The window's worker, not the screen's: leaving must not keep it from being taken up.
        self.app.run_worker(self._save(name, value, undoes=undoes), name=f"save {name}")

    async def _save(self, name: str, value: Stored, *, undoes: bool) -> None:
        before = in_file(self._loaded, name)
        try:
            if value != before:
                await keep(self.app, {name: value})
        except NotSavedError as error:
            if name == THEME:
                self.app.theme = self._theme_before or self.app.theme
            if self.is_attached:
                self._rows.set_fault(name, str(error))
            else:
                self.app.notify(f"{harmless(str(error))}.", severity="warning", markup=False)
            return
        if value == before:
            return
        if not undoes:
            self._undo.append((name, before))
        fault_of_it: str | None = None
        if name.startswith("model."):
            self._unloaded.add(name)
            try:
                self._ready_the_model()
            except (OSError, TemplateFileError) as error:
                fault_of_it = str(error)
        if self.is_attached:
            self._rows.set_fault(name, fault_of_it)
            self._show()

    # --------------------------------------------------------------------------- the theme

    def on_setting_rows_browsed(self, message: SettingRows.Browsed) -> None:
        """Show the theme that is looked at, or the one that was."""
        if message.row_id != THEME:
            return
        self._end_preview()
        if message.option is None:
            self.app.theme = self._theme_before
            return
        self.previews_theme = True
        option = message.option
        self._preview = self.set_timer(PREVIEW_S, lambda: self._take_on(option))

    def _take_on(self, theme: str) -> None:
        if self.previews_theme:
            self.app.theme = theme

    def _end_preview(self) -> None:
        self.previews_theme = False
        if self._preview is not None:
            self._preview.stop()
            self._preview = None

    # --------------------------------------------------------------------------- the model

    @property
    def _offers_load(self) -> bool:
        """Whether the model is loaded in another way than the settings say."""
        session = self._chat.session
        if session.model is None or not self._is_loaded:
            return False
        return bool(self._unloaded) or session.model.settings != self._loaded.settings.model.engine

    @property
    def _is_loaded(self) -> bool:
        return self._chat.session.live.ready is not None or self._chat.is_loading

    def _ready_the_model(self) -> None:
        """Where no model is loaded, the next load simply follows the settings."""
        session = self._chat.session
        if session.model is not None and not self._is_loaded:
            session.model = self._wanted()
            self._unloaded.clear()

    def _wanted(self) -> ModelChoice:
        """The model as the settings want it now; what did not change here stays.

        Raises:
            SessionError: A recording is played back.
            OSError: The current folder, from which a path starts, is gone.
            TemplateFileError: The chat template cannot be read.
        """
        model = self._loaded.settings.model
        choice = self._chat.session.chosen_model._replace(settings=model.engine)
        if "model.path" in self._unloaded and model.path is not None:
            choice = choice._replace(path=str(model_path(model.path)))
        if "model.chat_template" in self._unloaded:
            name = model.chat_template
            text = None if name is None else template_text(name)
            choice = choice._replace(chat_template=text)
        return choice

    def action_load(self) -> None:
        """Load the model as the settings say."""
        try:
            wanted = self._wanted()
        except (SessionError, OSError, TemplateFileError) as error:
            self._chat.say(str(error))
            return
        if self._chat.attempt(lambda: self._chat.session.load(wanted)):
            self._unloaded.clear()
            self._chat.tell("The model is being loaded with these settings")
            self._show()


def short(origin: Origin) -> str:
    """Where a value is from, without the folder."""
    return Path(origin.where).name if origin.source == "file" else str(origin)


def _rows(loaded: Loaded, section: str) -> Iterable[Row]:
    return (_row(loaded, setting) for setting in SETTINGS if setting.section == section)


def _row(loaded: Loaded, setting: Setting) -> Row:
    origin = loaded.origins.get(setting.id, DEFAULT)
    value = value_of(loaded.settings, setting.id)
    is_set = origin.source != "default"
    words = shown(setting.kind, value) if is_set and value is not None else ""
    if not words:
        words = setting.default_words
        if isinstance(setting.kind, Switch):
            words = shown(setting.kind, setting.default)
    return Row(setting.id, setting.name, words, short(origin), is_set=is_set)


def binding_words() -> dict[str, str]:
    """What each binding of the window does, by its id; of all that is imported."""
    words: dict[str, str] = {}
    nodes: list[type[DOMNode]] = [DOMNode]
    while nodes:
        node = nodes.pop()
        nodes += node.__subclasses__()
        if node.__module__.startswith("tui."):
            words |= {
                binding.id: _binding_help(binding.id, binding.description)
                for binding in node.BINDINGS
                if isinstance(binding, Binding) and binding.id is not None
            }
    return words | {
        f"chat.{binding_name(command.action)}": f"{command.title}: {command.help}"
        for command in COMMANDS
    }


def _binding_help(binding: str, description: str) -> str:
    place, _, name = binding.partition(".")
    return f"{place}: {description.rstrip('.') or name.replace('_', ' ')}."
