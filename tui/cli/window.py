"""`phasescope`, `record` and `replay`: the ways into the window."""

import sys
from pathlib import Path
from typing import Unpack

import click

from backend.history import History, HistoryError
from backend.local.process import LocalEngine
from backend.paths import database_path, log_dir
from backend.recording import Recorder, RecordingError, read_recording
from backend.replay import ReplayEngine
from backend.session import LAST_MODEL, Session
from tui.cli.options import (
    EngineOptions,
    FiniteRange,
    SamplingOptions,
    engine_options,
    model_choice,
    open_recorder,
    sampling_options,
    sampling_settings,
)


class WindowOptions(EngineOptions, SamplingOptions):
    """All options of the window."""


class RecordOptions(WindowOptions):
    """Those, and the file of the recording."""

    file: Path


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@sampling_options
@engine_options
def record(**options: Unpack[RecordOptions]) -> None:
    """Open the chat and record the session in FILE."""
    open_window(options, open_recorder(options["file"]))


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
    _run(Session(lambda: ReplayEngine(recording, speed), None))


def open_window(options: WindowOptions, recorder: Recorder | None = None) -> None:
    """Open the chat on the model that the options name."""
    try:
        history = History(database_path())
        choice = model_choice(options, history.setting(LAST_MODEL))
    except (HistoryError, OSError) as error:
        raise click.ClickException(str(error)) from error
    _run(
        Session(
            lambda: LocalEngine(log_dir()),
            choice,
            sampling=sampling_settings(options),
            system=options["system"],
            history=history,
            recorder=recorder,
        )
    )


def _run(session: Session) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        session.close()
        raise click.ClickException(
            "the window needs a terminal; without one use: phasescope ask PROMPT"
        )
    # Imported only here: the other commands have no use for Textual.
    from tui.app import PhasescopeApp  # noqa: PLC0415

    app = PhasescopeApp(session)
    try:
        app.run()
    finally:
        session.close()
    if app.return_code:
        sys.exit(app.return_code)
