"""Behaviour: the system prompt and the sampling of a chat."""

from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import UNSET
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static, TextArea

from backend.session import SessionError
from backend.settings import SamplingChoice
from tui.config.change import NotSavedError, in_file, refusal
from tui.config.edited import fault, shown, typed
from tui.config.kinds import Stored
from tui.config.layers import WITHOUT_VALUE, Sampling
from tui.config.presets import all_presets, preset_of
from tui.config.schema import BY_ID, names_of
from tui.saving import keep
from tui.screens.acting import ActingScreen
from tui.text import harmless, one_line
from tui.widgets.folding import FoldingArea
from tui.widgets.key_footer import KeyFooter
from tui.widgets.pastes import normalised
from tui.widgets.setting_rows import (
    ChoiceList,
    EditLeft,
    OptionRemoved,
    Row,
    Section,
    SettingRows,
    ValueInput,
)

if TYPE_CHECKING:
    from tui.app import PhasescopeApp

Scope = Literal["chat", "all"]

NO_SYSTEM_ROLE = "takes no system message"
"""In what a load says of a template without a system role."""

WIDE = 110
TALL = 22
"""Columns from which both panes stand side by side, and rows from which one above the other."""


class BehaviourScreen(Screen[None]):
    """System prompt and sampling.

    Args:
        chat: The chat under it, with the session.
    """

    HELP: ClassVar[str] = (
        "F6 shows how the model is asked to behave: the system prompt of this chat, and each "
        "sampling setting in llama.cpp's names with its value and who chose it: this chat, your "
        "settings, the model's makers or llama.cpp. ^s puts the prompt that is written in force; "
        "the next turn then prefills the whole chat again (system_changed). ^o lists presets, ^n "
        "keeps what is written as one. tab goes to the sampling: enter changes a value where it "
        "stands, ^r forgets it, so that what is below counts again, and ^t switches between this "
        "chat and all chats. Sampling acts from the next turn on."
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", key_display="esc", id="behaviour.back"),
        Binding("f6", "back", "back", show=False, priority=True, id="behaviour.leave"),
        Binding("tab,shift+tab", "other", "switch", key_display="tab", id="behaviour.other"),
        Binding("ctrl+s", "use", "use", key_display="^s", id="behaviour.use"),
        Binding("ctrl+o", "presets", "presets", key_display="^o", id="behaviour.presets"),
        Binding("ctrl+n", "name", "keep as preset", key_display="^n", id="behaviour.keep"),
        Binding("ctrl+r", "forget", "forget here", key_display="^r", id="behaviour.forget"),
        Binding("ctrl+t", "scope", "this chat/all", key_display="^t", id="behaviour.scope"),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 (Textual's form)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL, "-tall")]  # noqa: RUF012
    AUTO_FOCUS = "#system-text"

    app: "PhasescopeApp"

    def __init__(self, chat: ActingScreen) -> None:
        super().__init__(classes="-at-prompt")
        self._chat = chat
        self._scope: Scope = "chat"
        self._area = FoldingArea(id="system-text")
        self._presets = ChoiceList("system-presets")
        self._name_line = ValueInput(
            placeholder="Name of the preset", compact=True, id="system-name"
        )
        self._name_line.cursor_blink = False
        self._words = Static("", id="system-words", markup=False)
        self._rows = SettingRows(can_focus=True, id="sampling-rows")
        self._detail = Static("", id="sampling-detail", markup=False)
        self._prompt_pane = Vertical(
            self._area, self._presets, self._name_line, self._words, id="system-pane"
        )
        self._sampling_pane = Vertical(self._rows, self._detail, id="sampling-pane")
        self._problem: str | None = None
        self._may_drop = False

    def compose(self) -> ComposeResult:
        """Both panes and the keys."""
        with Container(id="behaviour"):
            yield self._prompt_pane
            yield self._sampling_pane
        yield KeyFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show what is in force."""
        self._presets.display = False
        self._name_line.display = False
        self._area.load_text(self._chat.session.chat.system or "")
        self._area.placeholder = "No system prompt. Write one here; ^o lists presets."
        self._show_prompt()
        self._show_sampling()

    # --------------------------------------------------------------------------- the panes

    @property
    def _is_at_prompt(self) -> bool:
        return self.has_class("-at-prompt")

    def action_other(self) -> None:
        """Go to the other pane."""
        if self._rows.finish():
            self._go(at_prompt=not self._is_at_prompt)
            (self._area if self._is_at_prompt else self._rows.list).focus()

    @property
    def _is_writing(self) -> bool:
        """Whether the keys are those of the text of the system prompt."""
        return self._is_at_prompt and self._area.display and not self._name_line.display

    def _go(self, *, at_prompt: bool) -> None:
        self.set_class(at_prompt, "-at-prompt")
        self.set_class(not at_prompt, "-at-sampling")
        self.refresh_bindings()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Let the keys be those of the pane that has the focus."""
        self._go(at_prompt=self._prompt_pane in event.widget.ancestors)

    def action_back(self) -> None:
        """Close what is open; else leave, unless something would be lost."""
        if self._presets.display or self._name_line.display:
            self._close_openings()
        elif self._rows.editing is not None:
            self._rows.finish()
        elif self._is_changed and not self._may_drop:
            self._may_drop = True
            self._say("the system prompt is not in force: ^s does that, esc drops it")
        else:
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys make sense in the pane that has the focus."""
        del parameters
        match action:
            case "use":
                return self._is_writing and (self._is_changed or None)
            case "presets" | "name":
                return self._is_writing
            case "other":
                return self._is_writing or not self._is_at_prompt
            case "scope":
                return not self._is_at_prompt and self._rows.editing is None
            case "forget":
                is_free = not self._is_at_prompt and self._rows.editing is None
                return is_free and (self._has_own or None)
            case _:
                return True

    # --------------------------------------------------------------------- system prompt

    @property
    def _is_changed(self) -> bool:
        """Whether what is written is not what is in force."""
        return self._area.full_text != normalised(self._chat.session.chat.system or "")

    def _say(self, problem: str | None) -> None:
        """Say what is wrong with the system prompt, or that nothing is."""
        self._problem = problem
        self._show_prompt()

    def _show_prompt(self) -> None:
        """Say what is written, what using it costs, and what is wrong."""
        own = self.app.start.loaded.settings.presets
        text = self._area.full_text
        preset = preset_of(text, own)
        named = f" · preset {one_line(preset)}" if preset is not None else ""
        self._prompt_pane.border_title = Content(f"System prompt{named}")
        self._prompt_pane.border_subtitle = "not in force yet" if self._is_changed else "in force"
        sentences: list[str] = []
        if self._problem is not None:
            sentences.append(sentence(self._problem))
        if self._is_changed:
            sentences.append(
                "^s puts it in force; the next turn prefills everything again (system_changed)."
            )
        ready = self._chat.session.live.ready
        warnings = ready.warnings if ready is not None and text else ()
        sentences += (
            sentence(f"of this model {warning}")
            for warning in warnings
            if NO_SYSTEM_ROLE in warning
        )
        if not text and not self._problem:
            sentences.append("Without one the model's own chat template may bring its own.")
        self._words.set_class(self._problem is not None, "-fault")
        self._words.update(Content(harmless(" ".join(sentences))))
        self.refresh_bindings()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Say that something else is written now."""
        event.stop()
        self._may_drop = False
        self._say(None)

    def action_use(self) -> None:
        """Put the system prompt in force."""
        text = self._area.full_text
        try:
            self._chat.session.set_system(text or None)
        except SessionError as error:
            self._say(str(error))
            return
        self._chat.desk.recount()
        self._chat.tick()
        self._say(None)

    def action_presets(self) -> None:
        """List the presets in the place of the text."""
        own = self.app.start.loaded.settings.presets
        presets = all_presets(own)
        self._close_openings()
        current = preset_of(self._area.full_text, own)
        words = {name: f"{'yours: ' if name in own else ''}{presets[name]}" for name in presets}
        self._presets.offer(list(words.items()), current, frozenset(own))
        self._area.display = False
        self._presets.display = True
        self._presets.focus()
        self.refresh_bindings()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Write the text of a preset; what was written can be undone to."""
        event.stop()
        presets = all_presets(self.app.start.loaded.settings.presets)
        text = presets.get(event.option_id or "", "")
        self._close_openings()
        self._area.replace(text, (0, 0), self._area.document.end, maintain_selection_offset=False)

    def on_option_removed(self, message: OptionRemoved) -> None:
        """Take a preset of the user's away."""
        message.stop()
        self._keep_preset(message.option, UNSET, f"The preset {message.option} is removed")

    def action_name(self) -> None:
        """Ask for the name of a preset."""
        self._close_openings()
        self._name_line.value = ""
        self._name_line.display = True
        self._name_line.focus()
        self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep what is written as a preset."""
        event.stop()
        name = " ".join(event.value.split())
        if not name:
            self._say("a preset needs a name")
            return
        own = self.app.start.loaded.settings.presets
        done = "is replaced" if name in own else "is kept"
        self._keep_preset(name, self._area.full_text, f"The preset {name} {done}")

    def on_edit_left(self, message: EditLeft) -> None:
        """Go back to the text."""
        message.stop()
        self._close_openings()

    def _close_openings(self) -> None:
        was_open = self._presets.display or self._name_line.display
        self._area.display = True
        if was_open:
            self._area.focus()
        self._presets.display = False
        self._name_line.display = False
        self.refresh_bindings()

    def _keep_preset(self, name: str, text: Stored, done: str) -> None:
        async def save() -> None:
            try:
                await keep(self.app, {f"presets.{name}": text})
            except NotSavedError as error:
                self._chat.say(str(error))
                if self.is_attached:
                    self._say(str(error))
                return
            self._chat.tell(done)
            if self.is_attached:
                self._close_openings()
                self._say(None)

        # The window's worker, not the screen's: it is taken up also when this one is left.
        self.app.run_worker(save(), name=f"save preset {name}")

    # --------------------------------------------------------------------------- sampling

    @property
    def _sampling(self) -> Sampling:
        session = self._chat.session
        return Sampling(
            session.chat.sampling,
            session.sampling,
            session.recommended_sampling,
            self.app.start.loaded.origins,
        )

    @property
    def _own(self) -> SamplingChoice:
        """What is chosen where changes go."""
        sampling = self._sampling
        return sampling.chat if self._scope == "chat" else sampling.user

    @property
    def _has_own(self) -> bool:
        return self._rows.current in self._own.chosen

    def _show_sampling(self) -> None:
        sampling = self._sampling
        rows = []
        for name in names_of("sampling"):
            first = sampling.layers(name)[0]
            origin = first.origin.replace("\\", "/").rpartition("/")[2]
            rows.append(
                Row(
                    name, name, words_of(name, first.value), origin, is_set=name in self._own.chosen
                )
            )
        self._rows.show([Section("", tuple(rows))])
        where = "this chat" if self._scope == "chat" else "all chats"
        self._sampling_pane.border_title = f"Sampling: changes go to {where}"
        self._sampling_pane.border_subtitle = "acts from the next turn on"
        self._show_detail()

    def _show_detail(self) -> None:
        name = self._rows.current
        if name is not None:
            self._detail.update(Content(harmless(self._explained(name))))
        self.refresh_bindings()

    def _explained(self, name: str) -> str:
        first, *below = self._sampling.layers(name)
        words = [f"{BY_ID[f'sampling.{name}'].help} From {first.origin}."]
        if below:
            chain = ", ".join(f"{words_of(name, layer.value)} ({layer.origin})" for layer in below)
            words.append(f"Below: {chain}.")
        if self._scope == "all" and name in self._sampling.chat.chosen:
            words.append("This chat's own value comes before that of all chats.")
        return one_line(" ".join(words))

    def on_setting_rows_moved(self, message: SettingRows.Moved) -> None:
        """Explain another row."""
        del message
        self._show_detail()

    def action_scope(self) -> None:
        """Let changes go to this chat, or to all chats."""
        if self._rows.finish():
            self._scope = "all" if self._scope == "chat" else "chat"
            self._show_sampling()

    def on_setting_rows_activated(self, message: SettingRows.Activated) -> None:
        """Let a value be edited."""
        name = message.row_id
        if not self._may_change(name):
            return
        kind = BY_ID[f"sampling.{name}"].kind
        value = self._sampling.layers(name)[0].value
        self._rows.edit_text(name, shown(kind, value), lambda text: fault(kind, text))

    def on_setting_rows_edited(self, message: SettingRows.Edited) -> None:
        """Use a new value."""
        kind = BY_ID[f"sampling.{message.row_id}"].kind
        self._change(message.row_id, typed(kind, message.text))

    def action_forget(self) -> None:
        """Let what is below count again."""
        name = self._rows.current
        if name is not None and self._has_own and self._may_change(name):
            self._change(name, UNSET)

    def _may_change(self, name: str) -> bool:
        """Whether the scope's value can be changed; says so where it cannot."""
        origin = self.app.start.loaded.origins.get(f"sampling.{name}")
        refused = refusal(origin) if self._scope == "all" else None
        self._rows.set_fault(name, refused)
        return refused is None

    def _change(self, name: str, value: Stored) -> None:
        if self._scope == "all":
            self.app.run_worker(self._save(name, value), name=f"save {name}")
            return
        chosen = {**self._chat.session.chat.sampling.chosen, name: value}
        self._chat.session.set_chat_sampling(SamplingChoice(**chosen))
        self._chat.tick()
        self._show_sampling()

    async def _save(self, name: str, value: Stored) -> None:
        setting = f"sampling.{name}"
        try:
            if value != in_file(self.app.start.loaded, setting):
                await keep(self.app, {setting: value})
        except NotSavedError as error:
            if self.is_attached:
                self._rows.set_fault(name, str(error))
            else:
                self._chat.say(str(error))
            return
        self._chat.tick()
        if self.is_attached:
            self._show_sampling()


def words_of(name: str, value: Stored) -> str:
    """A sampling setting's value, to be read."""
    if value is None:
        return WITHOUT_VALUE.get(name, "none")
    return shown(BY_ID[f"sampling.{name}"].kind, value) or "none"


def sentence(text: str) -> str:
    """A text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + "."
