"""The dashboard folded to two lines, for terminals too narrow for panels."""

from backend.metrics.live import Snapshot
from tui.figures import count, milliseconds, rate
from tui.panels import kv_cache, phases
from tui.panels.drawing import Drawing, Line, Span, line_width
from tui.widgets.lines import Lines


class FiguresStrip(Lines):
    """Both phases in one line, the other figures in a second."""

    def show(self, state: Snapshot) -> None:
        """Show a state."""
        self.show_lines(strip_lines(state, self.size.width))


def strip_lines(state: Snapshot, width: int) -> tuple[Line, ...]:
    """The two lines for a state; figures that have no room are left out from the right."""
    return (_phase(state, width), _figures(state, width))


def _phase(state: Snapshot, width: int) -> Line:
    """The phase that runs, as its panel draws it."""
    drawing: Drawing = phases.draw(state, width, 3)
    row = {"decode": -1, "idle": -1}.get(state.phase, -2)
    if state.engine != "ready":
        row = 0
    return drawing.lines[row]


def _figures(state: Snapshot, width: int) -> Line:
    waiting = state.phase in ("preparing", "prefill")
    ttft = state.elapsed_ms if waiting else state.timings.ttft_ms
    parts: list[Line] = [
        (Span("ttft "), Span(milliseconds(ttft), "prefill")),
        (Span("decode "), Span(rate(state.timings.predicted_per_second), "decode")),
        (Span("reused "), Span(f"{count(state.cache_n)}/{count(state.prompt_tokens)}", "reused")),
    ]
    if state.kv is not None:
        cells = f"{state.kv.cells_used:,}/{state.kv.cells:,}"
        parts.append((Span(f"kv {cells} "), Span(kv_cache.bytes_used(state.kv), "dim")))
    line: Line = ()
    for part in parts:
        longer = (*line, Span(" · ", "dim"), *part) if line else part
        if line_width(longer) > width:
            break
        line = longer
    return line
