"""The footer: the keys of the part that has the focus first, and only those that have room."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

KEPT = frozenset({"help", "write", "close", "back", "dismiss", "leave"})
"""Actions of the ways out and of the help, which are the last to be left out."""

BESIDE = 1
"""Cells between two keys."""


class KeyFooter(Footer):
    """Textual's footer, without keys that would be cut or lie under the palette's."""

    def compose(self) -> ComposeResult:
        """The keys, hidden where there is no room."""
        keys = list(super().compose())
        self._arrange(keys)
        yield from keys

    def on_resize(self, event: Resize) -> None:
        """Show as many as have room now."""
        del event
        self._arrange(self.children)

    def _arrange(self, children: Iterable[Widget]) -> None:
        keys = [child for child in children if isinstance(child, FooterKey)]
        left_out = too_many(keys, self.size.width)
        for key in keys:
            key.display = key not in left_out


def too_many(keys: Sequence[FooterKey], width: int) -> set[FooterKey]:
    """The keys to leave out of a width: those that can do nothing now, then from the right."""
    left_out: set[FooterKey] = set()
    needed = sum(map(_cells, keys))
    for worth in range(3):
        for key in reversed(keys):
            if needed > width and _worth(key) == worth:
                left_out.add(key)
                needed -= _cells(key)
    return left_out


def _worth(key: FooterKey) -> int:
    if key.has_class("-disabled"):
        return 0
    name = key.action.rpartition(".")[2].partition("(")[0]
    return 2 if name in KEPT or key.has_class("-command-palette") else 1


def _cells(key: FooterKey) -> int:
    border = 1 if key.has_class("-command-palette") else 0
    return cell_len(key.key_display) + 1 + cell_len(key.description) + BESIDE + border
