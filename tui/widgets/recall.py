"""Messages that were sent, to be called back and changed."""

from collections.abc import Iterable

from tui.widgets.pastes import Draft


class Recall:
    """Sent messages, oldest first, and behind them the draft; what is changed in any stays."""

    def __init__(self) -> None:
        self._sent: list[Draft] = []
        self._place = 0
        self._changed: dict[int, Draft] = {}

    def remember(self, draft: Draft) -> None:
        """Add a message; the next step back leads to it."""
        if not self._sent or self._sent[-1].full_text != draft.full_text:
            self._sent.append(draft)
        self._place = len(self._sent)
        self._changed.clear()

    def remember_before(self, drafts: Iterable[Draft]) -> None:
        """Add messages that are older than all that are known, oldest first."""
        older: list[Draft] = []
        for draft in drafts:
            if not older or older[-1].full_text != draft.full_text:
                older.append(draft)
        if older and self._sent and older[-1].full_text == self._sent[0].full_text:
            older.pop()
        self._sent[:0] = older
        self._place += len(older)
        self._changed = {place + len(older): draft for place, draft in self._changed.items()}

    def find(self, full_text: str) -> Draft | None:
        """The last message, as it was written, if it is this one."""
        if self._sent and self._sent[-1].full_text == full_text:
            return self._sent[-1]
        return None

    def step(self, by: int, written: Draft) -> Draft | None:
        """Go to an earlier (-1) or later (1) message; None: there is none.

        Args:
            by: The direction.
            written: What is written now; it is there again on the way back.
        """
        place = self._place + by
        if not 0 <= place <= len(self._sent):
            return None
        self._changed[self._place] = written
        self._place = place
        sent = self._sent[place] if place < len(self._sent) else Draft()
        return self._changed.get(place, sent)
