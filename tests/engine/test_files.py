"""Files that are no usable chat model, and paths that are unusual."""

import shutil
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from backend.protocol import EngineStarted
from tests.engine.conftest import MakeDriver
from tests.tiny import tiny_llama


def damaged(source: Path, target: Path, old: bytes, new: bytes) -> Path:
    """A copy with some bytes replaced by as many others."""
    content = source.read_bytes()
    assert len(old) == len(new)
    assert old in content
    target.write_bytes(content.replace(old, new))
    return target


def write_gguf(path: Path, architecture: str, **values: str) -> Path:
    """A file with metadata and one small tensor."""
    writer = GGUFWriter(path, architecture)
    for key, value in values.items():
        writer.add_string(key.replace("__", "."), value)
    writer.add_tensor("weight", np.zeros((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_vocabulary(path: Path) -> Path:
    """A file with tokens and no weights."""
    writer = GGUFWriter(path, "llama")
    writer.add_token_list(["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_files_that_are_no_chat_model_are_named_and_a_good_one_loads_after_them(
    drive: MakeDriver, folder: Path, tmp_path: Path
) -> None:
    good = tiny_llama(folder)
    bad: dict[str, tuple[bytes, str]] = {
        "empty.gguf": (b"", "empty.gguf is empty; download it again"),
        "page.gguf": (b"<!DOCTYPE html><p>404", "page.gguf is a web page, not a model"),
        "pointer.gguf": (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "pointer.gguf is a Git-LFS pointer of 63 bytes, not the model itself",
        ),
        "text.gguf": (b"just text", "text.gguf is a text file, not a GGUF model"),
        "short.gguf": (
            good.read_bytes()[:-1],
            f"short.gguf is cut short: 1 of {good.stat().st_size} bytes are missing",
        ),
        "model.gguf.part": (good.read_bytes(), "model.gguf.part is an unfinished download"),
    }
    cases = []
    for name, (content, sentence) in bad.items():
        path = tmp_path / name
        path.write_bytes(content)
        cases.append((path, sentence))
    cases += [
        (
            write_vocabulary(tmp_path / "vocab.gguf"),
            "vocab.gguf holds only a vocabulary and no weights; get the whole model",
        ),
        (
            write_gguf(tmp_path / "mmproj.gguf", "clip"),
            "mmproj.gguf is the vision or audio part of a model and cannot chat",
        ),
        (
            write_gguf(tmp_path / "bert.gguf", "bert"),
            "bert.gguf is an encoder for embeddings and cannot chat",
        ),
        (
            damaged(good, tmp_path / "lost.gguf", b"blk.1.attn_q.weight", b"blk.1.attn_x.weight"),
            "lost.gguf could not be loaded; llama.cpp says: error loading model: check_tensor",
        ),
        (
            damaged(
                good,
                tmp_path / "alien.gguf",
                b"\x05\0\0\0\0\0\0\0llama",
                b"\x05\0\0\0\0\0\0\0lamma",
            ),
            "alien.gguf ",
        ),
        (tmp_path / "nothing.gguf", f"{tmp_path / 'nothing.gguf'} does not exist"),
        (tmp_path, f"{tmp_path.name} is a directory"),
    ]
    driver = drive(good)
    driver.start()
    for path, sentence in cases:
        driver.session.load(driver.session.chosen_model._replace(path=str(path)))
        message = driver.refused().message
        assert message.startswith(sentence)
        assert message.isprintable()
    driver.session.load(driver.session.chosen_model._replace(path=str(good)))
    driver.loaded()
    assert driver.ask("hello", 2).record.predicted_n == 2
    assert sum(isinstance(event, EngineStarted) for event in driver.events) == 1


def test_a_message_to_a_model_that_cannot_load_is_given_back(
    drive: MakeDriver, tmp_path: Path
) -> None:
    path = tmp_path / "empty.gguf"
    path.touch()
    driver = drive(path)
    driver.session.start()
    for _ in range(2):
        turn = driver.ask("hello")
        assert (turn.record.stop.reason, turn.ended.kind) == ("error", "model")
        assert turn.record.stop.detail == "empty.gguf is empty; download it again"
        assert len(driver.session.chat) == 0


def test_a_path_with_spaces_cyrillic_and_cjk_loads(
    drive: MakeDriver, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "моя модель" / "漢字 🙂 модель.Q4_1.gguf"
    path.parent.mkdir()
    shutil.copy(tiny_llama(folder), path)
    driver = drive(path)
    ready = driver.start()
    assert ready.model.path == str(path)
    assert ready.model.name == "漢字 🙂 модель"
    assert driver.ask("привет", 2).record.predicted_n == 2
