"""The window under test: driven by a pilot, fed by a scripted engine or a recorded session."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from time import monotonic

from textual.pilot import Pilot
from textual.widget import Widget

from backend.engine import Engine
from backend.history import History
from backend.protocol import CountRequest, Event, LoadRequest, StopReason, TurnRequest
from backend.recording import Line, Recording, read_recording
from backend.replay import ReplayEngine
from backend.session import ModelChoice, Session
from tests.fake_engine import ScriptedEngine, counted, ready, turn_events
from tui.app import PhasescopeApp
from tui.config.load import load_settings
from tui.config.start import WindowStart
from tui.screens.chat import ChatScreen
from tui.widgets.answers import AnswerEntry, LiveAnswer
from tui.widgets.browser import Browser
from tui.widgets.composer import Composer
from tui.widgets.entries import Entry, NoticeEntry, UserEntry

RECORDED = read_recording(Path(__file__).with_name("session.jsonl"))
"""A session with the starter model: three turns, the second and third reuse what was there."""

WIDE = (120, 36)
NARROW = (80, 24)

PATIENCE_S = 10.0


def plain_start() -> WindowStart:
    """A start without any settings; what is saved goes to the test's own folder."""
    return WindowStart(load_settings({}, environ={}))


def recorded_until(stop: Callable[[Event], bool]) -> Recording:
    """The recorded session up to and with the first event that `stop` holds for."""
    lines: list[Line] = []
    for line in RECORDED.lines:
        lines.append(line)
        if stop(line.event):
            break
    return Recording(RECORDED.header, tuple(lines))


def replay_app(recording: Recording = RECORDED) -> PhasescopeApp:
    """The window on a recording, all at once."""
    return PhasescopeApp(Session(lambda: ReplayEngine(recording, 0), None), plain_start())


class Scripted:
    """The window on scripted engines: each start of an engine takes the next one.

    Args:
        answers: The events of each turn's answer; None: a short one.
        on_load: The events that answer a load.
        on_count: The events that answer a count.
        store: The file of the chats; None: nothing is stored.
    """

    def __init__(
        self,
        answers: Callable[[TurnRequest], list[Event]] | None = None,
        on_load: Callable[[LoadRequest], list[Event]] = lambda _request: [ready()],
        *,
        on_count: Callable[[CountRequest], list[Event]] = lambda request: [counted(request)],
        store: Path | None = None,
    ) -> None:
        self.engines: list[ScriptedEngine] = []
        self._answers = answers or (lambda request: turn_events(request.turn, token_s=[0.5, 0.6]))
        self._on_load = on_load
        self._on_count = on_count
        self.session = Session(
            self._engine,
            ModelChoice("/models/scripted-1b.Q4_1.gguf"),
            history=None if store is None else History(store),
        )
        self.app = PhasescopeApp(self.session, plain_start())

    def _engine(self) -> Engine:
        self.engines.append(ScriptedEngine(self._answers, self._on_load, self._on_count))
        return self.engines[-1]

    @property
    def engine(self) -> ScriptedEngine:
        """The newest engine."""
        return self.engines[-1]

    def run(self, size: tuple[int, int] = WIDE) -> AbstractAsyncContextManager[Pilot[None]]:
        """The window in a terminal of a size."""
        return self.app.run_test(size=size)

    @property
    def screen(self) -> ChatScreen:
        """The chat."""
        screen = self.app.screen_stack[0]
        assert isinstance(screen, ChatScreen)
        return screen

    @property
    def composer(self) -> Composer:
        """Where messages are written."""
        return self.screen.query_one(Composer)

    @property
    def entries(self) -> Sequence[Entry]:
        """What stands in the transcript."""
        return self.browser.entries

    @property
    def browser(self) -> Browser:
        """The conversation."""
        return self.screen.query_one(Browser)

    def told(self) -> list[str]:
        """What was said in toasts."""
        return [notice.message for notice in self.app._notifications]

    def notices(self) -> list[str]:
        """The notices' texts."""
        return [entry.text for entry in self.entries if isinstance(entry, NoticeEntry)]

    def said(self) -> list[tuple[str, str]]:
        """Who said what."""
        names = {UserEntry: "you", AnswerEntry: "model", LiveAnswer: "live"}
        return [
            (names[type(entry)], entry.text)
            for entry in self.entries
            if not isinstance(entry, NoticeEntry)
        ]


async def until(pilot: Pilot[None], predicate: Callable[[], bool]) -> None:
    """Let the window run until something holds."""
    end = monotonic() + PATIENCE_S
    while not predicate():
        assert monotonic() < end, "the window never came to it"
        await pilot.pause()
        await asyncio.sleep(0.02)


async def ready_window(pilot: Pilot[None], window: Scripted) -> None:
    """Let the model be loaded."""
    await until(pilot, lambda: window.session.live.ready is not None)
    await until(pilot, lambda: any("loaded in" in notice for notice in window.notices()))


def says(*pieces: str, reason: StopReason = "eog") -> Callable[[TurnRequest], list[Event]]:
    """An answer of these pieces."""
    whole = (*pieces, "") if reason == "eog" else pieces
    stamps = [0.5 + 0.1 * at for at in range(len(whole))]
    return lambda request: turn_events(request.turn, token_s=stamps, pieces=whole, reason=reason)


def in_turn(
    *answers: Callable[[TurnRequest], list[Event]],
) -> Callable[[TurnRequest], list[Event]]:
    """A different answer each time."""
    left = list(answers)

    def answer(request: TurnRequest) -> list[Event]:
        return left.pop(0)(request)

    return answer


async def send(pilot: Pilot[None], window: Scripted, *messages: str) -> None:
    """Send messages, one after the other's answer."""
    for message in messages:
        window.composer.insert(message)
        await pilot.press("enter")
        await until(pilot, lambda: not window.session.busy and not window.composer.full_text)
    await pilot.pause()


def screen_text(pilot: Pilot[None]) -> str:
    """The screen's characters, a line a row."""
    strips = pilot.app.screen._compositor.render_strips(pilot.app.size)
    return "\n".join(strip.text for strip in strips)


async def all_of_it(pilot: Pilot[None], view: Widget, key: str) -> set[str]:
    """The words on the screen while a view is scrolled to its end with a key."""
    seen = set(screen_text(pilot).split())
    while view.scroll_offset.y < view.max_scroll_y:
        before = view.scroll_offset.y
        await pilot.press(key)
        await until(pilot, lambda before=before: view.scroll_offset.y > before)  # type: ignore[misc]
        seen |= set(screen_text(pilot).split())
    return seen
