"""Sessions on scripted engines, driven step by step."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypedDict, TypeVar, Unpack

from backend.chat.tree import Chat
from backend.engine import Engine
from backend.history import History
from backend.metrics.record import TurnRecord
from backend.protocol import Event, LoadRequest, TurnRequest
from backend.recording import Recorder
from backend.session import ModelChoice, Session, Update
from tests.fake_engine import ScriptedEngine, ready, turn_events

Answers = Callable[[TurnRequest], list[Event]]
Loads = Callable[[LoadRequest], list[Event]]

CHOICE = ModelChoice("/models/scripted-1b.Q4_1.gguf")

PATIENCE_S = 20.0

R = TypeVar("R", TurnRequest, LoadRequest)


class Options(TypedDict, total=False):
    """Optional arguments of a session."""

    system: str
    recorder: Recorder
    chat: Chat


def answered(request: TurnRequest) -> list[Event]:
    """Two words and the token that ends the answer."""
    return turn_events(
        request.turn, token_s=[0.5, 0.6, 0.7], pieces=["well ", "then", ""], reason="eog"
    )


def died_after(count: int) -> Answers:
    """The first events of an answer and no more."""
    return lambda request: answered(request)[:count]


def loaded(_request: LoadRequest) -> list[Event]:
    """A load that is done at once."""
    return [ready()]


def silent(_request: TurnRequest | LoadRequest) -> list[Event]:
    """No answer: the test gives it later, or never."""
    return []


def in_turn(*answers: Callable[[R], list[Event]]) -> Callable[[R], list[Event]]:
    """A different answer each time."""
    left = list(answers)

    def answer(request: R) -> list[Event]:
        return left.pop(0)(request)

    return answer


class Engines:
    """Makes a scripted engine each time one is asked for, and remembers them."""

    def __init__(self, answers: Answers = answered, on_load: Loads = loaded) -> None:
        self.made: list[ScriptedEngine] = []
        self._answers = answers
        self._on_load = on_load

    def __call__(self) -> Engine:
        self.made.append(ScriptedEngine(self._answers, self._on_load))
        return self.made[-1]

    @property
    def last(self) -> ScriptedEngine:
        """The newest engine."""
        return self.made[-1]


def begun(
    engines: Callable[[], Engine], history: History | None = None, **options: Unpack[Options]
) -> Session:
    """A session whose engine has been started and has said what it has to say."""
    session = Session(engines, CHOICE, history=history, **options)
    session.start()
    settle(session)
    return session


def settle(session: Session) -> list[Update]:
    """Take in all that the engine has to say, and what it says to what that brings about.

    Afterwards all of it is in the store, or the store has a problem.
    """
    updates: list[Update] = []
    while news := session.wait(0):
        updates += news
    until(lambda: not session.storing or session.storage_problem is not None)
    return updates


def until(predicate: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = monotonic() + PATIENCE_S
    while not predicate():
        assert monotonic() < end, "it never came to it"
        sleep(0.002)


def records(session: Session) -> list[TurnRecord]:
    """The records of the turns that ended by now."""
    return [update.record for update in settle(session) if update.record is not None]


def ask(session: Session, text: str) -> TurnRecord:
    """Send a message and take in its whole turn."""
    session.send(text)
    (record,) = records(session)
    return record


def spoken(chat: Chat) -> list[tuple[str, str]]:
    """The branch in use: who said what."""
    return [(node.role, node.content) for node in chat.path()]
