"""A day of use in a real terminal, with the real starter model: everything is there at the end."""

import base64
import re
from pathlib import Path

from backend.history import History
from tests.e2e.terminal import PHASESCOPE, Terminal

COMMAND = (PHASESCOPE, "-t", "1", "-c", "2048", "--temp", "0", "-n", "16")

ANSWERED = re.compile(r"reused [\d,]+/[\d,]+")

TAB, UP, ESCAPE, ENTER = "\t", "\x1b[A", "\x1b", "\r"
FIND, CHATS, NEW, RERUN, GO_ON, QUIT = "\x06", "\x0f", "\x0e", "\x12", "\x07", "\x11"
LAST_CHAT, OLDER, COPY = "\x1bl", "\x1b[1;3D", "\x1bc"

PASTED = "".join(f"line {number} of a long text that was pasted\n" for number in range(5_200))


def paste(text: str) -> str:
    """A text as a terminal pastes it."""
    return f"\x1b[200~{text}\x1b[201~"


def asked(terminal: Terminal, text: str, turn: int) -> str:
    """Send a message and wait for its turn's end; the screen."""
    terminal.type(text + ENTER)
    return ended(terminal, turn)


def ended(terminal: Terminal, turn: int) -> str:
    """Wait for the end of a turn; the screen."""
    terminal.until_text(f"PHASES · turn {turn}")
    return terminal.until(
        lambda text: (
            f"PHASES · turn {turn}" in text
            and "esc stop" not in text
            and re.search(r"decode +█+ +\d+ tok", text) is not None
        )
    )


def test_a_day_of_use(tmp_path: Path) -> None:
    data = tmp_path / "data"
    notes = tmp_path / "notes.md"
    notes.write_text("# Notes\n\nThe wok is hot.\n", encoding="utf-8")
    with Terminal(COMMAND, data, (140, 40)) as terminal:
        terminal.until_text("loaded in")

        # Write, and see what it will cost before it is sent.
        terminal.type("Why is the sky blue?")
        terminal.until_text("draft 6 tok")
        terminal.type(ENTER)
        ended(terminal, 1)
        asked(terminal, "And the sea?", 2)

        # A paste that cannot fit is refused with numbers and stays.
        assert len(PASTED) > 200_000
        terminal.type(paste(PASTED))
        terminal.until_text("pasted 5,200 lines")
        terminal.type(ENTER)
        terminal.until(lambda text: "the context holds 2,048" in " ".join(text.split()))
        terminal.until_text("pasted 5,200 lines")
        terminal.type("\x7f" * 2)
        terminal.until(lambda text: "pasted 5,200 lines" not in text.split("╭")[-1])

        # A file goes into the message, folded.
        terminal.type(f"/file {notes}{ENTER}")
        terminal.until_text("notes.md, 3 lines")
        terminal.type("Tell a very long story about it.")
        screen = asked(terminal, "", 4)
        assert "The wok is hot." in screen

        # An answer that the limit cut off goes on.
        terminal.type(GO_ON)
        ended(terminal, 5)

        # An earlier message is edited: a branch; the other one is still there.
        terminal.type(f"/edit 1{ENTER}")
        terminal.until_text("editing message 1")
        terminal.type("\x15Why is grass green?" + ENTER)
        screen = ended(terminal, 6)
        assert "‹ 2/2 ›" in screen
        assert "Why is the sky blue?" not in screen.split("╭")[0]
        terminal.type(OLDER)
        terminal.until(lambda text: "‹ 1/2 ›" in text or "long story" in text)

        # Find in the chat.
        terminal.type(FIND)
        terminal.until_text("Find in this chat")
        terminal.type("wok")
        terminal.until(lambda text: re.search(r"1 of \d", text) is not None)
        terminal.type(ESCAPE)
        terminal.until(lambda text: " of " not in text.split("╭")[-2] and "esc close" not in text)

        # Sampling of this chat, in the header from now on.
        terminal.type(f"/set temp 0.25{ENTER}")
        terminal.until_text("temp 0.25")

        # Copying goes through the terminal.
        terminal.type(COPY)
        terminal.until_text("Copied the answer")
        copied = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)", terminal.raw)
        assert copied
        assert len(base64.b64decode(copied[-1]).decode()) > 10

        # The chat with its figures as a file.
        exported = tmp_path / "chat.md"
        terminal.type(f"/export {exported}{ENTER}")
        terminal.until_text("Wrote")
        written = exported.read_text(encoding="utf-8")
        assert "The wok is hot." in written
        assert "ttft" in written.casefold()

        # Another chat, and what is half written in it.
        terminal.type(f"/title The first{ENTER}")
        terminal.until_text("is called")
        terminal.type(NEW)
        asked(terminal, "Tell me about kettles.", 7)
        terminal.type("half a thou")
        terminal.until_text("draft")
        terminal.type(QUIT)
        assert terminal.ended() == 0

    with Terminal(COMMAND, data, (140, 40)) as terminal:
        terminal.until_text("loaded in")
        terminal.until_text("Your last chat: “Tell me about kettles.”")
        terminal.type(LAST_CHAT)
        terminal.until_text("half a thou")
        screen = terminal.until_text("Tell me about kettles.")
        assert ANSWERED.search(screen) is not None
        # Search over all chats, go on with the other one.
        terminal.type(f"\x15/chats wok{ENTER}")
        terminal.until_text("The first")
        terminal.type(ENTER)
        terminal.until_text("The wok is hot.")
        terminal.until_text("temp 0.25")
        terminal.type(QUIT)
        assert terminal.ended() == 0

    history = History(data / "chats.db")
    titles = {row.title: row for row in history.chats()}
    assert set(titles) == {"The first", "Tell me about kettles."}
    chat = history.load_chat(titles["The first"].id)
    assert chat.sampling.chosen == {"temp": 0.25}
    roots = map(chat.node, chat.versions(chat.path()[0].id))
    assert [node.content for node in roots] == ["Why is the sky blue?", "Why is grass green?"]
    history.close()
