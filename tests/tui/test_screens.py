"""Pictures of every screen in three sizes and three themes; what they show never changes."""

import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from backend.chat.tree import Chat
from backend.history import History
from backend.protocol import LogLines, ModelRead, WindowSample
from backend.replay import ReplayEngine
from backend.session import ModelChoice, Session, stream
from backend.settings import SamplingChoice
from tests.fake_engine import ready
from tests.tui.picture import Taken
from tests.tui.window import RECORDED, Scripted, ready_window, says, screen_text, until
from tests.unit.headers import llama_header
from tests.unit.stored import answer, save, some_record
from tui.app import PhasescopeApp
from tui.config.load import load_settings
from tui.config.start import WindowStart
from tui.figures import ago
from tui.screens import chat as chat_screen
from tui.screens.chat import ChatScreen
from tui.screens.chats import ChatsScreen
from tui.widgets import chat_list

SIZES = ((60, 16), (80, 24), (140, 42))

THEMES = ("phasescope", "phasescope-projector", "phasescope-clear")

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)

STORED = (
    ("ships", "How do ships float?", "They displace as much water as they weigh.", "20T11:56"),
    ("kettle", "what is a kettle", "A kettle boils water for tea.", "20T09:00"),
    ("sea", "海はなぜ青いのですか？", "Water takes red light away.", "19T08:00"),
    ("needle", "what is a needle", "It sews. In water it sinks.", "16T08:00"),
    ("street", "Wie heißt die Straße?", "Hauptstraße 7, am Wasser", "02T08:00"),
)
"""Id, question and answer of stored chats, and when in May 2026 they were used last."""

SETTINGS = """\
# Mine.
[window]
theme = '{theme}'

[sampling]
temp = 0.7

[presets]
reviewer = 'You review code, briefly.'
"""

STILL = WindowSample(
    ui_cpu_percent=2.0,
    cpu_percent=25.0,
    engine_rss_bytes=400_000_000,
    power="battery",
    battery_percent=80.0,
    core_percent=(50.0, 0.0, 25.0, 25.0),
    clock_mhz=2400.0,
    engine_cpu_percent=96.0,
    others_cpu_percent=2.0,
    ui_rss_bytes=80_000_000,
    memory_bytes=16_000_000_000,
    available_bytes=9_000_000_000,
)

SnapCompare = Callable[..., bool]
Show = Callable[[Pilot[None], Scripted], Awaitable[None]]


class Still:
    """A machine on which nothing changes."""

    def sample(self, _pid: int | None) -> WindowSample:
        """Always the same."""
        return STILL


@pytest.fixture(autouse=True)
def _stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No time of day, no load and no path of the machine that the tests run on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(stream, "WindowSampler", Still)
    for module in (chat_screen, chat_list):
        monkeypatch.setattr(module, "ago", partial(ago, now=NOW))
    yield
    monkeypatch.undo()
    time.tzset()


def start(theme: str) -> WindowStart:
    """What a window with a theme starts with."""
    path = Path("settings.toml")
    path.write_text(SETTINGS.format(theme=theme), encoding="utf-8")
    return WindowStart(load_settings(path=path, environ={}))


class Replayed(Scripted):
    """The recorded session, at its end."""

    def __init__(self, theme: str) -> None:
        super().__init__()
        self.session = Session(lambda: ReplayEngine(RECORDED, 0), None)
        self.app = PhasescopeApp(self.session, start(theme))


class Live(Scripted):
    """A chat that takes messages, among stored ones."""

    def __init__(self, theme: str) -> None:
        header = llama_header(sampling={"temp": 0.6, "top_p": 0.9})
        read = ModelRead(header, 4096, 10**9, 10**10, need_template=False)
        super().__init__(says("It ", "scatters."), lambda _request: [read, ready()])
        fill(Path("chats.db"))
        self.session = Session(
            self._engine,
            ModelChoice("/models/scripted-1b.Q4_1.gguf"),
            history=History(Path("chats.db")),
        )
        self.app = PhasescopeApp(self.session, start(theme))


def fill(path: Path) -> None:
    """Put the chats into a store."""
    history = History(path)
    for chat_id, question, said, _ in STORED:
        chat = Chat(chat_id)
        user = chat.add_user(question)
        save(history, chat, user, answer(chat, f"{chat_id}-answer", said))
        history.save_record(chat_id, some_record(1, f"turn-{chat_id}-answer", cache_n=8), (1,))
    history.close()
    db = sqlite3.connect(path)
    for chat_id, _, _, used in STORED:
        moment = f"2026-05-{used}:00.000+00:00"
        db.execute(
            "UPDATE chats SET created_at = ?, updated_at = ? WHERE id = ?",
            (moment, moment, chat_id),
        )
    db.commit()
    db.close()


# --------------------------------------------------------------------------- the screens


async def three_turns(pilot: Pilot[None], window: Scripted) -> None:
    """The chat of the recording."""
    await until(pilot, lambda: len(window.said()) == 6)


async def panel(pilot: Pilot[None], window: Scripted) -> None:
    """TTFT, open."""
    await three_turns(pilot, window)
    await pilot.press("alt+2")


async def chosen(pilot: Pilot[None], window: Scripted) -> None:
    """A message that is chosen."""
    await three_turns(pilot, window)
    await pilot.press("shift+tab", "up")


async def found(pilot: Pilot[None], window: Scripted) -> None:
    """A word that is looked for, at its second place."""
    await three_turns(pilot, window)
    window.screen.action_find("sky")
    await until(pilot, lambda: window.browser.finding[1] > 1 and window.browser.finding[2])
    await pilot.press("up")


async def completion(pilot: Pilot[None], window: Scripted) -> None:
    """Commands to choose from."""
    await ready_window(pilot, window)
    await pilot.press("/", "s")
    await until(pilot, lambda: "/settings" in screen_text(pilot))


async def chats(pilot: Pilot[None], window: Scripted) -> None:
    """All chats, of which some are found."""
    await ready_window(pilot, window)
    window.screen.action_show_chats("water")
    await until(pilot, lambda: isinstance(window.app.screen, ChatsScreen))
    await until(pilot, lambda: "displace" in screen_text(pilot))
    screen = window.app.screen
    assert isinstance(screen, ChatsScreen)
    await until(pilot, lambda: not screen._searching)
    await pilot.press("down")


async def behaviour(pilot: Pilot[None], window: Scripted) -> None:
    """System prompt and sampling, some of it chosen for this chat."""
    await ready_window(pilot, window)
    window.session.set_system("Answer like a pirate.")
    window.session.set_chat_sampling(SamplingChoice(top_k=20, stop=("END",)))
    await pilot.press("f6")
    await until(pilot, lambda: bool(window.app.screen.query("#system-text")))


async def settings(pilot: Pilot[None], window: Scripted) -> None:
    """All settings."""
    await ready_window(pilot, window)
    await pilot.press("f7")
    await until(pilot, lambda: "settings.toml" in screen_text(pilot))


async def help_(pilot: Pilot[None], window: Scripted) -> None:
    """Keys and figures."""
    await three_turns(pilot, window)
    await pilot.press("f1")


async def tour(pilot: Pilot[None], window: Scripted) -> None:
    """The tour's third page."""
    await three_turns(pilot, window)
    window.screen.action_tour()
    await until(pilot, lambda: bool(window.app.screen.query("#tour")))
    await pilot.press("3")


async def log(pilot: Pilot[None], window: Scripted) -> None:
    """What llama.cpp said."""
    await ready_window(pilot, window)
    lines = (f"llama_model_loader: - kv {at:3d}: general.name str = model" for at in range(60))
    window.engine.push(LogLines((*lines, "a line with \x1b[31mcodes\x1b[0m in it")))
    window.screen.tick()
    await pilot.press("ctrl+l")
    await until(pilot, lambda: "codes" in screen_text(pilot))


async def palette(pilot: Pilot[None], window: Scripted) -> None:
    """The palette, with what fits a word."""
    await three_turns(pilot, window)
    await pilot.press("ctrl+p")
    await until(pilot, lambda: bool(window.app.screen.query(Input)))
    await pilot.press(*"panel")
    await until(pilot, lambda: "Panel TTFT" in screen_text(pilot))


SCREENS: dict[str, tuple[type[Replayed] | type[Live], Show]] = {
    "chat": (Replayed, three_turns),
    "panel": (Replayed, panel),
    "browse": (Replayed, chosen),
    "find": (Replayed, found),
    "completion": (Live, completion),
    "chats": (Live, chats),
    "behaviour": (Live, behaviour),
    "settings": (Live, settings),
    "help": (Replayed, help_),
    "tour": (Replayed, tour),
    "log": (Live, log),
    "palette": (Replayed, palette),
}


async def rest(pilot: Pilot[None], window: Scripted) -> None:
    """Let all be drawn, and nothing blink."""
    for widget in window.app.screen.query(Input):
        widget.cursor_blink = False
    await pilot.pause()
    await until(pilot, lambda: window.browser.line_of(0) is not None)
    assert isinstance(window.screen, ChatScreen)
    window.screen.tick()
    await pilot.wait_for_scheduled_animations()
    await pilot.pause()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("screen", SCREENS)
async def test_a_screen(snap_compare: SnapCompare, screen: str, theme: str) -> None:
    """At 60×16, 80×24 and 140×42, in this order."""
    kind, show = SCREENS[screen]
    window = kind(theme)
    async with window.run(SIZES[1]) as pilot:
        await show(pilot, window)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await rest(pilot, window)
            assert snap_compare(Taken(window.app))
    window.session.close()


async def test_the_log_stays_at_its_end_in_any_size() -> None:
    window = Live("phasescope")
    async with window.run(SIZES[1]) as pilot:
        await log(pilot, window)
        for size in (SIZES[0], SIZES[2], SIZES[0]):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: "codes" in screen_text(pilot))
        await pilot.press("home")
        await until(pilot, lambda: "codes" not in screen_text(pilot))
        await pilot.resize_terminal(*SIZES[1])
        await rest(pilot, window)
        assert "codes" not in screen_text(pilot)
    window.session.close()


async def test_every_screen_of_the_window_has_its_picture() -> None:
    folder = Path(chat_screen.__file__).parent
    shown = {path.stem for path in folder.glob("*.py")} - {
        *("__init__", "acting", "drafting", "slash_commands")
    }
    assert shown <= {*SCREENS}
