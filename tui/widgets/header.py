"""The header: the model and how it runs, in one line."""

from backend.metrics.live import Snapshot
from backend.protocol import ContextFacts
from backend.settings import SamplingSettings
from tui.figures import count
from tui.panels.drawing import Line, Span, line_width
from tui.widgets.lines import Lines

MB = 1_000_000

NAME = "phasescope"


class Header(Lines):
    """One line at the top."""

    def show(self, state: Snapshot, behaviour: tuple[str, ...], badges: tuple[str, ...]) -> None:
        """Show a state.

        Args:
            state: The session's state.
            behaviour: How the model is asked to behave, as `behaviour_words` gives it.
            badges: Short words on the session, e.g. that it is recorded.
        """
        self.show_lines((header_line(state, behaviour, badges, self.size.width),))


def behaviour_words(sampling: SamplingSettings, system: str | None) -> tuple[str, ...]:
    """The temperature, what else is not as usual, and whether there is a system prompt."""
    usual = SamplingSettings()
    words = [f"temp {sampling.temp:g}"]
    for name in SamplingSettings.__struct_fields__:
        value = getattr(sampling, name)
        if name != "temp" and value != getattr(usual, name):
            shown = f"{len(value)}" if isinstance(value, tuple) else f"{value:g}"
            words.append(f"{name} {shown}")
    if system is not None:
        words.append("system prompt")
    return tuple(words)


def header_line(
    state: Snapshot, behaviour: tuple[str, ...], badges: tuple[str, ...], width: int
) -> Line:
    """The line; what has no room is left out, the least important first."""
    left: list[Span] = [Span(f" {NAME} ", "strong")]
    left += [Span(f" {badge} ", "warn") for badge in badges]
    model = _model(state)
    right = _right(state, behaviour)
    while True:
        words = [*left, Span("  " + " · ".join(model))] if model else left
        tail = Span(" · ".join(right) + " " if right else "", "dim")
        gap = width - line_width((*words, tail))
        if gap >= 1 or not (len(model) > 1 or right):
            return (*words, Span(" " * max(0, gap)), tail)
        if len(right) > 2 or (right and len(model) <= 2):
            right.pop(-2 if len(right) > 2 else -1)
        else:
            model.pop()


def _model(state: Snapshot) -> list[str]:
    if state.ready is not None:
        facts = state.ready.model
        return [
            facts.name,
            facts.quantization,
            f"{facts.file_bytes / MB:,.0f} MB",
            f"{facts.bits_per_weight:.2f} bpw",
        ]
    if state.header is not None:
        return [
            state.header.name,
            state.header.quantization,
            f"{state.header.file_bytes / MB:,.0f} MB",
        ]
    return []


def _right(state: Snapshot, behaviour: tuple[str, ...]) -> list[str]:
    """What stands at the right, from the most to the least important, the window's cost last."""
    words: list[str] = []
    match state.engine:
        case "starting":
            words.append("starting")
        case "loading":
            words.append(f"loading {state.load_fraction or 0:.0%}")
        case "failed":
            words.append("not loaded")
        case "gone":
            words.append("engine gone")
        case "ready" if state.context is not None and state.ready is not None:
            words += (*_context(state.context, state.ready.devices), *behaviour)
    window = state.window
    if window is not None and window.power == "battery":
        words.append("on battery")
    if window is not None and window.ui_cpu_percent is not None:
        words.append(f"window {window.ui_cpu_percent:.0f} %")
    return words


def _context(context: ContextFacts, devices: tuple[str, ...]) -> list[str]:
    others = [name for name in devices if name != "CPU"] if context.n_gpu_layers else []
    return [
        f"ctx {count(context.n_ctx)}",
        f"threads {context.n_threads}/{context.n_threads_batch}",
        "+".join(others) or "CPU",
    ]
