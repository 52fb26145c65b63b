"""A real model with a template that takes no system message."""

from pathlib import Path

import pytest

from backend.chat.roles import NO_SYSTEM
from backend.protocol import ChatMessage, EngineExited
from tests.engine.conftest import MakeTalk
from tests.engine.driver import ENDLESS
from tests.engine.reference import Reference
from tests.tiny import tiny_spm
from tests.unit.chat_templates import GEMMA2, IGNORES_SYSTEM, PHI3


@pytest.mark.parametrize("template", [GEMMA2, IGNORES_SYSTEM])
def test_the_system_prompt_is_told_all_the_same(
    talk: MakeTalk, starter: Path, reference: Reference, template: str
) -> None:
    chat = talk(starter, chat_template=template)
    assert chat.ready is not None
    assert chat.ready.warnings.count(NO_SYSTEM) == 1
    chat.messages.append(ChatMessage("system", "Answer in French."))
    first = chat.ask("Hello!", max_tokens=4).prompt
    assert first is not None
    text = b"".join(reference.pieces(starter, first.ids, special=True)).decode()
    assert "Answer in French.\n\nHello!" in text
    assert list(first.ids) == reference.tokens_of(starter, text)

    second = chat.ask("And now?", max_tokens=4).prompt
    assert second is not None
    assert (second.cache.reason, second.cache_n) == ("appended", first.prompt_tokens + 3)

    chat.messages[0] = ChatMessage("system", "Answer in German.")
    third = chat.ask("And now?", max_tokens=4).prompt
    assert third is not None
    assert third.cache.reason == "system_changed"
    assert third.cache.before is not None
    assert third.cache.before.startswith(" French")


def test_nothing_is_said_of_a_template_that_takes_it(talk: MakeTalk, folder: Path) -> None:
    ready = talk(tiny_spm(folder), chat_template=PHI3).ready
    assert ready is not None
    assert NO_SYSTEM not in ready.warnings


def test_a_template_that_never_ends_is_ended_at_the_load(talk: MakeTalk, folder: Path) -> None:
    chat = talk(tiny_spm(folder))
    chat.request_with(ENDLESS)
    ended = chat.load()
    assert isinstance(ended, EngineExited)
    assert (ended.expected, ended.kind) == (False, "template")
    assert "did not end within 2 s" in ended.message
