"""A session on a real engine, driven step by step with a bound on every wait."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple, TypeVar

import numpy as np

from backend.local.process import LocalEngine
from backend.metrics.record import TurnRecord
from backend.protocol import (
    EngineReady,
    EngineStarted,
    Event,
    LoadFailed,
    LogLines,
    ModelRead,
    PromptReady,
    TokenBatch,
    TurnEnded,
)
from backend.session import ModelChoice, Script, Session
from backend.settings import EngineSettings, SamplingChoice

PATIENCE_S = 90.0
"""How long anything may take before a test gives up."""

CONCATENATED = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""A template that adds nothing, so that a prompt's tokens can be counted by eye."""

ENDLESS = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
"""A template that does not end."""

SMOLLM_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

NOWHERE = Script()
"""A turn that does not stop by itself."""

E = TypeVar("E", bound=Event)


class Turn(NamedTuple):
    """One turn: its record and the engine's events of it."""

    record: TurnRecord
    events: tuple[Event, ...]

    def only(self, kind: type[E]) -> E:
        """The one event of a kind."""
        (event,) = (event for event in self.events if isinstance(event, kind))
        return event

    @property
    def prompt(self) -> PromptReady:
        """How the prompt was planned."""
        return self.only(PromptReady)

    @property
    def ended(self) -> TurnEnded:
        """How it ended."""
        return self.only(TurnEnded)

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens that were generated."""
        batches = (event for event in self.events if isinstance(event, TokenBatch))
        return tuple(token for batch in batches for token in batch.ids)

    @property
    def cells(self) -> int:
        """Tokens in the cache after the turn."""
        kv = self.record.kv
        assert kv is not None
        return kv.cells_used


class Driver:
    """A session with greedy sampling.

    Args:
        logs: Folder of the engine's logs.
        path: The model.
        settings: How it is loaded; by itself with one thread and 2048 tokens.
        chat_template: Replaces the model's.
        available_bytes: Memory that a load may take.

    Attributes:
        events: All events so far.
    """

    def __init__(
        self,
        logs: Path,
        path: Path,
        settings: EngineSettings | None = None,
        *,
        chat_template: str | None = None,
        available_bytes: int | None = None,
    ) -> None:
        self.session = Session(
            lambda: LocalEngine(logs),
            ModelChoice(str(path), settings or engine_settings(), chat_template, available_bytes),
            sampling=SamplingChoice(temp=0.0, max_tokens=32),
        )
        self.events: list[Event] = []
        self._records: dict[int, TurnRecord] = {}
        self._seen = 0

    @property
    def pid(self) -> int:
        """Process id of the newest child."""
        return self.last(EngineStarted).pid

    def start(self) -> EngineReady:
        """Start the engine and wait for the model."""
        self.session.start()
        return self.loaded()

    def loaded(self) -> EngineReady:
        """Wait until a load is done and its log is there."""
        ready = self.until(EngineReady)
        self.until(LogLines)
        return ready

    def refused(self) -> LoadFailed:
        """Wait until a load fails."""
        return self.until(LoadFailed)

    def until(self, kind: type[E], where: Callable[[E], bool] | None = None) -> E:
        """The next event of a kind; a later call looks only behind it."""
        end = monotonic() + PATIENCE_S
        while True:
            while self._seen < len(self.events):
                event = self.events[self._seen]
                self._seen += 1
                if isinstance(event, kind) and (where is None or where(event)):
                    return event
            assert monotonic() < end, f"no {kind.__name__}; the last: {self.events[-3:]}"
            self.take(0.5)

    def take(self, timeout_s: float | None = None) -> None:
        """Take in what has come, waiting for an event up to a time."""
        for update in self.session.wait(timeout_s):
            self.events.append(update.event)
            if update.record is not None:
                self._records[update.record.turn] = update.record

    def last(self, kind: type[E]) -> E:
        """The newest event of a kind."""
        return next(event for event in reversed(self.events) if isinstance(event, kind))

    def log(self) -> str:
        """llama.cpp's log since the newest load began."""
        began = max(i for i, event in enumerate(self.events) if isinstance(event, ModelRead))
        lines = (event.lines for event in self.events[began:] if isinstance(event, LogLines))
        return "\n".join(line for batch in lines for line in batch)

    # ------------------------------------------------------------------------------- turns

    def ask(
        self,
        text: str,
        max_tokens: int | None = 32,
        *,
        stop: tuple[str, ...] = (),
        script: Script = NOWHERE,
    ) -> Turn:
        """Send a message and wait for the end of its turn."""
        self.send(text, max_tokens, stop=stop, script=script)
        return self.answer()

    def send(
        self,
        text: str,
        max_tokens: int | None = 32,
        *,
        stop: tuple[str, ...] = (),
        script: Script = NOWHERE,
    ) -> None:
        """Send a message without waiting."""
        self._seen = len(self.events)
        self.session.sampling = SamplingChoice(temp=0.0, max_tokens=max_tokens, stop=stop)
        self.session.send(text, script)

    def edit(self, index: int, text: str, max_tokens: int | None = 32) -> Turn:
        """Answer a changed message."""
        self.session.sampling = SamplingChoice(temp=0.0, max_tokens=max_tokens)
        self.session.edit_number(index, text)
        return self.answer()

    def regenerate(self) -> Turn:
        """Answer the last message again."""
        self.session.regenerate()
        return self.answer()

    def answer(self) -> Turn:
        """Wait for the end of the turn under way."""
        end = monotonic() + PATIENCE_S
        while self.session.busy:
            assert monotonic() < end, f"no end of the turn; the last: {self.events[-3:]}"
            self.take(0.5)
        self.take(0)
        self._seen = len(self.events)
        number = max(self._records)
        events = tuple(event for event in self.events if getattr(event, "turn", None) == number)
        return Turn(self._records[number], events)

    def fresh_chat(self) -> None:
        """Begin a chat with an empty cache and no system prompt of one's own."""
        self.session.new_chat()
        self.session.set_system(None)
        self.session.drop_cache()

    def close(self) -> None:
        """End the engine."""
        self.session.close()


def wait_for(engine: LocalEngine, kind: type[E]) -> E:
    """The next event of a kind, straight from an engine."""
    end = monotonic() + PATIENCE_S
    while monotonic() < end:
        event = engine.wait(0.5)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


def engine_settings(
    n_ctx: int = 2048,
    *,
    n_ubatch: int = 512,
    swa_full: bool = False,
    type_k: str = "f16",
    type_v: str = "f16",
) -> EngineSettings:
    """Settings with one thread."""
    return EngineSettings(
        n_ctx=n_ctx,
        n_ubatch=n_ubatch,
        n_threads=1,
        n_threads_batch=1,
        swa_full=swa_full,
        type_k=type_k,
        type_v=type_v,
    )


def chatml(*messages: tuple[str, str]) -> str:
    """A conversation in ChatML, ending where an answer begins: written out, not by Jinja."""
    told = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return f"{told}<|im_start|>assistant\n"


def next_question(text: str) -> str:
    """What stands in ChatML between an answer and the next one."""
    return f"<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def endless_on(text: str) -> str:
    """A template that does not end where a message is `text`; else it adds nothing."""
    return f"{{% if messages[-1]['content'] == '{text}' %}}{ENDLESS}{{% endif %}}{CONCATENATED}"


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    size = min(len(left), len(right))
    differs = np.flatnonzero(np.array(left[:size]) != np.array(right[:size]))
    return int(differs[0]) if differs.size else size
