"""Sampling settings that a model's makers put into its file (`general.sampling.*`)."""

from typing import NamedTuple

from models.errors import printable
from models.libggml import GgufFile, GgufReadError

LARGEST = (1 << 31) - 1
"""What llama.cpp's counts can hold."""

DEFAULT_SEQUENCE = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
"""The order in which llama.cpp's tools sample by themselves, and phasescope does."""

_PREFIX = "general.sampling."


class Recommended(NamedTuple):
    """What the makers recommend.

    Attributes:
        settings: By llama.cpp's names of its options.
        warnings: What of it cannot be followed, a sentence each.
    """

    settings: dict[str, int | float]
    warnings: tuple[str, ...]


class _Setting(NamedTuple):
    """A setting of the file.

    Attributes:
        option: What llama.cpp calls its option.
        least, most: Between these it makes sense.
        whole: It is a count.
    """

    option: str
    least: float
    most: float
    whole: bool = False


_SETTINGS = {
    "top_k": _Setting("top_k", -1, LARGEST, whole=True),
    "top_p": _Setting("top_p", 0, 1),
    "min_p": _Setting("min_p", 0, 1),
    "xtc_probability": _Setting("xtc_probability", 0, 1),
    "xtc_threshold": _Setting("xtc_threshold", 0, 1),
    "temp": _Setting("temp", 0, 100),
    "penalty_last_n": _Setting("repeat_last_n", -1, LARGEST, whole=True),
    "penalty_repeat": _Setting("repeat_penalty", 0.01, 100),
}


def read_sampling(file: GgufFile) -> Recommended:
    """What a file recommends; nothing in it is trusted."""
    settings: dict[str, int | float] = {}
    warnings: list[str] = []
    for name, setting in _SETTINGS.items():
        try:
            value = file.number(_PREFIX + name)
        except GgufReadError as error:
            warnings.append(_ignored(str(error)))
            continue
        if value is None:
            continue
        if not setting.least <= value <= setting.most or (setting.whole and value % 1):
            warnings.append(_ignored(f"{_PREFIX}{name} is {value:g}"))
            continue
        settings[setting.option] = int(value) if setting.whole else value
    if settings.get("top_k") == -1:
        # To llama.cpp that, too, means all candidates.
        settings["top_k"] = 0
    return Recommended(settings, (*warnings, *_beyond(file)))


def _beyond(file: GgufFile) -> list[str]:
    """What is recommended and phasescope does not have."""
    beyond: list[str] = []
    try:
        mirostat = file.number(_PREFIX + "mirostat")
        if mirostat:
            beyond.append(
                f"the model's makers recommend mirostat {mirostat:g}, which phasescope does not "
                "have; it samples without it"
            )
    except GgufReadError as error:
        beyond.append(_ignored(str(error)))
    try:
        sequence = file.text(_PREFIX + "sequence")
        if sequence and sequence != DEFAULT_SEQUENCE:
            beyond.append(
                f"the model's makers recommend the samplers {printable(sequence[:100])}; "
                "phasescope keeps llama.cpp's usual ones and their order"
            )
    except GgufReadError as error:
        beyond.append(_ignored(str(error)))
    return beyond


def _ignored(fault: str) -> str:
    return f"a sampling setting of the model's makers is ignored: {fault}"
