"""The dashboard's panels: each a pure drawing of the session's snapshot, shown by one widget."""

from collections.abc import Callable
from typing import NamedTuple

from backend.metrics.live import Snapshot
from tui.panels import cache_hits, kv_cache, machine, phases, tokens, ttft
from tui.panels.drawing import Drawing


class PanelKind(NamedTuple):
    """A panel of the dashboard.

    Attributes:
        name: Its id in the window and in the commands.
        title: As it is spoken of.
        draw: Title and lines for a state, a width and a height.
        explain: What its figures are, in paragraphs.
        from_rows: Rows of the dashboard from which it has room beside the others.
    """

    name: str
    title: str
    draw: Callable[[Snapshot, int, int], Drawing]
    explain: Callable[[Snapshot], str]
    from_rows: int = 0


PANELS = (
    PanelKind("phases", "PHASES", phases.draw, phases.explain),
    PanelKind("ttft", "TTFT", ttft.draw, ttft.explain),
    PanelKind("tokens", "TOKENS/S", tokens.draw, tokens.explain),
    PanelKind("kv-cache", "KV CACHE", kv_cache.draw, kv_cache.explain),
    PanelKind("cache-hits", "CACHE HITS", cache_hits.draw, cache_hits.explain),
    PanelKind("machine", "MACHINE", machine.draw, machine.explain, from_rows=32),
)
"""In the order of their keys, Alt+1 to Alt+6."""
