"""Foreign Markdown made fit to stand within a document: it stays in its place."""

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

DEEPEST_HEADING = 6

_LINE_ENDS = re.compile(r"\r\n?")
_MAY_BREAK = re.compile(r"[#<]|```|~~~|^[ \t>]*(?:=+|-+)[ \t]*$", re.MULTILINE)
_CONTAINER = re.compile(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t][ \t>]*+)*+")
_HTML = re.compile(r"<[A-Za-z/!?]")
_AUTOLINK = re.compile(
    r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+)>"
)
_HTML_BLOCK = re.compile(rf"^({_CONTAINER.pattern})(?=<[A-Za-z/!?])(?!{_AUTOLINK.pattern})")

_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
_PARSER.core.ruler.enableOnly(["normalize", "block"])


def contained(text: str, level: int) -> str:
    """Markdown that can be followed by other Markdown, and stands under a heading.

    Its headings become ones below that heading, a fence that was never closed is closed, and HTML
    outside of code is text, as it is in the window. All else stays as it is.

    Args:
        text: The Markdown.
        level: Of the heading, from 1.
    """
    text = _LINE_ENDS.sub("\n", text).strip("\n")
    if not _MAY_BREAK.search(text):
        return text
    lines = text.split("\n")
    tokens = _PARSER.parse(text)
    code: set[int] = set()
    for token in tokens:
        if token.map and token.type in {"fence", "code_block"}:
            code.update(range(*token.map))
        elif token.map and token.type == "inline":
            begin, end = token.map
            lines[begin:end] = _without_html("\n".join(lines[begin:end])).split("\n")
    # Where a line begins, HTML needs no end, and begins even within a code span.
    lines = [
        line if at in code else _HTML_BLOCK.sub(r"\1\\", line) for at, line in enumerate(lines)
    ]
    # From the end on, because a heading may lose lines.
    for token in reversed(tokens):
        if token.type == "heading_open":
            _lower(lines, token, level)
    last = next((token for token in reversed(tokens) if token.level == 0), None)
    if last is not None and last.type == "fence" and not _is_closed(last, lines):
        lines.append(last.markup)
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Plain text as Markdown of one line that shows it."""
    return re.sub(r"[\\`*\[\]<>|#~&]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", " ".join(text.split()))


def _lower(lines: list[str], token: Token, level: int) -> None:
    """Put a heading below another."""
    assert token.map is not None
    begin, end = token.map
    depth = min(int(token.tag[1:]) + level, DEEPEST_HEADING)
    if token.markup.startswith("#"):
        lines[begin] = lines[begin].replace(token.markup, "#" * depth, 1)
        return
    # One that is underlined: there are only two levels of those.
    starts = [_CONTAINER.match(line) for line in lines[begin : end - 1]]
    words = [
        line[start.end() :] if start else line
        for line, start in zip(lines[begin:], starts, strict=False)
    ]
    prefix = starts[0][0] if starts and starts[0] else ""
    lines[begin:end] = [f"{prefix}{'#' * depth} {' '.join(word.strip() for word in words)}"]


def _is_closed(fence: Token, lines: list[str]) -> bool:
    assert fence.map is not None
    begin, end = fence.map
    closing = rf" {{0,3}}{re.escape(fence.markup[0])}{{{len(fence.markup)},}}[ \t]*"
    return end - begin > 1 and re.fullmatch(closing, lines[end - 1]) is not None


def _without_html(text: str) -> str:
    """The lines of a paragraph, their HTML as text; what stands in code or is a link stays."""
    parts: list[str] = []
    last_end = text.rfind(">")
    at = 0
    while at < len(text):
        step = 1
        if text[at] == "\\":
            step = 2
        elif text[at] == "`":
            step = _code_length(text, at)
        elif text[at] == "<" and (link := _AUTOLINK.match(text, at)):
            step = link.end() - at
        elif _HTML.match(text, at) and at < last_end:
            parts.append("\\")
        parts.append(text[at : at + step])
        at += step
    return "".join(parts)


def _code_length(text: str, at: int) -> int:
    """Length of the code span that begins here, or of its backticks if it never ends."""
    opening = re.compile("`+").match(text, at)
    assert opening is not None
    length = len(opening[0])
    closing = re.compile(rf"(?<!`)`{{{length}}}(?!`)").search(text, opening.end())
    return length if closing is None else closing.end() - at
