"""Markdown as lines: rendered once when it is whole, block by block while it grows.

Model text is data. HTML in it is shown as text, links are written out and stay inert, images are
words, control characters have been replaced before.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, Markdown, TableElement
from rich.rule import Rule
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from tui.text import harmless

LONG_TAIL = 1_200
"""Characters of an unfinished block from which its beginning is rendered for good."""

DEEPEST = 19
"""Level of nesting from which the parser (20 at most) drops text."""

NARROWEST = 16
"""Cells that lines are wrapped to at least: what does not fit then is cut off by the screen."""

INDENT = 4
"""Most cells by which a level of nesting is indented."""

NO_BREAK = "\u00a0"

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_NEW_BLOCK = re.compile(r"^(?:#{1,6} |[-*+] |\d{1,9}[.)] |> )")


class _Code(CodeBlock):
    """Code on a ground of its own, without blank lines around it."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_Code":
        """The element of a fence or an indented block."""
        assert isinstance(markdown, _Answer)
        language = (token.info.split() or ["text"])[0]
        return cls(language, markdown.code_theme, markdown.code_ground)

    def __init__(self, lexer_name: str, theme: str, ground: str) -> None:
        super().__init__(lexer_name, theme)
        self._ground = ground

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(
            str(self.text).rstrip("\n"),
            self.lexer_name,
            theme=self.theme,
            word_wrap=True,
            background_color=self._ground,
            padding=(0, 1),
        )


class _Heading(Heading):
    """A heading at the left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Rule(HorizontalRule):
    """A thin line."""

    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=console.get_style("markdown.hr"), characters="─")


class _Table(TableElement):
    """A table without blank lines around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for renderable in super().__rich_console__(console, options):
            assert isinstance(renderable, Table)
            renderable.show_edge = False
            yield renderable


class _Answer(Markdown):
    """Rich's Markdown without HTML and with quieter blocks.

    One object shows many texts: making one costs as much as rendering a paragraph.
    """

    elements = {  # noqa: RUF012 (overrides a class variable of its base)
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
        "hr": _Rule,
        "table_open": _Table,
    }

    def __init__(self, code_theme: str, code_ground: str) -> None:
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        self.code_ground = code_ground
        self.depth = 0
        self._parser = MarkdownIt("commonmark", {"html": False})
        self._parser.enable(["strikethrough", "table"])

    def show(self, markup: str) -> None:
        """Take another text."""
        self.markup = with_indents(markup)
        self.parsed = self._parser.parse(self.markup)
        self.depth = max((token.level for token in self.parsed), default=0)
        for token in self.parsed:
            token.children = [_as_in_chat(child) for child in token.children or ()]


class MarkdownLines:
    """Renders Markdown to the lines of a terminal.

    Args:
        styles: Rich styles by name (`markdown.h1`, …) on top of Rich's own.
        code_theme: Pygments style of code.
        code_ground: Colour of the ground of code.
    """

    def __init__(self, styles: dict[str, Style], code_theme: str, code_ground: str) -> None:
        self._console = Console(
            color_system="truecolor",
            force_terminal=True,
            legacy_windows=False,
            theme=Theme(styles),
            width=80,
            height=24,
        )
        self._document = _Answer(code_theme, code_ground)

    def render(self, source: str, width: int) -> list[Strip]:
        """All lines of a text, `width` cells wide at most (or `NARROWEST`)."""
        if not source.strip():
            return []
        text = harmless(source)
        self._document.show(text)
        if self._document.depth >= DEEPEST or self._document.depth * INDENT >= max(
            NARROWEST, width
        ):
            # The parser leaves out what is nested too deep, and so would a line without room.
            return self.wrapped(Text(text, overflow="fold"), width)
        return self.wrapped(self._document, width)

    def wrapped(self, renderable: Markdown | Text, width: int) -> list[Strip]:
        """The lines of a text or a document, without blank ones at its ends."""
        options = self._console.options.update(width=max(NARROWEST, width), height=None)
        lines = self._console.render_lines(renderable, options, pad=False)
        strips = [Strip(line) for line in lines]
        shown = [index for index, strip in enumerate(strips) if strip.text.strip()]
        return strips[shown[0] : shown[-1] + 1] if shown else []


class GrowingMarkdown:
    """A text that grows, rendered at a cost that does not depend on its length.

    Finished blocks are rendered once; only the last, growing one is rendered again. A long one is
    cut at line ends, so the view may differ a little from the one-shot rendering that replaces it
    when the text is whole.

    Args:
        renderer: Renders the blocks.
        width: Cells of a line.
        tint: Style over all of it.
    """

    def __init__(self, renderer: MarkdownLines, width: int, tint: Style | None = None) -> None:
        self._renderer = renderer
        self._width = width
        self._tint = tint
        self._settled: list[Strip] = []
        self._tail = ""
        self._fence: str | None = None
        self._live: list[Strip] = []

    def add(self, text: str) -> None:
        """Let it grow."""
        self._tail += text
        self._settle()
        self._live = self._render(self._tail)

    def lines(self) -> tuple[list[Strip], list[Strip]]:
        """The lines that stay, and those of the growing block."""
        return self._settled, self._live

    def _render(self, text: str) -> list[Strip]:
        """Lines of a part of the tail, with the fence that it lies in opened before it."""
        opened = text if self._fence is None else f"{self._fence}\n{text}"
        strips = self._renderer.render(opened, self._width)
        return strips if self._tint is None else [s.apply_style(self._tint) for s in strips]

    def _settle(self) -> None:
        """Render for good what no later text can change much."""
        while (cut := self._cut()) is not None:
            at, fence, gap = cut
            block = self._render(self._tail[:at])
            self._settled += block
            if gap and block:
                self._settled.append(Strip([]))
            self._tail = self._tail[at:]
            self._fence = fence

    def _cut(self) -> tuple[int, str | None, bool] | None:
        """Where the first part that can be settled ends, the fence open there, and a gap."""
        fence = self._fence
        long_enough = len(self._tail) > LONG_TAIL
        best: tuple[int, str | None, bool] | None = None
        for start, line in _whole_lines(self._tail):
            opened = _FENCE.match(line)
            end = start + len(line) + 1
            if fence is not None:
                if opened and opened[1].startswith(_marker(fence)) and not opened[2].strip():
                    fence = None
                    return end, None, True
                if long_enough and end >= LONG_TAIL // 2:
                    return end, fence, False
                continue
            if opened:
                if start > 0 and self._tail[:start].strip():
                    return start, None, True
                fence = line
                continue
            if not line.strip() and self._tail[:start].strip():
                if _ends_block(self._tail[end:]):
                    return end, None, True
            elif long_enough and start >= LONG_TAIL // 2 and _NEW_BLOCK.match(line):
                best = best or (start, None, False)
        return best


class CodeText(NamedTuple):
    """A block of code in an answer: its language ('' where none is named) and its text."""

    language: str
    text: str


def code_blocks(source: str) -> list[CodeText]:
    """The blocks of code of a Markdown text, as they would be copied."""
    parser = MarkdownIt("commonmark", {"html": False})
    return [
        CodeText((token.info.split() or [""])[0], token.content.rstrip("\n"))
        for token in parser.parse(source)
        if token.type in ("fence", "code_block")
    ]


def _ends_block(rest: str) -> bool:
    """Whether what follows a blank line begins a block that does not go on with the one before.

    An indented line goes on with a list item, and a list item with its list.
    """
    following = rest.lstrip("\n")
    if not following or following[0] in " \t":
        return False
    first = following.split("\n", 1)[0]
    return bool("\n" in following or len(first) > 3) and not _NEW_BLOCK.match(first + " ")


def _marker(fence: str) -> str:
    match = _FENCE.match(fence)
    assert match is not None
    return match[1]


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Start and content of each line that has ended."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield start, text[start:end]
        start = end + 1


def with_indents(source: str) -> str:
    """Markdown in which the lines of a paragraph keep their indentation.

    Small models often give code without a fence. CommonMark takes the spaces away that a line
    of a paragraph begins with; no-break spaces in their place stay. Lists, quotes, code blocks
    and fences are left as they are.
    """
    lines = source.split("\n")
    fence: str | None = None
    paragraph = False
    for at, line in enumerate(lines):
        opened = _FENCE.match(line)
        if fence is not None:
            if opened and opened[1].startswith(_marker(fence)) and not opened[2].strip():
                fence = None
            paragraph = False
        elif opened:
            fence, paragraph = line, False
        elif not line.strip():
            paragraph = False
        elif not line[0].isspace():
            paragraph = (paragraph or at == 0 or not lines[at - 1].strip()) and not (
                _NEW_BLOCK.match(line)
            )
        elif paragraph:
            body = line.lstrip(" \t")
            indent = line[: len(line) - len(body)].expandtabs(4)
            lines[at] = NO_BREAK * len(indent) + body
    return "\n".join(lines)


def _as_in_chat(token: Token) -> Token:
    """A line end stays one, and an image is its words and its address.

    Text is made harmless again: an entity such as `&#x202e;` is a character only now.
    """
    if token.type == "softbreak":
        return Token("hardbreak", "br", 0)
    if token.type == "image":
        words = f"[{token.content}]({token.attrs.get('src', '')})"
        return Token("text", "", 0, content=harmless(words))
    token.content = harmless(token.content)
    return token
