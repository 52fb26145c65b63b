"""`phasescope ask`: a chat without a window."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from backend.local.process import LocalEngine
from backend.metrics.record import TurnRecord
from backend.paths import log_dir
from backend.protocol import EngineExited, EngineReady, LoadFailed, TokenBatch, TurnEnded
from backend.session import ModelChoice, Script, Session, SessionError, Update
from backend.turns import (
    DropCache,
    Entry,
    ModelChange,
    NewChat,
    Regenerate,
    SettingsChange,
    SystemChange,
    TurnsError,
    UserTurn,
    read_turns,
)
from tui.cli.options import (
    engine_options,
    model_choice,
    open_recorder,
    sampling_options,
    settings_in_force,
)
from tui.config.load import Flags
from tui.figures import figures_line
from tui.paths import model_path
from tui.text import harmless


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "--turns",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A conversation as a JSON array; see the README.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one turn record a line, not the text.")
@click.option("--record", type=click.Path(path_type=Path), help="Record the session in this file.")
@sampling_options
@engine_options
def ask(
    *, given: Flags, prompt: str | None, turns: Path | None, as_json: bool, record: Path | None
) -> None:
    """Answer PROMPT (or standard input, with -) without a window.

    The text goes to standard output, a line of figures to standard error.
    """
    entries = _entries(prompt, turns)
    settings = settings_in_force(given)
    session = Session(
        lambda: LocalEngine(log_dir()),
        model_choice(settings.model),
        sampling=settings.sampling,
        system=settings.system_prompt,
        recorder=open_recorder(record),
    )
    run = _Run(session, as_json=as_json)
    try:
        failed = run.all(entries)
    except KeyboardInterrupt:
        run.interrupt()
        sys.exit(130)
    finally:
        session.close()
    if failed:
        sys.exit(1)


def _entries(prompt: str | None, turns: Path | None) -> list[Entry]:
    """What is asked, checked before anything runs."""
    if turns is not None:
        if prompt is not None:
            raise click.UsageError("give a prompt or --turns, not both")
        try:
            return read_turns(turns)
        except TurnsError as error:
            raise click.ClickException(str(error)) from error
    if prompt == "-" or (prompt is None and not sys.stdin.isatty()):
        prompt = _standard_input()
    if prompt is None or not prompt.strip():
        raise click.UsageError("give a prompt, - for standard input, or --turns FILE")
    return [UserTurn(prompt)]


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"standard input is not UTF-8 text: {error}") from error


class _Run:
    """Drives a session through turns and prints what comes."""

    def __init__(self, session: Session, *, as_json: bool) -> None:
        self._session = session
        self._as_json = as_json
        self._encoder = msgspec.json.Encoder()
        self._shown = 0
        self._loading = False

    def all(self, entries: list[Entry]) -> bool:
        """Run all entries; whether a turn failed."""
        self._session.start()
        self._loading = True
        failed = False
        for entry in entries:
            record = self._one(entry)
            if record is not None:
                failed = failed or record.stop.reason == "error"
        return failed

    def interrupt(self) -> None:
        """Stop the answer in progress; what came of it is kept on the screen."""
        self._session.cancel()
        if not self._as_json:
            click.echo()

    def _one(self, entry: Entry) -> TurnRecord | None:
        if isinstance(entry, UserTurn | Regenerate):
            try:
                self._ask(entry)
            except SessionError as error:
                self._session.fail_turn(str(error))
            return self._answer()
        self._arrange(entry)
        return None

    def _ask(self, entry: UserTurn | Regenerate) -> None:
        session = self._session
        if isinstance(entry, Regenerate):
            session.regenerate()
            return
        script = Script(entry.cancel_after_tokens, entry.cancel_at_prompt_token)
        if entry.edit is None:
            session.send(entry.user, script)
        else:
            session.edit_number(entry.edit, entry.user, script)

    def _arrange(
        self, entry: SystemChange | NewChat | DropCache | ModelChange | SettingsChange
    ) -> None:
        """Do what an entry without an answer says."""
        session = self._session
        match entry:
            case SystemChange():
                session.set_system(entry.system)
            case NewChat():
                session.new_chat()
            case DropCache():
                self._until_loaded()
                # Without a model there is no cache; the turns that follow say why.
                if session.live.ready is not None:
                    session.drop_cache()
            case ModelChange():
                path = str(model_path(entry.model))
                self._load(session.chosen_model._replace(path=path))
            case SettingsChange():
                session.sampling = entry.apply_to_sampling(session.sampling)
                if entry.engine:
                    choice = session.chosen_model
                    settings = entry.apply_to_engine(choice.settings)
                    self._load(choice._replace(settings=settings))

    def _load(self, choice: ModelChoice) -> None:
        self._session.load(choice)
        self._loading = True

    def _until_loaded(self) -> None:
        while self._loading:
            for _ in self._updates():
                pass

    def _answer(self) -> TurnRecord:
        """Wait for the end of the turn, printing its text as it comes."""
        self._shown = 0
        while True:
            for update in self._updates():
                if update.record is not None:
                    self._print_end(update.record)
                    return update.record

    def _updates(self) -> Iterator[Update]:
        for update in self._session.wait(1.0):
            match update.event:
                case EngineReady(warnings=warnings):
                    self._loading = False
                    for warning in warnings:
                        click.echo(f"phasescope: {harmless(warning)}", err=True)
                case LoadFailed() | EngineExited():
                    self._loading = False
                case TokenBatch() | TurnEnded() if not self._as_json:
                    self._print_text()
                case _:
                    pass
            yield update

    def _print_text(self) -> None:
        trace = self._session.live.trace
        if trace is None:
            return
        text = "".join(trace.raw[self._shown :])
        self._shown = len(trace.raw)
        # A terminal must not obey what a model says; a file gets it as it is.
        # (`color` keeps click from taking escape sequences out of it.)
        click.echo(harmless(text) if sys.stdout.isatty() else text, nl=False, color=True)

    def _print_end(self, record: TurnRecord) -> None:
        if self._as_json:
            sys.stdout.buffer.write(self._encoder.encode(record) + b"\n")
            sys.stdout.buffer.flush()
        elif record.predicted_n:
            click.echo()
        if record.stop.reason == "error":
            click.echo(f"phasescope: {harmless(record.stop.detail or 'it failed')}", err=True)
        elif not self._as_json:
            click.echo(harmless(figures_line(record)), err=True)
