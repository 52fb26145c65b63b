"""Whose sampling settings count: the chat's, the user's, the model's makers', llama.cpp's."""

from collections.abc import Callable

import pytest

from backend.history import History
from backend.protocol import Event, LoadRequest, ModelRead
from backend.session import Session, SessionError
from backend.settings import SamplingChoice, SamplingSettings
from models.header import ModelHeader
from tests.fake_engine import ready
from tests.unit.headers import llama_header
from tests.unit.sessions import (
    CHOICE,
    Engines,
    answered,
    ask,
    begun,
    in_turn,
    records,
    settle,
    silent,
)

CHAT = SamplingChoice(temp=0.1)
USER = SamplingChoice(temp=0.2, top_k=2, seed=7)
MAKERS = {"temp": 0.3, "top_k": 3, "top_p": 0.3}


def recommending(header: ModelHeader) -> Callable[[LoadRequest], list[Event]]:
    """A load of a model whose makers recommend settings."""
    return lambda _request: [
        ModelRead(header, 4096, 10**9, 10**10, need_template=False),
        ready(),
    ]


def layered(engines: Engines, history: History | None = None) -> Session:
    """A session in which all have chosen."""
    session = begun(engines, history)
    session.sampling = USER
    session.set_chat_sampling(CHAT)
    return session


def test_the_first_that_chose_wins() -> None:
    engines = Engines(on_load=recommending(llama_header(sampling=MAKERS)))
    session = layered(engines)
    record = ask(session, "hello")
    # llama.cpp's defaults below: min_p 0.05, repeat_penalty 1.
    expected = SamplingSettings(
        temp=0.1, top_k=2, top_p=0.3, min_p=0.05, repeat_penalty=1.0, seed=7
    )
    assert session.settled_sampling == expected
    assert engines.last.turns[0].sampling == expected
    sampling = record.sampling
    assert (sampling.temp, sampling.top_k, sampling.top_p, sampling.min_p, sampling.seed) == (
        0.1,
        2,
        0.3,
        0.05,
        7,
    )


def test_forgetting_a_layer_leads_to_the_next_one_and_each_record_names_its_own() -> None:
    session = layered(Engines(on_load=recommending(llama_header(sampling=MAKERS))))
    temps = [ask(session, "one").sampling.temp]
    session.set_chat_sampling(SamplingChoice())
    temps.append(ask(session, "two").sampling.temp)
    session.sampling = SamplingChoice()
    temps.append(ask(session, "three").sampling.temp)
    assert temps == [0.1, 0.2, 0.3]


def test_another_model_brings_its_own_recommendation() -> None:
    engines = Engines(
        on_load=in_turn(
            recommending(llama_header(sampling=MAKERS)), recommending(llama_header(sampling={}))
        )
    )
    session = begun(engines)
    assert session.recommended_sampling == SamplingChoice(temp=0.3, top_k=3, top_p=0.3)
    session.load(CHOICE._replace(path="/models/other.gguf"))
    settle(session)
    assert session.recommended_sampling == SamplingChoice()
    assert session.settled_sampling == SamplingSettings()


def test_before_a_header_is_known_nothing_is_recommended() -> None:
    session = begun(Engines(on_load=silent))
    assert session.recommended_sampling == SamplingChoice()
    assert session.settled_sampling == SamplingSettings()


def test_what_the_makers_recommend_is_taken_also_as_a_whole_number() -> None:
    header = llama_header(sampling={"temp": 1, "top_k": 64, "min_p": 0})
    session = begun(Engines(on_load=recommending(header)))
    settled = session.settled_sampling
    assert (settled.temp, settled.top_k, settled.min_p) == (1.0, 64, 0.0)


def test_a_choice_of_the_default_value_is_a_choice() -> None:
    session = begun(Engines(on_load=recommending(llama_header(sampling=MAKERS))))
    session.set_chat_sampling(SamplingChoice(temp=0.8, seed=None))
    session.sampling = USER
    assert session.settled_sampling.temp == 0.8
    assert session.settled_sampling.seed is None


def test_a_chats_settings_are_stored_with_it_and_stay_its_own(history: History) -> None:
    session = layered(Engines(), history)
    ask(session, "one")
    first = session.chat.id
    session.new_chat()
    assert session.settled_sampling.temp == 0.2
    ask(session, "two")
    chat = history.load_chat(first)
    assert chat.sampling == CHAT
    session.open_chat(chat)
    assert session.settled_sampling.temp == 0.1


def test_a_chat_that_changes_its_settings_between_turns_is_stored_at_once(
    history: History,
) -> None:
    session = begun(Engines(), history)
    session.set_chat_sampling(CHAT)
    settle(session)
    # Nothing is said in it yet: it is no chat to be found.
    assert history.chats() == []
    ask(session, "one")
    assert history.load_chat(session.chat.id).sampling == CHAT
    session.set_chat_sampling(SamplingChoice(top_k=9))
    settle(session)
    assert history.load_chat(session.chat.id).sampling == SamplingChoice(top_k=9)


def test_settings_chosen_while_an_answer_comes_are_for_the_next_one() -> None:
    engines = Engines(in_turn(silent, answered))
    session = begun(engines)
    session.send("one")
    session.set_chat_sampling(CHAT)
    engines.last.push(*answered(engines.last.turns[0]))
    (first,) = records(session)
    assert [first.sampling.temp, ask(session, "two").sampling.temp] == [0.8, 0.1]


def test_a_message_that_waits_for_a_model_is_sent_as_it_was_asked() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    session.send("hello")
    with pytest.raises(SessionError, match="still coming"):
        session.set_system("be kind")
    session.set_chat_sampling(CHAT)
    engines.last.push(ready())
    settle(session)
    assert engines.last.turns[0].sampling.temp == 0.8
