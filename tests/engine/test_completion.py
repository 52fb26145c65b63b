"""A base model goes on with a text as it stands."""

from pathlib import Path

from backend.chat.completion import COMPLETION
from backend.chat.roles import NO_SYSTEM
from backend.protocol import ChatMessage
from tests.engine.conftest import MakeTalk
from tests.engine.driver import engine_settings
from tests.engine.reference import Reference
from tests.tiny import tiny_spm

TEXT = "The windmill stands on a hill,  and\nits sails"


def test_a_text_is_gone_on_with_where_it_ends(
    talk: MakeTalk, gemma3: Path, reference: Reference
) -> None:
    chat = talk(gemma3, engine_settings(512, n_ubatch=128), chat_template=COMPLETION)
    assert chat.ready is not None
    assert NO_SYSTEM not in chat.ready.warnings
    counted = chat.count(TEXT)
    first = chat.ask(TEXT, max_tokens=6)
    assert first.prompt is not None
    ids = list(first.prompt.ids)
    assert ids == reference.tokens_of(gemma3, TEXT, add_special=True)
    assert counted.prompt_tokens == len(ids)
    assert first.prompt.lead == TEXT[-48:]
    spelled = b"".join(reference.pieces(gemma3, first.token_ids)).decode()
    assert chat.messages[-1].content == spelled

    # The next text follows the answer directly; all before it is reused.
    more = " and then,"
    second = chat.ask(more, max_tokens=4)
    assert second.prompt is not None
    held = [*ids, *first.token_ids]
    assert list(second.prompt.ids) == held + reference.tokens_of(gemma3, more)
    assert (second.prompt.cache_n, second.prompt.cache.reason) == (len(held) - 1, "appended")

    resumed = chat.resume(max_tokens=4)
    assert resumed.prompt is not None
    assert resumed.prompt.prompt_n == 1


def test_the_system_prompt_stands_first(talk: MakeTalk, gemma3: Path, reference: Reference) -> None:
    chat = talk(gemma3, engine_settings(512, n_ubatch=128), chat_template=COMPLETION)
    chat.messages.append(ChatMessage("system", "A tale.\n\n"))
    prompt = chat.ask("Once <eos> upon", max_tokens=1).prompt
    assert prompt is not None
    bos = reference.bos_token(gemma3)
    plain = reference.tokens_of(gemma3, "A tale.\n\nOnce <eos> upon", parse_special=False)
    assert list(prompt.ids) == [bos, *plain]


def test_a_sentencepiece_text_gets_one_space_before_it_and_none_later(
    talk: MakeTalk, folder: Path, reference: Reference
) -> None:
    path = tiny_spm(folder)
    chat = talk(path, chat_template=COMPLETION)
    first = chat.ask("is it blue", max_tokens=5).prompt
    assert first is not None
    assert list(first.ids) == reference.tokens_of(path, "is it blue", add_special=True)
    told = f"is it blue{chat.messages[-1].content}or red"
    second = chat.ask("or red", max_tokens=1).prompt
    assert second is not None
    spelled = b"".join(reference.pieces(path, second.ids[1:])).decode(errors="replace")
    assert spelled == f" {told}"
    assert second.cache_n == len(first.ids) + 4
