"""Reuse where a memory can and where it cannot go back; equal to a fresh run in each case."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.engine.conftest import MakeDriver
from tests.engine.driver import CONCATENATED, Driver, Turn, engine_settings
from tests.engine.reference import USUAL, Plan, Reference, Setting
from tests.tiny import WINDOW, tiny_hybrid, tiny_llama, tiny_mamba, tiny_swa

COUNT = 12

ENOUGH = 3
"""Clear tokens that tell equal logits: by chance one in 25 million answers would have them."""

LENGTH = 601

UBATCH = 64
"""Small, so that a window of 64 keeps 256 cells and forgets within the texts below."""


def check_as_fresh(reference: Reference, path: Path, turn: Turn, setting: Setting = USUAL) -> None:
    """The answer is what a plain loop over the whole prompt gives, near ties left aside."""
    fresh = reference.greedy(path, Plan((turn.prompt.ids,)), len(turn.ids), setting)
    assert len(fresh.clear) >= ENOUGH
    assert turn.ids[: len(fresh.clear)] == fresh.clear


@pytest.mark.parametrize("build", [tiny_llama, tiny_swa, tiny_mamba, tiny_hybrid])
def test_every_memory_can_append(
    drive: MakeDriver, folder: Path, reference: Reference, build: Callable[[Path], Path]
) -> None:
    path = build(folder)
    driver = drive(path)
    driver.start()
    cells = 0
    for question in ("the windmill", "and the river", "and the wheel"):
        turn = driver.ask(question, COUNT)
        assert turn.record.cache_n == cells
        assert not turn.record.cache.no_rollback
        check_as_fresh(reference, path, turn)
        cells = turn.cells


@pytest.mark.parametrize("build", [tiny_mamba, tiny_hybrid])
def test_a_recurrent_memory_cannot_go_back(
    drive: MakeDriver, folder: Path, reference: Reference, build: Callable[[Path], Path]
) -> None:
    path = build(folder)
    driver = drive(path)
    driver.start()
    first = driver.ask("the windmill by the river", COUNT)
    again = driver.regenerate()
    assert again.record.cache.reason == "regenerated"
    assert (again.record.cache_n, again.record.prompt_n) == (0, len(first.prompt.ids))
    assert again.record.cache.no_rollback
    assert again.record.cache.lost == first.cells
    assert again.ids == first.ids
    check_as_fresh(reference, path, again)
    driver.ask("and the wheel", COUNT)
    edited = driver.edit(1, "and the stone", COUNT)
    assert edited.record.cache.reason == "history_edited"
    assert (edited.record.cache_n, edited.record.cache.no_rollback) == (0, True)
    check_as_fresh(reference, path, edited)


def letters(seed: int) -> str:
    """Text of as many tokens as letters: none of them merge."""
    return "".join(Random(seed).choices("BCDFGHJKLMNPQRSTVWXYZ0123456789", k=LENGTH))


def changed_at(text: str, position: int) -> str:
    return f"{text[:position]}!{text[position + 1 :]}"


def first_in_window(turn: Turn) -> int:
    """The first position that the window's cache still holds, from its use of cells."""
    assert turn.record.kv is not None
    (window,) = (cache for cache in turn.record.kv.caches if cache.kind == "swa")
    return turn.cells - window.cells_used


def sliding(drive: MakeDriver, path: Path, *, swa_full: bool) -> Driver:
    settings = engine_settings(n_ubatch=UBATCH, swa_full=swa_full)
    driver = drive(path, settings, chat_template=CONCATENATED)
    driver.start()
    return driver


def test_what_a_window_has_forgotten_is_a_miss(
    drive: MakeDriver, folder: Path, reference: Reference
) -> None:
    path = tiny_swa(folder)
    driver = sliding(drive, path, swa_full=False)
    text = letters(1)
    first = driver.ask(text, 1)
    assert (first.record.prompt_tokens, first.cells) == (LENGTH, LENGTH)
    assert first_in_window(first) > 300
    edited = driver.edit(0, changed_at(text, 300), COUNT)
    cache = edited.record.cache
    assert (cache.reason, cache.at) == ("history_edited", 300)
    assert (cache.kept, cache.lost, cache.no_rollback) == (0, LENGTH, True)
    assert edited.record.prompt_n == LENGTH
    check_as_fresh(reference, path, edited, Setting(n_ubatch=UBATCH))


def test_a_window_in_part_forgotten_is_a_miss_although_llama_cpp_says_nothing(
    drive: MakeDriver, folder: Path, reference: Reference
) -> None:
    path = tiny_swa(folder)
    driver = sliding(drive, path, swa_full=False)
    text = letters(2)
    first = driver.ask(text, 1)
    position = first_in_window(first) + WINDOW // 2
    assert position < LENGTH
    edited = driver.edit(0, changed_at(text, position)[: position + 4], COUNT)
    assert (edited.record.cache.at, edited.record.cache_n) == (position, 0)
    assert edited.record.cache.no_rollback
    setting = Setting(n_ubatch=UBATCH)
    check_as_fresh(reference, path, edited, setting)
    ids = edited.prompt.ids
    fresh = reference.greedy(path, Plan((ids,)), 1, setting)
    unsound = reference.greedy(
        path, Plan((first.prompt.ids, ids[position:]), rollback_to=position), 1, setting
    )
    # A hundred times the tolerance: the check above would see an unsound rollback.
    assert max(abs(a - b) for a, b in zip(fresh.logits, unsound.logits, strict=True)) > 0.1


def test_a_window_still_whole_goes_back(
    drive: MakeDriver, folder: Path, reference: Reference
) -> None:
    path = tiny_swa(folder)
    driver = sliding(drive, path, swa_full=False)
    text = letters(3)
    first = driver.ask(text, 1)
    position = first_in_window(first) + WINDOW
    assert position < LENGTH
    edited = driver.edit(0, changed_at(text, position), COUNT)
    assert (edited.record.cache.at, edited.record.cache_n) == (position, position)
    assert not edited.record.cache.no_rollback
    check_as_fresh(reference, path, edited, Setting(n_ubatch=UBATCH))


def test_with_all_cells_kept_a_window_goes_back_anywhere(
    drive: MakeDriver, folder: Path, reference: Reference
) -> None:
    path = tiny_swa(folder)
    driver = sliding(drive, path, swa_full=True)
    text = letters(1)
    driver.ask(text, 1)
    edited = driver.edit(0, changed_at(text, 300), COUNT)
    cache = edited.record.cache
    assert (cache.at, cache.kept, cache.lost) == (300, 300, LENGTH - 300)
    assert not cache.no_rollback
    check_as_fresh(reference, path, edited, Setting(n_ubatch=UBATCH, swa_full=True))


def test_a_long_chat_on_a_window_stays_as_fresh(
    drive: MakeDriver, folder: Path, reference: Reference
) -> None:
    path = tiny_swa(folder)
    driver = sliding(drive, path, swa_full=False)
    cells = 0
    for seed in (4, 5):
        turn = driver.ask(letters(seed), COUNT)
        assert turn.record.cache_n == cells
        check_as_fresh(reference, path, turn, Setting(n_ubatch=UBATCH))
        cells = turn.cells
    assert turn.record.kv is not None
    window = next(cache for cache in turn.record.kv.caches if cache.kind == "swa")
    assert WINDOW < window.cells_used <= window.cells == 256
    assert not window.cells_used_exact
    full = next(cache for cache in turn.record.kv.caches if cache.kind == "full")
    assert (full.cells_used, full.cells, full.cells_used_exact) == (cells, 2048, True)
