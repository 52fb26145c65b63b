"""`phasescope`, `record` and `replay`: the ways into the window."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from backend.chat.tree import Chat
from backend.history import History, HistoryError
from backend.local.process import LocalEngine
from backend.paths import database_path, log_dir
from backend.recording import Recorder, RecordingError, read_recording
from backend.replay import ReplayEngine
from backend.session import LAST_MODEL, Session
from backend.settings import SamplingChoice
from tui.cli.options import (
    F,
    FiniteRange,
    engine_options,
    open_recorder,
    sampling_options,
    tell_problems,
    window_model,
)
from tui.config.load import Flags, load_settings
from tui.config.schema import Settings, names_of
from tui.config.start import WindowStart
from tui.text import harmless

SYSTEM = "chat.system"

SAMPLING = frozenset(f"sampling.{name}" for name in names_of("sampling"))


def chat_option(command: F) -> F:
    """Add the option that names a stored chat."""
    option: Callable[[F], F] = click.option(
        "--chat",
        metavar="ID",
        help="Go on with a stored chat: its id, the beginning of it, or `last`.",
    )
    return option(command)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@chat_option
@sampling_options
@engine_options
def record(*, given: Flags, file: Path, chat: str | None) -> None:
    """Open the chat and record the session in FILE."""
    open_window(given, open_recorder(file), chat=chat)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--speed",
    type=FiniteRange(min=0),
    default=1.0,
    show_default=True,
    help="How much faster than it was; 0 shows the end at once.",
)
def replay(file: Path, speed: float) -> None:
    """Play a recorded session back in the window, without a model."""
    try:
        recording = read_recording(file)
    except RecordingError as error:
        raise click.ClickException(str(error)) from error
    session = Session(lambda: ReplayEngine(recording, speed), None)
    _run(session, WindowStart(load_settings()))


def open_window(given: Flags, recorder: Recorder | None = None, *, chat: str | None = None) -> None:
    """Open the chat on the model that flags and settings name.

    A store that cannot be used is said in the window, which then keeps nothing.

    Raises:
        click.ClickException: The chat that was asked for cannot be had.
    """
    start = WindowStart(load_settings(given))
    settings = start.loaded.settings
    history, problem = _open_history()
    try:
        session = Session(
            lambda: LocalEngine(log_dir()),
            window_model(settings.model, _last_used(history)),
            sampling=settings.sampling,
            system=settings.system_prompt,
            history=history,
            history_problem=problem,
            recorder=recorder,
            chat=None if chat is None else _stored_chat(history, chat, problem, given, settings),
        )
    except HistoryError as error:
        raise click.ClickException(harmless(str(error))) from error
    _run(session, start)


def _open_history() -> tuple[History | None, str | None]:
    """The store, or why it cannot be used."""
    try:
        return History(database_path()), None
    except (HistoryError, OSError) as error:
        return None, str(error)


def _last_used(history: History | None) -> str | None:
    """The model that was used last, as far as the store tells."""
    try:
        return None if history is None else history.setting(LAST_MODEL)
    except HistoryError:
        # Nobody asked for it; the window says what is wrong with the store.
        return None


def _stored_chat(
    history: History | None, name: str, problem: str | None, given: Flags, settings: Settings
) -> Chat:
    """The chat to go on with, behaving as the flags say.

    Raises:
        HistoryError: It cannot be read, or is not there.
    """
    if history is None:
        raise HistoryError(problem or "no chats are stored")
    chat = history.load_chat(history.find_chat(name))
    flags = {id_.partition(".")[2]: flag.value for id_, flag in given.items() if id_ in SAMPLING}
    chat.sampling = SamplingChoice(**flags).over(chat.sampling)
    if SYSTEM in given:
        chat.system = settings.system_prompt
    return chat


def _run(session: Session, start: WindowStart) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        session.close()
        raise click.ClickException(
            "the window needs a terminal; without one use: phasescope ask PROMPT"
        )
    # Imported only here: the other commands have no use for Textual.
    from tui.app import PhasescopeApp  # noqa: PLC0415

    # Textual writes to stderr, on Windows to stdout.
    output = sys.__stdout__ if sys.platform == "win32" else sys.__stderr__
    encoding = None if output is None else output.encoding
    app = PhasescopeApp(session, start._replace(term=os.environ.get("TERM"), encoding=encoding))
    try:
        app.run()
    finally:
        session.close()
        # The window's screen is gone; what it said of the settings stays to be read.
        tell_problems(app.start.loaded.problems)
    if app.return_code:
        sys.exit(app.return_code)
