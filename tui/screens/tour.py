"""The tour: the panels one after the other, drawn live and explained."""

from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from backend.session import Session
from tui.panels import PANELS, PanelKind
from tui.screens.help import HELP_KEY
from tui.widgets.lines import Lines

REDRAW_S = 1.0

BEGINNING = (
    "Every answer has two phases. Prefill takes the whole prompt in one go, in parallel; it "
    "decides how long you wait for the first token. Decode then gives one token after the other; "
    "it decides the pace.\n"
    "Think of one kitchen with two pots. A wok takes the whole order over high heat: it is ready "
    "in one go, later as the order grows. A soup pot simmers and is served spoon by spoon: its "
    "pace depends far less on the size of the order. What the wok made slides straight to the "
    "soup's counter: that is the KV cache.\n"
    "So a slow first token is no weak model, and a slow stream no bad network: each phase has its "
    "own limit and its own remedy. The next pages show the panels as they are now; leave with "
    "esc, ask something, and come back with /tour."
)

END = (
    "Ask something, then ask on: CACHE HITS shows that the second turn prefills only what is "
    "new.\n"
    "Rerun the answer (^r): nearly all of the prompt is reused. Drop the KV cache (F9) and rerun: "
    "the same prompt is prefilled whole, and TTFT says what that costs.\n"
    "Go to the messages (tab), choose an early one of yours and edit it (e): all that follows it "
    "is computed anew.\n"
    "Paste a long text: prefill takes much longer, and decode slows too, but far less: each token "
    "looks back on all that is there. Ask for a long answer: the other way round.\n"
    "To read more: README.md, “What you see”. phasescope ask --json prints a turn's record: "
    "prompt_tokens = cache_n + prompt_n, predicted_n, timings (ttft_ms, prompt_per_second, "
    "predicted_per_second, itl_ms …), cache (hit_ratio, reason …), kv, machine. F1 explains each "
    "figure with the counts of the moment."
)


class Page(NamedTuple):
    """A page: words, or a panel that explains itself."""

    title: str
    words: str = ""
    panel: PanelKind | None = None


PAGES = (
    Page("Two phases", BEGINNING),
    *(Page(kind.title, panel=kind) for kind in PANELS),
    Page("What to try", END),
)


class TourScreen(ModalScreen[None]):
    """The panels over the chat, a page each.

    Args:
        session: Whose figures are drawn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space,enter,n", "turn(1)", "next", key_display="→", id="tour.next"),
        Binding("left,backspace,p", "turn(-1)", "back", key_display="←", id="tour.back"),
        *(
            Binding(str(number), f"open({number})", page.title, show=False, id=f"tour.{number}")
            for number, page in enumerate(PAGES, start=1)
        ),
        Binding("escape,q", "dismiss", "leave", key_display="esc", id="tour.leave"),
        HELP_KEY,
        Binding("up", "scroll(-1)", "scroll up", show=False, id="tour.up"),
        Binding("down", "scroll(1)", "scroll down", show=False, id="tour.down"),
    ]
    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = [(0, "-short"), (22, "-high")]  # noqa: RUF012 (Textual's form)
    HELP_TITLE: ClassVar[str] = "the tour"
    HELP: ClassVar[str] = (
        "A page for each panel: the panel as it is now, drawn again each second, and what its "
        "figures are made of."
    )

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._number = 1
        self._panel = Lines(id="tour-panel")
        self._text = Static(id="tour-text", markup=False)
        self._scroll = VerticalScroll(self._text, id="tour-words", can_focus=False)

    def compose(self) -> ComposeResult:
        """The panel above its explanation."""
        with Vertical(id="tour"):
            yield self._panel
            yield self._scroll

    def on_mount(self) -> None:
        """Follow the session."""
        self.action_open(1)
        self.set_interval(REDRAW_S, self.draw)

    def on_resize(self, event: Resize) -> None:
        """Draw for the new room."""
        del event
        self.call_after_refresh(self.draw)

    def action_turn(self, by: int) -> None:
        """Go to the next page or back; after the last one the tour is over."""
        if self._number + by > len(PAGES):
            self.dismiss()
        else:
            self.action_open(max(1, self._number + by))

    def action_open(self, number: int) -> None:
        """Go to a page, from 1."""
        self._number = number
        tour, page = self.query_one("#tour"), PAGES[number - 1]
        tour.border_title = f"Tour · {page.title}"
        last = number == len(PAGES)
        tour.border_subtitle = (
            f"{number} of {len(PAGES)} · "
            f"[@click=screen.turn(1)]→ {'ends' if last else 'next'}[/] · "
            "[@click='screen.turn(-1)']← back[/] · [@click=screen.dismiss]esc leaves[/]"
        )
        self._panel.display = page.panel is not None
        self._scroll.scroll_to(y=0, animate=False)
        self.call_after_refresh(self.draw)

    def action_scroll(self, by: int) -> None:
        """Scroll the explanation by lines."""
        self._scroll.scroll_relative(y=by, animate=False)

    def draw(self) -> None:
        """Draw the page as the session is now."""
        page = PAGES[self._number - 1]
        words = page.words
        if page.panel is not None:
            state = self._session.snapshot()
            width, height = self._panel.size
            if width > 0 and height > 0:
                self._panel.show_lines(page.panel.draw(state, width, height).lines)
            words = page.panel.explain(state)
        self._text.update(Content(words.replace("\n", "\n\n")))
