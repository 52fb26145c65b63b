"""MACHINE: what the cores do and for whom, memory, power, and the devices that compute."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from backend.metrics.live import Snapshot
from backend.protocol import WindowSample
from tui.figures import DASH, device_words, size, used_of
from tui.panels.drawing import Drawing, Line, Role, Span, columns, line_width
from tui.text import one_line

LABEL = 7

CELL = 25
"""Columns that one item takes at least, where several stand in a line."""

LEAST_COLUMNS = 8
"""Columns that many cores are gathered into at the least."""

HIGHEST_CHART = 8
"""Lines that the cores' columns have at most."""

HINDERING_PERCENT = 50.0
"""Load by others, as a share of one core, from which decode feels it."""

UNKNOWN = WindowSample(None, None, None, None)


class _Item(NamedTuple):
    """A figure or two under one name."""

    label: str
    words: str
    role: Role = "plain"


def draw(state: Snapshot, width: int, height: int) -> Drawing:
    """The panel for a state, in `width` × `height` cells.

    A line for each item where there is room, else several in a line; what is still too much is
    left out, the least important first. What is left over makes the cores' columns higher.
    """
    sample = state.window or UNKNOWN
    items = _items(state, sample)
    urgent = [_line(item) for item in items if item.role == "warn"]
    _, foot = _cores(sample, width, 1)
    others = [foot, *(_line(item) for item in items if item.role != "warn")]
    room = max(0, height - len(urgent))
    lines: list[Line] = []
    for abreast in range(1, max(1, width // CELL) + 1):
        lines, complete = _packed(others, width // abreast, width, room)
        if complete:
            break
    upper, high = _cores(sample, width, min(HIGHEST_CHART, 1 + room - len(lines)))
    if lines:
        lines[0] = (*high, *lines[0][len(foot) :])
    lines = [*urgent, *upper, *lines]
    return Drawing("MACHINE", tuple(_cut(line, width) for line in lines[:height]))


def explain(state: Snapshot) -> str:
    """What the figures are, with the counts that went into them."""
    sample = state.window or UNKNOWN
    here = ""
    if sample.others_cpu_percent is not None:
        here = (
            f", here {_percent(sample.cpu_percent)} × {len(sample.core_percent)} − "
            f"{_percent(sample.engine_cpu_percent or 0.0)} − {_percent(sample.ui_cpu_percent)} = "
            f"{_percent(sample.others_cpu_percent)}"
        )
    return (
        "A column is the load of a logical core over the last second, cpu the mean of all. "
        "engine, window and others are CPU time as shares of one core, so that two busy cores "
        f"are 200 %: others = cpu × cores − engine − window{here}. Decode's threads wait for one "
        "another at each layer: a core that others take holds all of them up.\n"
        "The engine's memory is what of it is resident, the model's file included; free is what "
        "a process can still take, a container's limit heeded. power comes with the battery's "
        "charge. What a device has free was read after the load; of main memory llama.cpp only "
        "knows the whole.\n"
        "Both phases need it: prefill the cores' speed, decode the memory's. Battery, heat and "
        "other programs lower both.\n"
        "In a record, under machine: devices, power, cpu_percent, engine_rss_bytes, "
        "ui_cpu_percent, engine_cpu_percent, others_cpu_percent."
    )


def hindered(state: Snapshot) -> bool:
    """Whether decode runs and others take cores that it needs.

    With fewer threads than half of the logical cores there is one for everybody, whether two of
    them share a physical core or not.
    """
    sample, context = state.window, state.context
    if state.phase != "decode" or sample is None or context is None or context.n_gpu_layers:
        return False
    load = sample.others_cpu_percent
    if load is None or load <= HINDERING_PERCENT:
        return False
    return context.n_threads + load / 100 > len(sample.core_percent) / 2


def _items(state: Snapshot, sample: WindowSample) -> list[_Item]:
    """All but the cores, from the most to the least important."""
    load = _percent(sample.others_cpu_percent)
    of_a_core = "" if sample.others_cpu_percent is None else " of a core"
    others = _Item("others", f"{load}{of_a_core}")
    items = [
        _Item("engine", _use(sample.engine_cpu_percent, sample.engine_rss_bytes)),
        _Item("window", _use(sample.ui_cpu_percent, sample.ui_rss_bytes)),
        others,
        _Item("free", used_of(sample.available_bytes, sample.memory_bytes)),
        _Item("power", _power(sample)),
    ]
    if hindered(state):
        items.remove(others)
        items.insert(0, _Item("! others", f"{others.words}: decode slows", "warn"))
    devices = state.ready.device_facts if state.ready is not None else ()
    items += [_Item("device", one_line(device_words(device))) for device in devices]
    return items


def _line(item: _Item) -> Line:
    role: Role = "warn" if item.role == "warn" else "dim"
    return (Span(f"{item.label.ljust(LABEL - 1)} ", role), Span(item.words, item.role))


def _cores(sample: WindowSample, width: int, rows: int) -> tuple[tuple[Line, ...], Line]:
    """The cores' columns: the lines above, and the one at their foot with the mean of all."""
    words = f"{_percent(sample.cpu_percent)} {_clock(sample.clock_mhz)}"
    label = Span("cpu".ljust(LABEL), "dim")
    if not sample.core_percent:
        return (), (label, Span(words))
    loads, each = _grouped(sample.core_percent, width // 2)
    if each > 1:
        room = width - LABEL - len(f" {words} · 10 cores a column")
        loads, each = _grouped(sample.core_percent, max(LEAST_COLUMNS, room))
        words += f" · {each} cores a column"
    *upper, foot = columns(loads, 100, max(1, rows), "plain")
    indent = Span(" " * LABEL)
    return tuple((indent, *line) for line in upper), (label, *foot, Span(f" {words}"))


def _grouped(loads: Sequence[float], room: int) -> tuple[list[float], int]:
    """One column a core, or where that is too wide the means of so many neighbours."""
    each = max(1, -(-len(loads) // max(1, room)))
    groups = [loads[start : start + each] for start in range(0, len(loads), each)]
    return [sum(group) / len(group) for group in groups], each


def _packed(items: Sequence[Line], cell: int, width: int, height: int) -> tuple[list[Line], bool]:
    """Items in cells side by side, so that figures that change move nothing; are they all in?

    An item that has no room makes way for those that have.
    """
    lines: list[Line] = []
    complete = True
    for item in items:
        start = -(-(line_width(lines[-1]) + 1) // cell) * cell if lines and cell > 0 else width
        if start + line_width(item) <= width:
            lines[-1] = (*lines[-1], Span(" " * (start - line_width(lines[-1]))), *item)
        elif len(lines) < height:
            lines.append(item)
        else:
            complete = False
    return lines, complete


def _cut(line: Line, width: int) -> Line:
    """What of a line has room in `width` cells."""
    spans: list[Span] = []
    for span in line:
        if cell_len(span.text) > width:
            pieces = chop_cells(span.text, width) if width > 0 else []
            if pieces and cell_len(pieces[0]) <= width:
                spans.append(Span(pieces[0], span.role))
            break
        spans.append(span)
        width -= cell_len(span.text)
    return tuple(spans)


def _percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0f} %"


def _use(percent: float | None, rss_bytes: int | None) -> str:
    """CPU and memory of a process."""
    return f"{_percent(percent)} {size(rss_bytes)}"


def _clock(mhz: float | None) -> str:
    return DASH if mhz is None else f"{mhz / 1000:.2f} GHz"


def _power(sample: WindowSample) -> str:
    """What powers the machine, and how full its battery is."""
    source = sample.power or DASH
    charge = sample.battery_percent
    return source if charge is None else f"{source} {_percent(charge)}"
