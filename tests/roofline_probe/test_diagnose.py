"""One sentence per cause of an unusable log, and what is known about how each engine counts."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

import log_parsers
from log_parsers.step import LogFacts, ScanReport
from roofline_probe import diagnose
from roofline_probe.analysis import analyse
from roofline_probe.profile import Profile
from roofline_probe.releases import version_of
from roofline_probe.summary import SummaryBuilder
from roofline_probe.workloads import MODELS, ModelShape

LLAMA = MODELS["llama-3.1-8b"]
WINDOWED = ModelShape("windowed", 32, 4096, 32, 8, 128, 14336, 128256, sliding_window=4096, sliding_layers=16)
COUNTED = {"enable_mfu_metrics": True}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("vllm/0.32.0-cpu-dp2-stats-off", "--api-server-count 1", id="several API servers"),
        pytest.param("vllm/0.33.0-dp2-aggregated", "--aggregate-engine-logging", id="aggregated engines"),
        pytest.param("vllm/0.17.1-unsupported-quant", "--model", id="LM head only"),
    ],
)
def test_captured_logs_that_hold_nothing_usable(logs: Path, reference: Profile, name: str, says: str) -> None:
    sentence = analyse(log_parsers.parse(str(logs / f"{name}.log")), reference).nothing_usable
    assert sentence is not None
    assert says in sentence


@pytest.mark.parametrize(
    ("name", "other", "held"),
    [("vllm/0.24.0-h200-graph-1s", "sglang", "SGLang"), ("sglang/0.5.16-h200", "vllm", "vLLM")],
    ids=["vLLM read as SGLang", "SGLang read as vLLM"],
)
def test_the_flag_that_leaves_an_engines_lines_out_is_named(
    logs: Path, reference: Profile, name: str, other: str, held: str
) -> None:
    sentence = analyse(log_parsers.parse(str(logs / f"{name}.log"), engine=other), reference).nothing_usable
    assert sentence == (
        f"The log holds no line of {held}, and --engine {other} leaves other engines' lines out: drop that flag."
    )


def sentence(report: ScanReport | None = None, **facts: object) -> str:
    found = diagnose.nothing_usable(
        [LogFacts(**facts)] if facts else [],  # type: ignore[arg-type]
        report or ScanReport(bytes_read=1000, lines=10),
        SummaryBuilder().build(),
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        pytest.param({}, "no line of vLLM or SGLang", id="an ordinary text"),
        pytest.param({"engine": "vllm", "warnings": ("stats_disabled",)}, "--disable-log-stats", id="statistics off"),
        pytest.param(
            {"engine": "vllm", "flags": {"disable_log_stats": True}}, "--disable-log-stats", id="by the arguments"
        ),
        pytest.param(
            {"engine": "vllm", "warnings": ("stats_disabled_api_servers",)}, "--api-server-count 1", id="api servers"
        ),
        pytest.param(
            {"engine": "vllm", "warnings": ("aggregated_engines",)}, "--aggregate-engine-logging", id="aggregated"
        ),
        pytest.param(
            {"engine": "vllm", "warnings": ("log_level_hides_stats",)}, "VLLM_LOGGING_LEVEL=INFO", id="log level"
        ),
        pytest.param(
            {"engine": "sglang", "warnings": ("mfu_needs_enable_metrics",)}, "--enable-metrics", id="SGLang's pair"
        ),
        pytest.param({"engine": "vllm", "warnings": ("mfu_debug_type_error",)}, "VLLM_DEBUG_MFU_METRICS", id="debug"),
        pytest.param({"engine": "vllm", "warnings": ("engine_crashed",)}, "crashed", id="crash"),
        pytest.param({"engine": "vllm"}, "every 10 s", id="start-up only"),
    ],
)
def test_every_cause_has_its_sentence(facts: dict[str, object], says: str) -> None:
    text = sentence(**facts)
    assert says in text
    assert text.endswith(".")
    assert text.count(". ") == 0


def test_an_empty_file_is_called_empty() -> None:
    assert "is empty" in sentence(ScanReport())


@pytest.mark.parametrize(
    ("packed", "says"),
    [
        pytest.param(b"\xfd7zXZ\x00junkjunk", "xz archive is damaged", id="xz of junk"),
        pytest.param(b"\x28\xb5\x2f\xfdjunkjunkjunk", "zst archive is damaged", id="zst of junk"),
        pytest.param(b"BZhjunkjunk", "bz2 archive is damaged", id="bz2 of junk"),
        pytest.param(b"\x1f\x8b\x08\x00\x00", "gz archive is cut off", id="five bytes of gz"),
        pytest.param(b"\0" * 4096, "4,096 NUL bytes", id="nothing but NULs"),
    ],
)
def test_what_could_not_be_read_is_not_called_empty(
    tmp_path: Path, reference: Profile, packed: bytes, says: str
) -> None:
    (tmp_path / "t.log").write_bytes(packed)
    text = analyse(log_parsers.parse(tmp_path / "t.log"), reference).nothing_usable
    assert text is not None
    assert text.startswith("Nothing could be read: ")
    assert f"{tmp_path / 't.log'}: " in text
    assert says in text
    assert text.endswith("give an intact copy of the log.")


@pytest.mark.parametrize("harm", ["cut off", "damaged"])
def test_a_log_of_which_too_little_could_be_read_says_so_first(
    tmp_path: Path, reference: Profile, logs: Path, harm: str
) -> None:
    start = (logs / "vllm/0.24.0-h200-graph-1s.log").read_bytes()[:10_000]
    packed = gzip.compress(start + random.Random(1).randbytes(1 << 20).hex().encode(), mtime=0)
    half = packed[: len(packed) * 3 // 4]
    (tmp_path / "t.gz").write_bytes(half if harm == "cut off" else half + packed)
    (tmp_path / "u.gz").write_bytes(packed[:5])
    text = analyse(log_parsers.parse(tmp_path / "t.gz"), reference).nothing_usable
    assert text is not None
    assert text.startswith(f"{tmp_path / 't.gz'}: the gz archive is {harm}")
    assert "; what was read is not enough: the log holds a server's start-up but no statistics line" in text
    both = analyse(log_parsers.parse(tmp_path / "t.gz", tmp_path / "u.gz"), reference).nothing_usable
    assert both is not None
    assert "(and 1 more such troubles)" in both


@pytest.mark.parametrize(
    ("engine", "flags"), [("vllm", "with --enable-mfu-metrics"), ("sglang", "--enable-metrics --enable-mfu-metrics")]
)
def test_throughput_lines_of_an_unknown_model_name_flag_and_model(engine: str, flags: str) -> None:
    text = sentence(ScanReport(bytes_read=1000, lines=10, throughput_lines=5), engine=engine)
    assert flags in text
    assert "--model" in text


def test_a_usable_log_is_not_complained_about(logs: Path, reference: Profile) -> None:
    assert analyse(log_parsers.parse(str(logs / "vllm/0.24.0-h200-steady-10s.log")), reference).nothing_usable is None


def test_idle_windows_alone_are_called_idle(tmp_path: Path, reference: Profile, logs: Path) -> None:
    text = (logs / "vllm/0.24.0-h200-graph-1s.log").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines(keepends=True) if "Avg prompt throughput: 0.0 tokens/s, Avg gen" in line]
    idle = [line for line in lines if "generation throughput: 0.0 " in line]
    assert len(idle) > 3
    (tmp_path / "idle.log").write_text("".join(idle), encoding="utf-8")
    sentence = analyse(log_parsers.parse(str(tmp_path / "idle.log")), reference).nothing_usable
    assert sentence is not None
    assert "idle" in sentence


@pytest.mark.parametrize(
    ("text", "version"),
    [("0.24.0", (0, 24, 0)), ("v0.5.16.post1", (0, 5, 16)), ("dev", ()), ("0.٢٤", (0,)), (None, ())],
)
def test_versions(text: str | None, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("facts", "shape", "code"),
    [
        pytest.param({"components": {"unembed": {"vocab_size": 1}}}, None, "lm_head_only", id="2: LM head only"),
        pytest.param(
            {"engine_version": "0.20.0", "model": "DeepSeek-V3"}, None, "mla_miscounted", id="3: MLA before 0.24"
        ),
        pytest.param(
            {"engine_version": "0.30.0", "model": "DeepSeek-V3"}, None, "mla_not_recounted", id="3: MLA since"
        ),
        pytest.param({"engine_version": "0.29.0"}, WINDOWED, "swa_full_context", id="3: windows before 0.30"),
        pytest.param({"engine_version": "0.24.0"}, LLAMA, "vllm_full_square", id="9: full square"),
        pytest.param({"engine_version": "0.15.0"}, LLAMA, "vllm_lm_head_every_token", id="LM head of every token"),
        pytest.param({"speculative": True}, LLAMA, "vllm_speculative_as_prefill", id="11: drafts"),
        pytest.param({"engine": "sglang"}, LLAMA, "sglang_weights_per_token", id="6: weights per token"),
        pytest.param({"engine": "sglang"}, LLAMA, "sglang_lm_head_missing", id="7: no LM head"),
        pytest.param({"engine": "sglang", "tp": 2}, LLAMA, "sglang_tp_mlp", id="7: MLP undivided"),
        pytest.param(
            {"engine": "sglang", "pp": 2}, LLAMA, "sglang_pp_whole_model", id="7: every stage the whole model"
        ),
        pytest.param(
            {"engine": "sglang", "quantization": "fp8"}, LLAMA, "sglang_quantization_ignored", id="7: quantization"
        ),
        pytest.param({"engine": "sglang"}, MODELS["qwen3-30b-a3b"], "sglang_moe_uncounted", id="7: experts"),
        pytest.param(
            {"engine": "sglang", "engine_version": "0.5.16"}, LLAMA, "sglang_summed_triangle", id="9: summed triangle"
        ),
        pytest.param({"engine": "sglang", "model": "DeepSeek-V3"}, None, "mla_miscounted", id="3: MLA in SGLang"),
    ],
)
def test_how_an_engine_counts(facts: dict[str, object], shape: ModelShape | None, code: str) -> None:
    said = LogFacts(**{"engine": "vllm", "flags": COUNTED, **facts})  # type: ignore[arg-type]
    assert code in diagnose.engine_caveats(said, (shape, "name") if shape else None)


@pytest.mark.parametrize(
    ("facts", "shape", "code"),
    [
        ({"engine_version": "0.30.0"}, WINDOWED, "swa_full_context"),
        ({"engine": "sglang", "tp": 1}, LLAMA, "sglang_tp_mlp"),
        ({"engine": "sglang", "engine_version": "0.5.20"}, LLAMA, "sglang_summed_triangle"),
        ({"flags": {"enable_mfu_metrics": False}}, LLAMA, "vllm_full_square"),
    ],
    ids=["windows since 0.30", "one GPU", "exact pairs since 0.5.18", "nothing counted"],
)
def test_what_does_not_apply_is_not_said(facts: dict[str, object], shape: ModelShape, code: str) -> None:
    said = LogFacts(**{"engine": "vllm", "flags": COUNTED, **facts})  # type: ignore[arg-type]
    assert code not in diagnose.engine_caveats(said, (shape, "name"))


@pytest.mark.parametrize(
    ("facts", "usable"),
    [
        ({"engine": "vllm"}, True),
        ({"engine": "vllm", "components": {"unembed": {"vocab_size": 1}}}, False),
        ({"engine": "vllm", "engine_version": "0.20.0", "model": "DeepSeek-V3"}, False),
        ({"engine": "vllm", "engine_version": "0.31.0", "model": "DeepSeek-V3"}, True),
        ({"engine": "sglang", "tp": 1}, True),
        ({"engine": "sglang", "tp": 4}, False),
    ],
    ids=["vLLM", "LM head only", "MLA miscounted", "MLA counted", "SGLang, one GPU", "SGLang, several"],
)
def test_when_the_engine_is_believed_without_a_recount(facts: dict[str, object], usable: bool) -> None:
    assert diagnose.engine_usable(LogFacts(**facts)) is usable  # type: ignore[arg-type]


def test_a_miscount_that_a_recount_makes_good_is_said_only_without_one() -> None:
    codes = ("sglang_weights_per_token", "sglang_tp_mlp", "lm_head_only")
    assert diagnose.run_caveats(codes, recounted=True) == ("lm_head_only",)
    assert diagnose.run_caveats(codes, recounted=False) == ("sglang_tp_mlp", "lm_head_only")
