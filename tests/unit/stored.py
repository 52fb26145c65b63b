"""Chats and turn records to put into a store."""

from backend.chat.tree import Chat, Node
from backend.history import History
from backend.metrics.live import LiveFigures
from backend.metrics.record import TurnRecord
from backend.protocol import ChatMessage, StopReason, TurnRequest, TurnRequested
from backend.settings import SamplingSettings
from tests.fake_engine import failed, ready, turn_events


def answer(
    chat: Chat,
    node_id: str,
    text: str,
    ids: tuple[int, ...] = (1, 2),
    *,
    lead: str = "assistant\n",
    model: str = "Scripted-1B",
) -> Node:
    """An answer to the last message; its turn's id is `turn-` and its own."""
    return chat.put(
        Node(
            id=node_id,
            parent=chat.leaf,
            role="assistant",
            content=text,
            token_ids=ids,
            lead=lead,
            turn_ids=(f"turn-{node_id}",),
            model=model,
        )
    )


def save(history: History, chat: Chat, *nodes: Node) -> None:
    """Store a chat's head and some of its messages."""
    history.save_chat(chat)
    for node in nodes:
        history.save_message(chat.id, node)


def some_record(
    turn: int = 1,
    turn_id: str | None = None,
    *,
    fails: bool = False,
    cache_n: int = 0,
    prompt_n: int = 40,
    reason: StopReason = "eog",
) -> TurnRecord:
    """A record as a session makes it, with tokens 500 and 600 ms after the message."""
    request = TurnRequest(
        turn=turn,
        turn_id=turn_id or f"turn-{turn}",
        chat_id="chat",
        messages=(ChatMessage("user", "hello"),),
        sampling=SamplingSettings(seed=7),
        started_at="2026-01-01T00:00:00.000+00:00",
    )
    live = LiveFigures()
    live.apply(ready())
    live.apply(TurnRequested(request, "hello"))
    events = (
        failed(turn, "engine")
        if fails
        else turn_events(
            turn, token_s=[0.5, 0.6], cache_n=cache_n, prompt_n=prompt_n, reason=reason
        )
    )
    (record,) = (made for event in events if (made := live.apply(event)) is not None)
    return record
