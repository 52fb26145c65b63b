"""A small picture of a screen (SVG), a line a run of cells, so that changes can be read."""

from collections import Counter
from collections.abc import Iterator
from html import escape
from io import StringIO

from rich.cells import cell_len
from rich.color import Color, blend_rgb
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from textual.app import App

CELL, LINE = 10, 20
"""Width and height of a cell."""


class Taken(App[str]):
    """A picture that was taken, where an app to take one of is asked for."""

    def __init__(self, app: App[None]) -> None:
        super().__init__()
        self._picture = picture(app)

    def run(self, **_options: object) -> str:
        """The picture."""
        return self._picture


def picture(app: App[None]) -> str:
    """The screen as it is now."""
    width, height = app.size
    looks: dict[str, str] = {}
    grounds: Counter[str] = Counter()
    boxes: list[tuple[str, str]] = []
    texts: list[str] = []
    for y, line in enumerate(_lines(app)):
        x = 0
        for segment in line:
            cells = cell_len(segment.text)
            ground, ink = _look(segment.style or Style())
            grounds[ground] += cells
            box = f'x="{x * CELL}" y="{y * LINE}" width="{cells * CELL}" height="{LINE}"'
            boxes.append((ground, f'<rect fill="{ground}" {box}/>'))
            if segment.text.strip() or "underline" in ink:
                name = looks.setdefault(ink, f"t{len(looks)}")
                at = f'x="{x * CELL}" y="{y * LINE + 15}" textLength="{cells * CELL}"'
                texts.append(f'<text class="{name}" {at}>{escape(segment.text)}</text>')
            x += cells
    base = grounds.most_common(1)[0][0]
    styles = "".join(f".{name}{{{look}}}" for look, name in looks.items())
    size = f"0 0 {width * CELL} {height * LINE}"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" style="background:{base}">',
            f"<style>text{{font:16px monospace;white-space:pre}}{styles}</style>",
            *(box for ground, box in boxes if ground != base),
            *texts,
            "</svg>\n",
        )
    )


def _lines(app: App[None]) -> Iterator[list[Segment]]:
    """The screen's lines, neighbours of one look joined."""
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        record=True,
    )
    screen = app.screen
    update = screen._compositor.render_update(
        full=True, screen_stack=app._background_screens, simplify=True
    )
    assert update is not None
    segments = [segment for segment in console.render(update) if not segment.control]
    for line in Segment.split_lines(segments):
        yield list(Segment.simplify(line))


def _look(style: Style) -> tuple[str, str]:
    """The ground, and how text on it looks, in CSS."""
    ground = _rgb(style.bgcolor, SVG_EXPORT_THEME.background_color.hex)
    ink = _rgb(style.color, SVG_EXPORT_THEME.foreground_color.hex)
    if style.reverse:
        ground, ink = ink, ground
    if style.dim:
        faint = blend_rgb(
            Color.parse(ground).get_truecolor(), Color.parse(ink).get_truecolor(), 0.5
        )
        ink = faint.hex
    parts = [f"fill:{ink}"]
    parts += ["font-weight:bold"] if style.bold else []
    parts += ["font-style:italic"] if style.italic else []
    lines = ["underline"] if style.underline else []
    lines += ["line-through"] if style.strike else []
    parts += [f"text-decoration:{' '.join(lines)}"] if lines else []
    return ground, ";".join(parts)


def _rgb(color: Color | None, default: str) -> str:
    if color is None or color.is_default:
        return default
    return color.get_truecolor(SVG_EXPORT_THEME).hex
