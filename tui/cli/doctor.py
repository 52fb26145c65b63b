"""`phasescope doctor`: what is there, and what is wrong."""

import os
import shutil
import sys

import click
import msgspec

from backend.doctor import Diagnosis, examine
from tui.figures import device_words, size
from tui.text import harmless


class TerminalFacts(msgspec.Struct, frozen=True):
    """What the terminal offers, as far as its environment tells."""

    is_terminal: bool
    columns: int
    rows: int
    term: str | None
    colours: str
    encoding: str


class Report(msgspec.Struct, frozen=True):
    """The diagnosis with the terminal's part."""

    diagnosis: Diagnosis
    terminal: TerminalFacts
    problems: tuple[str, ...]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(*, as_json: bool) -> None:
    """Tell what this machine, build and terminal offer, and what is wrong."""
    diagnosis = examine()
    terminal, problems = examine_terminal()
    report = Report(diagnosis, terminal, diagnosis.problems + problems)
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        click.echo(harmless(_text(report)))
    if diagnosis.engine is None:
        sys.exit(1)


def examine_terminal() -> tuple[TerminalFacts, tuple[str, ...]]:
    """The terminal's facts, and what is wrong with it for the window."""
    columns, rows = shutil.get_terminal_size()
    encoding = sys.stdout.encoding or "unknown"
    facts = TerminalFacts(
        is_terminal=sys.stdout.isatty(),
        columns=columns,
        rows=rows,
        term=os.environ.get("TERM"),
        colours=_colours(),
        encoding=encoding,
    )
    problems: list[str] = []
    if "utf" not in encoding.lower():
        problems.append(
            f"the terminal's encoding is {encoding}: the window draws its bars with letters and "
            "signs of it; set LANG to a UTF-8 locale for finer ones"
        )
    if facts.is_terminal and facts.term in {None, "dumb"}:
        problems.append("TERM does not name a terminal that the window can draw on")
    return facts, tuple(problems)


def _colours() -> str:
    if os.environ.get("NO_COLOR"):
        return "none (NO_COLOR)"
    if os.environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"}:
        return "16 million"
    return "256" if "256" in os.environ.get("TERM", "") else "16"


def _text(report: Report) -> str:
    found, terminal = report.diagnosis, report.terminal
    machine = found.machine
    rows = [
        ("phasescope", f"{found.phasescope} on Python {found.python}"),
        ("system", machine.system),
        (
            "cores",
            (
                f"{machine.usable_cores} usable of {machine.physical_cores or '?'} physical, "
                f"{machine.logical_cores or '?'} logical"
            ),
        ),
        ("memory", f"{size(machine.available_bytes)} free of {size(machine.memory_bytes)}"),
        ("power", machine.power or "unknown"),
    ]
    if found.engine is not None:
        engine = found.engine
        no_gpu = "" if engine.gpu_offload else " (no GPU support)"
        rows += [
            ("engine", f"{engine.facts.name}, {engine.facts.version}{no_gpu}"),
            ("build", engine.facts.build),
            *(
                ("" if index else "devices", device_words(device))
                for index, device in enumerate(engine.device_facts)
            ),
            ("start", f"{engine.start_ms:.0f} ms until the engine's process answers"),
        ]
    if found.places is not None:
        rows += [
            ("chats", f"{found.stored_chats} in {found.places.chats}"),
            ("logs", found.places.logs),
        ]
    described = (
        f"{terminal.term or 'none'}, {terminal.columns}x{terminal.rows}, "
        f"colours: {terminal.colours}, {terminal.encoding}"
    )
    if not terminal.is_terminal:
        described += " (output is not a terminal)"
    rows += [("starter", found.starter or "not installed"), ("terminal", described)]
    lines = [f"{name:<12}{value}" for name, value in rows]
    if report.problems:
        lines += ["", *(f"problem     {problem}" for problem in report.problems)]
    else:
        lines += ["", "No problems found."]
    return "\n".join(lines)
