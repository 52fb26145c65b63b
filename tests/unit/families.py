"""What reasoning models of several families say, token by token, and their templates in small."""

import json
from typing import NamedTuple


class Family(NamedTuple):
    """A family's format.

    Attributes:
        template: What it makes of a conversation; most drop the thinking of earlier answers.
        said: Tokens of an answer, without the end token.
        thinking, answer: What of them is which.
        thinking_n: Tokens that are thinking or its markers.
        keeps_thinking: The template leaves earlier answers as they are.
    """

    template: str
    said: tuple[str, ...]
    thinking: str
    answer: str
    thinking_n: int
    keeps_thinking: bool = False


def _text(text: str) -> str:
    """A text as a template writes it out: Jinja drops a newline that stands bare at the end."""
    return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}" if text else ""


def _chatml(answer: str, begin: str = "") -> str:
    return (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
        f"{{{{ {answer} }}}}{{% else %}}{{{{ m.content }}}}{{% endif %}}<|im_end|>\n{{% endfor %}}"
        + _text(f"<|im_start|>assistant\n{begin}")
    )


def _plain(user: str, assistant: str, answer: str, begin: str = "") -> str:
    """User and assistant marked by a text before each message."""
    return (
        f"{{% for m in messages %}}{{% if m.role == 'user' %}}{_text(user)}{{{{ m.content }}}}"
        f"{{% else %}}{_text(assistant)}{answer}{{% endif %}}{{% endfor %}}"
        + _text(assistant + begin)
    )


_AFTER_THINK = "m.content.split('</think>')[-1].lstrip('\n')"

FAMILIES = {
    "qwen3": Family(
        _chatml(_AFTER_THINK),
        ("<think>", "\n", "Let", " me", "\n", "</think>", "\n\n", "It", " is", "."),
        "\nLet me\n",
        "It is.",
        6,
    ),
    "qwen3 asked not to think": Family(
        _chatml(_AFTER_THINK),
        ("<think>", "\n\n", "</think>", "\n\n", "It", " is", "."),
        "\n\n",
        "It is.",
        3,
    ),
    "qwen3 that the template keeps from thinking": Family(
        _chatml(_AFTER_THINK, "<think>\n\n</think>\n\n"), ("It", " is", "."), "", "It is.", 0
    ),
    "qwq": Family(
        _chatml(_AFTER_THINK, "<think>\n"),
        ("Let", " me", "\n", "</think>", "\n\n", "It", " is", "."),
        "Let me\n",
        "It is.",
        4,
    ),
    "deepseek-r1": Family(
        _plain(
            "<｜User｜>",
            "<｜Assistant｜>",
            "{{ m.content.split('</think>')[-1] }}<｜end▁of▁sentence｜>",
            "<think>\n",
        ),
        ("Let", " me", "\n", "</think>", "\n\n", "It", " is", "."),
        "Let me\n",
        "It is.",
        4,
    ),
    "magistral": Family(
        _plain("[INST]", "[/INST]", "{{ m.content }}</s>"),
        ("[THINK]", "Let", " me", "[/THINK]", "It", " is", "."),
        "Let me",
        "It is.",
        4,
        keeps_thinking=True,
    ),
    "seed-oss": Family(
        _plain(
            "<seed:bos>user\n",
            "<seed:eos><seed:bos>assistant\n",
            "{{ m.content.split('</seed:think>')[-1] | trim }}",
        ),
        ("<", "seed", ":", "think", ">", "Let", " me", "</", "seed", ":think", ">", "It", " is."),
        "Let me",
        "It is.",
        11,
    ),
    "command-a": Family(
        _plain(
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
            "<|START_RESPONSE|>{{ m.content }}<|END_RESPONSE|>",
        ),
        (
            *("<|START_THINKING|>", "Let", " me", "<|END_THINKING|>"),
            *("<|START_RESPONSE|>", "It", " is", ".", "<|END_RESPONSE|>"),
        ),
        "Let me",
        "It is.",
        4,
    ),
    "command-a that does not think": Family(
        _plain(
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
            "<|START_RESPONSE|>{{ m.content }}<|END_RESPONSE|>",
        ),
        ("<|START_RESPONSE|>", "It", " is", ".", "<|END_RESPONSE|>"),
        "",
        "It is.",
        0,
    ),
    "exaone-deep": Family(
        _plain(
            "[|user|]",
            "[|endofturn|]\n[|assistant|]",
            "{{ m.content.split('</thought>')[-1].lstrip('\n') }}",
            "<thought>\n",
        ),
        ("Let", " me", "\n", "</", "thought", ">", "\n\n", "It", " is", "."),
        "Let me\n",
        "It is.",
        6,
    ),
    "gpt-oss": Family(
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% if '<|channel|>' in m.content or '<|channel|>' in m.thinking %}"
        "{{ raise_exception('You have passed a message containing <|channel|> tags') }}{% endif %}"
        "<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>"
        "{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "<|start|>assistant",
        (
            *("<|channel|>", "analysis", "<|message|>", "Let", " me", "<|end|>"),
            *("<|start|>", "assistant", "<|channel|>", "final", "<|message|>", "It", " is", "."),
        ),
        "Let me",
        "It is.",
        6,
    ),
    "gpt-oss that thinks twice": Family(
        "{% for m in messages %}<|start|>{{ m.role }}"
        "{{ '<|channel|>final' if m.role == 'assistant' else '' }}<|message|>{{ m.content }}"
        "<|end|>{% endfor %}<|start|>assistant",
        (
            *("<|channel|>", "analysis", "<|message|>", "Let", "<|end|>"),
            *("<|start|>", "assistant", "<|channel|>", "analysis", "<|message|>", " me", "<|end|>"),
            *("<|start|>", "assistant", "<|channel|>", "final", "<|message|>", "It", " is", "."),
        ),
        "Let me",
        "It is.",
        12,
    ),
    "granite": Family(
        _plain(
            "<|start_of_role|>user<|end_of_role|>",
            "<|start_of_role|>assistant<|end_of_role|>",
            "{{ m.content.split('<response>')[-1].split('</response>')[0] }}<|end_of_text|>",
        ),
        (
            "<think>",
            "Let",
            " me",
            "</think>",
            "<",
            "response",
            ">",
            "It",
            " is.",
            "</",
            "response>",
        ),
        "Let me",
        "It is.",
        4,
    ),
    "hunyuan": Family(
        _plain(
            "<｜hy_User｜>",
            "<｜hy_Assistant｜>",
            "{{ m.content.split('<answer>')[-1].split('</answer>')[0].strip() }}<｜hy_eos｜>",
        ),
        (
            *("<think>", "\n", "Let", " me", "\n", "</think>", "\n", "<answer>", "\n"),
            *("It", " is", ".", "\n", "</answer>"),
        ),
        "\nLet me\n",
        "It is.\n",
        6,
    ),
    "kimi": Family(
        _plain(
            "<|im_user|>user<|im_middle|>",
            "<|im_end|><|im_assistant|>assistant<|im_middle|>",
            "{{ m.content.split('◁/think▷')[-1] }}",
        ),
        ("◁", "think", "▷", "Let", " me", "◁/", "think", "▷", "It", " is", "."),
        "Let me",
        "It is.",
        8,
    ),
    "apertus": Family(
        _plain(
            "<|user_start|>",
            "<|user_end|><|assistant_start|>",
            "{{ m.content.split('<|inner_suffix|>')[-1] }}<|assistant_end|>",
        ),
        ("<|inner_prefix|>", "Let", " me", "<|inner_suffix|>", "It", " is", "."),
        "Let me",
        "It is.",
        4,
    ),
    "gemma4": Family(
        _plain(
            "<|turn>user\n",
            "<turn|>\n<|turn>model\n",
            "{{ m.content.split('<channel|>')[-1] | trim }}",
        ),
        ("<|channel>", "thought", "\n", "Let", " me", "<channel|>", "It", " is", "."),
        "\nLet me",
        "It is.",
        6,
    ),
}
