"""Headers and memory of real files, against what llama.cpp itself says of them.

All native code runs in one child process, as in the program.
"""

import hashlib
import random
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pytest
from gguf import GGUFWriter

from models.errors import ModelFileError
from models.gguf import read_header
from models.header import ModelHeader
from models.memory import KvLayout, estimate_memory, kv_layout
from tests.engine.conftest import new_child
from tests.tiny import (
    CHATML,
    HYBRID_LAYERS,
    WINDOW,
    tiny_hybrid,
    tiny_llama,
    tiny_mamba,
    tiny_swa,
)

MIB = 2**20
TYPE_IDS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8}
TYPE_IDS |= {"iq4_nl": 20, "bf16": 30}
"""`enum ggml_type` (ggml.h)."""

KV_LINE = re.compile(
    r"llama_kv_cache: size = +[\d.]+ MiB \( *(\d+) cells, +(\d+) layers.*"
    r"K \((\w+)\): +([\d.]+) MiB, V \((\w+)\): +([\d.]+) MiB"
)
STATE_LINE = re.compile(
    r"llama_memory_recurrent: size = .*R \((\w+)\): +([\d.]+) MiB, S \((\w+)\): +([\d.]+) MiB"
)
COMPUTE_LINE = re.compile(r"compute buffer size = +([\d.]+) MiB")


class Setting(NamedTuple):
    """A context to create."""

    n_ctx: int
    type_k: str = "f16"
    type_v: str = "f16"
    swa_full: bool = False
    n_ubatch: int = 512
    flash_attn: bool = True


class Context(NamedTuple):
    """What llama.cpp made of a setting: its context size and its log; 0 and the log if refused."""

    n_ctx: int
    log: str


def header_or_sentence(path: Path) -> bytes | str:
    """Runs in the child: the encoded header, or the error's sentence."""
    try:
        return msgspec.msgpack.encode(read_header(path))
    except ModelFileError as error:
        return str(error)


def contexts(path: Path, settings: list[Setting], n_seq_max: int = 1) -> list[Context]:
    """Runs in the child: loads the model once and creates a context for each setting."""
    from llama_cpp import llama_cpp as lib  # noqa: PLC0415  only the child may load it

    lines: list[str] = []

    def keep(_level: int, text: bytes, _data: object) -> None:
        lines.append(text.decode(errors="replace"))

    callback = lib.llama_log_callback(keep)
    lib.llama_log_set(callback, None)
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    assert model, "".join(lines)
    made = []
    for setting in settings:
        lines.clear()
        params = lib.llama_context_default_params()
        params.n_ctx = setting.n_ctx
        params.type_k = TYPE_IDS[setting.type_k]
        params.type_v = TYPE_IDS[setting.type_v]
        params.swa_full = setting.swa_full
        params.n_ubatch = setting.n_ubatch
        params.n_outputs_max = n_seq_max
        params.n_seq_max = n_seq_max
        params.flash_attn_type = 1 if setting.flash_attn else 0
        context = lib.llama_init_from_model(model, params)
        made.append(Context(lib.llama_n_ctx(context) if context else 0, "".join(lines)))
        if context:
            lib.llama_free(context)
    lib.llama_model_free(model)
    lib.llama_log_set(lib.llama_log_callback(), None)
    return made


def logits(path: Path, ids: list[int]) -> list[float]:
    """Runs in the child: the logits after some tokens, decoded in one batch with one thread."""
    from llama_cpp import llama_cpp as lib  # noqa: PLC0415  only the child may load it

    quiet = lib.llama_log_callback(lambda _level, _text, _data: None)
    lib.llama_log_set(quiet, None)
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 1024, 1, 1
    context = lib.llama_init_from_model(model, params)
    tokens = (lib.llama_token * len(ids))(*ids)
    assert lib.llama_decode(context, lib.llama_batch_get_one(tokens, len(ids))) == 0
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    values = [float(value) for value in lib.llama_get_logits_ith(context, -1)[:n_vocab]]
    lib.llama_free(context)
    lib.llama_model_free(model)
    lib.llama_log_set(lib.llama_log_callback(), None)
    return values


@pytest.fixture(scope="module")
def header_of(child: ProcessPoolExecutor) -> Callable[[Path], ModelHeader]:
    def read(path: Path) -> ModelHeader:
        answer = child.submit(header_or_sentence, path).result()
        assert isinstance(answer, bytes), answer
        return msgspec.msgpack.decode(answer, type=ModelHeader)

    return read


@pytest.fixture(scope="module")
def refusal_of(child: ProcessPoolExecutor) -> Callable[[Path], str]:
    def read(path: Path) -> str:
        answer = child.submit(header_or_sentence, path).result()
        assert isinstance(answer, str)
        return answer

    return read


def logged_caches(log: str) -> list[tuple[str, int, str, str, str, str]]:
    """Kind, cells, types and MiB of keys and values of each cache in llama.cpp's log."""
    caches: list[tuple[str, int, str, str, str, str]] = []
    kinds = iter(("full", "swa") if "llama_kv_cache_iswa" in log else ("full",))
    for line in log.splitlines():
        if found := KV_LINE.search(line):
            cells, layers, type_k, k_mib, type_v, v_mib = found.groups()
            kind = next(kinds)
            if int(layers):
                caches.append((kind, int(cells), type_k, k_mib, type_v, v_mib))
        elif found := STATE_LINE.search(line):
            type_r, r_mib, type_s, s_mib = found.groups()
            caches.append(("recurrent", 1, type_r, r_mib, type_s, s_mib))
    return caches


def computed_caches(layout: KvLayout) -> list[tuple[str, int, str, str, str, str]]:
    """The same of a computed layout."""
    return [
        (
            cache.kind,
            cache.cells,
            cache.type_k,
            f"{cache.k_bytes / MIB:.2f}",
            cache.type_v,
            f"{cache.v_bytes / MIB:.2f}",
        )
        for cache in layout.caches
    ]


def check_against_log(header: ModelHeader, settings: list[Setting], made: list[Context]) -> None:
    """The layout equals the log, and the compute allowance covers the buffer but not by far."""
    for setting, context in zip(settings, made, strict=True):
        layout = kv_layout(header, **setting._asdict())
        assert layout.known
        assert context.n_ctx == layout.n_ctx, context.log
        assert logged_caches(context.log) == computed_caches(layout), setting
        assert logged_caches(context.log), context.log
        need = estimate_memory(header, **setting._asdict())
        compute = sum(float(mib) * MIB for mib in COMPUTE_LINE.findall(context.log))
        assert 0 < compute <= need.compute_bytes, setting
        assert need.compute_bytes <= 3 * compute + 32 * MIB, setting


def test_the_starter(header_of: Callable[[Path], ModelHeader], starter: Path) -> None:
    header = header_of(starter)
    assert header.path == str(starter)
    assert header.name == "SmolLM2-135M-Instruct"
    assert header.architecture == "llama"
    assert (header.quantization, header.declared_quantization) == ("Q4_1", "Q4_1")
    assert header.file_bytes == 98_362_432
    assert header.tensor_bytes == 96_576_768
    assert header.n_tensors == 272
    assert header.params == 134_515_008
    assert f"{header.bits_per_weight:.2f}" == "5.74"
    assert [(kind.type, kind.count) for kind in header.tensors_by_type] == [
        ("Q4_1", 210),
        ("Q8_0", 1),
        ("F32", 61),
    ]
    assert sum(kind.bytes for kind in header.tensors_by_type) == header.tensor_bytes
    assert (header.n_ctx_train, header.n_layer, header.n_embd) == (8192, 30, 576)
    assert (header.n_vocab, header.n_head, header.n_head_kv) == (49_152, (9,) * 30, (3,) * 30)
    assert (header.head_dim_k, header.head_dim_v, header.n_swa) == (64, 64, 0)
    assert (header.memory_kind, header.memory_known) == ("attention", True)
    assert header.template is not None
    assert "<|im_start|>" in header.template
    assert (header.tokenizer_model, header.tokenizer_pre) == ("gpt2", "smollm")
    assert header.split_count == 1


def test_gemma3_says_what_its_tensors_really_are(
    header_of: Callable[[Path], ModelHeader], gemma3: Path
) -> None:
    header = header_of(gemma3)
    assert header.architecture == "gemma3"
    assert header.declared_quantization == "Q4_K_M"
    assert header.quantization == header.tensors_by_type[0].type == "Q8_0"
    assert header.template is None
    assert header.memory_kind == "sliding_window"
    assert header.n_swa == 512
    assert header.swa_layers is not None
    assert (sum(header.swa_layers), header.n_layer) == (15, 18)


def test_tiny_models_of_each_kind(header_of: Callable[[Path], ModelHeader], folder: Path) -> None:
    llama = header_of(tiny_llama(folder))
    assert llama.name.startswith("tiny-llama")
    assert (llama.memory_kind, llama.quantization) == ("attention", "F32")
    assert llama.template == CHATML
    swa = header_of(tiny_swa(folder, template=None, n_ctx_train=512))
    assert (swa.memory_kind, swa.n_swa) == ("sliding_window", WINDOW)
    assert swa.swa_layers == (True, False, True, False)
    assert (swa.template, swa.n_ctx_train) == (None, 512)
    mamba = header_of(tiny_mamba(folder))
    assert (mamba.memory_kind, any(mamba.kv_layers)) == ("recurrent", False)
    hybrid = header_of(tiny_hybrid(folder))
    assert (hybrid.memory_kind, hybrid.n_layer) == ("hybrid", HYBRID_LAYERS)
    assert hybrid.kv_layers == (False, True, False, True)
    assert hybrid.recurrent_layers == (True, False, True, False)


def test_the_starters_cache_is_what_llama_cpp_logs(
    child: ProcessPoolExecutor, header_of: Callable[[Path], ModelHeader], starter: Path
) -> None:
    settings = [
        Setting(4096),
        Setting(300),
        Setting(1000, "q8_0", "q8_0"),
        Setting(2048, "q4_0", "q4_1"),
        Setting(512, "q5_0", "q5_1"),
        Setting(512, "iq4_nl", "f32"),
        Setting(512, "bf16", "bf16"),
        Setting(2048, flash_attn=False),
        Setting(1024, "q8_0", "f16", flash_attn=False),
        Setting(8192, n_ubatch=128),
    ]
    made = child.submit(contexts, starter, settings).result()
    check_against_log(header_of(starter), settings, made)
    assert "size =   90.00 MiB" in made[0].log


def test_gemma3s_two_caches_are_what_llama_cpp_logs(
    child: ProcessPoolExecutor, header_of: Callable[[Path], ModelHeader], gemma3: Path
) -> None:
    settings = [
        Setting(4096),
        Setting(4096, swa_full=True),
        Setting(32768),
        Setting(512),
        Setting(4096, n_ubatch=100),
        Setting(2048, "q8_0", "q4_0"),
        Setting(2048, flash_attn=False),
        Setting(8192, flash_attn=False, swa_full=True),
    ]
    made = child.submit(contexts, gemma3, settings).result()
    check_against_log(header_of(gemma3), settings, made)


@pytest.mark.parametrize("build", [tiny_llama, tiny_swa, tiny_mamba, tiny_hybrid])
def test_tiny_caches_are_what_llama_cpp_logs(
    child: ProcessPoolExecutor,
    header_of: Callable[[Path], ModelHeader],
    folder: Path,
    build: Callable[[Path], Path],
) -> None:
    path = build(folder)
    settings = [
        Setting(2048),
        Setting(2048, swa_full=True),
        Setting(2048, n_ubatch=64),
        Setting(700, "q8_0", "q8_0"),
        Setting(1024, flash_attn=False),
    ]
    made = child.submit(contexts, path, settings).result()
    check_against_log(header_of(path), settings, made)


@pytest.mark.parametrize("build", [tiny_mamba, tiny_hybrid])
def test_a_state_times_64_sequences_is_what_llama_cpp_logs(
    child: ProcessPoolExecutor,
    header_of: Callable[[Path], ModelHeader],
    folder: Path,
    build: Callable[[Path], Path],
) -> None:
    path = build(folder)
    n_seq_max = 64
    (made,) = child.submit(contexts, path, [Setting(n_seq_max * 256)], n_seq_max).result()
    (_, _, _, r_mib, _, s_mib) = logged_caches(made.log)[-1]
    state = kv_layout(header_of(path), n_ctx=256).caches[-1]
    assert state.kind == "recurrent"
    assert f"{n_seq_max * state.k_bytes / MIB:.2f}" == r_mib
    assert f"{n_seq_max * state.v_bytes / MIB:.2f}" == s_mib
    assert min(float(r_mib), float(s_mib)) > 0.3


def test_a_refused_pair_of_cache_types_is_refused_by_llama_cpp_too(
    child: ProcessPoolExecutor, starter: Path
) -> None:
    (made,) = child.submit(
        contexts, starter, [Setting(512, "f16", "q8_0", flash_attn=False)]
    ).result()
    assert made.n_ctx == 0
    assert "quantized V cache requires flash_attn" in made.log


@pytest.mark.parametrize("build", [tiny_llama, tiny_swa, tiny_mamba, tiny_hybrid])
def test_tiny_logits_spread_and_depend_on_old_and_new_tokens(
    child: ProcessPoolExecutor, folder: Path, build: Callable[[Path], Path]
) -> None:
    path = build(folder)
    ids = random.Random(3).choices(range(290), k=200)
    base = child.submit(logits, path, ids).result()
    again = child.submit(logits, path, ids).result()
    assert again == base
    mean = sum(base) / len(base)
    assert (sum((value - mean) ** 2 for value in base) / len(base)) ** 0.5 >= 1
    assert base[-5:] == pytest.approx([0.0] * 5, abs=1e-6)
    for position in (5, 190):
        changed = [*ids]
        changed[position] = (changed[position] + 1) % 290
        other = child.submit(logits, path, changed).result()
        assert max(abs(a - b) for a, b in zip(base, other, strict=True)) > 0.1


def test_tiny_files_are_small_cached_and_the_same_each_time(tmp_path: Path) -> None:
    for build in (tiny_llama, tiny_swa, tiny_mamba, tiny_hybrid):
        path = build(tmp_path)
        assert path.stat().st_size < 5_000_000
        digest = hashlib.sha256(path.read_bytes()).digest()
        written = path.stat().st_mtime_ns
        assert build(tmp_path) == path
        assert path.stat().st_mtime_ns == written
        path.unlink()
        assert hashlib.sha256(build(tmp_path).read_bytes()).digest() == digest
    assert not list(tmp_path.glob("*.part"))


def test_one_byte_short_and_half_a_file(
    refusal_of: Callable[[Path], str], starter: Path, tmp_path: Path
) -> None:
    path = tmp_path / "модель 漢字.gguf"
    shutil.copy(starter, path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 1)
        file.flush()
        assert refusal_of(path) == (
            f"модель 漢字.gguf is cut short: 1 of {size} bytes are missing; download it again"
        )
        file.truncate(size // 2)
        file.flush()
        assert f"is cut short: {size - size // 2} of {size} bytes" in refusal_of(path)
        file.truncate(1_000_000)
        file.flush()
        assert "is damaged or cut short in its header" in refusal_of(path)


def test_a_whole_file_loads_from_a_path_with_spaces_cyrillic_and_cjk(
    header_of: Callable[[Path], ModelHeader], folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "моя модель" / "漢字 模型.gguf"
    path.parent.mkdir()
    shutil.copy(tiny_llama(folder), path)
    assert header_of(path).path == str(path)


def test_damage_anywhere_in_a_header_is_a_sentence_or_the_childs_death(
    folder: Path, tmp_path: Path
) -> None:
    whole = tiny_llama(folder).read_bytes()
    chance = random.Random(7)
    path = tmp_path / "damaged.gguf"
    outcomes: set[str] = set()
    executor = new_child()
    for _ in range(150):
        damaged = bytearray(whole)
        at = chance.randrange(24, 7000)
        damaged[at : at + 8] = chance.choice(
            (b"\xff" * 8, b"\0" * 8, (2**62).to_bytes(8, "little"), chance.randbytes(8))
        )
        path.write_bytes(damaged)
        try:
            answer = executor.submit(header_or_sentence, path).result()
        except BrokenProcessPool:
            outcomes.add("death")
            executor.shutdown()
            executor = new_child()
            continue
        outcomes.add("sentence" if isinstance(answer, str) else "header")
        if isinstance(answer, str):
            assert answer.startswith("damaged.gguf ")
            assert answer.isprintable()
    executor.shutdown()
    assert outcomes >= {"sentence", "header"}


def rewritten(source: Path, target: Path, old: bytes, new: bytes) -> Path:
    """A copy with one occurrence of some bytes replaced by as many others."""
    content = source.read_bytes()
    assert len(old) == len(new)
    assert content.count(old) >= 1
    target.write_bytes(content.replace(old, new, 1))
    return target


def write_gguf(path: Path, architecture: str, **values: str | int) -> Path:
    """A file with metadata and one small tensor."""
    import numpy as np  # noqa: PLC0415

    writer = GGUFWriter(path, architecture)
    for key, value in values.items():
        if isinstance(value, str):
            writer.add_string(key.replace("__", "."), value)
        else:
            writer.add_uint32(key.replace("__", "."), value)
    writer.add_tensor("weight", np.zeros((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "values", "kind"),
    [
        ("clip", {"general__type": "mmproj"}, "the vision or audio part of a model"),
        ("clip", {}, "the vision or audio part of a model"),
        ("llama", {"general__type": "adapter"}, "a LoRA adapter for another model"),
        ("llama", {"general__type": "imatrix"}, "an importance matrix for quantizing a model"),
        ("bert", {}, "an encoder for embeddings"),
        ("nomic-bert", {}, "an encoder for embeddings"),
        ("t5encoder", {}, "an encoder for embeddings"),
        ("wavtokenizer-dec", {}, "a speech model"),
        ("qwen3", {"qwen3__pooling_type": 3}, "an embedding or reranking model"),
        ("llama", {"llama__attention__causal": 0}, "an embedding or reranking model"),
    ],
)
def test_files_that_hold_no_chat_model(
    refusal_of: Callable[[Path], str],
    tmp_path: Path,
    architecture: str,
    values: dict[str, str | int],
    kind: str,
) -> None:
    path = write_gguf(tmp_path / "other.gguf", architecture, **values)
    assert refusal_of(path) == f"other.gguf is {kind} and cannot chat; choose a chat model"


def test_a_vocabulary_without_weights(refusal_of: Callable[[Path], str], tmp_path: Path) -> None:
    path = tmp_path / "ggml-vocab.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_token_list(["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert refusal_of(path) == (
        "ggml-vocab.gguf holds only a vocabulary and no weights; get the whole model"
    )


def test_a_model_without_a_tokenizer(refusal_of: Callable[[Path], str], tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "bare.gguf", "llama")
    assert refusal_of(path) == "bare.gguf has no tokenizer; get a complete file of the model"


def test_metadata_of_the_wrong_type(
    refusal_of: Callable[[Path], str], folder: Path, tmp_path: Path
) -> None:
    path = rewritten(
        tiny_llama(folder),
        tmp_path / "m.gguf",
        b"llama.block_count\x04\0\0\0",
        b"llama.block_count\x06\0\0\0",
    )
    assert refusal_of(path) == (
        "m.gguf is damaged or cut short in its header (llama.block_count is no whole number); "
        "download it again"
    )


def split_model(folder: Path, source: Path) -> list[Path]:
    """A tiny model in three parts, made as llama-gguf-split makes them."""
    from gguf import GGUFReader, GGUFValueType  # noqa: PLC0415

    reader = GGUFReader(source)
    groups = [reader.tensors[0::3], reader.tensors[1::3], reader.tensors[2::3]]
    paths = []
    for number, tensors in enumerate(groups):
        path = folder / f"tiny-{number + 1:05d}-of-00003.gguf"
        writer = GGUFWriter(path, "llama")
        for field in reader.fields.values() if number == 0 else ():
            if field.name.startswith("GGUF.") or field.name == "general.architecture":
                continue
            sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 3)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        paths.append(path)
    return paths


def test_a_split_model_is_read_from_its_first_part(
    child: ProcessPoolExecutor,
    header_of: Callable[[Path], ModelHeader],
    refusal_of: Callable[[Path], str],
    folder: Path,
    tmp_path: Path,
) -> None:
    source = tiny_llama(folder)
    whole = header_of(source)
    first, second, third = split_model(tmp_path, source)
    header = header_of(first)
    assert header.split_count == 3
    assert (header.n_tensors, header.params) == (whole.n_tensors, whole.params)
    assert header.tensor_bytes == whole.tensor_bytes
    assert header.file_bytes == sum(path.stat().st_size for path in (first, second, third))
    settings = [Setting(512)]
    check_against_log(header, settings, child.submit(contexts, first, settings).result())
    assert refusal_of(second) == (
        "tiny-00002-of-00003.gguf is part 2 of 3 of a split model; "
        "open its first part tiny-00001-of-00003.gguf"
    )
    shutil.copy(second, third)
    assert "tiny-00003-of-00003.gguf is not the part that its name says" in refusal_of(first)
    third.unlink()
    assert refusal_of(first) == f"{third} does not exist; check the path"
    renamed = first.rename(tmp_path / "model.gguf")
    assert "is not named like NAME-00001-of-00003.gguf" in refusal_of(renamed)


def test_reading_a_header_writes_nothing_to_the_terminal(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "half.gguf"
    path.write_bytes(tiny_llama(folder).read_bytes()[:3000])
    with new_child() as executor:
        answer = executor.submit(header_or_sentence, path).result()
        assert "is damaged or cut short" in cast("str", answer)
    assert capfd.readouterr() == ("", "")
