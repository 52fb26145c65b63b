"""Every setting: its place in the typed object, what it may be, its flag, and a sentence on it."""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import msgspec

from backend.session.choice import TEMPLATES, TemplateFileError, read_template
from backend.settings import LIMITS, EngineSettings, SamplingChoice, SamplingSettings
from models.memory import CACHE_TYPES
from tui.config.kinds import Choice, File, Kind, Number, Stored, Switch, Text, Texts
from tui.config.presets import all_presets

Glyphs = Literal["auto", "unicode", "plain"]


class ModelSettings(EngineSettings, frozen=True):
    """Which model is loaded, and how.

    Attributes:
        path: GGUF file; None: the last used, else the starter.
        chat_template: Name of one of our templates, or a file that replaces the model's; None:
            the model's own.
    """

    path: str | None = None
    chat_template: str | None = None

    @property
    def engine(self) -> EngineSettings:
        """The part that an engine takes."""
        return EngineSettings(
            **{name: getattr(self, name) for name in EngineSettings.__struct_fields__}
        )


class ChatSettings(msgspec.Struct, frozen=True):
    """How a new chat begins.

    Attributes:
        system: Name of a preset, or the text of a system prompt; None: none.
        offer_last_chat: At the start, offer to go on with the last chat.
    """

    system: str | None = None
    offer_last_chat: bool = True


class WindowSettings(msgspec.Struct, frozen=True):
    """How the window looks.

    Attributes:
        theme: Name of a theme, Textual's or ours.
        reduced_motion: Nothing moves that does not have to.
        glyphs: What bars are drawn with; `auto` follows the terminal.
        fold_thinking: Show a model's thinking as one line that opens.
    """

    theme: str = "phasescope"
    reduced_motion: bool = False
    glyphs: Glyphs = "auto"
    fold_thinking: bool = True


class Settings(msgspec.Struct, frozen=True):
    """All that a user can set.

    Attributes:
        model: Which model is loaded, and how.
        sampling: How tokens are chosen; what is `UNSET` is left to the model's makers.
        chat: How a new chat begins.
        presets: System prompts by name.
        window: How the window looks.
        keys: Keys, as Textual names them and with commas between, by a binding's id.
    """

    model: ModelSettings = ModelSettings()
    sampling: SamplingChoice = SamplingChoice()
    chat: ChatSettings = ChatSettings()
    presets: Mapping[str, str] = MappingProxyType({})
    window: WindowSettings = WindowSettings()
    keys: Mapping[str, str] = MappingProxyType({})

    @property
    def system_prompt(self) -> str | None:
        """The system prompt of a new chat, a preset's name resolved."""
        system = self.chat.system
        return None if system is None else all_presets(self.presets).get(system, system) or None


DEFAULTS = Settings()

NAMED = ("presets", "keys")
"""Sections whose names the user chooses."""

SECTIONS: Mapping[str, str] = {
    "model": "Which model is loaded, and how.",
    "sampling": "How tokens are chosen. What is not set is as the model's makers recommend.",
    "chat": "How a new chat begins.",
    "presets": "System prompts by name, for [chat] system and for the window.",
    "window": "How the window looks.",
    "keys": "Own keys: the id of a binding and its keys, as Textual names them.",
}

EXAMPLES: Mapping[str, str] = {
    "presets": 'reviewer = "You review code. Be brief and name the line."',
    "keys": '"chat.regenerate" = "f12"',
}


class Setting(NamedTuple):
    """One setting.

    Attributes:
        section, name: Where it stands.
        kind: What it may be.
        help: A sentence.
        flags: Its spellings on the command line.
        unset: What holds when nothing is set and the default is no value, in words.
    """

    section: str
    name: str
    kind: Kind
    help: str
    flags: tuple[str, ...] = ()
    unset: str = ""

    @property
    def id(self) -> str:
        """`section.name`."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"{VARIABLES}{self.section}_{self.name}".upper()

    @property
    def parameter(self) -> str:
        """Its name among a command's parameters."""
        return f"{self.section}_{self.name}"

    @property
    def flag(self) -> str:
        """The long spelling of its flag."""
        return max(self.flags, key=len, default="")

    @property
    def default(self) -> Stored:
        """What holds when nobody sets it; for sampling, when the model's makers do not either."""
        section = SamplingSettings() if self.section == "sampling" else self.of(DEFAULTS)
        return getattr(section, self.name)

    @property
    def default_words(self) -> str:
        """The default, to be read."""
        if self.unset:
            return self.unset
        written = self.kind.plain(self.default)
        return ("true" if written else "false") if isinstance(written, bool) else str(written)

    def of(self, settings: Settings) -> msgspec.Struct:
        """Its section."""
        section: msgspec.Struct = getattr(settings, self.section)
        return section


VARIABLES = "PHASESCOPE_"
"""What the names of all environment variables begin with."""


def template_fault(path: Path) -> str | None:
    """What is wrong with a file of a chat template."""
    try:
        read_template(path)
    except TemplateFileError as error:
        return error.fault
    return None


ANY = Number()
CACHE_TYPE = Choice(tuple(CACHE_TYPES))


def _within(name: str, *, whole: bool = False, nothing: int | None = None) -> Number:
    """A number in the range that the setting of this name has."""
    limits = LIMITS[name]
    most = limits.most if isfinite(limits.most) else None
    return Number(whole, limits.least, most, limits.above, nothing)


SETTINGS = (
    Setting(
        "model",
        "path",
        File(),
        "GGUF file.",
        ("-m", "--model"),
        "the starter; of the window: the last used",
    ),
    Setting(
        "model",
        "n_ctx",
        _within("n_ctx", whole=True),
        "Context size in tokens.",
        ("-c", "--ctx-size"),
        "as trained, up to 8192",
    ),
    Setting(
        "model",
        "n_batch",
        _within("n_batch", whole=True),
        "Most tokens in one decode call.",
        ("-b", "--batch-size"),
    ),
    Setting(
        "model",
        "n_ubatch",
        _within("n_ubatch", whole=True),
        "Most tokens in one compute step.",
        ("-ub", "--ubatch-size"),
    ),
    Setting(
        "model",
        "n_threads",
        _within("n_threads", whole=True),
        "Threads of decode.",
        ("-t", "--threads"),
        "physical cores",
    ),
    Setting(
        "model",
        "n_threads_batch",
        _within("n_threads_batch", whole=True),
        "Threads of prefill.",
        ("-tb", "--threads-batch"),
        "as many as for decode",
    ),
    Setting(
        "model",
        "n_gpu_layers",
        _within("n_gpu_layers", whole=True),
        "Layers on the GPU; -1: all, where the build can.",
        ("-ngl", "--gpu-layers"),
    ),
    Setting(
        "model",
        "flash_attn",
        Choice(("auto", "on", "off")),
        "Flash attention; auto leaves it to llama.cpp.",
        ("-fa", "--flash-attn"),
    ),
    Setting("model", "type_k", CACHE_TYPE, "Type of the K cache.", ("-ctk", "--cache-type-k")),
    Setting("model", "type_v", CACHE_TYPE, "Type of the V cache.", ("-ctv", "--cache-type-v")),
    Setting(
        "model", "swa_full", Switch(), "Keep all cells of sliding-window layers.", ("--swa-full",)
    ),
    Setting(
        "model",
        "chat_template",
        File(lambda: tuple(TEMPLATES), template_fault),
        f"Chat template: {', '.join(TEMPLATES)} or the file of a Jinja template.",
        (),
        "the model's own",
    ),
    Setting("sampling", "temp", ANY, "Temperature; 0 is greedy.", ("--temp",)),
    Setting(
        "sampling",
        "top_k",
        _within("top_k", whole=True),
        "Candidates kept; 0 keeps all.",
        ("--top-k",),
    ),
    Setting(
        "sampling",
        "top_p",
        _within("top_p"),
        "Smallest set of candidates that has this probability together; 1 is off.",
        ("--top-p",),
    ),
    Setting(
        "sampling",
        "min_p",
        _within("min_p"),
        "Least probability, relative to the likeliest candidate; 0 is off.",
        ("--min-p",),
    ),
    Setting(
        "sampling",
        "typical_p",
        _within("typical_p"),
        "Locally typical sampling; 1 is off.",
        ("--typical",),
    ),
    Setting(
        "sampling",
        "xtc_probability",
        _within("xtc_probability"),
        "Chance that the likeliest candidates are left out; 0 is off.",
        ("--xtc-probability",),
    ),
    Setting(
        "sampling",
        "xtc_threshold",
        _within("xtc_threshold"),
        "Probability from which a candidate counts as one of the likeliest.",
        ("--xtc-threshold",),
    ),
    Setting(
        "sampling",
        "repeat_penalty",
        _within("repeat_penalty"),
        "Penalty for repeated tokens; 1 is off.",
        ("--repeat-penalty",),
    ),
    Setting(
        "sampling",
        "repeat_last_n",
        _within("repeat_last_n", whole=True),
        "Tokens that the penalties look back on; 0 is off, -1 the whole context.",
        ("--repeat-last-n",),
    ),
    Setting(
        "sampling",
        "presence_penalty",
        ANY,
        "Penalty for tokens that were there; 0 is off.",
        ("--presence-penalty",),
    ),
    Setting(
        "sampling",
        "frequency_penalty",
        ANY,
        "Penalty for each time that a token was there; 0 is off.",
        ("--frequency-penalty",),
    ),
    Setting(
        "sampling",
        "seed",
        _within("seed", whole=True, nothing=-1),
        "Seed of the random choice; -1 draws one.",
        ("-s", "--seed"),
    ),
    Setting(
        "sampling",
        "max_tokens",
        _within("max_tokens", whole=True, nothing=-1),
        "Most tokens to generate; -1: no limit.",
        ("-n", "--predict"),
    ),
    Setting(
        "sampling",
        "stop",
        Texts(),
        "Texts that end the answer and are left out of it.",
        ("-r", "--reverse-prompt"),
        "none",
    ),
    Setting(
        "chat", "system", Text(), "System prompt: a preset's name or a text.", ("--system",), "none"
    ),
    Setting(
        "chat", "offer_last_chat", Switch(), "At the start, offer to go on with the last chat."
    ),
    Setting("window", "theme", Text(), "Colours: a theme of Textual's or of phasescope's."),
    Setting("window", "reduced_motion", Switch(), "Nothing moves that does not have to."),
    Setting(
        "window",
        "glyphs",
        Choice(get_args(Glyphs)),
        "What bars are drawn with; auto follows the terminal.",
    ),
    Setting("window", "fold_thinking", Switch(), "Show thinking as one line that opens."),
)
"""In the order of the file and of the screen."""

BY_ID: Mapping[str, Setting] = {setting.id: setting for setting in SETTINGS}

BY_VARIABLE: Mapping[str, Setting] = {setting.variable: setting for setting in SETTINGS}


def names_of(section: str) -> list[str]:
    """The settings of a section."""
    return [setting.name for setting in SETTINGS if setting.section == section]
