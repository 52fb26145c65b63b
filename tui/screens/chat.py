"""The chat: conversation, composer and dashboard, all readers of one session's event stream."""

import gc
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.theme import Theme

from backend.first_aid import unused_gpu_here
from backend.history import HistoryError
from backend.metrics.live import Snapshot, TurnPhase
from backend.metrics.record import TurnRecord
from backend.protocol import (
    CacheDropped,
    ChatOpened,
    EngineExited,
    EngineReady,
    EngineStarted,
    LoadFailed,
    ModelRead,
    TurnEnded,
    TurnRequested,
)
from backend.session import REFUSED, Session, Update
from tui.commands import bindings
from tui.config.start import WindowStart
from tui.figures import ago
from tui.screens.acting import ActingScreen
from tui.screens.slash_commands import run_slash, slash_commands
from tui.text import one_line
from tui.widgets.browser import Browser
from tui.widgets.composer import Composer
from tui.widgets.conversation import Conversation
from tui.widgets.dashboard import Panel
from tui.widgets.find_bar import FindBar
from tui.widgets.header import Header, behaviour_words
from tui.widgets.key_footer import KeyFooter
from tui.widgets.strip import FiguresStrip

TICKS_PER_SECOND = 4
"""How often the window wakes: each time it takes a core from a decode thread."""

WIDE = 110
"""Columns from which the dashboard stands beside the chat."""

RECALLED = 200
"""Messages of earlier chats that can be called back."""


class ChatScreen(ActingScreen):
    """The screen that phasescope opens with.

    Args:
        session: What is read and driven; it is started when the screen has been painted once.
        start: What the window starts with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 (Textual's form)
    AUTO_FOCUS = "#composer"

    def __init__(self, session: Session, start: WindowStart) -> None:
        super().__init__(session, start)
        self._conversation = Conversation(self.browser)
        self._header = Header(id="header")
        self._strip = FiguresStrip(id="strip")
        self._storage_problem: str | None = None
        self._problems_said = 0
        self._needs_template = False
        self._can_restart = False
        self._asked: tuple[str, str | None] | None = None
        self._chat_id: str | None = None
        self._ticks = 0
        self._shown_phase: TurnPhase = "idle"

    def compose(self) -> ComposeResult:
        """Header, conversation with composer, dashboard, keys."""
        yield self._header
        with Horizontal(id="body"):
            with Vertical(id="talk"):
                yield self.browser
                yield self._strip
                yield self.find_bar
                yield self.composer
            yield self.dashboard
        yield KeyFooter(compact=True)

    def on_mount(self) -> None:
        """Start when the window can be seen."""
        self.find_bar.display = False
        self.composer.placeholder = (
            "A recording is played back."
            if self.session.replaying
            else "Ask anything: enter sends, ^j new line, / commands."
        )
        self.composer.read_only = self.session.replaying
        self.composer.commands = slash_commands(
            self.start.loaded.settings, sorted(self.app.available_themes)
        )
        self.browser.fold_thinking = self.start.loaded.settings.window.fold_thinking
        self.app.theme_changed_signal.subscribe(self, self._restyle)
        self.call_after_refresh(self._begin)

    def on_unmount(self) -> None:
        """Keep what is written to the last key."""
        self.desk.save(self.session.chat.id)

    def _restyle(self, theme: Theme) -> None:
        del theme
        self.browser.restyle()

    def _begin(self) -> None:
        # All that was imported stays: a collection of garbage that walked it would hold the
        # window for up to 90 ms.
        gc.freeze()
        self.session.start()
        self.set_interval(1 / TICKS_PER_SECOND, self.tick)
        self.tick()
        for problem in self.start.loaded.problems:
            self._conversation.notice(problem, fault=True)
        try:
            self._take_up_the_past()
        except HistoryError as error:
            self._conversation.notice(str(error), fault=True)

    def _take_up_the_past(self) -> None:
        """Earlier messages to call back, and the last chat to go on with."""
        stored = self.session.stored
        if stored is None:
            return
        self.composer.remember_all(stored.history.recent_messages(RECALLED))
        if len(self.session.chat):
            return
        last = stored.last(besides=self.session.chat.id)
        if last is not None and last.messages and self.start.loaded.settings.chat.offer_last_chat:
            self._conversation.notice(
                f"Your last chat: “{one_line(last.title)}”, {last.messages:,} messages, "
                f"{ago(last.updated_at)}. alt+l or /last goes on with it, ^o lists all."
            )

    # ------------------------------------------------------------------ from the session

    def tick(self) -> None:
        """Take in what has come and show it."""
        for update in self.session.tick():
            self._take(update)
        trace = self.session.live.trace
        if trace is not None and trace.ended is None:
            self._conversation.grow(trace)
        if self.session.storage_problem != self._storage_problem:
            self._storage_problem = self.session.storage_problem
            if self._storage_problem is not None:
                self._conversation.notice(self._storage_problem, fault=True)
        state = self.session.snapshot()
        self.desk.tick(state)
        self._ticks += 1
        # In decode the figures change less than the text: every other tick is enough for them.
        if state.phase != "decode" or state.phase != self._shown_phase or self._ticks % 2:
            self._show(state)

    def _take(self, update: Update) -> None:
        event = update.event
        match event:
            case ChatOpened():
                self._chat_opened(event)
            case TurnRequested():
                said = self.session.conversation()
                self._conversation.begin(said, self._model_name(), self.session.resumed)
            case TurnEnded() if update.record is not None:
                self._turn_ended(event, update.record)
            case EngineExited() if not event.expected:
                self._can_restart = True
                self._conversation.engine_exited(event)
            case EngineStarted():
                self._engine_started(event)
            case CacheDropped():
                self.desk.recount()
                self._conversation.notice(
                    f"The KV cache was dropped: {event.cells:,} cells. The next turn is cold."
                )
            case ModelRead() | EngineReady() | LoadFailed():
                self._take_load(event)
            case _:
                return
        self.refresh_bindings()

    def _engine_started(self, event: EngineStarted) -> None:
        """Say once what keeps the engine from computing on a GPU that is there."""
        stored = self.session.stored
        if stored is None:
            return
        advice = unused_gpu_here(event)
        try:
            if advice is not None and stored.first_time(advice.name):
                self._conversation.notice(advice.wrong, (advice.remedy,))
        except HistoryError:
            # It will be said another time; doctor says it always.
            return

    def _take_load(self, event: ModelRead | EngineReady | LoadFailed) -> None:
        match event:
            case ModelRead():
                self._needs_template = event.need_template
                self._conversation.model_read(event)
            case EngineReady():
                self._can_restart = False
                self.desk.recount()
                self._conversation.engine_ready(event)
            case LoadFailed():
                self._can_restart = not event.need_template
                self._needs_template = event.need_template
                # Of a message that waits for it that is said at the turn's end.
                if self._asked is None and self._conversation.just_said(event.message):
                    self.say(f"still not loaded: {event.message}")
                self._conversation.load_failed(event)

    def _chat_opened(self, event: ChatOpened) -> None:
        self._conversation.open(event.chat_id, self.session.conversation())
        self.desk.recount()
        if event.chat_id == self._chat_id:
            return
        self._chat_id = event.chat_id
        for message in event.messages:
            if message.role == "user":
                self.composer.remember(message.content)
        if not self.session.replaying:
            try:
                self.desk.restore()
            except HistoryError as error:
                self.say(str(error))
            problems = self.session.reading_problems
            for problem in problems[self._problems_said :]:
                self._conversation.notice(problem, fault=True)
            self._problems_said = len(problems)

    def _turn_ended(self, event: TurnEnded, record: TurnRecord) -> None:
        del record
        said = self.session.conversation()
        if event.reason == "error" and event.kind in REFUSED:
            problem = event.detail or "the message was refused"
            if self._conversation.just_said(problem):
                self.say(f"not sent: {problem}")
            self._conversation.end(said, problem=problem)
            if self._asked is not None and not self.session.replaying:
                text, edits = self._asked
                if edits is None:
                    self.composer.give_back(text)
                else:
                    self.desk.begin_edit(edits, text)
        else:
            self._conversation.end(said)
        self._asked = None
        self.desk.recount()
        # Nothing is under way: the moment to collect what the turn left, and to keep the rest
        # out of later collections.
        gc.collect()
        gc.freeze()

    def _model_name(self) -> str | None:
        state = self.session.snapshot()
        if state.ready is not None:
            return state.ready.model.name
        return state.header.name if state.header is not None else None

    def _show(self, state: Snapshot) -> None:
        self._shown_phase = state.phase
        badges = ["replay"] if self.session.replaying else []
        badges += ["rec"] if self.session.recording else []
        badges += ["not stored"] if self._storage_problem is not None else []
        behaviour = behaviour_words(self.session.settled_sampling, self.session.chat.system)
        self._header.show(state, behaviour, tuple(badges))
        if self._strip.display:
            self._strip.show(state)
        if self.dashboard.display:
            self.dashboard.show(state)

    # --------------------------------------------------------------------- from the user

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        """Send what is written."""
        if not message.text.strip():
            return
        edits = self.desk.edits

        def send() -> None:
            if edits is None:
                self.session.send(message.text)
            else:
                self.session.edit(edits, message.text)
            self._asked = (message.text, edits)
            self.composer.accept()
            self.desk.end_edit()

        self.attempt(send)

    def on_composer_invoked(self, message: Composer.Invoked) -> None:
        """Run a slash command."""
        run_slash(self, message.command.name, message.argument)

    def on_composer_draft_changed(self, message: Composer.DraftChanged) -> None:
        """Count and store the draft when it rests."""
        del message
        self.desk.changed()

    def on_composer_edit_left(self, message: Composer.EditLeft) -> None:
        """Leave a message as it was."""
        del message
        self.desk.end_edit()

    def on_panel_chosen(self, message: Panel.Chosen) -> None:
        """Open or close the panel that was clicked."""
        self.action_open_panel(message.number)

    def on_browser_wanted(self, message: Browser.Wanted) -> None:
        """Do something with the message that was chosen."""
        entry = message.entry
        if message.act == "copy":
            self.copy_text(entry.text, "the message" if entry.said else "the notice")
            return
        if entry.said is None:
            return
        node = entry.said.node
        match message.act:
            case "copy_block":
                self.copy_block(node.id, entry.text)
            case "edit":
                self.edit_message(node.id)
            case "rerun":
                self.attempt(lambda: self.session.regenerate(node.id))
            case "resume":
                self.attempt(self.session.resume)
            case "older" | "newer":
                self.go_to_version(node, -1 if message.act == "older" else 1)

    def on_find_bar_changed(self, message: FindBar.Changed) -> None:
        """Find another text."""
        self.browser.find(message.text)

    def on_find_bar_stepped(self, message: FindBar.Stepped) -> None:
        """Show another place."""
        self.browser.step(message.by)

    def on_find_bar_closed(self, message: FindBar.Closed) -> None:
        """Stop finding."""
        del message
        self.browser.find("")
        self.composer.focus()

    def on_browser_find_changed(self, message: Browser.FindChanged) -> None:
        """Say what was found."""
        del message
        current, found, complete = self.browser.finding
        self.find_bar.show_count(current, found, complete=complete)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which commands make sense now; None: shown, but dim."""
        del parameters
        session = self.session
        match action:
            case "stop":
                return session.busy or self.is_loading or self.open_panel is not None
            case "leave_messages":
                return not session.busy and not self.is_loading
            case (
                "regenerate"
                | "resume"
                | "new_chat"
                | "drop_cache"
                | "edit_last"
                | "continue_last_chat"
            ):
                # While an answer comes, they say why not.
                return not session.replaying
            case "use_template":
                return self._needs_template and not session.replaying
            case "restart_engine":
                return self._can_restart and not session.replaying
            case _:
                return True
