"""TTFT: time to first token, counting up, then taken apart."""

from backend.metrics.live import Snapshot
from tui.figures import milliseconds
from tui.panels.drawing import GLYPHS, Drawing, Line, Role, Span, bar, big, line_width, spread

BIG_FROM = (30, 12)
"""Width and height from which the figure is drawn big."""

LABEL = 9

NOTABLE = 1.05
"""Ratio from which one turn is called faster or slower than another."""


def draw(state: Snapshot, width: int, height: int) -> Drawing:
    """The panel for a state, in `width` × `height` cells."""
    counting = state.phase in ("preparing", "prefill")
    value = state.elapsed_ms if counting else state.timings.ttft_ms
    lines: list[Line] = []
    if value is not None and width >= BIG_FROM[0] and height >= BIG_FROM[1]:
        number, unit = milliseconds(value).split(" ")
        lines += big(number, f"{unit} …" if counting else unit, "prefill")
        lines.append(_against(state, value, width) if not counting else ())
    else:
        figure = (Span(milliseconds(value), "prefill" if value is not None else "dim"),)
        if counting:
            lines.append((*figure, Span(" …", "dim")))
        else:
            against = _against(state, value, width)
            beside = spread(figure, against, width)
            lines += [beside] if beside != figure or not against else [figure, against]
    parts = _parts(state, value)
    rows = height - len(lines)
    if parts and value:
        lines += _waterfall(parts, value, width) if len(parts) <= rows else ()
        if len(parts) > rows >= 1:
            lines += _stacked(parts, value, width, rows)
    return Drawing("TTFT", tuple(lines[:height]))


def explain(state: Snapshot) -> str:
    """What the figures are, with the counts that went into them."""
    times = state.timings
    here = ""
    if times.ttft_ms is not None:
        known = [(name, part) for name, _, part in _parts(state, times.ttft_ms)]
        rest = max(0.0, times.ttft_ms - sum(part for _, part in known))
        sums = " + ".join(f"{name} {milliseconds(part)}" for name, part in known)
        here = f" Here {milliseconds(times.ttft_ms)} = {sums} + the rest {milliseconds(rest)}."
    return (
        "TTFT is the time from accepting the message to the first sampled token. It belongs to "
        "prefill; loading the model is never part of it.\n"
        "TTFT = render (the chat template) + tokenize + cache (comparing with the KV cache) + "
        f"prefill + the first sample + what lies between them.{here}\n"
        "More prompt tokens or a broken cache make it longer; a longer answer does not. A shorter "
        "prompt, a cache that is reused, and more compute make it shorter.\n"
        "In a record, under timings, in ms: ttft_ms, render_ms, tokenize_ms, cache_ms, prompt_ms, "
        "first_sample_ms; ttfa_ms runs to the first token of the answer proper, after thinking."
    )


def _against(state: Snapshot, value: float | None, width: int) -> Line:
    """This turn against the one before."""
    before = state.previous.ttft_ms if state.previous is not None else None
    if not before or not value:
        return ()
    ratio = max(value, before) / min(value, before)
    words = f"was {milliseconds(before)}"
    if ratio >= NOTABLE:
        words += f" · {ratio:.1f}× {'faster' if value < before else 'slower'}"
    return (Span(words if len(words) <= width else f"was {milliseconds(before)}", "dim"),)


def _parts(state: Snapshot, value: float | None) -> list[tuple[str, Role, float]]:
    """Name, role and milliseconds of each part that is known."""
    times = state.timings
    prompt_ms = times.prompt_ms
    before = (times.render_ms or 0) + (times.tokenize_ms or 0) + (times.cache_ms or 0)
    if prompt_ms is None and state.phase == "prefill" and value is not None:
        prompt_ms = max(0.0, value - before)
    known: tuple[tuple[str, Role, float | None], ...] = (
        ("render", "plain", times.render_ms),
        ("tokenize", "plain", times.tokenize_ms),
        ("cache", "reused", times.cache_ms),
        ("prefill", "prefill", prompt_ms),
        ("sample", "decode", times.first_sample_ms),
    )
    return [(name, role, part) for name, role, part in known if part is not None]


def _waterfall(parts: list[tuple[str, Role, float]], total: float, width: int) -> list[Line]:
    """Each part where it lies in time, a line each."""
    values = [milliseconds(part) for _, _, part in parts]
    room = width - LABEL - max(map(len, values)) - 1
    lines: list[Line] = []
    passed = 0.0
    for (name, role, part), words in zip(parts, values, strict=True):
        start = min(max(0, room - 1), round(room * passed / total))
        cells = max(1, min(room - start, round(room * part / total)))
        glyph = GLYPHS.get(role, "▒")
        drawn = (Span(name.ljust(LABEL)), Span(" " * start), Span(glyph * cells, role))
        lines.append(spread(drawn, (Span(words),), width))
        passed += part
    return lines


def _stacked(
    parts: list[tuple[str, Role, float]], total: float, width: int, rows: int
) -> list[Line]:
    """All parts in one bar, and as many in words as there is room for."""
    drawn: list[tuple[Role, float]] = [
        (role if role in GLYPHS else "free", part) for _, role, part in parts
    ]
    lines: list[Line] = [bar(drawn, total, width)]
    words: list[Span] = []
    for name, role, part in sorted(parts, key=lambda item: -item[2]):
        span = Span(f"{name} {milliseconds(part)}  ", role)
        if line_width((*words, span)) > width and words:
            lines.append(tuple(words))
            words = []
        words.append(span)
    lines.append(tuple(words))
    return lines[:rows]
