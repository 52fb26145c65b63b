"""The chat: conversation, composer and dashboard, all readers of one session's event stream."""

import gc
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Footer

from backend.metrics.live import Snapshot, TurnPhase
from backend.metrics.record import TurnRecord
from backend.protocol import (
    CacheDropped,
    ChatMessage,
    ChatOpened,
    EngineExited,
    EngineReady,
    LoadFailed,
    ModelRead,
    TurnEnded,
    TurnRequested,
)
from backend.session import REFUSED, Session, SessionError, Update
from tui.commands import bindings
from tui.screens.help import HelpScreen
from tui.screens.log import LogScreen
from tui.widgets.composer import Composer
from tui.widgets.conversation import Conversation
from tui.widgets.dashboard import Dashboard, Panel
from tui.widgets.header import Header
from tui.widgets.strip import FiguresStrip
from tui.widgets.transcript import Transcript

TICKS_PER_SECOND = 4
"""How often the window wakes: each time it takes a core from a decode thread."""

WIDE = 110
"""Columns from which the dashboard stands beside the chat."""


class ChatScreen(Screen[None]):
    """The screen that phasescope opens with.

    Args:
        session: What is read and driven; it is started when the screen has been painted once.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 (Textual's form)
    AUTO_FOCUS = "#composer"

    def __init__(self, session: Session) -> None:
        super().__init__(id="chat")
        self._session = session
        self._open_panel: int | None = None
        self._storage_problem: str | None = None
        self._needs_template = False
        self._can_restart = False
        self._asked: str | None = None
        self._ticks = 0
        self._shown_phase: TurnPhase = "idle"

    def compose(self) -> ComposeResult:
        """Header, conversation with composer, dashboard, keys."""
        yield Header(id="header")
        with Horizontal(id="body"):
            with Vertical(id="talk"):
                yield Transcript()
                yield FiguresStrip(id="strip")
                yield Composer()
            yield Dashboard()
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Start when the window can be seen."""
        self._transcript = self.query_one(Transcript)
        self._composer = self.query_one(Composer)
        self._dashboard = self.query_one(Dashboard)
        self._strip = self.query_one(FiguresStrip)
        self._header = self.query_one(Header)
        self._conversation = Conversation(self._transcript)
        self._composer.placeholder = (
            "A recording is played back."
            if self._session.replaying
            else "Ask anything. enter sends, ^j begins a new line."
        )
        self._composer.read_only = self._session.replaying
        self.app.theme_changed_signal.subscribe(self, self._restyle)
        self.call_after_refresh(self._start)

    def _restyle(self, theme: Theme) -> None:
        del theme
        self._transcript.restyle()

    def _start(self) -> None:
        # All that was imported stays: a collection of garbage that walked it would hold the
        # window for up to 90 ms.
        gc.freeze()
        self._session.start()
        self.set_interval(1 / TICKS_PER_SECOND, self.tick)
        self.tick()

    # ------------------------------------------------------------------ from the session

    def tick(self) -> None:
        """Take in what has come and show it."""
        for update in self._session.tick():
            self._take(update)
        trace = self._session.live.trace
        if trace is not None and trace.ended is None:
            self._conversation.grow(trace.thinking, trace.answer)
        if self._session.storage_problem != self._storage_problem:
            self._storage_problem = self._session.storage_problem
            if self._storage_problem is not None:
                self._conversation.notice(self._storage_problem, fault=True)
        state = self._session.snapshot()
        self._ticks += 1
        # In decode the figures change less than the text: every other tick is enough for them.
        if state.phase != "decode" or state.phase != self._shown_phase or self._ticks % 2:
            self._show(state)

    def _take(self, update: Update) -> None:
        event = update.event
        match event:
            case ChatOpened():
                self._conversation.open(event.chat_id, event.messages)
                self._remember(event.messages)
            case TurnRequested():
                self._asked = event.user_text
                self._conversation.begin(event.user_text, self._model_name())
            case TurnEnded() if update.record is not None:
                self._turn_ended(event, update.record)
            case ModelRead():
                self._needs_template = event.need_template
                self._conversation.model_read(event)
            case EngineReady():
                self._can_restart = False
                self._conversation.engine_ready(event)
            case LoadFailed():
                self._can_restart = not event.need_template
                self._needs_template = event.need_template
                self._conversation.load_failed(event)
            case EngineExited() if not event.expected:
                self._can_restart = True
                self._conversation.engine_exited(event)
            case CacheDropped():
                self._conversation.notice(
                    f"The KV cache was dropped: {event.cells:,} cells. The next turn is cold."
                )
            case _:
                return
        self.refresh_bindings()

    def _turn_ended(self, event: TurnEnded, record: TurnRecord) -> None:
        if event.reason == "error" and event.kind in REFUSED:
            message = self._asked
            self._conversation.refused(
                event.detail or "the message was refused", message_taken_back=message is not None
            )
            if message is not None and not self._session.replaying:
                self._composer.give_back(message)
        else:
            self._conversation.end(record)
        # Nothing is under way: the moment to collect what the turn left, and to keep the rest
        # out of later collections.
        gc.collect()
        gc.freeze()

    def _model_name(self) -> str | None:
        state = self._session.snapshot()
        if state.ready is not None:
            return state.ready.model.name
        return state.header.name if state.header is not None else None

    def _remember(self, messages: tuple[ChatMessage, ...]) -> None:
        for message in messages:
            if message.role == "user":
                self._composer.remember(message.content)

    def _show(self, state: Snapshot) -> None:
        self._shown_phase = state.phase
        badges = ["replay"] if self._session.replaying else []
        badges += ["rec"] if self._session.recording else []
        badges += ["not stored"] if self._storage_problem is not None else []
        self._header.show(state, tuple(badges))
        if self._strip.display:
            self._strip.show(state)
        if self._dashboard.display:
            self._dashboard.show(state)

    # --------------------------------------------------------------------- from the user

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        """Send what is written."""
        if not message.text.strip():
            return
        try:
            self._session.send(message.text)
        except SessionError as error:
            self._say(error)
            return
        self._composer.accept()
        self.tick()

    def on_panel_chosen(self, message: Panel.Chosen) -> None:
        """Open or close the panel that was clicked."""
        self.action_open_panel(message.number)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which commands make sense now."""
        del parameters
        session = self._session
        match action:
            case "stop":
                return session.busy or self._loading or self._open_panel is not None
            case "regenerate" | "new_chat" | "drop_cache":
                # None: shown, but dim.
                return False if session.replaying else None if session.busy else True
            case "use_chatml":
                return self._needs_template and not session.replaying
            case "restart_engine":
                return self._can_restart and not session.replaying
            case _:
                return True

    @property
    def _loading(self) -> bool:
        return self._session.snapshot().engine in ("starting", "loading")

    def action_stop(self) -> None:
        """Stop the answer or the load; else close the open panel."""
        if self._session.busy or self._loading:
            self._session.cancel()
            self.tick()
        elif self._open_panel is not None:
            self.action_open_panel(self._open_panel)

    def action_regenerate(self) -> None:
        """Answer the last message again."""
        self._try(self._session.regenerate)

    def action_new_chat(self) -> None:
        """Begin another chat."""
        self._try(self._session.new_chat)

    def action_drop_cache(self) -> None:
        """Empty the KV cache."""
        self._try(self._session.drop_cache)

    def action_restart_engine(self) -> None:
        """Load the model again."""
        self._try(self._session.restart_engine)

    def action_use_chatml(self) -> None:
        """Go on with the ChatML template."""
        self._try(self._session.use_chatml)

    def action_open_panel(self, number: int) -> None:
        """Show one panel in the place of chat and dashboard, or close it."""
        self._open_panel = None if number == self._open_panel else number
        self.set_class(self._open_panel is not None, "-panel")
        self._dashboard.open(self._open_panel)
        self.refresh_bindings()
        self.call_after_refresh(lambda: self._show(self._session.snapshot()))

    def action_show_log(self) -> None:
        """Show llama.cpp's log."""
        self.app.push_screen(LogScreen(self._session))

    def action_help(self) -> None:
        """Show keys and figures."""
        self.app.push_screen(HelpScreen(self._session.snapshot()))

    def action_scroll_chat(self, pages: int) -> None:
        """Scroll the conversation by half pages."""
        self._transcript.scroll_pages(pages / 2)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except SessionError as error:
            self._say(error)
            return
        self.tick()

    def _say(self, error: SessionError) -> None:
        text = str(error)
        self.notify(text[:1].upper() + text[1:] + ".", markup=False, severity="warning")
