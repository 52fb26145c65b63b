"""Chat templates that take no system message: told at load, and helped in each prompt."""

from collections.abc import Sequence

from backend.chat.templates import ChatTemplate, ChatTemplateError
from backend.protocol import ChatMessage

_SYSTEM = "phasescope-system"
_USER = "phasescope-user"
"""Words that no template holds."""

NO_SYSTEM = (
    "the chat template takes no system message, so a system prompt is put before the first "
    "message of the user"
)
"""What a load says of such a template."""


def takes_system(template: ChatTemplate) -> bool:
    """Whether a template lets a system message through.

    One that takes no user's message either has other troubles; it is left alone.
    """
    user = {"role": "user", "content": _USER}
    try:
        alone = template.render([user])
    except ChatTemplateError:
        return True
    if _USER not in alone:
        return True
    try:
        return _SYSTEM in template.render([{"role": "system", "content": _SYSTEM}, user])
    except ChatTemplateError:
        return False


def without_system(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """A conversation whose system prompt is the beginning of the first user's message."""
    if not messages or messages[0].role != "system":
        return tuple(messages)
    system, *others = messages
    if not system.content.strip():
        return tuple(others)
    if others and others[0].role == "user":
        asked, *rest = others
        return (ChatMessage("user", f"{system.content}\n\n{asked.content}"), *rest)
    return (ChatMessage("user", system.content), *others)
