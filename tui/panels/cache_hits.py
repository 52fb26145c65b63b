"""CACHE HITS: what this turn and the chat took over from the KV cache, and why not more."""

from backend.metrics.live import Snapshot
from backend.protocol import CacheOutcome, CacheReason
from tui.figures import DASH, count, milliseconds
from tui.panels.drawing import Drawing, Line, Span, bar, paragraphs, spread
from tui.text import one_line

REASONS: dict[CacheReason, str] = {
    "dropped": "the cache had been dropped",
    "engine_restarted": "the engine was started again",
    "model_changed": "another model was loaded",
    "settings_changed": "the model was loaded with other settings",
    "restored": "the cache came back from disk",
    "chat_switched": "another chat was in the cache",
    "first_turn": "first turn: nothing to reuse yet",
    "turns_dropped": "old turns were dropped to make room",
    "system_changed": "the system prompt changed",
    "history_edited": "an earlier message changed",
    "regenerated": "the last answer was replaced",
    "template_rewrote": "the template rewrote earlier text",
    "retokenized": "earlier text became other tokens",
    "appended": "appended: all that was cached is reused",
}


def draw(state: Snapshot, width: int, height: int) -> Drawing:
    """The panel for a state, in `width` × `height` cells."""
    reused, new = state.cache_n, state.prompt_n
    lines: list[Line] = []
    if reused is None or new is None:
        lines.append((Span(f"reused {DASH} · new {DASH}", "dim"),))
    else:
        ratio = f"{reused / (reused + new):.0%}" if reused + new else DASH
        room = width - len(ratio) - 1
        lines.append(
            (
                Span("reused "),
                Span(count(reused), "reused"),
                Span(" · new "),
                Span(count(new), "prefill"),
            )
        )
        cells = bar((("reused", reused), ("prefill", new)), reused + new, room)
        lines.append(spread(cells, (Span(ratio, "strong"),), width))
        lines.append((Span(_saved(state)),))
    totals = state.totals
    if totals.hit_ratio is not None:
        spelled = f"chat {count(totals.cache_n)} of {count(totals.cache_n + totals.prompt_n)}"
        lines.append((Span(f"{spelled} · {totals.hit_ratio:.0%}", "dim"),))
    if state.cache is not None:
        lines += _reason(state.cache, state.prompt_tokens, width)
    return Drawing("CACHE HITS", tuple(lines[:height]))


def explain(state: Snapshot) -> str:
    """What the figures are, with the counts that went into them."""
    rate = state.session_prompt_per_second
    saved = "Time saved is not known before a prefill of 32 tokens or more."
    if rate:
        here = ""
        if state.cache_n and state.saved_ms is not None:
            here = f" Here {count(state.cache_n)} / {rate:,.0f} = {milliseconds(state.saved_ms)}."
        saved = (
            "Time saved ≈ reused tokens / the median rate of the session's prefills of 32 tokens "
            f"and more, {rate:,.0f} tokens/s (the first after a load only while there is no "
            f"other).{here}"
        )
    ratio = ""
    if state.prompt_tokens and state.cache_n is not None:
        share = state.cache_n / state.prompt_tokens
        ratio = f" Here {count(state.cache_n)} / {count(state.prompt_tokens)} = {share:.0%}."
    return (
        "A prompt token is reused when the KV cache holds its state and all before it is the "
        "same; the rest is prefilled. Each turn sends the whole chat again: what is reused is "
        "prefill that need not be done.\n"
        f"hit ratio = reused / prompt tokens.{ratio}\n"
        f"{saved}\n"
        "A change early on costs all that follows it: another system prompt, an edited message, a "
        "dropped cache. The reason is that of the first difference.\n"
        "In a record: cache_n, prompt_n, and under cache hit_ratio, reason, at, kept, lost, "
        "before, after."
    )


def _saved(state: Snapshot) -> str:
    """The time that reuse saved; nothing is certain, anything else an estimate."""
    if state.cache_n == 0:
        return "saved nothing"
    saved = state.saved_ms
    return f"saved {DASH}" if saved is None else f"saved ≈ {milliseconds(saved)}"


def _reason(cache: CacheOutcome, prompt_tokens: int | None, width: int) -> tuple[Line, ...]:
    """Why no more was reused, and where the prompt left the cache."""
    said = REASONS[cache.reason]
    if cache.hint is not None:
        said += f": {cache.hint}"
    if cache.no_rollback:
        said += "\nthis model's memory cannot roll back, so all was computed again"
    lines = paragraphs(said, width, "plain")
    if cache.at is None or cache.reason == "appended":
        return lines
    where = f"from token {cache.at:,} of {count(prompt_tokens)}, {cache.lost:,} lost"
    lines += paragraphs(where, width)
    for sign, text in (("−", cache.before), ("+", cache.after)):
        if text:
            lines += ((Span(f"{sign} {one_line(text)}", "dim"),),)
    return lines
