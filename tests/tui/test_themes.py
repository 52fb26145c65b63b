"""Every theme can be read, and the phases told apart, also by eyes that see fewer colours."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tui.themes import CLEAR, PHASES, PHASESCOPE, PROJECTOR, THEMES, phase_colours, theme_names

Vector = NDArray[np.float64]

OKABE_ITO = {
    "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#000000",
}  # fmt: skip
"""Okabe and Ito, Color Universal Design (2008)."""

SIMULATED = {
    "everything": np.eye(3),
    "no red cones": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green cones": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue cones": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
"""What eyes see: matrices on linear RGB, Machado, Oliveira and Fernandes (2009), severity 1."""

XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""sRGB to XYZ under D65 (IEC 61966-2-1)."""

GROUNDS = ("background", "surface", "panel")

TEXTS = (
    "foreground", "text-primary", "text-secondary", "text-accent", "text-warning", "text-error",
    "text-success", "primary",
)  # fmt: skip

TRUE_COLOUR = [theme for theme in (*THEMES, *BUILTIN_THEMES.values()) if not theme.ansi]
ANSI = [theme for theme in BUILTIN_THEMES.values() if theme.ansi]


def named(theme: Theme) -> str:
    return theme.name


def linear(colour: str) -> Vector:
    rgb = np.array(Color.parse(colour).rgb) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio."""
    luminances = [float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other)]
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def lab(rgb: Vector) -> Vector:
    """CIE L*a*b* of linear RGB."""
    scaled = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    f = np.where(scaled > 216 / 24389, np.cbrt(scaled), (24389 / 27 * scaled + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: Vector, other: Vector) -> float:
    """CIEDE2000 of two colours in L*a*b* (Sharma, Wu and Dalal 2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    c7 = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    g = 0.5 * (1 - np.sqrt(c7 / (c7 + 25**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    dh = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    dl, dc, dbig = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(dh / 2))
    lm, cm = (l1 + l2) / 2, (c1 + c2) / 2
    hm = h1 + h2 if c1 * c2 == 0 else (h1 + dh / 2) % 360
    t = (
        1
        - 0.17 * np.cos(np.radians(hm - 30))
        + 0.24 * np.cos(np.radians(2 * hm))
        + 0.32 * np.cos(np.radians(3 * hm + 6))
        - 0.20 * np.cos(np.radians(4 * hm - 63))
    )
    sl = 1 + 0.015 * (lm - 50) ** 2 / np.sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rt = (
        -2
        * np.sqrt(cm**7 / (cm**7 + 25**7))
        * np.sin(np.radians(60 * np.exp(-(((hm - 275) / 25) ** 2))))
    )
    terms = (dl / sl) ** 2 + (dc / sc) ** 2 + (dbig / sh) ** 2 + rt * dc / sc * dbig / sh
    return float(np.sqrt(terms))


def least_difference(colours: dict[str, str], eyes: Vector) -> float:
    seen = [lab(eyes @ linear(colour)) for colour in colours.values()]
    return min(difference(one, other) for one, other in combinations(seen, 2))


@pytest.mark.parametrize(
    ("one", "other", "right"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (50.0, 0.0, -2.5), 4.3065),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_measure_gives_the_published_values(
    one: tuple[float, ...], other: tuple[float, ...], right: float
) -> None:
    # Sharma, Wu and Dalal (2005), table 1.
    assert difference(np.array(one), np.array(other)) == pytest.approx(right, abs=1e-4)


@pytest.mark.parametrize(
    ("one", "other", "right"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48)]
)
def test_the_contrast_is_that_of_wcag(one: str, other: str, right: float) -> None:
    assert contrast(one, other) == pytest.approx(right, abs=0.005)


# ------------------------------------------------------------------------------ our themes


def test_ours_come_first_in_the_list_of_themes() -> None:
    names = theme_names()
    assert names[:3] == ("phasescope", "phasescope-projector", "phasescope-clear")
    assert set(names[3:]) == set(BUILTIN_THEMES)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("theme", "text", "figures"),
    [(PHASESCOPE, 4.5, 4.5), (PROJECTOR, 7.0, 7.0), (CLEAR, 7.0, 4.2)],
    ids=["phasescope", "projector", "clear"],
)
def test_our_themes_can_be_read(theme: Theme, text: float, figures: float) -> None:
    colours = theme.to_color_system().generate()
    for ground in GROUNDS:
        for name in TEXTS:
            assert contrast(colours[name], colours[ground]) >= text, (name, ground)
        for name, colour in phase_colours(theme).items():
            assert contrast(colour, colours[ground]) >= figures, (name, ground)


@pytest.mark.parametrize("theme", THEMES, ids=named)
def test_muted_text_of_ours_can_be_read(theme: Theme) -> None:
    colours = theme.to_color_system().generate()
    muted = colours["text-muted"]
    for ground in GROUNDS:
        if muted == "auto 60%":
            # Textual's form: black or white, whichever stands out more, mixed into the ground.
            under = Color.parse(colours[ground])
            shown = under.blend(under.get_contrast_text(1.0), 0.6, 1.0).hex
        else:
            shown = muted
        least = 7.0 if theme is PROJECTOR else 4.5
        assert contrast(shown, colours[ground]) >= least, ground


def test_the_projectors_ground_is_white_and_its_phases_are_strong() -> None:
    assert PROJECTOR.background == "#ffffff"
    for name in ("prefill", "decode"):
        # Full saturation: one of red, green and blue is missing.
        assert min(Color.parse(phase_colours(PROJECTOR)[name]).rgb) == 0, name


@pytest.mark.parametrize("eyes", SIMULATED.values(), ids=SIMULATED)
@pytest.mark.parametrize(
    ("theme", "least"), [(CLEAR, 20.0), (PROJECTOR, 15.0)], ids=["clear", "projector"]
)
def test_the_phases_differ_for_all_eyes(theme: Theme, least: float, eyes: Vector) -> None:
    # Differences of 2 are just seen side by side; 20 is another colour by name.
    assert least_difference(phase_colours(theme), eyes) >= least


def test_the_clear_themes_phases_are_of_the_set_and_the_furthest_apart() -> None:
    chosen = phase_colours(CLEAR)
    assert set(chosen.values()) <= OKABE_ITO

    def worst(colours: dict[str, str]) -> float:
        return min(least_difference(colours, eyes) for eyes in SIMULATED.values())

    background = CLEAR.background
    assert background is not None
    readable = [colour for colour in OKABE_ITO if contrast(colour, background) >= 4.5]
    others = [dict(zip(PHASES, three, strict=True)) for three in combinations(readable, 3)]
    assert worst(chosen) == pytest.approx(max(map(worst, others)))


# --------------------------------------------------------------------------- every theme


@pytest.mark.parametrize("theme", TRUE_COLOUR, ids=named)
def test_the_phases_stand_out_from_every_ground(theme: Theme) -> None:
    colours = theme.to_color_system().generate()
    for name, colour in phase_colours(theme).items():
        for ground in GROUNDS:
            assert contrast(colour, colours[ground]) >= 3.0, (name, ground)


@pytest.mark.parametrize("theme", TRUE_COLOUR, ids=named)
def test_the_phases_differ_in_every_theme(theme: Theme) -> None:
    assert least_difference(phase_colours(theme), SIMULATED["everything"]) >= 10


def test_a_theme_that_is_nobodys_gets_colours_that_fit() -> None:
    grey = Theme(
        "grey", primary="#ffffff", background="#6f6f6f", surface="#6f6f6f", panel="#6f6f6f"
    )
    for colour in phase_colours(grey).values():
        assert contrast(colour, "#6f6f6f") >= 3.0


def test_a_themes_own_variables_come_first() -> None:
    theme = Theme("own", primary="#ffffff", variables={"decode": "#123456"})
    assert phase_colours(theme)["decode"] == "#123456"
    assert set(phase_colours(theme)) == set(PHASES)


PALETTES = {
    "linux": {
        "black": "#000000", "red": "#aa0000", "yellow": "#aa5500", "blue": "#0000aa",
        "cyan": "#00aaaa", "white": "#aaaaaa", "bright_black": "#555555",
        "bright_white": "#ffffff",
    },
    "xterm": {
        "black": "#000000", "red": "#cd0000", "yellow": "#cdcd00", "blue": "#0000ee",
        "cyan": "#00cdcd", "white": "#e5e5e5", "bright_black": "#7f7f7f",
        "bright_white": "#ffffff",
    },
}  # fmt: skip
"""What terminals make of the 16 colours (console_codes(4); xterm's XTerm-col.ad)."""


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("theme", ANSI, ids=named)
def test_with_16_colours_the_phases_are_the_terminals_own(
    theme: Theme, palette: dict[str, str]
) -> None:
    ground = palette["black" if theme.dark else "bright_white"]
    colours = list(phase_colours(theme).values())
    assert len(set(colours)) == len(PHASES)
    for colour in colours:
        assert Color.parse(colour).ansi is not None
        assert contrast(palette[colour.removeprefix("ansi_")], ground) >= 3.0
