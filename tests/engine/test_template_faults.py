"""Chat templates that fail, never end or are missing: one sentence, and the chat goes on."""

from pathlib import Path

import psutil
import pytest

from backend.protocol import EngineExited
from tests.engine.conftest import MakeDriver
from tests.engine.driver import CONCATENATED, ENDLESS, endless_on
from tests.tiny import CHATML, tiny_llama


def test_a_template_without_an_end_is_refused_at_the_load(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder), chat_template=ENDLESS)
    driver.session.start()
    exited = driver.until(EngineExited)
    assert exited.message == (
        "the chat template did not end within 2 s, so its process was ended; give another one "
        "with --chat-template-file"
    )
    driver.session.load(driver.session.chosen_model._replace(chat_template=CHATML))
    driver.loaded()
    assert driver.ask("hello", 2).record.predicted_n == 2


def test_a_message_on_which_a_template_has_no_end_is_refused(
    drive: MakeDriver, folder: Path
) -> None:
    driver = drive(tiny_llama(folder), chat_template=endless_on("hello"))
    driver.start()
    dead = driver.pid
    turn = driver.ask("hello")
    assert (turn.record.stop.reason, turn.ended.kind) == ("error", "template")
    assert turn.record.stop.detail == (
        "the chat template did not end within 2 s, so its process was ended; give another one "
        "with --chat-template-file"
    )
    assert not psutil.pid_exists(dead)
    driver.session.load(driver.session.chosen_model._replace(chat_template=CHATML))
    driver.loaded()
    assert len(driver.session.chat) == 0
    assert driver.ask("hello", 2).record.predicted_n == 2
    assert driver.pid != dead


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        (
            "{{ raise_exception('Only user and assistant roles are supported!') }}",
            "the chat template raised: Only user and assistant roles are supported!",
        ),
        ("{{ nothing.at.all }}", "the chat template raised: 'nothing' is undefined"),
        ("{{ 1 // 0 }}", "the chat template failed: ZeroDivisionError: "),
        ("{{ messages[5].content }}", "the chat template raised: "),
        ("{{ 'x' * 10 ** 9 }}", "the chat template raised: "),
        ("{{ ''.__class__.__mro__ }}", "the chat template raised: "),
        ("{{ messages.append(1) }}", "the chat template raised: "),
        ("{{ '%0999999999999d' % 1 }}", "the chat template failed: "),
        ("{{ 'x'|center(10 ** 12) }}", "the chat template failed: "),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "the chat template failed: "),
        ("", "the chat template made an empty prompt"),
    ],
)
def test_a_template_that_fails_is_one_sentence(
    drive: MakeDriver, folder: Path, template: str, sentence: str
) -> None:
    driver = drive(tiny_llama(folder), chat_template=CONCATENATED)
    driver.start()
    pid = driver.pid
    driver.session.load(driver.session.chosen_model._replace(chat_template=template))
    driver.loaded()
    turn = driver.ask("hello")
    assert (turn.record.stop.reason, turn.ended.kind) == ("error", "template")
    assert turn.record.stop.detail is not None
    assert turn.record.stop.detail.startswith(sentence)
    assert "\n" not in turn.record.stop.detail
    driver.session.load(driver.session.chosen_model._replace(chat_template=CHATML))
    driver.loaded()
    assert driver.ask("hello", 2).record.predicted_n == 2
    assert driver.pid == pid


def test_a_template_that_is_no_jinja_is_refused_with_the_model(
    drive: MakeDriver, folder: Path
) -> None:
    driver = drive(tiny_llama(folder), chat_template="{% for m in messages %}{{ m.content }}")
    driver.session.start()
    refused = driver.refused()
    assert refused.need_template
    assert "the chat template is not valid Jinja: Unexpected end of template." in refused.message
    assert "\n" not in refused.message
    driver.session.use_template("chatml")
    driver.loaded()
    assert driver.ask("hello", 2).record.predicted_n == 2


def test_a_template_computes_nothing_when_it_is_compiled(drive: MakeDriver, folder: Path) -> None:
    costly = "{% if false %}{{ ('x'|center(100000000))|replace('x', 'y')|urlize }}{% endif %}"
    driver = drive(tiny_llama(folder), chat_template=costly + CONCATENATED)
    driver.start()
    assert driver.ask("hello", 2).record.prompt_tokens == len("hello") - 1
