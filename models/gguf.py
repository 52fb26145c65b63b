"""Reads a model's header by libggml, in a few milliseconds and without loading the model."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from models.architectures import NO_CHAT
from models.errors import ModelFileError, printable
from models.header import ModelHeader, TensorType
from models.layers import MetadataError, Numbers, read_layers
from models.libggml import GgufFile, GgufReadError, TensorEntry
from models.quantization import actual_name, declared_name
from models.sampling import read_sampling
from models.sniff import check_file

_NO_MODEL_TYPES = {
    "mmproj": "the vision or audio part of a model",
    "adapter": "a LoRA adapter for another model",
    "imatrix": "an importance matrix for quantizing a model",
}
"""`general.type` of files that hold no model."""

_HASH_NAME = re.compile(r"sha256-[0-9a-f]{64}$")
_QUANTIZATION_ENDING = re.compile(
    r"[-._](?:UD-)?(?:I?Q\d\w*|TQ\d\w*|MXFP\d\w*|B?F16|FP16|F32)$", re.IGNORECASE
)
_SPLIT_NAME = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


class _Tensors(NamedTuple):
    """All tensors of a model, summed up.

    Attributes:
        entries: Them.
        file_bytes: Bytes of the files that hold them.
    """

    entries: tuple[TensorEntry, ...]
    file_bytes: int


def read_header(path: Path) -> ModelHeader:
    """Reads what a model file says about itself.

    Loads libggml-base, which can abort the process on hostile input: call it in a child process
    only.

    Args:
        path: A GGUF file; of a split model its first part (the other parts are read too).

    Returns:
        The header. A missing chat template is no error: `template` is None then.

    Raises:
        ModelFileError: The file is no whole GGUF file with a model that can chat.
    """
    check_file(path)
    try:
        with GgufFile(path) as file:
            return _header(path, file)
    except (GgufReadError, MetadataError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> ModelFileError:
    return ModelFileError(
        f"{printable(path.name)} is damaged or cut short in its header "
        f"({printable(str(error))}); download it again"
    )


def _header(path: Path, file: GgufFile) -> ModelHeader:
    architecture = file.text("general.architecture")
    _check_is_model(path, file, architecture)
    if not architecture:
        raise MetadataError("general.architecture is missing")
    split_count = file.integer("split.count") or 1
    tensors = _all_tensors(path, file, split_count)
    name = printable(path.name)
    if not tensors.entries:
        raise ModelFileError(f"{name} holds only a vocabulary and no weights; get the whole model")
    n_vocab = file.length("tokenizer.ggml.tokens")
    if not n_vocab:
        raise ModelFileError(f"{name} has no tokenizer; get a complete file of the model")
    numbers = Numbers(file, architecture)
    layers = read_layers(file, architecture)
    tensor_bytes = sum(tensor.size for tensor in tensors.entries)
    params = sum(_elements(tensor) for tensor in tensors.entries)
    if params == 0:
        raise MetadataError("all tensors are empty")
    recommended = read_sampling(file)
    declared = declared_name(file.integer("general.file_type"))
    return ModelHeader(
        path=str(path),
        name=_name(path, file.text("general.name")),
        architecture=architecture,
        quantization=_quantization(tensors.entries, declared),
        declared_quantization=declared,
        file_bytes=tensors.file_bytes,
        tensor_bytes=tensor_bytes,
        n_tensors=len(tensors.entries),
        params=params,
        bits_per_weight=tensor_bytes * 8 / params,
        tensors_by_type=_by_type(tensors.entries),
        n_ctx_train=numbers.number("context_length"),
        n_vocab=n_vocab,
        n_ff_expert=numbers.largest("expert_feed_forward_length"),
        expert_count=numbers.number("expert_count", 0),
        expert_used_count=numbers.largest("expert_used_count"),
        template=file.text("tokenizer.chat_template"),
        tokenizer_model=file.text("tokenizer.ggml.model"),
        tokenizer_pre=file.text("tokenizer.ggml.pre"),
        split_count=split_count,
        sampling=recommended.settings,
        sampling_warnings=recommended.warnings,
        **layers._asdict(),
    )


def _check_is_model(path: Path, file: GgufFile, architecture: str | None) -> None:
    """Refuses files that hold something else than a model that can chat."""
    name = printable(path.name)
    split_number = file.integer("split.no") or 0
    split_count = file.integer("split.count") or 1
    if split_count > 1 and split_number > 0:
        first = printable(_part(path, 0, split_count).name)
        raise ModelFileError(
            f"{name} is part {split_number + 1} of {split_count} of a split model; "
            f"open its first part {first}"
        )
    kind = _NO_MODEL_TYPES.get(file.text("general.type") or "")
    if kind is None and architecture is not None:
        kind = NO_CHAT.get(architecture)
        if kind is None and _makes_embeddings(file, architecture):
            kind = "an embedding or reranking model"
    if kind:
        raise ModelFileError(f"{name} is {kind} and cannot chat; choose a chat model")


def _makes_embeddings(file: GgufFile, architecture: str) -> bool:
    """A decoder that was made into an embedding model: it pools, or sees what follows."""
    pools = (file.integer(f"{architecture}.pooling_type") or 0) > 0
    return pools or file.integer(f"{architecture}.attention.causal") == 0


def _all_tensors(path: Path, file: GgufFile, split_count: int) -> _Tensors:
    """The tensors of all parts of a model, each part checked for being whole.

    Raises:
        ModelFileError: A part is cut short, missing, or misnamed.
    """
    entries = _checked_tensors(path, file)
    file_bytes = path.stat().st_size
    for number in range(1, split_count):
        part = _part(path, number, split_count)
        check_file(part)
        try:
            with GgufFile(part) as part_file:
                if part_file.integer("split.no") != number:
                    raise ModelFileError(
                        f"{printable(part.name)} is not the part that its name says; "
                        "download the model again"
                    )
                entries += _checked_tensors(part, part_file)
        except GgufReadError as error:
            raise _damaged(part, error) from None
        file_bytes += part.stat().st_size
    announced = file.integer("split.tensors.count")
    if split_count > 1 and announced is not None and announced != len(entries):
        raise MetadataError(f"{announced} tensors announced, {len(entries)} in all parts")
    return _Tensors(entries, file_bytes)


def _part(path: Path, number: int, count: int) -> Path:
    """Path of another part of a split model; numbers start at 0."""
    match = _SPLIT_NAME.match(path.name)
    if match is None or int(match["count"]) != count:
        raise ModelFileError(
            f"{printable(path.name)} is one of {count} parts of a split model but is not named "
            f"like NAME-00001-of-{count:05d}.gguf; give its parts their names back"
        )
    return path.with_name(f"{match['stem']}-{number + 1:05d}-of-{count:05d}.gguf")


def _checked_tensors(path: Path, file: GgufFile) -> tuple[TensorEntry, ...]:
    """The tensors of one file.

    Raises:
        ModelFileError: The file ends before its last tensor does.
    """
    entries = tuple(file.tensors())
    size = path.stat().st_size
    needed = file.data_offset + max((tensor.offset + tensor.size for tensor in entries), default=0)
    if size < needed:
        raise ModelFileError(
            f"{printable(path.name)} is cut short: {needed - size} of {needed} bytes are missing; "
            "download it again"
        )
    return entries


def _name(path: Path, general_name: str | None) -> str:
    """What people call the model.

    That is the file's name without its quantization; `general.name` is often left over from
    training. Only a file that is named by its hash, as Ollama's are, has no better name.
    """
    match = _SPLIT_NAME.match(path.name)
    stem = match["stem"] if match else path.stem
    if _HASH_NAME.match(stem):
        return general_name or stem
    return _QUANTIZATION_ENDING.sub("", stem) or stem


def _elements(tensor: TensorEntry) -> int:
    rows, columns, planes, cubes = tensor.shape
    return rows * columns * planes * cubes


def _quantization(entries: tuple[TensorEntry, ...], declared: str | None) -> str:
    matrices: Counter[str] = Counter()
    for tensor in entries:
        if tensor.shape[1] > 1:
            matrices[tensor.type] += tensor.size
    return actual_name(matrices or Counter({t.type: t.size for t in entries}), declared)


def _by_type(entries: tuple[TensorEntry, ...]) -> tuple[TensorType, ...]:
    counts = Counter(tensor.type for tensor in entries)
    sizes: Counter[str] = Counter()
    for tensor in entries:
        sizes[tensor.type] += tensor.size
    return tuple(
        TensorType(type=name, count=counts[name], bytes=size) for name, size in sizes.most_common()
    )
