"""The command line's root: without a command it opens the window."""

import os
import sys
from importlib import import_module
from importlib.metadata import version
from io import StringIO, TextIOWrapper
from pathlib import Path

import click
from click.core import ParameterSource

from tui.cli.options import engine_options, sampling_options
from tui.cli.window import chat_option, open_window, record, replay
from tui.config.load import Flags
from tui.text import harmless

INTERRUPTED = 130

LAZY = {
    "ask": "tui.cli.ask",
    "bench": "tui.cli.bench",
    "chats": "tui.cli.chats",
    "doctor": "tui.cli.doctor",
    "settings": "tui.cli.settings",
}
"""Commands that are imported when they are called, so that the window opens sooner."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LAZY])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LAZY:
            command: click.Command = getattr(import_module(LAZY[cmd_name]), cmd_name)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, invoke_without_command=True)
@click.version_option(version("phasescope"), prog_name="phasescope")
@chat_option
@sampling_options
@engine_options
@click.pass_context
def phasescope(ctx: click.Context, *, given: Flags, chat: str | None) -> None:
    """Chat with a local quantized model and watch prefill and decode as they happen.

    Without a command, the window opens.
    """
    if ctx.invoked_subcommand is None:
        open_window(given, chat=chat)
        return
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[0]} stands before {ctx.invoked_subcommand}; options of a "
                "command stand behind it"
            )


for command in (record, replay):
    phasescope.add_command(command)


def speak_utf8() -> None:
    """Write UTF-8 to files and pipes, and nothing that a terminal's encoding lacks.

    Python would take the system's old code page on Windows, which no JSON reader expects.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="replace")


def main() -> None:
    """Run `phasescope`; ends with the exit status 0, 1, 2 or (interrupted) 130."""
    if sys.stdout is None:
        # The caller closed it (`>&-`).
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (to the end)
    speak_utf8()
    try:
        status = phasescope.main(prog_name="phasescope", standalone_mode=False)
    except click.ClickException as error:
        told = StringIO()
        error.show(told)
        # It may quote a file, or what was typed.
        click.echo(harmless(told.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED)
    except OSError as error:
        # A full disk behind the output, say; what fails elsewhere is named where it does.
        click.echo(f"phasescope: {harmless(str(error))}", err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)
