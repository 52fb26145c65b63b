"""The sums of a chat's figures."""

import msgspec

from backend.metrics.record import Timings, TurnRecord
from tests.unit.stored import some_record
from tui.widgets.chat_preview import totals


def stopped_in_prefill(turn: int) -> TurnRecord:
    """A turn that was to prefill 5,000 tokens and was stopped after 900 ms."""
    whole = some_record(turn, cache_n=100, prompt_n=5000)
    return msgspec.structs.replace(whole, predicted_n=0, timings=Timings(prompt_ms=900.0))


def test_a_prefill_that_was_stopped_is_not_in_the_sums() -> None:
    whole = some_record(1, cache_n=8, prompt_n=40)
    assert whole.timings.prompt_ms is not None
    figures, reuse = totals([whole, stopped_in_prefill(2)])
    assert figures.startswith("2 turns: prefill 40 tok in")
    assert figures.split(", ")[0] == next(totals([whole])).split(", ")[0].replace(
        "1 turn", "2 turns"
    )
    assert reuse == "reused 8 of 48 prompt tokens"


def test_a_message_that_was_refused_is_no_turn() -> None:
    refused = some_record(2, fails=True)
    figures, _ = totals([some_record(1), refused])
    assert figures.startswith("1 turn: ")
    assert not list(totals([refused]))
