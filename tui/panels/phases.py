"""PHASES: prefill and decode of this turn as they run, and one stacked bar per earlier turn."""

from collections.abc import Sequence
from typing import NamedTuple

from backend.metrics.live import Snapshot
from tui.figures import DASH, count, milliseconds, rate
from tui.panels.drawing import (
    BLANK,
    GLYPHS,
    Drawing,
    Line,
    Role,
    Span,
    bar,
    paragraphs,
    spread,
)

PHASES: tuple[Role, Role, Role] = ("reused", "prefill", "decode")

LABEL = 8
LEGEND: Line = (
    Span(f"{GLYPHS['reused']} ", "reused"),
    Span("reused  "),
    Span(f"{GLYPHS['prefill']} ", "prefill"),
    Span("prefill  "),
    Span(f"{GLYPHS['decode']} ", "decode"),
    Span("decode"),
)


class _Turn(NamedTuple):
    """A turn's number and its tokens: reused, prefilled, decoded."""

    number: int
    tokens: tuple[int, int, int]


def draw(state: Snapshot, width: int, height: int) -> Drawing:
    """The panel for a state, in `width` × `height` cells."""
    title = "PHASES" if state.turn is None else f"PHASES · turn {state.turn}"
    lines = [*_engine(state, width), _prefill(state, width), _decode(state, width)]
    rows = height - len(lines)
    turns = _all_turns(state)
    if turns and rows >= 3:
        lines += [BLANK] * (rows >= 5)
        lines += _turns(turns, width, height - len(lines) - 1)
        lines.append(LEGEND)
    return Drawing(title, tuple(lines[:height]))


def explain(state: Snapshot) -> str:
    """What the figures are, with the counts that went into them."""
    here = ""
    if state.prompt_tokens is not None:
        here = (
            f" Here {count(state.prompt_tokens)} = {count(state.cache_n)} + "
            f"{count(state.prompt_n)}; then {count(state.predicted_n)} tokens were sampled, "
            f"{count(state.thinking_n)} of them thinking."
        )
    return (
        "Prefill computes the whole prompt in parallel: the processor's speed limits it, and it "
        "decides the wait for the first token. Decode gives one token after the other and reads "
        "all weights and the KV cache for each: memory bandwidth limits it, and it decides the "
        "pace.\n"
        f"prompt tokens = reused + prefilled.{here}\n"
        "A longer prompt makes prefill longer and hardly slows decode; a longer answer makes "
        "decode longer and leaves prefill as it is.\n"
        "Decode's row takes a cell for each token; when it is full it goes on with two tokens a "
        "cell, then four. A turn's bar is as long as its tokens: reused, prefilled, decoded.\n"
        "In a record: prompt_tokens, cache_n, prompt_n, predicted_n, thinking_n."
    )


def _engine(state: Snapshot, width: int) -> tuple[Line, ...]:
    """What the engine does, when it is not ready."""
    match state.engine:
        case "loading" if state.load_fraction is not None:
            percent = f"{state.load_fraction:.0%}".rjust(5)
            room = max(0, width - LABEL - len(percent))
            done = state.load_fraction
            return (
                (
                    Span("load".ljust(LABEL)),
                    *bar((("cache", done), ("free", 1 - done)), 1, room),
                    Span(percent),
                ),
            )
        case "failed" | "gone":
            return paragraphs(state.message or "the engine is not running", width, "error")[:3]
        case "starting":
            return ((Span("the engine starts …", "dim"),),)
        case _:
            return ()


def _prefill(state: Snapshot, width: int) -> Line:
    label = Span("prefill".ljust(LABEL), "strong" if state.phase == "prefill" else "plain")
    total, reused = state.prefill_total, state.cache_n
    if total is None or reused is None:
        return (label, Span(GLYPHS["free"], "dim"))
    done = min(state.prefill_done, total)
    if state.phase == "prefill":
        left = state.prefill_left_ms
        about = "≈" if state.progress_is_estimated else ""
        words = f"{about}{done:,}/{total:,} tok"
        words += f"  ≈{milliseconds(left)} left" if left is not None else ""
    else:
        short = f"{done:,}/{total:,} tok" if done < total else f"{total:,} tok"
        words = f"{short}  {milliseconds(state.timings.prompt_ms)}"
    parts: tuple[tuple[Role, float], ...] = (
        ("reused", reused),
        ("prefill", done),
        ("free", total - done),
    )
    return _labelled(label, bar(parts, reused + total, _room(width, words)), words, width)


def _decode(state: Snapshot, width: int) -> Line:
    """A cell a token until the row is full, then two tokens a cell, four, and so on."""
    label = Span("decode".ljust(LABEL), "strong" if state.phase == "decode" else "plain")
    if not state.predicted_n:
        return (label, Span(GLYPHS["free"], "dim"))
    pace = state.rolling_rate if state.phase == "decode" else state.timings.predicted_per_second
    thought = f" ({state.thinking_n:,} thinking)" if state.thinking_n else ""
    words = f"{state.predicted_n:,} tok{thought}  {rate(pace)}"
    room = _room(width, words)
    per_cell = 1
    while room > 0 and state.predicted_n > per_cell * room:
        per_cell *= 2
    cells = bar((("decode", state.predicted_n),), per_cell * room, room)
    return _labelled(label, cells, words, width)


def _labelled(label: Span, cells: Line, words: str, width: int) -> Line:
    return spread((label, *cells), (Span(words),), width)


def _room(width: int, words: str) -> int:
    return max(0, width - LABEL - len(words) - 2)


def _all_turns(state: Snapshot) -> list[_Turn]:
    """The earlier turns and the one that runs."""
    turns = [
        _Turn(bar.turn, (bar.cache_n or 0, bar.prompt_n or 0, bar.predicted_n))
        for bar in state.bars
        if bar.cache_n is not None
    ]
    if state.turn is not None and state.phase != "idle":
        turns.append(_Turn(state.turn, (state.cache_n or 0, state.prefill_done, state.predicted_n)))
    return turns


def _turns(turns: Sequence[_Turn], width: int, rows: int) -> list[Line]:
    """The last turns, all to one scale."""
    shown = turns[-rows:]
    sizes = [turn.tokens for turn in shown]
    longest = max(sum(size) for size in sizes)
    number_width = max(2, *(len(str(turn.number)) for turn in shown))
    totals = [count(sum(size)) if sum(size) else DASH for size in sizes]
    room = width - number_width - 1 - max(map(len, totals)) - 1
    lines: list[Line] = []
    for turn, size, total in zip(shown, sizes, totals, strict=True):
        cells = bar(tuple(zip(PHASES, size, strict=True)), longest, room)
        number = Span(f"{turn.number:>{number_width}} ", "dim")
        lines.append((number, *cells, Span(f" {total}", "dim")))
    return lines
