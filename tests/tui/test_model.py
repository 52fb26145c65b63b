"""Another model under a chat."""

from pathlib import Path

from backend.protocol import LoadFailed
from models.starter import starter_path
from tests.fake_engine import failed
from tests.tui.window import Scripted, until


async def test_a_path_that_is_no_model_leaves_the_one_that_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<!doctype html>")
    window = Scripted()
    async with window.run() as pilot:
        await until(pilot, lambda: window.session.snapshot().engine == "ready")
        before = window.session.chosen_model
        for typed, fault in (("none.gguf", "does not exist"), ("page.gguf", "is a web page")):
            window.screen.action_model(str(tmp_path / typed))
            await until(pilot, lambda: any(fault in told for told in window.told()))  # noqa: B023
        assert window.session.chosen_model == before
        assert len(window.engine.loads) == 1


async def test_one_can_go_back_to_the_starter_by_its_name() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await until(pilot, lambda: window.session.snapshot().engine == "ready")
        window.screen.action_model("starter")
        await until(pilot, lambda: len(window.engine.loads) == 2)
        assert window.session.chosen_model.path == str(starter_path())


async def test_what_still_does_not_work_is_said_each_time() -> None:
    fault = "a.gguf is empty"
    window = Scripted(
        lambda request: failed(request.turn, "model", fault), lambda _: [LoadFailed(fault)]
    )
    async with window.run() as pilot:
        await until(pilot, lambda: window.notices()[-1:] == [fault])
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: window.told() == [f"Not sent: {fault}."])
        assert window.composer.text == "hi"
        await pilot.press("f5")
        await until(pilot, lambda: window.told()[1:] == [f"Still not loaded: {fault}."])
        assert window.notices()[-1:] == [fault]
