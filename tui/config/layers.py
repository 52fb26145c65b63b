"""Sampling settings layer by layer: who chose a value, and what holds below."""

from collections.abc import Mapping
from typing import NamedTuple

from backend.settings import SamplingChoice, SamplingSettings
from tui.config.kinds import Stored
from tui.config.load import Origin

CHAT = "this chat"
MAKERS = "the model's makers"
LLAMA_CPP = "llama.cpp's default"

WITHOUT_VALUE = {"seed": "drawn each turn", "max_tokens": "no limit"}
"""What None means."""


class Layer(NamedTuple):
    """A value that somebody chose, or llama.cpp's default.

    Attributes:
        origin: Who.
    """

    origin: str
    value: Stored


class Sampling(NamedTuple):
    """All that sampling settings come from, the first that chose first.

    Attributes:
        chat: Of the open chat.
        user: Of all chats.
        makers: What the model's makers recommend.
        origins: Where the user's values are from, by the setting's id.
    """

    chat: SamplingChoice
    user: SamplingChoice
    makers: SamplingChoice
    origins: Mapping[str, Origin]

    def layers(self, name: str) -> list[Layer]:
        """A setting's layers; the first is in force, the last is always llama.cpp's."""
        choices = (
            (CHAT, self.chat),
            (self._user_words(name), self.user),
            (MAKERS, self.makers),
        )
        chosen = [
            Layer(origin, choice.chosen[name])
            for origin, choice in choices
            if name in choice.chosen
        ]
        return [*chosen, Layer(LLAMA_CPP, getattr(SamplingSettings(), name))]

    def _user_words(self, name: str) -> str:
        origin = self.origins.get(f"sampling.{name}")
        return "your settings" if origin is None or origin.source == "default" else str(origin)
