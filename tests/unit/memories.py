"""A cache memory that behaves as llama.cpp's does, where it is trustworthy and where it is not."""

from collections.abc import Sequence


class SequenceMemory:
    """One sequence of full, sliding-window or recurrent memory.

    Args:
        window: Tokens that a sliding-window layer sees; 0 for full attention.
        slack: Cells kept beyond the window.
        recurrent: There is one state and no past.

    Attributes:
        sound: Every token so far was computed on the whole state that it needed.
        computed: Tokens decoded so far, whatever became of them.
    """

    def __init__(self, *, window: int = 0, slack: int = 0, recurrent: bool = False) -> None:
        self.sound = True
        self.computed = 0
        self._window = window
        self._slack = slack
        self._recurrent = recurrent
        self._cells: dict[int, int] = {}
        self._end = 0

    def __len__(self) -> int:
        """Position of the token that comes next."""
        return self._end

    @property
    def cells(self) -> dict[int, int]:
        """The tokens that are held, by position."""
        return dict(self._cells)

    def whole_at(self, position: int) -> bool:
        """Whether a token at a position would see all that it needs to see."""
        if position in (0, self._end):
            return True
        if self._recurrent or position > self._end:
            return False
        start = max(0, position - self._window) if self._window else 0
        return all(needed in self._cells for needed in range(start, position))

    def decode(self, tokens: Sequence[int]) -> None:
        """Compute tokens after those that are held; the window forgets what lies behind it."""
        for token in tokens:
            start = max(0, self._end - self._window) if self._window else 0
            if any(needed not in self._cells for needed in range(start, self._end)):
                self.sound = False
            self._cells[self._end] = token
            self._end += 1
            self.computed += 1
            if self._window:
                oldest = self._end - self._window - self._slack
                self._cells = {at: kept for at, kept in self._cells.items() if at >= oldest}

    def claim(self, count: int) -> None:
        """Hold tokens that were never computed, as recurrent memory does after an abort."""
        for _ in range(count):
            self._cells[self._end] = -1
            self._end += 1

    def clear_memory(self) -> None:
        self._cells.clear()
        self._end = 0

    def remove_from(self, position: int) -> bool:
        """Drop what is held from a position on; a window answers True whatever is left of it."""
        if self._recurrent and 0 < position < self._end:
            return False
        self._cells = {at: kept for at, kept in self._cells.items() if at < position}
        self._end = max(self._cells) + 1 if self._cells else 0
        return True

    def position_range(self) -> tuple[int, int]:
        if not self._cells:
            return -1, -1
        last = self._end - 1
        return (last if self._recurrent else min(self._cells)), last
