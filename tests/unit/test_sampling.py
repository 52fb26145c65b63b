"""The sampler chain, against the sampling formulas worked by numpy in llama.cpp's order."""

import ctypes
from collections import Counter
from collections.abc import Sequence
from math import inf, nan

import msgspec
import numpy as np
import pytest
from llama_cpp import llama_cpp as lib
from numpy.typing import NDArray

from backend.local.sampling import Sampler, sampling_fault
from backend.settings import SamplingSettings

N_CTX = 256
LOGITS = np.linspace(4.0, -4.0, 40) + np.sin(np.arange(40))

OFF = SamplingSettings(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=7)

DEFAULT_ORDER = ("penalties", "top-k", "typical", "top-p", "min-p", "xtc", "temp")
"""`common_params_sampling::samplers` of llama.cpp without those that phasescope leaves off."""


def applied(settings: SamplingSettings, seen: Sequence[int]) -> lib.llama_token_data_array:
    """The candidates after the chain."""
    sampler = Sampler(settings, len(LOGITS), N_CTX)
    sampler.accept_prompt(seen)
    data = (lib.llama_token_data * len(LOGITS))(
        *(lib.llama_token_data(token, logit, 0.0) for token, logit in enumerate(LOGITS))
    )
    array = lib.llama_token_data_array(
        ctypes.cast(data, ctypes.POINTER(lib.llama_token_data)), len(LOGITS), -1, False
    )
    lib.llama_sampler_apply(sampler._chain, ctypes.byref(array))
    sampler.close()
    return array


def chosen(settings: SamplingSettings, seen: Sequence[int]) -> dict[int, float]:
    """The candidates that the chain leaves, and their probabilities."""
    array = applied(settings, seen)
    return {int(array.data[at].id): float(array.data[at].p) for at in range(array.size)}


def picked(settings: SamplingSettings, seen: Sequence[int]) -> int:
    """The token that the chain chooses."""
    array = applied(settings, seen)
    return int(array.data[array.selected].id)


def expected(settings: SamplingSettings, seen: Sequence[int]) -> dict[int, float]:
    """The same by the formulas, one filter after the other."""
    logits = dict(enumerate(LOGITS))
    last_n = N_CTX if settings.repeat_last_n < 0 else settings.repeat_last_n
    for token, count in Counter(seen[max(0, len(seen) - last_n) :]).items():
        scale = settings.repeat_penalty
        logits[token] = logits[token] * scale if logits[token] <= 0 else logits[token] / scale
        logits[token] -= count * settings.frequency_penalty + settings.presence_penalty
    ids = np.array(sorted(logits, key=lambda token: -logits[token]))
    if settings.top_k > 0:
        ids = ids[: settings.top_k]

    def probabilities() -> NDArray[np.float64]:
        raw: NDArray[np.float64] = np.exp([logits[token] for token in ids])
        shares: NDArray[np.float64] = raw / raw.sum()
        return shares

    if settings.typical_p < 1:
        p = probabilities()
        by_surprise = np.argsort(np.abs(-np.log(p) - (-(p * np.log(p)).sum())))
        enough = np.searchsorted(np.cumsum(p[by_surprise]), settings.typical_p, side="right")
        ids = ids[np.sort(by_surprise[: int(enough) + 1])]
    if settings.top_p < 1:
        enough = np.searchsorted(np.cumsum(probabilities()), settings.top_p)
        ids = ids[: int(enough) + 1]
    p = probabilities()
    ids = ids[p >= settings.min_p * p.max()]
    if settings.xtc_probability == 1:
        likeliest = int((probabilities() >= settings.xtc_threshold).sum())
        ids = ids[max(0, likeliest - 1) :]
    raw = np.exp([logits[token] / settings.temp for token in ids])
    return dict(zip(map(int, ids), map(float, raw / raw.sum()), strict=True))


EVERYTHING = {
    "temp": 1.7,
    "top_k": 20,
    "top_p": 0.8,
    "min_p": 0.1,
    "typical_p": 0.9,
    "xtc_probability": 1.0,
    "repeat_penalty": 1.2,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.2,
    "repeat_last_n": 12,
}

SEEN = [0, 0, 0, 1, 5, 5, 30, *range(6, 20)]


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, []),
        ({"typical_p": 0.6}, []),
        ({"typical_p": 0.3, "top_k": 12}, []),
        ({"xtc_probability": 1.0}, []),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.03, "temp": 2.5}, []),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.6}, []),
        ({"presence_penalty": 1.5}, SEEN),
        ({"frequency_penalty": 0.7}, SEEN),
        ({"repeat_penalty": 1.3, "repeat_last_n": 3}, SEEN),
        ({"repeat_penalty": 1.3, "repeat_last_n": -1}, [0] * 100 + [3] * 100),
        ({"presence_penalty": 2.0, "repeat_last_n": 64}, [0] * 100 + [3] * 64),
        ({"presence_penalty": 2.0, "repeat_last_n": 0}, SEEN),
        (
            EVERYTHING,
            SEEN,
        ),
    ],
)
def test_candidates_and_probabilities_are_those_of_the_formulas(
    changes: dict[str, float], seen: list[int]
) -> None:
    settings = msgspec.structs.replace(OFF, **changes)
    assert chosen(settings, seen) == pytest.approx(expected(settings, seen), abs=1e-5)


def test_the_order_is_that_of_llama_cpp() -> None:
    everything = SamplingSettings(
        typical_p=0.9, xtc_probability=0.5, repeat_penalty=1.1, presence_penalty=0.1, seed=1
    )
    sampler = Sampler(everything, len(LOGITS), N_CTX)
    chain = sampler._chain
    names = [
        lib.llama_sampler_name(lib.llama_sampler_chain_get(chain, at)).decode()
        for at in range(lib.llama_sampler_chain_n(chain))
    ]
    sampler.close()
    assert tuple(names) == (*DEFAULT_ORDER, "dist")


def test_greedy_sampling_takes_the_likeliest_after_the_penalties() -> None:
    greedy = SamplingSettings(temp=0.0, xtc_probability=1.0, typical_p=0.1)
    second, best = map(int, np.argsort(LOGITS)[-2:])
    assert picked(greedy, [best]) == best
    assert picked(msgspec.structs.replace(greedy, presence_penalty=9.0), [best]) == second


@pytest.mark.parametrize(
    "name",
    [
        *("temp", "top_p", "min_p", "typical_p", "xtc_probability", "xtc_threshold"),
        *("repeat_penalty", "presence_penalty", "frequency_penalty"),
    ],
)
@pytest.mark.parametrize("number", [nan, inf, -inf, 1e300])
def test_what_is_no_number_is_refused(name: str, number: float) -> None:
    fault = sampling_fault(msgspec.structs.replace(SamplingSettings(), **{name: number}))
    assert fault is not None
    assert fault.startswith(f"{name} is {number}")


@pytest.mark.parametrize(
    ("name", "number"),
    [("repeat_penalty", 0.0), ("repeat_penalty", 1e-60), ("top_k", 1 << 40)],
)
def test_what_llama_cpp_cannot_compute_with_is_refused(name: str, number: float) -> None:
    assert sampling_fault(msgspec.structs.replace(SamplingSettings(), **{name: number}))


def test_the_usual_settings_are_fine() -> None:
    assert sampling_fault(SamplingSettings()) is None
