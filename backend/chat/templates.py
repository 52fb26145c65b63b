"""Chat templates: Jinja programs from model files, run as the untrusted input they are.

A template that raises is told in one sentence. A template that does not end cannot be stopped
from within the process that runs it; the client ends that process (`backend.local.process`).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from jinja2 import TemplateError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from models.errors import printable

MOST_CHARACTERS = 50_000_000
"""Longest text that `*` may make inside a template."""

LARGEST_POWER = 1_000
"""Largest operand of `**` inside a template."""


_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What Python raises when a template computes nonsense, or too much."""


class ChatTemplateError(Exception):
    """A template cannot be compiled or raised; the text is one sentence."""


class _GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks an answer for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012 (the base class says what it is)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@pass_context
def _unchanged(_context: Context, value: object) -> object:
    """Output as it is; that it needs the context keeps Jinja from computing output beforehand."""
    return value


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with multiplication and powers bounded.

    Nothing is computed when a template is compiled, because only rendering is watched.
    """

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        sized = next((side for side in (left, right) if isinstance(side, Sequence)), None)
        if operator == "*" and sized is not None:
            times = right if sized is left else left
            if isinstance(times, int) and len(sized) * times > MOST_CHARACTERS:
                raise SecurityError("a text of the template grows too long")
        if operator == "**" and max(abs(left), abs(right)) > LARGEST_POWER:
            raise SecurityError("a power in the template grows too large")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """A compiled chat template, with what templates expect of their surroundings.

    Args:
        source: Jinja source.
        bos_text, eos_text: The vocabulary's spelling of these tokens.

    Raises:
        ChatTemplateError: The source is no valid template.
    """

    def __init__(self, source: str, *, bos_text: str, eos_text: str) -> None:
        environment = _Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _GenerationTag],
            optimized=False,
            finalize=_unchanged,
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _strftime_now
        self.source = source
        self._tokens = {"bos_token": bos_text, "eos_token": eos_text}
        try:
            self._template = environment.from_string(source)
        except (TemplateError, *_FAILURES) as error:
            raise ChatTemplateError(
                f"the chat template is not valid Jinja: {_text(error)}"
            ) from error

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The conversation as the model's prompt, ending where the answer begins.

        Raises:
            ChatTemplateError: The template raised.
        """
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=True,
                **self._tokens,
            )
        except TemplateError as error:
            raise ChatTemplateError(f"the chat template raised: {_text(error)}") from error
        except _FAILURES as error:
            raise ChatTemplateError(f"the chat template failed: {_name_and_text(error)}") from error


def _text(error: Exception) -> str:
    """An error's text on one line; it is the template's, so it may hold anything."""
    return printable(" ".join(str(error).split()))


def _name_and_text(error: Exception) -> str:
    """What is known of an error; some, as when memory ran out, have no text."""
    return ": ".join(filter(None, (type(error).__name__, _text(error))))


def _raise(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: Literal[True, False] = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
