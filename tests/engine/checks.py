"""Checks against llama.cpp that several tests make."""

import re

from backend.protocol import EngineReady
from tests.engine.driver import Driver, Turn

MIB = 2**20

LOGGED = re.compile(
    r"llama_(?:kv_cache|memory_recurrent): size = +(?P<size>[\d.]+) MiB \( *(\d+) cells, .*"
    r"[KR] \((\w+)\): +([\d.]+) MiB, [VS] \((\w+)\): +([\d.]+) MiB"
)


def check_counts(turn: Turn) -> None:
    """Counts agree with the events, with each other and with llama.cpp's counters."""
    record, perf = turn.record, turn.ended.perf
    assert perf is not None
    assert (perf.n_p_eval, perf.n_eval) == (record.prompt_n, record.predicted_n - 1)
    assert record.prompt_tokens == len(turn.prompt.ids)
    assert record.cache_n is not None
    assert record.prompt_n is not None
    assert record.prompt_tokens == record.cache_n + record.prompt_n
    assert record.predicted_n == len(turn.ids) == len(record.timings.token_ms)
    assert turn.cells == record.prompt_tokens + record.predicted_n - 1


def check_against_log(driver: Driver) -> None:
    """Cells, layers, types, K and V of each cache are those of the log, to 0.01 MiB."""
    state = driver.last(EngineReady).kv
    assert state.source == "model"
    assert sorted(
        (
            f"{(cache.k_bytes + cache.v_bytes) / MIB:.2f}",
            str(cache.cells),
            cache.type_k,
            f"{cache.k_bytes / MIB:.2f}",
            cache.type_v,
            f"{cache.v_bytes / MIB:.2f}",
        )
        for cache in state.caches
    ) == sorted(
        match.groups() for match in LOGGED.finditer(driver.log()) if float(match["size"]) > 0
    )
    total = sum(cache.k_bytes + cache.v_bytes for cache in state.caches)
    assert state.bytes_allocated == total > 0
