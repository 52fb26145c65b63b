"""A widget that shows drawn lines and repaints only those that changed."""

from typing import ClassVar, get_args

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.panels.drawing import BLANK, Line, Role
from tui.text import one_line


class Lines(Widget):
    """Lines of spans; each role's style is the component class `lines--ROLE`.

    Whatever the text, it is harmless and stays in its line.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"lines--{role}" for role in get_args(Role)}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._lines: tuple[Line, ...] = ()
        self._role_styles: dict[Role, Style] = {}

    def notify_style_update(self) -> None:
        """Forget the styles that lines were drawn in."""
        super().notify_style_update()
        self._role_styles = {}

    def _style(self, role: Role) -> Style:
        """The style of a role, computed once per theme: Textual resolves it from all ancestors."""
        style = self._role_styles.get(role)
        if style is None:
            style = self.get_component_rich_style(f"lines--{role}")
            self._role_styles[role] = style
        return style

    def show_lines(self, lines: tuple[Line, ...]) -> None:
        """Show lines; what is as it was is not painted again."""
        before, self._lines = self._lines, lines
        if before == lines:
            return
        count = max(len(before), len(lines))
        changed = [
            Region(0, y, self.size.width, 1)
            for y in range(min(count, self.size.height))
            if _at(before, y) != _at(lines, y)
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """One line of the widget."""
        width = self.size.width
        spans = _at(self._lines, y)
        strip = Strip([Segment(one_line(text), self._style(role)) for text, role in spans])
        return strip.adjust_cell_length(width, self._style("plain"))


def _at(lines: tuple[Line, ...], y: int) -> Line:
    return lines[y] if y < len(lines) else BLANK
