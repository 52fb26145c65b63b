"""KV CACHE: cells and bytes, used and allocated, K and V by type."""

from backend.metrics.live import Snapshot, bytes_in_use
from backend.protocol import KvCacheState, KvState
from tui.figures import count, size, used_of
from tui.panels.drawing import Drawing, Line, Span, bar, line_width, spread

KINDS = {"full": "full", "swa": "window", "recurrent": "state"}


def draw(state: Snapshot, width: int, height: int) -> Drawing:
    """The panel for a state, in `width` × `height` cells."""
    kv = state.kv
    if kv is None:
        return Drawing("KV CACHE", ((Span("no model is loaded", "dim"),),))
    exact = all(cache.cells_used_exact for cache in kv.caches)
    about = "≈" if state.progress_is_estimated or not exact else ""
    share = f"{kv.cells_used / kv.cells:.0%}" if kv.cells else ""
    lines: list[Line] = [
        spread(
            (
                Span(f"{'≈' if state.progress_is_estimated else ''}{kv.cells_used:,}", "strong"),
                Span(f"/{kv.cells:,} cells"),
            ),
            (Span(share, "dim"),),
            width,
        ),
        bar((("cache", kv.cells_used), ("free", kv.cells - kv.cells_used)), kv.cells, width),
        (Span(f"{about}{bytes_used(kv)}", "strong"),),
    ]
    if len(kv.caches) == 1:
        lines += _halves(kv.caches[0], width)
    else:
        for cache in kv.caches:
            lines.append(_one_of_several(cache, width))
    if kv.bytes_per_token is not None:
        full = all(cache.kind == "full" for cache in kv.caches)
        words = "a token" if full else "a token, windows full"
        lines.append((Span(f"{size(kv.bytes_per_token)} {words}", "dim"),))
    if kv.source == "log":
        lines.append((Span("≈ sizes from llama.cpp's log", "dim"),))
    return Drawing("KV CACHE", tuple(lines[:height]))


def explain(state: Snapshot) -> str:
    """What the figures are, with the counts that went into them."""
    kv = state.kv
    here = ""
    if kv is not None and kv.caches and kv.bytes_allocated is not None:
        layers = " + ".join(_formula(cache) for cache in kv.caches)
        here = f" Here {layers} = {size(kv.bytes_allocated)}."
    used = ""
    if kv is not None:
        used = f": {count(kv.cells_used)} of {count(kv.cells)}"
    return (
        "What prefill computed is kept and handed to decode: each layer keeps one key (K) and one "
        "value (V) for every token, so that decode need not compute them again. Prefill fills it, "
        "decode adds a token at a time and reads it all for each.\n"
        f"bytes allocated = layers × cells × (K + V of a cell).{here}\n"
        f"A cell is in use when it holds a token{used}; llama.cpp reserves all cells when it "
        "loads.\n"
        "A shorter context (-c) or smaller types (-ctk q8_0, -ctv q8_0) make it smaller; a window "
        "and a state keep only a part of the tokens.\n"
        "In a record, under kv: cells_used, cells, bytes_used, bytes_allocated, bytes_per_token, "
        "caches."
    )


def bytes_used(kv: KvState) -> str:
    """Bytes in use and allocated, of all caches."""
    return used_of(kv.bytes_used, kv.bytes_allocated)


def _halves(cache: KvCacheState, width: int) -> list[Line]:
    """K and V of one cache: type, bytes in use and allocated."""
    lines: list[Line] = []
    for name, type_name, allocated in (
        ("K", cache.type_k, cache.k_bytes),
        ("V", cache.type_v, cache.v_bytes),
    ):
        used = bytes_in_use(cache.cells_used, cache.cells, allocated)
        left = (Span(f"{name} {type_name:<5}"),)
        lines.append(spread(left, (Span(used_of(used, allocated), "dim"),), width))
    return lines


def _one_of_several(cache: KvCacheState, width: int) -> Line:
    """One of a model's caches: cells, layers, bytes and types, as far as there is room."""
    about = "" if cache.cells_used_exact else "≈"
    line: Line = (
        Span(f"{KINDS.get(cache.kind, cache.kind):<7}"),
        Span(f"{about}{cache.cells_used:,}/{cache.cells:,}", "dim"),
    )
    types = f"{cache.type_k}/{cache.type_v}"
    for words in (f" ×{cache.layers}", f" {size(cache.k_bytes + cache.v_bytes)}", f" {types}"):
        longer = (*line, Span(words, "dim"))
        if line_width(longer) > width:
            break
        line = longer
    return line


def _formula(cache: KvCacheState) -> str:
    per_cell = (cache.k_bytes + cache.v_bytes) // max(1, cache.cells * cache.layers)
    return f"{count(cache.layers)} × {count(cache.cells)} × {count(per_cell)} B"
