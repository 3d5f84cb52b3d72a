"""The live view frame by frame, without a terminal: snapshots of replayed captures in, text out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from log_parsers.stream import LogStream
from roofline_probe import profile_file
from roofline_probe.analysis import LiveAnalysis
from roofline_probe.point import Roof
from roofline_probe.report.live import frame
from roofline_probe.report.live_rows import Canvas, sparkline
from roofline_probe.report.live_screen import folded
from roofline_probe.tail.card import CardReading
from roofline_probe.tail.state import LiveState, Seen, Snapshot

FIXTURES = Path(__file__).parents[3] / "fixtures"
VLLM = FIXTURES / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"
TP2 = FIXTURES / "logs" / "vllm" / "0.24.0-h200-tp2-2s.log"
SGLANG = FIXTURES / "logs" / "sglang" / "0.5.16-h200.log"


def replayed(log, kind, batch=None, beside=()):
    """A snapshot right after the last steady step of ``kind`` (and ``batch``), with steps of kinds ``beside`` it."""
    path = FIXTURES / "profiles" / "h200-reference.json"
    judge = LiveAnalysis(profile_file.decode(path.read_bytes(), str(path)))
    stream, state, now = LogStream(), LiveState(clock=lambda: now), 1000.0
    taken = None
    for step in stream.read(log.read_bytes()):
        now += 1.0
        point = judge.feed(step, stream.stated.of(step))
        state.add(point)
        if step.kind == kind and step.status == "steady" and batch in (None, step.running):
            ranks = state.ranks()
            if beside and [seen.point.step.kind for seen in state.others(ranks[0])] != list(beside):
                continue
            taken = Snapshot(
                source="standard input",
                elapsed_s=754.0,
                silent_s=0.4,
                lines=12_345,
                steps=state.steps,
                warnings=3,
                errors=0,
                ranks=ranks,
                others=state.others(ranks[0]),
                history=state.history(),
                history_of=state.history_of(),
                summary=judge.summary(),
                roof=judge.roof,
                facts=stream.facts,
                now=now,
            )
    assert taken is not None
    return taken


@pytest.fixture(scope="module")
def decode():
    return replayed(VLLM, "decode", 256)


@pytest.fixture(scope="module")
def prefill():
    return replayed(VLLM, "prefill")


@pytest.fixture(scope="module")
def both_kinds():
    return replayed(SGLANG, "decode", beside=["prefill"])


def lines_of(snapshot, width=80, height=24, ascii_only=False):
    return frame(snapshot, Canvas(width, height, ascii_only)).plain.split("\n")


def line(snapshot, label, **size):
    return next(line for line in lines_of(snapshot, **size) if line.startswith(label))


def many_ranks(snapshot, count):
    """The same step from several ranks; the seventh is slow."""
    seen = snapshot.ranks[0]
    ranks = []
    for rank in range(count):
        step = dataclasses.replace(seen.point.step, rank=f"DP{rank}")
        attained = 0.4 if rank == 7 else 0.8 + rank / 1000
        ranks.append(Seen(seen.at, dataclasses.replace(seen.point, step=step, attained_fraction=attained)))
    return dataclasses.replace(snapshot, ranks=tuple(sorted(ranks, key=lambda s: s.point.attained_fraction)))


@pytest.mark.parametrize("name", ["decode", "prefill", "both_kinds"])
@pytest.mark.parametrize(
    ("width", "height"),
    [(80, 24), (120, 40), (200, 50), (60, 15), (40, 10), (20, 5), (10, 2)],
    ids=lambda value: str(value),
)
def test_no_frame_is_wider_or_higher_than_its_terminal(request, name, width, height):
    lines = lines_of(request.getfixturevalue(name), width, height)
    assert len(lines) < height or height <= 2
    assert max(map(len, lines)) <= width


def test_at_80_by_24_everything_is_there(decode):
    card = CardReading(1, "NVIDIA H200", 1470, 1980, 691.0, 700.0, 62, power_capped=True)
    text = "\n".join(lines_of(dataclasses.replace(decode, card=card)))
    labels = (
        "NOW",
        "attained",
        "of pi",
        "of beta",
        "step",
        "tok/s",
        "requests",
        "last 60 s",
        "so far",
        "card",
        "log",
    )
    for label in labels:
        assert f"\n{label}" in text
    assert "NVIDIA H200 (assumed)" in text
    assert "power-capped" in text
    assert "J/token" in text


def test_each_roof_s_bar_names_its_denominator(decode, prefill):
    roof = decode.roof
    assert f"of {roof.pi_tflops:.0f} TFLOP/s sustained pi" in line(decode, "of pi")
    assert "read beta" in line(decode, "of beta")
    assert "read beta" not in line(prefill, "of beta")


def test_decode_is_headed_by_its_step_s_time_and_prefill_by_pi(decode, prefill):
    assert "ms a step" in line(decode, "attained")
    assert "TFLOP/s sustained pi" in line(prefill, "of pi")
    assert "ms a step" in line(prefill, "attained"), "where decode has its share of pi"
    labels = [[text[:10].strip() for text in lines_of(kind)] for kind in (decode, prefill)]
    assert all(names.count("of pi") == names.count("attained") == 1 for names in labels)


def test_every_line_has_a_label_in_the_words_of_compare(decode, prefill):
    for snapshot in (decode, prefill):
        for text in lines_of(snapshot)[1:]:
            assert text == "" or text[:10].strip(), text
        text = "\n".join(lines_of(snapshot))
        assert not any(word in text for word in ("compute", "bandwidth", "-bound", "ctx", "tokens/s"))
    assert "bound by memory" in line(decode, "NOW")
    assert line(decode, "last 60 s").endswith(" % attained")
    assert line(prefill, "last 60 s").endswith(" % attained, of pi or of roof"), "all kinds ran in that minute"
    assert "prefill · 8,192 tokens" in line(prefill, "NOW")


def test_the_step_s_parts_add_up_to_the_step(decode):
    point = decode.ranks[0].point
    text = line(decode, "step ", width=120)
    for name, ms in (("GEMMs", point.gemm_ms), ("KV", point.kv_ms), ("rest", point.rest_ms)):
        assert f"{name} {ms:.2f}" in text
    assert point.gemm_ms + point.kv_ms + point.rest_ms == pytest.approx(point.step_ms)


@pytest.mark.parametrize(
    "parts",
    [(4.06, 0.333, None, 1.40), (2.26, 0.0152, 0.71, 0.53), (188.28, 0.23, 16.33, 17.52)],
    ids=["small-kv", "four-parts", "prefill-on-two-cards"],
)
def test_every_part_of_the_step_is_whole_at_80_columns_with_two_decimals(decode, parts):
    names = ("gemm_ms", "kv_ms", "link_ms", "rest_ms")
    step_ms = sum(ms for ms in parts if ms)
    seen = decode.ranks[0]
    point = dataclasses.replace(seen.point, step_ms=step_ms, **dict(zip(names, parts, strict=True)))
    text = line(dataclasses.replace(decode, ranks=(Seen(seen.at, point),)), "step ")
    for name, ms in zip(("GEMMs", "KV", "link", "rest"), parts, strict=True):
        assert ms is None or f"{name} {ms:.2f}" in text
    assert text.endswith(f"rest {parts[-1]:.2f}")


def test_a_low_window_leaves_out_the_least_telling_rows_first(decode):
    text = "\n".join(lines_of(decode, height=10))
    assert "NOW" in text
    assert "attained" in text
    assert "so far" not in text


def test_many_ranks_show_the_worst_first_and_as_many_as_there_is_room(decode):
    lines = lines_of(many_ranks(decode, 64))
    assert "rank DP7, worst of 64" in lines[2]
    table = lines[next(i for i, text in enumerate(lines) if text.startswith("rank ")) + 1 :]
    assert [row.split()[0] for row in table[:3]] == ["DP7", "DP0", "DP1"]
    assert any("ranks more, none worse" in row for row in table)
    higher = lines_of(many_ranks(decode, 64), height=50)
    assert sum(text.startswith("DP") for text in higher) > sum(text.startswith("DP") for text in lines)


def test_few_ranks_are_all_shown(decode):
    lines = lines_of(many_ranks(decode, 8), width=120, height=40)
    assert sum(text.startswith("DP") for text in lines) == 8
    assert not any("more" in text for text in lines)


def test_both_rates_stand_on_one_line_though_sglang_prints_them_on_two(both_kinds):
    text = line(both_kinds, "tok/s")
    assert "– generated" not in text
    assert "– prompt" not in text


def queueing(snapshot, **fields):
    seen = snapshot.ranks[0]
    step = dataclasses.replace(seen.point.step, **fields)
    return dataclasses.replace(snapshot, ranks=(Seen(seen.at, dataclasses.replace(seen.point, step=step)),))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"waiting": 12, "kv_usage": 0.99}, "The KV cache is full (99 %): 12 requests wait"),
        ({"waiting": 1, "kv_usage": 0.5, "running": 256}, "at its limit of 256 requests: 1 request waits"),
        (
            {"waiting": 3, "kv_usage": 0.5, "running": 8},
            "3 requests wait in the queue though the KV cache has room: held ",
        ),
        ({"waiting": 3, "kv_usage": None, "running": 8}, "3 requests wait in the queue: held back by the token budget"),
    ],
    ids=["kv-cache", "batch-limit", "neither", "cache-not-told"],
)
def test_what_holds_requests_back_is_named(decode, fields, sentence):
    assert any(sentence in text for text in lines_of(queueing(decode, **fields), width=120))


@pytest.mark.parametrize(("width", "told"), [(140, True), (60, False)], ids=["room", "no-room"])
def test_the_reason_of_a_status_is_told_where_it_fits(decode, width, told):
    partial = queueing(decode, status="partial", status_reason="batch went from 7 to 1 inside the window")
    text = line(partial, "NOW", width=width)
    assert "· partial" in text
    assert ("inside the window)" in text) is told


def test_without_a_queue_nothing_is_said(decode):
    assert not any(text.startswith("!") for text in lines_of(queueing(decode, waiting=0, kv_usage=1.0)))


def test_silence_is_shown_once_it_means_something(decode):
    assert "silent" not in line(decode, "log")
    assert "silent for 1:35 min" in line(dataclasses.replace(decode, silent_s=95.0), "log", width=100)


def test_a_step_of_a_while_ago_says_so(decode):
    later = dataclasses.replace(decode, now=decode.now + 100)
    assert "1:40 min ago" in line(later, "NOW", width=120)


def test_before_the_first_step_the_hint_stands_there():
    snapshot = Snapshot("standard input", 31.0, 0.0, 1204, 0, 0, 0, hint="no MFU lines in 31 s; 1,204 lines seen")
    lines = lines_of(snapshot)
    assert any("no step yet" in text for text in lines)
    assert "! no MFU lines in 31 s; 1,204 lines seen" in lines


def test_without_a_roof_the_rates_stand_alone(decode):
    assert "TFLOP/s" in line(dataclasses.replace(decode, roof=None), "rates")


def test_a_roof_that_was_given_is_named_so(decode):
    given = Roof("given", "", "auto", "bf16", "log", pi_burst_tflops=683.0, beta_gbps=4590.0, read_beta_gbps=4590.0)
    text = "\n".join(lines_of(dataclasses.replace(decode, roof=given)))
    assert "roof      --pi and --beta" in text


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"pi_burst_tflops": 0.5, "beta_gbps": 40.0}, "percentages mean nothing"),
        ({}, "no percentages without --profile"),
    ],
    ids=["named", "the one that was stored"],
)
def test_another_kind_of_device_is_no_roof_and_the_view_says_so(decode, figures, says):
    wrong = Roof("measured", "Some CPU", "auto", "bf16", "log", **figures, caveats=("platform_conflict",))
    text = "\n".join(lines_of(dataclasses.replace(decode, roof=wrong)))
    assert f"another kind of device: {says} (Some CPU)" in text


def test_half_a_roof_that_was_given_is_named_alone(decode):
    given = Roof("given", "", "auto", "bf16", "log", beta_gbps=4590.0, read_beta_gbps=4590.0)
    text = "\n".join(lines_of(dataclasses.replace(decode, roof=given)))
    assert "roof      --beta · bf16 given" in text


def test_parts_that_do_not_make_the_step_are_not_said_to(decode):
    seen = decode.ranks[0]
    point = dataclasses.replace(seen.point, step_ms=5.5, gemm_ms=None, kv_ms=0.3, link_ms=None, rest_ms=None)
    assert line(dataclasses.replace(decode, ranks=(Seen(seen.at, point),)), "step ").endswith(
        "5.50  ms of which KV 0.30"
    )


def test_a_negative_rest_is_printed_as_it_is(decode):
    seen = decode.ranks[0]
    point = dataclasses.replace(seen.point, rest_ms=-0.5)
    text = line(dataclasses.replace(decode, ranks=(Seen(seen.at, point),)), "step ", width=120)
    assert "rest -0.5" in text


def test_an_encoding_without_blocks_gets_ascii(decode):
    text = "\n".join(lines_of(decode, ascii_only=True))
    assert not set(text) & set("█▉▊▋▌▍▎▏▓▒░▁▂▃▄▅▆▇")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ((), "      "),
        (((0.5, 1.0),), "     █"),
        (((59.0, 0.0), (0.5, 1.0)), "▁    █"),
        (((0.1, 0.0), (0.2, 1.0)), "     ▅"),
        (((0.5, 1.7),), "     █"),
        (((0.5, None),), "      "),
    ],
    ids=["empty", "now", "oldest-left", "mean-of-a-cell", "above-the-roof", "unknown"],
)
def test_sparkline(history, expected):
    assert sparkline(history, 6) == expected


def test_warnings_that_differ_in_their_digits_only_are_folded():
    lines = [f"WARNING 11-29 14:25:0{n} [x.py:1] port {n} is busy" for n in range(3)] + ["ERROR \x1b[31mother"]
    assert folded(lines) == [f"{lines[0]} … and 2 lines like it", "ERROR \\x1b[31mother"]
