"""The command line: `phasescope` and its commands."""

from tui.cli.main import main

__all__ = ["main"]
