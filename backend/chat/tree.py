"""A chat as a tree of messages: an edit or a new answer starts a branch and keeps the old one."""

from typing import Literal
from uuid import uuid4

import msgspec

from backend.protocol import ChatMessage

NodeState = Literal["whole", "partial"]

TITLE_LENGTH = 60


class ChatError(Exception):
    """A chat has no such message; the text is one sentence."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the tree.

    Attributes:
        parent: The message it follows; None for the first.
        token_ids: Of an answer: the very tokens that were generated, without the one that
            ended it.
        lead: Of an answer: the last characters of the prompt before it.
        turn_id: Of an answer: the turn record it belongs to.
        state: `partial` while an answer streams, and for ever if the program died then.
    """

    id: str
    parent: str | None
    role: Literal["user", "assistant"]
    content: str
    token_ids: tuple[int, ...] = ()
    lead: str = ""
    turn_id: str | None = None
    state: NodeState = "whole"


class Chat:
    """A tree of messages and the place in it where the conversation goes on.

    Attributes:
        system: System prompt of the turns to come; None leaves it to the template.
        leaf: The last message of the branch in use; None in an empty chat.
    """

    def __init__(self, chat_id: str | None = None, *, system: str | None = None) -> None:
        self.id = chat_id or uuid4().hex
        self.title = ""
        self.system = system
        self.leaf: str | None = None
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def reached_a_model(self) -> bool:
        """Whether an answer on any branch had a prompt: a model's cache held some of the chat."""
        return any(node.lead for node in self._nodes.values())

    def node(self, node_id: str) -> Node:
        """A message by its id."""
        return self._nodes[node_id]

    def path(self) -> list[Node]:
        """The messages of the branch in use, oldest first."""
        path: list[Node] = []
        current = self.leaf
        while current is not None:
            node = self._nodes[current]
            path.append(node)
            current = node.parent
        return path[::-1]

    def put(self, node: Node) -> Node:
        """Add a message, or put a newer version of it in place; the conversation goes on there."""
        self._nodes[node.id] = node
        self.leaf = node.id
        if not self.title and node.role == "user":
            self.title = title_of(node.content)
        return node

    def add_user(self, text: str) -> Node:
        """A user's message after the last message."""
        content = well_formed(text)
        return self.put(Node(id=uuid4().hex, parent=self.leaf, role="user", content=content))

    def take_back(self, node_id: str) -> None:
        """Go back before a message that has no answer and remove it."""
        node = self._nodes.pop(node_id)
        self.leaf = node.parent
        if not self._nodes:
            self.title = ""

    def edit(self, index: int, text: str) -> Node:
        """A new branch with user message `index` (from 0, on this branch) replaced.

        Raises:
            ChatError: There is no such message.
        """
        users = [node for node in self.path() if node.role == "user"]
        if not 0 <= index < len(users):
            raise ChatError(f"there is no user message {index}; the chat has {len(users)}")
        self.leaf = users[index].parent
        return self.add_user(text)

    def back_to_question(self) -> Node:
        """Go back to the last user message, so that it can be answered again.

        Raises:
            ChatError: The chat is empty.
        """
        while self.leaf is not None:
            node = self._nodes[self.leaf]
            if node.role == "user":
                return node
            self.leaf = node.parent
        raise ChatError("there is no message to answer again")

    def messages(self) -> tuple[ChatMessage, ...]:
        """The branch in use as an engine gets it, the system prompt first."""
        head = (ChatMessage("system", self.system),) if self.system is not None else ()
        return head + tuple(
            ChatMessage(node.role, node.content, node.token_ids, node.lead) for node in self.path()
        )


def well_formed(text: str) -> str:
    """Text without lone surrogates, which no file or pipe takes; pairs become their character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def title_of(text: str) -> str:
    """A title from the first line of a message."""
    lines = text.strip().splitlines()
    line = " ".join(lines[0].split()) if lines else ""
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
