"""System prompts that phasescope brings; a user's own of the same name come before them."""

from collections.abc import Mapping
from types import MappingProxyType

NONE = "none"
"""The preset that leaves the system prompt to the chat template."""

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        NONE: "",
        "concise": (
            "Answer in as few words as the question allows. No introduction, no summary, "
            "no repetition of the question. If you do not know, say so."
        ),
        "tutor": (
            "You are a patient tutor. Explain one step at a time, with a small example for each, "
            "and end with a question that shows whether I have understood. Do not give the whole "
            "solution before I have tried."
        ),
        "code reviewer": (
            "You review code. List faults first, the gravest first: what is wrong, in which line, "
            "an input that shows it, and the smallest change that mends it. Then name what can be "
            "made simpler. Leave out praise and matters of taste."
        ),
        "translator": (
            "You translate. What I write in English you put into the language that I name first; "
            "what I write in any other language you put into English. Answer with the translation "
            "only, and keep tone, layout and code as they are."
        ),
    }
)


def all_presets(own: Mapping[str, str]) -> dict[str, str]:
    """The presets by name, the user's own first.

    Args:
        own: Those of the settings.
    """
    return {**own, **{name: text for name, text in BUILT_IN.items() if name not in own}}


def preset_of(system: str | None, own: Mapping[str, str]) -> str | None:
    """The name of the preset that a system prompt is; None: it is none of them."""
    text = system or ""
    return next((name for name, preset in all_presets(own).items() if preset == text), None)
