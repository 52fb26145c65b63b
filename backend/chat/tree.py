"""A chat as a tree of messages: an edit or a new answer starts a branch and keeps the old one."""

from collections.abc import Sequence
from typing import Literal
from uuid import uuid4

import msgspec

from backend.protocol import ChatMessage
from backend.settings import SamplingChoice

NodeState = Literal["whole", "cut", "partial"]

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
        turn_ids: Of an answer: the records of the turns that made it, more than one where it was
            cut off and gone on with.
        model: Of an answer: the name of the model that gave it; '' where unknown.
        state: `partial` while an answer streams, and for ever if the program died then; `cut`
            when something other than the model ended it.
    """

    id: str
    parent: str | None
    role: Literal["user", "assistant"]
    content: str
    token_ids: tuple[int, ...] = ()
    lead: str = ""
    turn_ids: tuple[str, ...] = ()
    model: str = ""
    state: NodeState = "whole"

    @property
    def message(self) -> ChatMessage:
        """The message as an engine gets it."""
        return ChatMessage(self.role, self.content, self.token_ids, self.lead)


class Chat:
    """A tree of messages and the place in it where the conversation goes on.

    Attributes:
        title: From the first message, until the user gives another; '' while there is none.
        system: System prompt of the turns to come; None leaves it to the template.
        sampling: Sampling settings that were chosen for this chat.
        leaf: The last message of the branch in use; None in an empty chat.
    """

    def __init__(self, chat_id: str | None = None, *, system: str | None = None) -> None:
        self.id = chat_id or uuid4().hex
        self.title = ""
        self.system = system
        self.sampling = SamplingChoice()
        self.leaf: str | None = None
        self._nodes: dict[str, Node] = {}
        self._children: dict[str | None, list[str]] = {}
        self._last_used: dict[str | None, str] = {}
        self._gone_to: str | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def reached_a_model(self) -> bool:
        """Whether an answer on any branch had a prompt: a model's cache held some of the chat."""
        return any(node.lead for node in self._nodes.values())

    def node(self, node_id: str) -> Node:
        """A message by its id.

        Raises:
            ChatError: There is none.
        """
        try:
            return self._nodes[node_id]
        except KeyError as error:
            raise ChatError("the chat has no such message") from error

    def nodes(self) -> list[Node]:
        """The messages of all branches, oldest first."""
        return list(self._nodes.values())

    def path(self) -> list[Node]:
        """The messages of the branch in use, oldest first."""
        return self.path_to(self.leaf)

    def path_to(self, node_id: str | None) -> list[Node]:
        """The messages up to one of them, oldest first; none for None."""
        path: list[Node] = []
        current = node_id
        while current is not None:
            node = self._nodes[current]
            path.append(node)
            current = node.parent
        return path[::-1]

    def put(self, node: Node) -> Node:
        """Add a message, or put a newer version of it in place; the conversation goes on there."""
        if node.id not in self._nodes:
            self._children.setdefault(node.parent, []).append(node.id)
        self._nodes[node.id] = node
        self._go_to(node.id)
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
        self._children[node.parent].remove(node_id)
        if self._last_used.get(node.parent) == node_id:
            del self._last_used[node.parent]
        if self._gone_to == node_id:
            self._gone_to = node.parent
        self.leaf = node.parent
        if not self._nodes:
            self.title = ""

    def user_message(self, index: int) -> Node:
        """User message `index` (from 0) of the branch in use.

        Raises:
            ChatError: There is no such message.
        """
        users = [node for node in self.path() if node.role == "user"]
        if not 0 <= index < len(users):
            raise ChatError(f"there is no user message {index}; the chat has {len(users)}")
        return users[index]

    def edit(self, node_id: str, text: str) -> Node:
        """A new branch with a message of the user replaced.

        Raises:
            ChatError: There is no such message of the user.
        """
        node = self.node(node_id)
        if node.role != "user":
            raise ChatError("only a message of your own can be changed")
        self.leaf = node.parent
        return self.add_user(text)

    def back_to_question(self, node_id: str | None = None) -> Node:
        """Go back to a user's message, so that it can be answered again.

        Args:
            node_id: That message, or an answer to it; None: the end of the branch in use.

        Raises:
            ChatError: There is no such message.
        """
        current = self.leaf if node_id is None else self.node(node_id).id
        while current is not None:
            node = self._nodes[current]
            if node.role == "user":
                self.leaf = current
                return node
            current = node.parent
        raise ChatError("there is no message to answer again")

    def follow(self, messages: Sequence[ChatMessage]) -> None:
        """Go to a conversation, adding what the chat does not hold of it."""
        self.system = None
        self.leaf = None
        for message in messages:
            if message.role == "system":
                self.system = message.content
                continue
            self.put(
                self._version_like(message)
                or Node(
                    id=uuid4().hex,
                    parent=self.leaf,
                    role=message.role,
                    content=message.content,
                    token_ids=message.token_ids,
                    lead=message.lead,
                )
            )

    def _version_like(self, message: ChatMessage) -> Node | None:
        """What follows the last message and says the same; of several the one that was in use."""
        in_use = self._last_used.get(self.leaf)
        alike = [
            node
            for node in map(self.node, self._children.get(self.leaf, ()))
            if (node.role, node.content) == (message.role, message.content)
        ]
        return max(
            alike,
            key=lambda node: (node.message == message, node.id == in_use),
            default=None,
        )

    # ------------------------------------------------------------------------- branches

    def versions(self, node_id: str) -> list[str]:
        """A message and those that stand in its place on other branches, oldest first."""
        return list(self._children[self.node(node_id).parent])

    def go_to(self, node_id: str) -> None:
        """Go on with the branch of a message, where it was left the last time.

        Raises:
            ChatError: There is no such message.
        """
        current = self.node(node_id).id
        while children := self._children.get(current):
            current = self._last_used.get(current, children[-1])
        self._go_to(current)

    def return_to(self, leaf: str | None) -> None:
        """Go back to where a branch had ended; None: before the first message."""
        if leaf is None:
            self.leaf = None
        else:
            self._go_to(self.node(leaf).id)

    def _go_to(self, leaf: str) -> None:
        self.leaf = leaf
        current: str | None = leaf
        # The way to where the chat went before is marked already: a long chat grows quickly.
        while current is not None and current != self._gone_to:
            parent = self._nodes[current].parent
            self._last_used[parent] = current
            current = parent
        self._gone_to = leaf

    def messages(self) -> tuple[ChatMessage, ...]:
        """The branch in use as an engine gets it, the system prompt first."""
        head = (ChatMessage("system", self.system),) if self.system is not None else ()
        return head + tuple(node.message for node in self.path())


def well_formed(text: str) -> str:
    """Text without lone surrogates, which no file or pipe takes; pairs become their character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def title_of(text: str) -> str:
    """A title from the first line of a message."""
    lines = text.strip().splitlines()
    line = " ".join(lines[0].split()) if lines else ""
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
