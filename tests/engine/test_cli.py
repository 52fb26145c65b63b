"""The command line from end to end: what is printed where, and the exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from backend.metrics.record import TurnRecord
from tests.engine.driver import SMOLLM_SYSTEM, Driver, chatml
from tests.engine.reference import Reference
from tests.tiny import tiny_llama, tiny_mamba

PROGRAM = Path(sys.executable).with_name("phasescope")

ONE_THREAD = ("-t", "1", "--temp", "0")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PHASESCOPE_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def call(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=environment,
        )

    return call


def records(output: str) -> list[TurnRecord]:
    return [msgspec.json.decode(line, type=TurnRecord) for line in output.splitlines()]


def turns_file(folder: Path, entries: Sequence[object]) -> Path:
    path = folder / "turns.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------ ask


def test_the_answer_goes_to_stdout_and_one_line_of_figures_to_stderr(
    run: Run, starter_engine: Driver
) -> None:
    starter_engine.fresh_chat()
    expected = starter_engine.ask("Why is the sky blue?", 20).record
    done = run("ask", "Why is the sky blue?", "-n", "20", "-c", "2048", *ONE_THREAD)
    assert done.returncode == 0
    assert done.stdout == f"{expected.text}\n"
    p = expected.prompt_tokens
    assert re.fullmatch(
        rf"ttft [\d.]+ m?s · prefill {p} @ [\d.,]+/s · decode 20 @ [\d.]+/s · reused 0/{p} · "
        r"first after load · length: the limit of 20 tokens was reached\n",
        done.stderr,
    )


def test_a_prompt_from_stdin(run: Run, starter: Path, reference: Reference) -> None:
    done = run("ask", "-", "--json", "-n", "2", "-c", "512", *ONE_THREAD, text="Hello,\nyou!\n")
    assert (done.returncode, done.stderr) == (0, "")
    (record,) = records(done.stdout)
    text = chatml(("system", SMOLLM_SYSTEM), ("user", "Hello,\nyou!\n"))
    assert record.prompt_tokens == len(reference.tokens_of(starter, text))


def test_a_turns_file_drives_a_conversation(run: Run, folder: Path, tmp_path: Path) -> None:
    entries = [
        "the first message",
        {"user": "the second one", "cancel_after_tokens": 3},
        {"regenerate": True},
        {"edit": 0, "user": "the first, changed", "cancel_after_tokens": 4},
        {"drop_cache": True},
        "after the drop",
        {"system": "be brief"},
        {"user": "under a system prompt"},
        {"new_chat": True},
        "in another chat",
        {"set": {"n_ctx": 1024, "n_ubatch": 64, "max_tokens": 2}},
        "after the settings",
        {"user": "x" * 300, "cancel_at_prompt_token": 100},
        {"regenerate": True},
        {"model": str(tiny_mamba(folder))},
        "with another model",
    ]
    done = run(
        "ask",
        "--turns",
        turns_file(tmp_path, entries),
        "--json",
        *("-m", tiny_llama(folder), "-n", "5", "-c", "2048"),
        *ONE_THREAD,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answered = records(done.stdout)
    assert [(record.cache.reason, record.stop.reason) for record in answered] == [
        ("first_turn", "length"),
        ("appended", "cancelled"),
        ("regenerated", "length"),
        ("history_edited", "cancelled"),
        ("dropped", "length"),
        ("system_changed", "length"),
        ("chat_switched", "length"),
        ("settings_changed", "length"),
        ("appended", "cancelled"),
        ("regenerated", "length"),
        ("model_changed", "length"),
    ]
    counts = [record.predicted_n for record in answered]
    assert counts == [5, 3, 5, 4, 5, 5, 5, 2, 0, 2, 2]
    assert [record.turn for record in answered] == list(range(1, 12))
    assert len({record.id for record in answered}) == 11
    first, second, third, *_ = answered
    assert second.cache_n == (first.prompt_tokens or 0) + 4
    assert third.prompt_tokens == second.prompt_tokens
    stopped, resumed = answered[8:10]
    assert stopped.kv is not None
    assert resumed.cache_n == stopped.kv.cells_used
    for record in answered:
        assert record.prompt_tokens is not None
        assert record.cache_n is not None
        assert record.prompt_n is not None
        assert record.prompt_tokens == record.cache_n + record.prompt_n
    assert [record.first_after_load for record in answered].count(True) == 3
    contexts = [record.context.n_ctx for record in answered if record.context]
    assert contexts == [2048] * 7 + [1024] * 4


def test_a_record_has_the_fields_of_the_contract(run: Run, folder: Path) -> None:
    done = run("ask", "hello", "--json", "-n", "3", "-m", tiny_llama(folder), *ONE_THREAD)
    record = json.loads(done.stdout)
    fields = (
        "schema turn id started_at engine first_after_load model context sampling prompt_tokens "
        "cache_n prompt_n predicted_n thinking_n timings cache kv machine stop text thinking "
        "warnings"
    )
    assert set(fields.split()) <= set(record)
    inner = {
        "engine": "name version build",
        "model": "name path architecture quantization declared_quantization file_bytes "
        "tensor_bytes params bits_per_weight",
        "context": "n_ctx n_ctx_train n_batch n_ubatch n_threads n_threads_batch n_gpu_layers "
        "flash_attn type_k type_v swa_full",
        "sampling": "temp top_k top_p min_p repeat_penalty seed max_tokens",
        "timings": "ttft_ms ttfa_ms render_ms tokenize_ms cache_ms prompt_ms first_sample_ms "
        "predicted_ms decode_ms decode_sample_ms decode_other_ms e2e_ms prompt_per_second "
        "predicted_per_second itl_ms token_ms",
        "cache": "hit_ratio reason at kept lost before after",
        "kv": "cells_used cells bytes_used bytes_allocated bytes_per_token caches",
        "machine": "devices power cpu_percent engine_rss_bytes ui_cpu_percent major_faults",
        "stop": "reason detail",
    }
    for name, names in inner.items():
        assert set(names.split()) <= set(record[name])
    assert set(record["timings"]["itl_ms"]) == {"mean", "p50", "p95", "p99", "max"}
    (cache,) = record["kv"]["caches"]
    kv_fields = "kind layers cells cells_used k_bytes v_bytes type_k type_v"
    assert set(kv_fields.split()) <= set(cache)


def test_a_failed_turn_is_a_record_too_and_the_exit_code_is_one(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    entries = ["x" * 600, "short enough"]
    done = run(
        "ask",
        "--turns",
        turns_file(tmp_path, entries),
        "--json",
        *("-m", tiny_llama(folder), "-n", "2", "-c", "512"),
        *ONE_THREAD,
    )
    assert done.returncode == 1
    failed, well = records(done.stdout)
    assert (failed.stop.reason, well.stop.reason) == ("error", "length")
    assert failed.stop.detail is not None
    assert done.stderr == f"phasescope: {failed.stop.detail}\n"


# ----------------------------------------------------------------------------- exit codes


def test_a_model_that_is_none_is_one_line_and_exit_code_one(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<html>not found</html>", encoding="utf-8")
    for command in (("ask", "hello"), ("bench", "-p", "16", "-n", "2")):
        done = run(*command, "-m", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "page.gguf is a web page, not a model" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "hello", "--no-such-option"),
        ("ask", "hello", "-c", "0"),
        ("ask", "-"),
        ("ask", "hello", "-ctk", "q9"),
        ("bench", "-p", "0", "-n", "0"),
        ("no-such-command",),
    ],
)
def test_wrong_usage_is_exit_code_two(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_turns_file_is_checked_whole_before_anything_runs(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    path = turns_file(tmp_path, ["fine", {"user": "fine"}, {"usr": "not fine"}])
    done = run("ask", "--turns", path, "--json", "-m", tiny_llama(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"Error: .*turns\.json, entry 2: unknown keys 'usr'\n", done.stderr)


def test_an_interrupt_ends_ask_with_130_and_its_child(
    environment: dict[str, str], folder: Path
) -> None:
    path = tiny_llama(folder, n_ctx_train=32_768)
    command: list[str | Path] = [PROGRAM, "ask", "talk on", "-c", "32768", "-m", path, *ONE_THREAD]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        (child,) = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == b""
    gone, _ = psutil.wait_procs([child], timeout=10)
    assert gone == [child]


# ------------------------------------------------------------------------ bench and doctor


def test_bench_prints_samples_and_their_summary(run: Run, starter: Path) -> None:
    done = run("bench", "--json", "-p", "64", "-n", "8", "-r", "2", "-d", "32", "-t", "1")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["model"]["path"] == str(starter)
    assert report["context"]["n_threads"] == 1
    tests = [(row["n_prompt"], row["n_gen"], row["n_depth"]) for row in report["results"]]
    assert tests == [(64, 0, 32), (0, 8, 32)]
    for row in report["results"]:
        assert len(row["samples"]) == 2
        assert row["min"] == min(row["samples"]) > 0
        assert row["max"] == max(row["samples"])
        assert row["median"] == pytest.approx(sum(row["samples"]) / 2)


def test_bench_measures_only_what_is_asked_for(run: Run, folder: Path) -> None:
    done = run("bench", "--json", "-p", "0", "-n", "8", "-r", "3", "-m", tiny_llama(folder))
    (row,) = json.loads(done.stdout)["results"]
    assert (row["n_prompt"], row["n_gen"], len(row["samples"])) == (0, 8, 3)


def test_bench_that_does_not_fit_is_one_line(run: Run, folder: Path) -> None:
    done = run("bench", "-p", "600", "-c", "512", "-m", tiny_llama(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: 600 tokens do not fit into a context of 512; give a larger -c\n"


def test_doctor_tells_of_machine_engine_and_terminal(run: Run, starter: Path) -> None:
    done = run("doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    diagnosis = report["diagnosis"]
    assert diagnosis["starter"] == str(starter)
    assert diagnosis["engine"]["facts"]["version"] == "llama-cpp-python 0.3.36"
    assert "CPU" in diagnosis["engine"]["devices"]
    assert diagnosis["machine"]["logical_cores"] == psutil.cpu_count()
    assert not report["terminal"]["is_terminal"]
    assert isinstance(report["problems"], list)
