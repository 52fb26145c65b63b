"""Sampling settings in a model's file: read as its makers meant them, and never trusted."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from math import inf, nan
from pathlib import Path

import msgspec
import pytest
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from backend.settings import SamplingChoice
from models.header import ModelHeader
from tests.engine.conftest import MakeTalk
from tests.engine.test_headers import header_or_sentence
from tests.tiny import tiny_llama

PREFIX = "general.sampling."


def with_settings(source: Path, path: Path, add: Callable[[GGUFWriter], None]) -> Path:
    """A tiny model with more metadata."""
    reader = GGUFReader(source)
    writer = GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    add(writer)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def header_with(
    child: ProcessPoolExecutor, folder: Path, tmp_path: Path
) -> Callable[[Callable[[GGUFWriter], None]], ModelHeader]:
    def read(add: Callable[[GGUFWriter], None]) -> ModelHeader:
        path = with_settings(tiny_llama(folder), tmp_path / "m.gguf", add)
        answer = child.submit(header_or_sentence, path).result()
        assert isinstance(answer, bytes), answer
        return msgspec.msgpack.decode(answer, type=ModelHeader)

    return read


HeaderWith = Callable[[Callable[[GGUFWriter], None]], ModelHeader]


def add_all(writer: GGUFWriter) -> None:
    writer.add_sampling_sequence(
        "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
    )
    writer.add_sampling_top_k(20)
    writer.add_sampling_top_p(0.95)
    writer.add_sampling_min_p(0.0)
    writer.add_sampling_xtc_probability(0.5)
    writer.add_sampling_xtc_threshold(0.1)
    writer.add_sampling_temp(0.6)
    writer.add_sampling_penalty_last_n(-1)
    writer.add_sampling_penalty_repeat(1.05)
    writer.add_sampling_mirostat(0)
    writer.add_sampling_mirostat_tau(5.0)
    writer.add_sampling_mirostat_eta(0.1)


def test_all_settings_come_by_the_names_of_the_options(header_with: HeaderWith) -> None:
    header = header_with(add_all)
    assert header.sampling_warnings == ()
    assert msgspec.convert(header.sampling, SamplingChoice) == SamplingChoice(
        temp=0.6,
        top_k=20,
        top_p=0.95,
        min_p=0.0,
        xtc_probability=0.5,
        xtc_threshold=0.1,
        repeat_penalty=1.05,
        repeat_last_n=-1,
    )


def test_a_file_that_recommends_nothing(header_with: HeaderWith) -> None:
    header = header_with(lambda _writer: None)
    assert (header.sampling, header.sampling_warnings) == ({}, ())


def test_what_phasescope_does_not_have_is_said(header_with: HeaderWith) -> None:
    def add(writer: GGUFWriter) -> None:
        writer.add_sampling_mirostat(2)
        writer.add_sampling_sequence("temperature;\x1b[2Jtop_k")

    header = header_with(add)
    assert header.sampling == {}
    mirostat, sequence = header.sampling_warnings
    assert "mirostat 2" in mirostat
    assert "temperature;" in sequence
    assert "\x1b" not in sequence


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *(("temp", number) for number in (nan, inf, -inf, -0.5, 1e30)),
        *(("top_p", number) for number in (nan, 1.5, -0.1)),
        ("min_p", -1.0),
        ("xtc_probability", 2.0),
        ("xtc_threshold", nan),
        ("penalty_repeat", 0.0),
        ("penalty_repeat", -1.0),
        ("top_k", 1.5),
        ("top_k", nan),
        ("penalty_last_n", inf),
    ],
)
def test_nonsense_is_ignored_with_a_warning(
    header_with: HeaderWith, name: str, number: float
) -> None:
    header = header_with(lambda writer: writer.add_float32(PREFIX + name, number))
    assert header.sampling == {}
    (warning,) = header.sampling_warnings
    assert f"{PREFIX}{name} is " in warning


def test_the_wrong_type_is_ignored_with_a_warning(header_with: HeaderWith) -> None:
    def add(writer: GGUFWriter) -> None:
        writer.add_string(PREFIX + "temp", "hot")
        writer.add_array(PREFIX + "top_p", [0.5, 0.9])
        writer.add_bool(PREFIX + "min_p", True)
        writer.add_float32(PREFIX + "sequence", 1.0)
        writer.add_string(PREFIX + "mirostat", "2")
        writer.add_float64(PREFIX + "top_k", 40.0)
        writer.add_uint64(PREFIX + "penalty_last_n", 1 << 63)

    header = header_with(add)
    assert header.sampling == {"top_k": 40}
    assert isinstance(header.sampling["top_k"], int)
    assert len(header.sampling_warnings) == 6


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32"])
def test_any_type_of_number_will_do(header_with: HeaderWith, kind: str) -> None:
    header = header_with(lambda writer: getattr(writer, f"add_{kind}")(PREFIX + "temp", 1))
    assert (header.sampling, header.sampling_warnings) == ({"temp": 1}, ())


def test_all_candidates_are_kept_where_llama_cpp_would(header_with: HeaderWith) -> None:
    assert header_with(lambda writer: writer.add_sampling_top_k(-1)).sampling == {"top_k": 0}


def test_the_load_warns(talk: MakeTalk, folder: Path, tmp_path: Path) -> None:
    path = with_settings(
        tiny_llama(folder), tmp_path / "m.gguf", lambda writer: writer.add_sampling_mirostat(1)
    )
    ready = talk(path).ready
    assert ready is not None
    assert any("mirostat 1" in warning for warning in ready.warnings)
