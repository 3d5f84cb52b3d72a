"""The rules, checked by promtool where it is there: accepted, and right to the number."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from roofline_probe.errors import UsageError
from roofline_probe.fleet.dashboard import dashboard_json
from roofline_probe.fleet.roofs import card_roofs, load_profiles
from roofline_probe.fleet.rules import is_duration, is_label, rule_file, to_yaml
from roofline_probe.profile import Profile
from roofline_probe.workloads import MODELS

LLAMA = MODELS["llama-3.1-8b"]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not here; it comes with Debian's prometheus package"
)

MakeProfile = Callable[..., Profile]


def written(profiles: list[Profile], **options: Any) -> str:
    roofs = card_roofs(profiles)
    file = rule_file(roofs, **options)
    return to_yaml(file, roofs, label=options.get("label", "gpu"), has_model="model" in options)


def recorded(text: str) -> dict[str, list[dict[str, Any]]]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for group in yaml.safe_load(text)["groups"]:
        for rule in group["rules"]:
            by_name.setdefault(rule.get("record") or rule["alert"], []).append(rule)
    return by_name


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("cards", [1, 2], ids=["one-card-model", "two-card-models"])
@pytest.mark.parametrize("options", [{}, {"model": LLAMA, "tp": 2}], ids=["no-model", "model-tp2"])
def test_promtool_accepts_the_rules(
    make_profile: MakeProfile, tmp_path: Path, cards: int, options: dict[str, Any]
) -> None:
    profiles = [make_profile("NVIDIA H200"), make_profile('odd "name" \\ {{x}}')][:cards]
    path = tmp_path / "probe.rules.yml"
    path.write_text(written(profiles, **options))

    promtool("check", "rules", str(path))


def _near(query: str, value: float) -> dict[str, Any]:
    """A promtool expectation that holds if the one series of ``query`` is within a millionth of ``value``."""
    return {
        "expr": f"sum(abs({query} - {value!r}) < bool {abs(value) * 1e-6!r})",
        "eval_time": "10m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def run_rules(tmp_path: Path, rules: str, series: dict[str, str], **tests: Any) -> None:
    (tmp_path / "probe.rules.yml").write_text(rules)
    case = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        **tests,
    }
    file = {"rule_files": ["probe.rules.yml"], "evaluation_interval": "15s", "tests": [case]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(file))
    promtool("test", "rules", str(tmp_path / "test.yml"))


def rising(per_second: float) -> str:
    return f"0+{per_second * 15:.0f}x80"


@needs_promtool
def test_vllm_fractions_are_rates_over_the_measured_roofs(make_profile: MakeProfile, tmp_path: Path) -> None:
    labels = '{job="v",instance="a",engine="0",model_name="m"}'
    series = {
        f"vllm:estimated_flops_per_gpu_total{labels}": rising(68.3e12),
        f"vllm:estimated_read_bytes_per_gpu_total{labels}": rising(3.255e12),
    }

    run_rules(
        tmp_path,
        written([make_profile("NVIDIA H200")]),
        series,
        promql_expr_test=[
            _near('probe:pi_fraction:rate{server="vllm",gpu="NVIDIA H200",engine="0"}', 0.1),
            _near("probe:beta_fraction:rate", 0.7),
            _near("probe:roof_fraction:rate", 0.7),
        ],
    )


@needs_promtool
def test_roof_fraction_is_the_compute_one_where_that_is_larger(make_profile: MakeProfile, tmp_path: Path) -> None:
    labels = '{job="v",instance="a",engine="0",model_name="m"}'
    series = {
        f"vllm:estimated_flops_per_gpu_total{labels}": rising(614.7e12),
        f"vllm:estimated_read_bytes_per_gpu_total{labels}": rising(0.465e12),
    }

    run_rules(
        tmp_path,
        written([make_profile("NVIDIA H200")]),
        series,
        promql_expr_test=[_near("probe:roof_fraction:rate", 0.9)],
    )


@needs_promtool
def test_sglang_bytes_are_charged_once_per_step(make_profile: MakeProfile, tmp_path: Path) -> None:
    """32 sequences at 100 steps/s: what SGLang charges is 32 times the weights, what the card reads is once."""
    labels = 'job="s",instance="b",model_name="m",tp_rank="0"'
    charged, streamed, kv = 2 * 6_979_321_856, 2 * (6_979_321_856 + 525_336_576), 5e11
    series = {
        f"sglang:estimated_flops_per_gpu_total{{{labels}}}": rising(45e12),
        f"sglang:estimated_read_bytes_per_gpu_total{{{labels}}}": rising(charged * 3200 + kv),
        f'sglang:realtime_tokens_total{{{labels},mode="decode"}}': rising(3200),
        f"sglang:num_running_reqs{{{labels}}}": "32+0x80",
    }

    run_rules(
        tmp_path,
        written([make_profile("NVIDIA H200")], model=LLAMA),
        {**series, f'sglang:realtime_tokens_total{{{labels},mode="prefill_compute"}}': "0+0x80"},
        promql_expr_test=[_near("probe:beta_fraction:rate", (streamed * 100 + kv) / 4.65e12)],
    )


@needs_promtool
def test_each_card_model_divides_by_its_own_roof(make_profile: MakeProfile, tmp_path: Path) -> None:
    profiles = [make_profile("NVIDIA H200"), make_profile("NVIDIA H100", pi=341.5)]
    series = {
        f'vllm:estimated_flops_per_gpu_total{{job="v",instance="{i}",engine="0",gpu="{gpu}"}}': rising(68.3e12)
        for i, gpu in enumerate(("NVIDIA H200", "NVIDIA H100"))
    }

    run_rules(
        tmp_path,
        written(profiles),
        series,
        promql_expr_test=[
            _near('probe:pi_fraction:rate{gpu="NVIDIA H200"}', 0.1),
            _near('probe:pi_fraction:rate{gpu="NVIDIA H100"}', 0.2),
            {
                "expr": "count(probe:pi_fraction:rate)",
                "eval_time": "10m",
                "exp_samples": [{"labels": "{}", "value": 2}],
            },
        ],
    )


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "at", "series"),
    [
        pytest.param(
            "ProbeEngineBelowRoof",
            "15m",
            {"estimated_flops_per_gpu_total": 1e12, "estimated_read_bytes_per_gpu_total": 1e11, "waiting": 5},
            id="queue-under-an-idle-card",
        ),
        pytest.param(
            "ProbeEngineAboveRoof",
            "10m",
            {"estimated_flops_per_gpu_total": 900e12, "estimated_read_bytes_per_gpu_total": 1e11, "waiting": 0},
            id="more-than-the-card-can",
        ),
        pytest.param("ProbeEngineNotCounted", "10m", {"generation_tokens_total": 100, "waiting": 0}, id="flag-off"),
    ],
)
def test_alerts_fire_on_their_case_and_not_on_a_healthy_engine(
    make_profile: MakeProfile, tmp_path: Path, alert: str, at: str, series: dict[str, float]
) -> None:
    def engine(instance: str, values: dict[str, float]) -> dict[str, str]:
        labels = f'{{job="v",instance="{instance}",engine="0",model_name="m"}}'
        waiting = {f"vllm:num_requests_waiting{labels}": f"{values['waiting']}+0x80"}
        return waiting | {f"vllm:{k}{labels}": rising(v) for k, v in values.items() if k != "waiting"}

    healthy = {"estimated_flops_per_gpu_total": 400e12, "generation_tokens_total": 100.0, "waiting": 5.0}

    counted = f'count(ALERTS{{alertname="{alert}",alertstate="firing",instance="bad"}})'
    others = 'count(ALERTS{alertstate="firing",instance="good"}) or vector(0)'
    run_rules(
        tmp_path,
        written([make_profile("NVIDIA H200")]),
        engine("bad", series) | engine("good", healthy | {"estimated_read_bytes_per_gpu_total": 1e12}),
        promql_expr_test=[
            {"expr": counted, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}]},
            {"expr": others, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 0}]},
        ],
    )


@needs_promtool
def test_a_straggler_among_its_peers_raises_an_alert(make_profile: MakeProfile, tmp_path: Path) -> None:
    series = {}
    for instance, flops in (("a", 400e12), ("b", 410e12), ("c", 390e12), ("slow", 250e12)):
        labels = f'{{job="v",instance="{instance}",engine="0",model_name="m"}}'
        series[f"vllm:estimated_flops_per_gpu_total{labels}"] = rising(flops)
        series[f"vllm:estimated_read_bytes_per_gpu_total{labels}"] = rising(1e11)
        series[f"vllm:num_requests_waiting{labels}"] = "3+0x80"

    run_rules(
        tmp_path,
        written([make_profile("NVIDIA H200")]),
        series,
        promql_expr_test=[
            {
                "expr": 'count by (instance) (ALERTS{alertname="ProbeEngineStraggler",alertstate="firing"})',
                "eval_time": "18m",
                "exp_samples": [{"labels": '{instance="slow"}', "value": 1}],
            }
        ],
    )


def test_without_a_model_sglang_gets_no_bandwidth_and_no_roof(make_profile: MakeProfile) -> None:
    text = written([make_profile("NVIDIA H200")])
    rules = recorded(text)

    assert {r["labels"]["server"] for r in rules["probe:read_bytes_per_gpu:rate"]} == {"vllm"}
    assert {r["labels"]["server"] for r in rules["probe:flops_per_gpu:rate"]} == {"vllm", "sglang"}
    assert all("sglang" not in r["expr"] for r in rules["probe:roof_fraction:rate"])
    assert "# SGLang: FLOPs only." in text


def test_the_head_names_every_denominator(make_profile: MakeProfile) -> None:
    text = written([make_profile("NVIDIA H200"), make_profile("NVIDIA H200", pi=700.0), make_profile("NVIDIA H100")])

    assert (
        "NVIDIA H200: pi 692 TFLOP/s (bf16, sustained), beta 4,650 GB/s (read); median of 2 measured cards, 2026"
        in text
    )
    assert "NVIDIA H100: pi 683 TFLOP/s (bf16, sustained), beta 4,650 GB/s (read); 1 measured card, 2026" in text
    assert "Give every target the label gpu" in text
    assert "quick" not in text


@pytest.mark.parametrize(
    ("full", "pi", "says"),
    [
        pytest.param(
            [683.0], 683, "; 1 measured card, 2026-11-29; quick runs of 2 cards left out.", id="full-runs-first"
        ),
        pytest.param([], 650, "; median of 2 measured cards, quick runs, 2026-11-29.", id="nothing-but-quick-runs"),
    ],
)
def test_quick_runs_are_not_mixed_with_full_ones(
    full: list[float], pi: float, says: str, make_profile: MakeProfile
) -> None:
    quick = [msgspec.structs.replace(make_profile("NVIDIA H200", pi=p), quick=True) for p in (640.0, 660.0)]
    text = written([*quick, *(make_profile("NVIDIA H200", pi=p) for p in full)])

    assert f"NVIDIA H200: pi {pi} TFLOP/s" in text
    assert says in text


def test_burst_is_used_only_where_no_soak_was_made(make_profile: MakeProfile) -> None:
    (roof,) = card_roofs([make_profile("X", sustained=False)])

    assert (roof.regime, roof.pi_flops) == ("burst", pytest.approx(820e12))


def test_a_dtype_that_was_not_measured_is_refused_with_those_that_were(make_profile: MakeProfile) -> None:
    with pytest.raises(UsageError, match=r"no measured peak for fp8 \(measured: bf16\)"):
        card_roofs([make_profile("X")], "fp8")


def test_an_interrupted_profile_without_bandwidth_is_refused(make_profile: MakeProfile) -> None:
    with pytest.raises(UsageError, match="no measured bandwidth"):
        card_roofs([make_profile("X", betas=False)])


@pytest.mark.parametrize("fraction", [float("nan"), float("inf"), 30.0, -0.1])
def test_an_alert_that_always_or_never_fires_is_refused(make_profile: MakeProfile, fraction: float) -> None:
    with pytest.raises(UsageError, match="fraction of the roof from 0 to 1"):
        rule_file(card_roofs([make_profile("X")]), alert_below=fraction)


def test_nothing_unseen_of_a_strangers_profile_is_in_the_rules(make_profile: MakeProfile) -> None:
    """Written out instead: an escape sequence, a line of its own, a name that reads backwards."""
    profile = msgspec.structs.replace(make_profile("X\u202e\u200b"), created="\x1b[31m\n- a")
    text = written([profile])
    assert all(character.isprintable() for line in text.splitlines() for character in line)
    assert yaml.safe_load(text)["groups"][0]["name"] == "probe X\u202e\u200b"


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no profile in the folder"):
        load_profiles([str(tmp_path)])


@pytest.mark.parametrize(
    ("text", "valid"), [("1m", True), ("1h30m", True), ("90", False), ("0s", False), ("1m]", False)]
)
def test_duration(text: str, valid: bool) -> None:
    assert is_duration(text) is valid


@pytest.mark.parametrize(("text", "valid"), [("gpu", True), ("a-b", False), ("", False), ('x"', False)])
def test_label(text: str, valid: bool) -> None:
    assert is_label(text) is valid


@pytest.mark.parametrize(
    ("package", "make"),
    [
        pytest.param("yaml", lambda profile: written([profile]), id="rules"),
        pytest.param("grafana_foundation_sdk", lambda _: dashboard_json(), id="dashboard"),
    ],
)
def test_a_missing_package_is_one_sentence_that_names_the_extra(
    make_profile: MakeProfile, monkeypatch: pytest.MonkeyPatch, package: str, make: Callable[[Profile], str]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(UsageError, match=r"roofline-probe\[fleet\]"):
        make(make_profile("NVIDIA H200"))
