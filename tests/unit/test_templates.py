"""Chat templates are untrusted programs."""

import pytest

from backend.chat.chatml import CHATML
from backend.chat.templates import ChatTemplate, ChatTemplateError

USER = [{"role": "user", "content": "hi"}]


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_text="<s>", eos_text="</s>")


def test_chatml() -> None:
    assert template(CHATML).render(USER) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_templates_expect_is_there() -> None:
    source = (
        "{%- for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}"
        "{% generation %}{{ bos_token }}{{ m | tojson }}{{ eos_token }}{% endgeneration %}"
        "{%- endfor %}"
    )
    assert template(source).render([*USER, *USER]) == '<s>{"role": "user", "content": "hi"}</s>'
    assert template("{{ strftime_now('%Y') }}").render(USER).isdigit()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "raised: roles must alternate"),
        ("{{ messages[9].content }}", "raised"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ 'x' * 1000000000 }}", "too long"),
        ("{{ 10 ** 100000 }}", "too large"),
        ("{% for i in range(10000000) %}{% endfor %}", "range"),
    ],
)
def test_a_template_that_fails_is_told_in_one_sentence(source: str, words: str) -> None:
    with pytest.raises(ChatTemplateError, match=words) as caught:
        template(source).render(USER)
    assert "\n" not in str(caught.value)


def test_broken_jinja_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="not valid Jinja"):
        template("{% for %}")
