"""Which model a session loads, and how."""

from typing import NamedTuple

from backend.chat.chatml import CHATML
from backend.chat.completion import COMPLETION
from backend.settings import EngineSettings

TEMPLATES = {"chatml": CHATML, "completion": COMPLETION}
"""Chat templates for models without one, by the name they are asked for with."""


class ModelChoice(NamedTuple):
    """Which model is loaded, and how.

    Attributes:
        path: Its file; None: the bundled starter, if it is there when it is wanted.
        chat_template: A template that replaces the model's own.
        available_bytes: Memory that the load may take; None: ask the system.
    """

    path: str | None
    settings: EngineSettings = EngineSettings()
    chat_template: str | None = None
    available_bytes: int | None = None
