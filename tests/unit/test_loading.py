"""Settings fitted to a model and a machine before anything is loaded."""

from pathlib import Path
from typing import cast

import msgspec
import pytest

from backend.local import loading
from backend.local.cancel import CancelFlag
from backend.local.llama import LlamaError
from backend.local.loading import (
    Loader,
    LoadError,
    LoadPlan,
    choose_n_ctx,
    fit_settings,
    model_facts,
)
from backend.local.log import LlamaLog
from backend.settings import EngineSettings
from models.memory import CACHE_TYPES, cache_type_fault, estimate_memory
from tests.unit.headers import GIB, MIB, llama_header

KIB = 1 << 10

HEADER = llama_header()


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "usable_cores", lambda: 4)


# ------------------------------------------------------------------------------ settings


def test_settings_that_fit_stay_as_they_are() -> None:
    settings = EngineSettings(n_ctx=512, n_threads=4, n_threads_batch=4)
    assert fit_settings(settings, HEADER) == (settings, [])


def test_a_quantized_v_cache_turns_flash_attention_on_and_says_so() -> None:
    asked = EngineSettings(type_v="q8_0", flash_attn="off")
    settings, warnings = fit_settings(asked, HEADER)
    assert settings == msgspec.structs.replace(asked, flash_attn="on")
    assert warnings == ["a V cache in q8_0 needs flash attention, so it is turned on"]


def test_flash_attention_that_was_left_open_is_turned_on_without_a_word() -> None:
    settings, warnings = fit_settings(EngineSettings(type_v="q4_0"), HEADER)
    assert (settings.flash_attn, settings.type_v, warnings) == ("on", "q4_0", [])


@pytest.mark.parametrize("cache_type", ["f16", "bf16", "f32"])
def test_a_plain_v_cache_leaves_flash_attention_alone(cache_type: str) -> None:
    asked = EngineSettings(type_k="q8_0", type_v=cache_type, flash_attn="off")
    assert fit_settings(asked, HEADER) == (asked, [])


def test_a_head_size_that_does_not_fit_falls_back_to_f16_and_says_so() -> None:
    header = llama_header(head_dim_k=80, head_dim_v=80)
    settings, warnings = fit_settings(EngineSettings(type_k="q8_0", type_v="q4_0"), header)
    assert (settings.type_k, settings.type_v, settings.flash_attn) == ("f16", "f16", "auto")
    needs = "needs a head size that is a multiple of 32; this model's is 80, so f16 is used"
    assert warnings == [f"a K cache in q8_0 {needs}", f"a V cache in q4_0 {needs}"]


def test_values_whose_head_size_does_not_fit_fall_back_alone() -> None:
    header = llama_header(head_dim_k=64, head_dim_v=80)
    settings, warnings = fit_settings(EngineSettings(type_k="q8_0", type_v="q8_0"), header)
    assert (settings.type_k, settings.type_v) == ("q8_0", "f16")
    assert len(warnings) == 1


def test_latent_attention_gets_one_type_for_both() -> None:
    header = llama_header(latent_attention=True)
    both = EngineSettings(type_k="q8_0", type_v="q8_0", flash_attn="on")
    assert fit_settings(both, header) == (both, [])
    settings, warnings = fit_settings(EngineSettings(type_k="q8_0"), header)
    assert (settings.type_k, settings.type_v) == ("q8_0", "q8_0")
    assert warnings == ["this model needs the same type for the K and the V cache, so q8_0 is used"]


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("dim_k", [64, 80])
@pytest.mark.parametrize("dim_v", [64, 80])
def test_whatever_is_asked_for_llama_cpp_can_make(latent: bool, dim_k: int, dim_v: int) -> None:
    header = llama_header(latent_attention=latent, head_dim_k=dim_k, head_dim_v=dim_v)
    for type_k in CACHE_TYPES:
        for type_v in CACHE_TYPES:
            for flash_attn in ("auto", "off"):
                asked = EngineSettings(type_k=type_k, type_v=type_v, flash_attn=flash_attn)
                settings, warnings = fit_settings(asked, header)
                fault = cache_type_fault(
                    header,
                    type_k=settings.type_k,
                    type_v=settings.type_v,
                    flash_attn=settings.flash_attn == "on",
                )
                assert fault is None
                changed = (settings.type_k, settings.type_v) != (type_k, type_v)
                assert changed <= bool(warnings)


def test_a_recurrent_model_has_no_cache_that_types_could_spoil() -> None:
    header = llama_header(
        memory_kind="recurrent",
        kv_layers=(False,) * 4,
        recurrent_layers=(True,) * 4,
        head_dim_k=80,
        head_dim_v=80,
    )
    settings, warnings = fit_settings(EngineSettings(type_k="q8_0"), header)
    assert (settings.type_k, warnings) == ("q8_0", [])


@pytest.mark.parametrize(("flag", "name"), [("-ctk", "type_k"), ("-ctv", "type_v")])
def test_a_type_that_is_none_is_refused(flag: str, name: str) -> None:
    asked = msgspec.structs.replace(EngineSettings(), **{name: "q3_k"})
    with pytest.raises(LoadError, match=f"{flag} q3_k is no cache type; there are f32, f16"):
        fit_settings(asked, HEADER)


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("-c", "n_ctx"),
        ("-b", "n_batch"),
        ("-ub", "n_ubatch"),
        ("-t", "n_threads"),
        ("-tb", "n_threads_batch"),
    ],
)
@pytest.mark.parametrize("number", [0, -1, 1 << 31])
def test_numbers_that_make_no_sense_are_refused(flag: str, name: str, number: int) -> None:
    asked = msgspec.structs.replace(EngineSettings(), **{name: number})
    with pytest.raises(LoadError, match=f"^{flag} {number} "):
        fit_settings(asked, HEADER)


def test_more_threads_than_cores_are_warned_about_each_for_itself() -> None:
    asked = EngineSettings(n_threads=4, n_threads_batch=5)
    settings, warnings = fit_settings(asked, HEADER)
    assert settings == asked
    assert warnings == ["-tb 5 is more than the 4 usable cores: threads will wait for each other"]
    _, warnings = fit_settings(EngineSettings(n_threads=8), HEADER)
    assert [warning.split(" is ")[0] for warning in warnings] == ["-t 8"]


def test_layers_for_a_gpu_that_is_not_there_are_warned_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "supports_gpu_offload", lambda: False)
    _, warnings = fit_settings(EngineSettings(n_gpu_layers=20), HEADER)
    (warning,) = warnings
    assert warning == (
        "-ngl 20 has no effect: there is no GPU that this build of llama.cpp can use, so all "
        "layers stay on the CPU"
    )
    for layers in (0, -1):
        assert fit_settings(EngineSettings(n_gpu_layers=layers), HEADER)[1] == []
    monkeypatch.setattr(loading, "supports_gpu_offload", lambda: True)
    assert fit_settings(EngineSettings(n_gpu_layers=20), HEADER)[1] == []


# ------------------------------------------------------------------------------- context


def test_the_context_is_as_long_as_trained_up_to_8192() -> None:
    assert choose_n_ctx(EngineSettings(), HEADER, 64 * GIB).n_ctx == 8192
    short = llama_header(n_ctx_train=2048)
    assert choose_n_ctx(EngineSettings(), short, 64 * GIB).n_ctx == 2048


def test_the_need_is_weights_and_cache_and_an_allowance() -> None:
    choice = choose_n_ctx(EngineSettings(n_ctx=4096), HEADER, 64 * GIB)
    weights_and_cache = GIB + 4096 * 8 * KIB
    assert weights_and_cache < choice.need_bytes < weights_and_cache + 256 * MIB
    larger = choose_n_ctx(EngineSettings(n_ctx=8192), HEADER, 64 * GIB)
    # 4,096 more cells, and an f16 mask of 512 tokens over them.
    assert larger.need_bytes - choice.need_bytes == 4096 * 8 * KIB + 512 * 4096 * 2
    assert choice.warnings == []


def test_longer_than_trained_loads_with_a_warning() -> None:
    header = llama_header(n_ctx_train=2048)
    choice = choose_n_ctx(EngineSettings(n_ctx=4096), header, 64 * GIB)
    assert choice.n_ctx == 4096
    assert choice.warnings == [
        "-c 4096 is longer than the 2048 tokens that the model was trained for"
    ]


def test_short_memory_shortens_the_context_and_says_so() -> None:
    need = estimate_memory(HEADER, 8192).total_bytes
    available = need - 20 * MIB
    choice = choose_n_ctx(EngineSettings(), HEADER, available)
    # A token takes 9 KiB (8 of cache, 1 of mask): 20 MiB are 2,276 tokens, rounded down to 256.
    assert choice.n_ctx == (8192 - 2276) // 256 * 256 == 5888
    assert choice.need_bytes <= available
    # 1 GiB of weights, 64 MiB of cache and some 100 MiB for computing, less 20 MiB.
    assert choice.warnings == [
        "memory is short: the context is 5888 tokens instead of 8192 (1.1 GiB are free)"
    ]


def test_a_quantized_cache_leaves_room_for_a_longer_context() -> None:
    available = estimate_memory(HEADER, 8192).total_bytes - 20 * MIB
    quantized = EngineSettings(type_k="q8_0", type_v="q8_0", flash_attn="on")
    assert choose_n_ctx(quantized, HEADER, available).n_ctx == 8192


def test_a_context_that_was_asked_for_is_not_shortened_behind_ones_back() -> None:
    available = estimate_memory(HEADER, 4096).total_bytes - 1
    with pytest.raises(LoadError) as caught:
        choose_n_ctx(EngineSettings(n_ctx=4096), HEADER, available)
    message = str(caught.value)
    assert message.startswith("small.Q4_0.gguf needs about 1.1 GiB with a context of 4096 tokens")
    assert "a shorter context (-c)" in message


def test_a_model_that_does_not_fit_at_all_is_refused_with_figures() -> None:
    with pytest.raises(LoadError) as caught:
        choose_n_ctx(EngineSettings(), HEADER, GIB // 2)
    assert "0.5 GiB of memory are free; take a smaller model" in str(caught.value)


@pytest.mark.parametrize("n_ctx", [None, 4096])
def test_with_layers_on_a_gpu_short_memory_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, n_ctx: int | None
) -> None:
    monkeypatch.setattr(loading, "supports_gpu_offload", lambda: True)
    choice = choose_n_ctx(EngineSettings(n_ctx=n_ctx), HEADER, GIB // 2)
    assert choice.n_ctx == (n_ctx or 8192)
    (warning,) = choice.warnings
    assert "0.5 GiB of the system's memory are free" in warning
    with pytest.raises(LoadError, match=r"0\.5 GiB of memory are free"):
        choose_n_ctx(EngineSettings(n_ctx=n_ctx, n_gpu_layers=0), HEADER, GIB // 2)


def test_an_unknown_trained_length_is_no_warning() -> None:
    choice = choose_n_ctx(EngineSettings(), llama_header(n_ctx_train=0), 64 * GIB)
    assert (choice.n_ctx, choice.warnings) == (8192, [])


class Silent:
    """A model, or a log, of which nothing is to be told."""

    def close(self) -> None:
        pass

    def first_error(self) -> None:
        return None


def test_a_context_that_fails_without_a_logged_reason_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LlamaError("llama.cpp could not make a context")

    monkeypatch.setattr(loading, "Model", lambda *_: Silent())
    monkeypatch.setattr(loading, "Context", fail)
    loader = Loader(lambda _: None, cast("LlamaLog", Silent()), CancelFlag(), ("CPU",))
    plan = LoadPlan(Path("small.gguf"), "start", EngineSettings(), HEADER, "", 512, ())
    with pytest.raises(LoadError) as caught:
        loader._load(plan, 0)
    assert str(caught.value) == (
        "small.gguf: llama.cpp could not make a context (no reason was logged)"
    )


def test_a_record_names_the_model_as_its_header_does() -> None:
    facts = model_facts(HEADER)
    assert {name: getattr(HEADER, name) for name in facts.__struct_fields__} == (
        msgspec.structs.asdict(facts)
    )
