"""Names of quantizations: what a file declares, and what its tensors really are."""

from collections.abc import Mapping

_GUESSED = 1024
"""Flag in `general.file_type`: guessed by a tool, not declared (`LLAMA_FTYPE_GUESSED`)."""

_FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""`enum llama_ftype` (llama.h), by the names that llama-quantize takes."""

_MIXES = {
    "Q2_K_S": {"Q2_K"},
    "Q3_K_S": {"Q3_K"},
    "Q3_K_M": {"Q3_K"},
    "Q3_K_L": {"Q3_K"},
    "Q4_K_S": {"Q4_K"},
    "Q4_K_M": {"Q4_K"},
    "Q5_K_S": {"Q5_K"},
    "Q5_K_M": {"Q5_K"},
    "IQ3_XS": {"IQ3_XXS", "IQ3_S"},
    "IQ3_M": {"IQ3_S"},
    "IQ2_S": {"IQ2_XS"},
    "IQ2_M": {"IQ2_S"},
    "MXFP4_MOE": {"MXFP4"},
}
"""Declared mixes and the types that hold most of the weights in a true one."""


def declared_name(file_type: int | None) -> str | None:
    """The usual name of a `general.file_type`, None where it is missing or unknown."""
    return None if file_type is None else _FILE_TYPES.get(file_type & ~_GUESSED)


def actual_name(bytes_by_type: Mapping[str, int], declared: str | None) -> str:
    """What the weights really are.

    Small models fall back to other types where a row is not a multiple of a K-quant's block, so
    a file's declaration is believed only where its tensors agree.

    Args:
        bytes_by_type: Bytes of the weight matrices by type; not empty.
        declared: The declared name.

    Returns:
        The declared mix where the type with most bytes is the mix's own, else that type.
    """
    main = max(bytes_by_type, key=lambda name: bytes_by_type[name])
    if declared is not None and main in _MIXES.get(declared, ()):
        return declared
    return main
