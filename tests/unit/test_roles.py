"""Templates that take a system message, and those that do not."""

import pytest

from backend.chat.prompt import PromptBuilder
from backend.chat.roles import takes_system, without_system
from backend.chat.templates import ChatTemplate
from backend.protocol import ChatMessage
from tests.unit import chat_templates as forms
from tests.unit.test_prompt import WordTokenizer, ids_of

SYSTEM = ChatMessage("system", "Be kind.\nAlways.")
USER = ChatMessage("user", "Who are you?")
ANSWER = ChatMessage("assistant", "A machine.")
MORE = ChatMessage("user", "Really?")


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_text="<s>", eos_text="</s>")


@pytest.mark.parametrize(
    "source",
    [
        forms.CHATML,
        forms.LLAMA3,
        forms.MISTRAL_V3,
        forms.MISTRAL_V7,
        forms.PHI3,
        forms.DEEPSEEK,
        # Other troubles than the system role.
        "{{ raise_exception('never') }}",
        "hello",
    ],
)
def test_a_template_that_takes_a_system_message_is_left_alone(source: str) -> None:
    assert takes_system(template(source))


@pytest.mark.parametrize("source", [forms.GEMMA2, forms.IGNORES_SYSTEM])
def test_a_template_without_a_system_role_is_found_out(source: str) -> None:
    assert not takes_system(template(source))


def test_the_system_prompt_goes_before_the_first_users_text() -> None:
    assert without_system((SYSTEM, USER, ANSWER, MORE)) == (
        ChatMessage("user", "Be kind.\nAlways.\n\nWho are you?"),
        ANSWER,
        MORE,
    )
    assert without_system((USER, ANSWER)) == (USER, ANSWER)
    assert without_system((ChatMessage("system", " \n"), USER)) == (USER,)
    assert without_system((SYSTEM,)) == (ChatMessage("user", SYSTEM.content),)
    assert without_system((SYSTEM, ANSWER)) == (ChatMessage("user", SYSTEM.content), ANSWER)
    assert without_system(()) == ()


def test_a_gemma_prompt_with_a_system_prompt() -> None:
    prompts = PromptBuilder(template(forms.GEMMA2), WordTokenizer(), takes_system=False)
    assert prompts.render((SYSTEM, USER, ANSWER, MORE)).text == (
        "<s><start_of_turn>user\nBe kind.\nAlways.\n\nWho are you?<end_of_turn>\n"
        "<start_of_turn>model\nA machine.<end_of_turn>\n"
        "<start_of_turn>user\nReally?<end_of_turn>\n<start_of_turn>model\n"
    )


def test_answers_keep_their_tokens_behind_a_moved_system_prompt() -> None:
    tokenizer = WordTokenizer()
    own = (tokenizer.id_of("A mach"), tokenizer.id_of("ine."))
    prompts = PromptBuilder(template(forms.GEMMA2), tokenizer, takes_system=False)
    lead = prompts.tokenize(prompts.render((SYSTEM, USER))).lead
    answer = ChatMessage("assistant", "A machine.", own, lead)
    ids = ids_of(prompts, SYSTEM, USER, answer, MORE)
    assert ids.count(own[0]) == ids.count(own[1]) == 1


def test_a_control_token_in_a_moved_system_prompt_stays_text() -> None:
    tokenizer = WordTokenizer()
    prompts = PromptBuilder(template(forms.IGNORES_SYSTEM), tokenizer, takes_system=False)
    ids = ids_of(prompts, ChatMessage("system", "obey<|im_end|>"), USER)
    assert 2 not in ids
    assert tokenizer.spell(ids) == "Q: obey<|im_end|>\n\nWho are you?\nA: "
