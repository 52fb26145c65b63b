"""A chat's tree: branches, and that nothing in it is ever lost."""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backend.chat.tree import Chat, ChatError, Node
from backend.history import History
from tests.unit.sessions import spoken
from tests.unit.stored import answer, save


@pytest.fixture
def chat() -> Chat:
    """Two questions with an answer each."""
    made = Chat("chat")
    made.add_user("one")
    answer(made, "a1", "first")
    made.add_user("two")
    answer(made, "a2", "second")
    return made


def texts(chat: Chat) -> list[str]:
    return [node.content for node in chat.path()]


def test_an_edit_starts_a_branch_and_keeps_the_old_one(chat: Chat) -> None:
    two = chat.user_message(1)
    edited = chat.edit(two.id, "deux")
    assert texts(chat) == ["one", "first", "deux"]
    assert chat.versions(edited.id) == chat.versions(two.id) == [two.id, edited.id]
    assert len(chat) == 5


def test_a_message_of_another_branch_can_be_edited(chat: Chat) -> None:
    one, two = chat.user_message(0), chat.user_message(1)
    chat.edit(one.id, "uno")
    chat.edit(two.id, "deux")
    assert texts(chat) == ["one", "first", "deux"]


def test_only_the_users_own_messages_can_be_edited(chat: Chat) -> None:
    with pytest.raises(ChatError, match="only a message of your own"):
        chat.edit("a1", "changed")
    with pytest.raises(ChatError, match="no such message"):
        chat.edit("nowhere", "changed")
    assert texts(chat) == ["one", "first", "two", "second"]


@pytest.mark.parametrize("index", [-1, 2])
def test_a_user_message_that_is_not_there_is_named(index: int, chat: Chat) -> None:
    with pytest.raises(ChatError, match=rf"no user message {index}; the chat has 2"):
        chat.user_message(index)


def test_an_answer_again_stands_beside_the_first(chat: Chat) -> None:
    question = chat.back_to_question("a1")
    assert question.content == "one"
    answer(chat, "a1b", "another")
    assert texts(chat) == ["one", "another"]
    assert chat.versions("a1b") == ["a1", "a1b"]


def test_going_to_a_branch_leads_to_where_it_was_left(chat: Chat) -> None:
    two = chat.user_message(1)
    edited = chat.edit(two.id, "deux")
    answer(chat, "a2b", "deuxième")
    chat.back_to_question(two.id)
    answer(chat, "a2c", "second again")
    chat.go_to(edited.id)
    assert chat.leaf == "a2b"
    # Not its newest answer, but the one that was looked at last.
    chat.go_to("a2")
    chat.go_to(edited.id)
    chat.go_to(two.id)
    assert chat.leaf == "a2"
    assert chat.versions("a2") == ["a2", "a2c"]


def test_a_branch_far_up_leads_down_to_where_it_was_left(chat: Chat) -> None:
    one = chat.user_message(0)
    edited = chat.edit(one.id, "uno")
    answer(chat, "b1", "primo")
    chat.go_to(one.id)
    assert texts(chat) == ["one", "first", "two", "second"]
    chat.go_to(edited.id)
    assert texts(chat) == ["uno", "primo"]


def test_a_message_that_is_taken_back_is_gone_and_its_neighbours_stay(chat: Chat) -> None:
    two = chat.user_message(1)
    edited = chat.edit(two.id, "deux")
    chat.take_back(edited.id)
    assert chat.leaf == "a1"
    assert chat.versions(two.id) == [two.id]
    chat.go_to("a1")
    assert texts(chat) == ["one", "first", "two", "second"]
    with pytest.raises(ChatError):
        chat.node(edited.id)


def test_the_only_message_takes_its_title_with_it() -> None:
    chat = Chat()
    chat.take_back(chat.add_user("one").id)
    assert (chat.title, chat.leaf, len(chat)) == ("", None, 0)
    chat.add_user("two")
    assert chat.title == "two"


def test_a_newer_version_of_a_message_is_no_branch(chat: Chat) -> None:
    chat.put(msgspec.structs.replace(chat.node("a2"), content="second and more"))
    assert chat.versions("a2") == ["a2"]
    assert texts(chat)[-1] == "second and more"


def test_an_empty_chat_has_nothing_to_answer_again() -> None:
    with pytest.raises(ChatError, match="no message to answer again"):
        Chat().back_to_question()


class Trees(RuleBasedStateMachine):
    """Any sequence of what a user can do, beside a plain list of all that was said."""

    def __init__(self) -> None:
        super().__init__()
        self.chat = Chat("chat", system="be kind")
        self.said: dict[str, Node] = {}
        self.made = 0

    def some_node(self, data: st.DataObject, role: str | None = None) -> Node:
        return data.draw(
            st.sampled_from([n for n in self.said.values() if role is None or n.role == role])
        )

    def asks(self) -> bool:
        """Whether the conversation stands at a question."""
        path = self.chat.path()
        return bool(path) and path[-1].role == "user"

    @precondition(lambda self: not self.asks())
    @rule(text=st.text(max_size=5))
    def ask(self, text: str) -> None:
        before = texts(self.chat)
        node = self.chat.add_user(text)
        self.said[node.id] = node
        assert texts(self.chat) == [*before, node.content]

    @precondition(lambda self: self.asks())
    @rule(text=st.text(alphabet="ab", max_size=5))
    def answer(self, text: str) -> None:
        before = texts(self.chat)
        self.made += 1
        node = answer(self.chat, f"answer-{self.made}", text)
        self.said[node.id] = node
        assert texts(self.chat) == [*before, text]

    @precondition(lambda self: self.said)
    @rule(data=st.data(), text=st.text(max_size=5))
    def edit(self, data: st.DataObject, text: str) -> None:
        old = self.some_node(data, "user")
        before = [node.content for node in self.chat.path_to(old.parent)]
        node = self.chat.edit(old.id, text)
        self.said[node.id] = node
        assert texts(self.chat) == [*before, node.content]
        assert old.id in self.chat.versions(node.id)

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        node = self.some_node(data)
        question = self.chat.back_to_question(node.id)
        assert question.id == (node.id if node.role == "user" else node.parent)
        assert self.chat.leaf == question.id

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        node = self.some_node(data)
        self.chat.go_to(node.id)
        way = self.chat.path()
        assert node in way
        # Elsewhere and back to where the ways part is where one was.
        self.chat.go_to(self.some_node(data).id)
        elsewhere = self.chat.path()
        parted = [node for node in way if node not in elsewhere]
        if parted:
            self.chat.go_to(parted[0].id)
            assert self.chat.path() == way

    @precondition(lambda self: self.asks())
    @rule()
    def take_back(self) -> None:
        node = self.chat.path()[-1]
        if any(other.parent == node.id for other in self.said.values()):
            return
        self.chat.take_back(node.id)
        del self.said[node.id]

    @precondition(lambda self: any(n.role == "assistant" for n in self.said.values()))
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        node = self.some_node(data, "assistant")
        more = msgspec.structs.replace(node, content=node.content + "…", state="cut")
        self.said[node.id] = self.chat.put(more)
        assert self.chat.leaf == node.id

    @invariant()
    def nothing_is_lost(self) -> None:
        assert {node.id: node for node in self.chat.nodes()} == self.said

    @invariant()
    def branches_are_told(self) -> None:
        for node in self.said.values():
            beside = [n.id for n in self.said.values() if n.parent == node.parent]
            assert self.chat.versions(node.id) == beside

    @invariant()
    def the_way_is_one(self) -> None:
        path = self.chat.path()
        assert [node.parent for node in path] == [None, *(node.id for node in path[:-1])][
            : len(path)
        ]
        assert not path or path[-1].id == self.chat.leaf

    def teardown(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            history = History(Path(folder) / "chats.db")
            save(history, self.chat, *self.chat.nodes())
            stored = history.load_chat("chat")
            history.close()
        assert stored.nodes() == self.chat.nodes()
        assert spoken(stored) == spoken(self.chat)
        assert (stored.leaf, stored.title, stored.system) == (
            self.chat.leaf,
            self.chat.title,
            self.chat.system,
        )
        for node in self.said.values():
            assert stored.versions(node.id) == self.chat.versions(node.id)
        # The branch in use is the one to come back to.
        if stored.leaf is not None:
            root = stored.path()[0]
            for version in stored.versions(root.id):
                stored.go_to(version)
            stored.go_to(root.id)
            way = {node.id for node in stored.path()}
            assert {node.id for node in self.chat.path()} <= way


TestTrees = Trees.TestCase
