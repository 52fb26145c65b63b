"""Our themes, and the colours of the phases in every theme.

Prefill, decode and reuse have one colour each, everywhere; a theme names them in its variables,
or they are fitted to its ground.
"""

from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES, Theme

PHASES = ("prefill", "decode", "reused")

DARK_PHASES = {"prefill": "#f0a33c", "decode": "#4fc3c7", "reused": "#8b97a8"}
LIGHT_PHASES = {"prefill": "#a85b00", "decode": "#00707a", "reused": "#5d6875"}
"""Those of light themes are darker versions."""

DARK_ANSI_PHASES = {"prefill": "ansi_yellow", "decode": "ansi_cyan", "reused": "ansi_white"}
LIGHT_ANSI_PHASES = {
    "prefill": "ansi_red",
    "decode": "ansi_blue",
    "reused": "ansi_bright_black",
}
"""Of the 16 colours, those that can be read on such a ground on the Linux console and in xterm."""

LEAST_CONTRAST = 4.5
"""What WCAG 2 asks of text (1.4.3): figures have these colours too."""

SELECTION_PERCENT = 25
"""Of the primary colour in the ground of selected text."""

GROUNDS = ("background", "surface", "panel")

PHASESCOPE = Theme(
    name="phasescope",
    primary="#6cb6ff",
    secondary="#b083f0",
    accent="#6cb6ff",
    warning="#e3b341",
    error="#f47067",
    success="#57ab5a",
    foreground="#d6dde6",
    background="#12161c",
    surface="#181d25",
    panel="#222a35",
    dark=True,
    variables=DARK_PHASES,
)

PROJECTOR = Theme(
    name="phasescope-projector",
    primary="#5b1f8a",
    secondary="#7a0f5c",
    accent="#5b1f8a",
    warning="#6e4200",
    error="#9a001f",
    success="#0a5522",
    foreground="#0a0a0a",
    background="#ffffff",
    surface="#f7f7f7",
    panel="#ececec",
    dark=False,
    variables={
        "prefill": "#8a3200",
        "decode": "#00489c",
        "reused": "#464646",
        "text-muted": "#3a3a3a",
        "text-disabled": "#555555",
        "border-blurred": "#767676",
    },
)
"""For a bright room and a weak projector: all text has a contrast of 7 or more."""

CLEAR = Theme(
    name="phasescope-clear",
    primary="#b9c7d8",
    secondary="#cc79a7",
    accent="#b9c7d8",
    warning="#e69f00",
    error="#f08fbf",
    success="#35c79c",
    foreground="#e6ebf1",
    background="#0d1014",
    surface="#12161b",
    panel="#191e25",
    dark=True,
    variables={"prefill": "#d55e00", "decode": "#56b4e9", "reused": "#f0e442"},
)
"""For every kind of colour vision: the phases are vermillion, sky blue and yellow of the set of
Okabe and Ito, the triple of it that stays furthest apart."""

THEMES = (PHASESCOPE, PROJECTOR, CLEAR)


def theme_names() -> tuple[str, ...]:
    """All themes that the window offers, ours first."""
    return (*(theme.name for theme in THEMES), *BUILTIN_THEMES)


def phase_colours(theme: Theme) -> dict[str, str]:
    """The colour of each phase in a theme, as CSS variables.

    A theme's own variables come first. Otherwise they are those of dark or light themes, moved
    towards white or black until their contrast to each of the theme's grounds is 4.5 or more;
    themes of the terminal's 16 colours get some of these.
    """
    if theme.ansi:
        usual = DARK_ANSI_PHASES if theme.dark else LIGHT_ANSI_PHASES
        return {name: theme.variables.get(name, colour) for name, colour in usual.items()}
    usual = DARK_PHASES if theme.dark else LIGHT_PHASES
    if all(name in theme.variables for name in PHASES):
        return {name: theme.variables[name] for name in PHASES}
    colours = theme.to_color_system().generate()
    grounds = [Color.parse(colours[ground]) for ground in GROUNDS]
    far = WHITE if theme.dark else BLACK
    return {
        name: theme.variables.get(name) or _fitted(Color.parse(colour), far, grounds)
        for name, colour in usual.items()
    }


def selection_colours(theme: Theme) -> dict[str, str]:
    """The ground of selected text, as CSS variables: text on it can be read as before.

    Themes of the terminal's 16 colours keep Textual's.
    """
    if theme.ansi:
        return {}
    ground = f"{theme.primary} {SELECTION_PERCENT}%"
    return {"screen-selection-background": ground, "input-selection-background": ground}


def contrast(one: Color, other: Color) -> float:
    """Contrast of two opaque colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _fitted(colour: Color, far: Color, grounds: list[Color]) -> str:
    for step in range(21):
        moved = colour.blend(far, step / 20, 1.0)
        if all(contrast(moved, ground) >= LEAST_CONTRAST for ground in grounds):
            return moved.hex
    return far.hex


def _luminance(colour: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
