"""Which model a session loads, and how."""

import stat
from pathlib import Path
from typing import NamedTuple

from backend.chat.chatml import CHATML
from backend.chat.completion import COMPLETION
from backend.paths import at_home
from backend.settings import EngineSettings

TEMPLATES = {"chatml": CHATML, "completion": COMPLETION}
"""Chat templates for models without one, by the name they are asked for with."""


LARGEST_TEMPLATE_BYTES = 1 << 20
"""More than this is no file of a chat template."""


class TemplateFileError(Exception):
    """A chat template cannot be had from its file; the text is one sentence.

    Attributes:
        fault: The end of it: what is wrong with the file.
    """

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"{path} is not a readable template: it {fault}")
        self.fault = fault


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


def template_text(name: str) -> str:
    """A chat template, by its name or from its file.

    Raises:
        TemplateFileError: It is neither.
    """
    known = TEMPLATES.get(name)
    return read_template(at_home(name)) if known is None else known


def read_template(path: Path) -> str:
    """A chat template from its file.

    Raises:
        TemplateFileError: It is no file, too large or no text.
    """
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise TemplateFileError(path, "is not a file")
        if facts.st_size > LARGEST_TEMPLATE_BYTES:
            raise TemplateFileError(path, "is too large for a template")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TemplateFileError(path, f"cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise TemplateFileError(path, "is not UTF-8 text") from error
