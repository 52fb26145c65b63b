"""What the caches of a context take: computed per layer, and held against llama.cpp's log."""

from typing import NamedTuple

from backend.local.llama import Context
from backend.local.log import LlamaLog
from backend.protocol import KvCacheState, KvState
from backend.settings import EngineSettings
from models.header import ModelHeader
from models.memory import CacheKind, KvCacheLayout, kv_layout

MIB = 1 << 20

LOG_SIZE = (
    r"llama_(?:kv_cache|memory_recurrent).*?: size =\s*([\d.]+) MiB \(\s*(\d+) cells,"
    r"\s*(\d+) layers.*?([KR]) \((\w+)\):\s*([\d.]+) MiB, ([VS]) \((\w+)\):\s*([\d.]+) MiB"
)
"""llama.cpp's line on a cache: its only word on the bytes, with two decimals of a MiB."""

LOG_PRECISION = 0.011
"""MiB by which a logged size may differ from the true one."""


class LoggedCache(NamedTuple):
    """A cache as llama.cpp logged it; sizes in MiB."""

    cells: int
    layers: int
    recurrent: bool
    type_k: str
    k_mib: float
    type_v: str
    v_mib: float


class CacheSizes:
    """The caches of a context and their sizes, from which the state at any moment follows.

    Attributes:
        from_log: The architecture is not known well enough; llama.cpp's figures are used.
    """

    def __init__(
        self, caches: tuple[KvCacheLayout, ...], bytes_per_token: int | None, *, from_log: bool
    ) -> None:
        self._caches = caches
        self._bytes_per_token = bytes_per_token
        self.from_log = from_log

    def state(self, *, n_ctx: int, tokens: int, positions: tuple[int, int]) -> KvState:
        """The state of the caches.

        Args:
            n_ctx: Tokens that the context holds.
            tokens: Tokens in it.
            positions: First and last position in it; -1 where it is empty.
        """
        caches = tuple(self._cache(cache, tokens, positions) for cache in self._caches)
        return KvState(
            cells_used=tokens,
            cells=n_ctx,
            bytes_used=sum(
                (cache.k_bytes + cache.v_bytes) * cache.cells_used // cache.cells
                for cache in caches
                if cache.cells
            )
            if caches
            else None,
            bytes_allocated=sum(cache.k_bytes + cache.v_bytes for cache in caches)
            if caches
            else None,
            bytes_per_token=self._bytes_per_token,
            caches=caches,
            source="log" if self.from_log else "model",
        )

    def _cache(self, cache: KvCacheLayout, tokens: int, positions: tuple[int, int]) -> KvCacheState:
        used, exact = tokens, True
        if cache.kind == "recurrent":
            used = min(tokens, cache.cells)
        elif cache.kind == "swa":
            first, last = positions
            used = min(cache.cells, last - first + 1) if last >= 0 else 0
            exact = not self.from_log and cache.cells >= tokens and used == tokens
        return KvCacheState(
            kind=cache.kind,
            layers=cache.layers,
            cells=cache.cells,
            cells_used=used,
            k_bytes=cache.k_bytes,
            v_bytes=cache.v_bytes,
            type_k=cache.type_k,
            type_v=cache.type_v,
            cells_used_exact=exact,
        )


def read_cache_sizes(
    header: ModelHeader,
    context: Context,
    settings: EngineSettings,
    log: LlamaLog,
) -> CacheSizes:
    """The caches of a context just made: as computed where that agrees with the log.

    llama.cpp makes them before it decides on flash attention by itself, as if that were on.
    """
    layout = kv_layout(
        header,
        n_ctx=context.n_ctx,
        type_k=settings.type_k,
        type_v=settings.type_v,
        swa_full=settings.swa_full,
        n_ubatch=context.n_ubatch,
        flash_attn=settings.flash_attn != "off",
    )
    logged = [
        LoggedCache(
            cells=int(match[2]),
            layers=int(match[3]),
            recurrent=match[4] == "R",
            type_k=match[5],
            k_mib=float(match[6]),
            type_v=match[8],
            v_mib=float(match[9]),
        )
        for match in log.matching(LOG_SIZE)
    ]
    if layout.known and agrees(layout.caches, logged):
        return CacheSizes(layout.caches, layout.bytes_per_token, from_log=False)
    caches = tuple(_from_log(line, context.n_ctx) for line in logged)
    return CacheSizes(caches, None, from_log=True)


def agrees(caches: tuple[KvCacheLayout, ...], logged: list[LoggedCache]) -> bool:
    """Whether computed caches are those that llama.cpp logged, to the log's precision."""
    if len(caches) != len(logged):
        return False

    def order(cells: int, k_mib: float) -> tuple[int, float]:
        return cells, k_mib

    mine = sorted(caches, key=lambda cache: order(cache.cells, cache.k_bytes / MIB))
    theirs = sorted(logged, key=lambda cache: order(cache.cells, cache.k_mib))
    return all(
        cache.cells == line.cells
        # Of a hybrid model llama.cpp logs all layers here, not only those with a state.
        and (line.recurrent or cache.layers == line.layers)
        and abs(cache.k_bytes / MIB - line.k_mib) <= LOG_PRECISION
        and abs(cache.v_bytes / MIB - line.v_mib) <= LOG_PRECISION
        for cache, line in zip(mine, theirs, strict=True)
    )


def _from_log(line: LoggedCache, n_ctx: int) -> KvCacheLayout:
    """A cache of which only the log tells: with less room than the context it is a window's."""
    kind: CacheKind = "swa" if line.cells < n_ctx else "full"
    return KvCacheLayout(
        kind="recurrent" if line.recurrent else kind,
        layers=line.layers,
        cells=line.cells,
        k_bytes=round(line.k_mib * MIB),
        v_bytes=round(line.v_mib * MIB),
        type_k=line.type_k,
        type_v=line.type_v,
    )
