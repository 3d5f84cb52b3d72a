"""Heads, wrappers and logical lines, piece by piece."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from log_parsers import LogStream
from log_parsers.unwrap import RAW_LIMIT, Unwrapper, plain
from log_parsers.wrappers import Bare, Head, Stamp, head_of, is_wrapper, message_start, without_repeats

BODY = "Engine 000: MFU: 1.0 TF/s/GPU 2.0 GB/s/GPU"
BAR = "50%|#####     | 1/2 [00:01<00:01, 1.00it/s]"
VLLM = "INFO 03-01 12:00:10 [perf.py:1532] "
SGLANG = "[2026-03-01 12:00:10 DP0 TP1] "
NEEDLE = b"MFU: "


def head(left: str, outer: Stamp | None = None, in_json: bool = False) -> Head | None:
    return head_of(Bare(left + BODY, outer, in_json), len(left))


def logical(line: bytes) -> list[Bare]:
    return list(Unwrapper([NEEDLE])(line))


@pytest.mark.parametrize(
    "left",
    [
        VLLM,
        f"(APIServer pid=1) {VLLM}",
        f"[blue] (APIServer pid=1) {VLLM}",
        f"node-a {VLLM}",
        f"vllm-1  | (APIServer pid=1) {VLLM}",
        f"my.registry:5000/vllm@1 | {VLLM}",
        f"2026-03-01T10:00:10.1Z {VLLM}",
        f"2026-03-01T10:00:10.123456789+05:30 {VLLM}",
        f"2026-03-01T10:00:10.1Z stderr F {VLLM}",
        f"Mar  1 12:00:10 node vllm[7]: {VLLM}",
        f"Mar 11 12:00:10 node systemd-run[7]: {VLLM}",
        f"2026-03-01T10:00:10+0000 node vllm[7]: {VLLM}",
        f"Mar  1 12:00:10.123456 node vllm[7]: {VLLM}",
        f"<14>Mar  1 12:00:10 node vllm: {VLLM}",
        f"Mar  1 12:00:10 {VLLM}",
        f"2026-03-01T10:00:10+00:00 node vllm: {VLLM}",
        f"Sun 2026-03-01 12:00:10 UTC node vllm[7]: {VLLM}",
        f"2026-03-01 12:00:10 {VLLM}",
        f"2026-03-01T12:00:10.123Z\t{VLLM}",
        f"[2026-03-01 12:00:10] {VLLM}",
        f"(pid=123) {VLLM}",
        f"(raylet, ip=10.0.0.1) {VLLM}",
        f"(A pid=1) (B pid=2, ip=10.0.0.1) (C pid=3) {VLLM}",
        f"[pod/vllm-0/server] {VLLM}",
        f"[rank0]: {VLLM}",
        f"vllm-7d9f-abc server {VLLM}",
        f"0: {VLLM}",
        f"node12: {VLLM}",
        f"Loading:  10%|#     | 1/10 [00:00<00:01]{VLLM}",
        f"(EngineCore pid=9) Capturing (FULL): 3%|# | 1/35 [00:00<00:01, 27.9it/s]{VLLM}",
        f"12it [00:00, 34.5it/s]{VLLM}",
        f"3it [00:09, ?it/s]  {VLLM}",
        f"12:00:10 {VLLM}",
        f"[12:00:10.5] {VLLM}",
    ],
)
def test_wrappers_may_stand_before_a_record(left: str) -> None:
    found = head(left)
    assert found is not None
    assert (found.level, found.file, found.stamp) == ("INFO", "perf.py:1532", Stamp(None, "03-01", "12:00:10"))


@pytest.mark.parametrize(
    "left",
    [
        f"prompt: {VLLM}",
        f"user prompt: {VLLM}",
        f"2026-03-01 12:00:10 user: prompt: {VLLM}",
        f"he said {VLLM}",
        f"'{VLLM}",
        f'text="{VLLM}',
        f"{{{VLLM}",
        f"(APIServer pid=1) INFO 03-01 12:00:09 [logger.py:39] Received request: {VLLM}",
        f"[2026-03-01 12:00:09] Receive: {VLLM}",
        f"INFO 03-01 12:00:09 [core.py:1] torn {VLLM}",
        f"a b c {VLLM}",
        f"Loading:  10%|#  'quoted' | {VLLM}",
        f"no bar [here] at all it/s {VLLM}",
        "the news of Mar  1 12:00:10 ",
        "user: ",
        "{",
    ],
)
def test_anything_else_before_it_makes_it_an_echo(left: str) -> None:
    assert head(left) is None


@pytest.mark.parametrize(
    ("left", "stamp", "level"),
    [
        ("2025-07-08 17:24:00 - vllm.v1.metrics.loggers - INFO - ", Stamp(2025, "07-08", "17:24:00"), "INFO"),
        ("2025-07-08 17:24:00,123 - vllm - INFO - ", Stamp(2025, "07-08", "17:24:00", "123"), "INFO"),
        ("2025/07/08 17:24:00 INFO ", Stamp(2025, "07-08", "17:24:00"), "INFO"),
        ("[2025-07-08 17:24:00] [INFO] ", Stamp(2025, "07-08", "17:24:00"), "INFO"),
        (
            "2025-07-08 17:24:00.5 | INFO     | vllm.v1.loggers:log:273 - ",
            Stamp(2025, "07-08", "17:24:00", "5"),
            "INFO",
        ),
        ("2025-07-08T17:24:00.5Z ", Stamp(2025, "07-08", "17:24:00", "5", "Z"), None),
        (
            "2025-07-08 17:24:00+0200 WARNING (MainThread) vllm: ",
            Stamp(2025, "07-08", "17:24:00", "", "+0200"),
            "WARNING",
        ),
        ("2025-07-08 17:24:00 INFO vllm.engine ", Stamp(2025, "07-08", "17:24:00"), "INFO"),
    ],
)
def test_other_formatters(left: str, stamp: Stamp, level: str | None) -> None:
    found = head(left)
    assert found is not None
    assert (found.stamp, found.level, found.file) == (stamp, level, None)


@pytest.mark.parametrize(
    "left",
    [
        "2025-07-08 17:24:00 INFO router: prompt was ",
        "2025-07-08 17:24:00 somebody wrote that ",
        "2025-07-08 17:24:00 INFO 'quoted' ",
        "on 2025-07-08 17:24:00 I read ",
    ],
)
def test_prose_behind_a_date_is_no_formatter(left: str) -> None:
    assert head(left) is None


def test_an_other_formatter_may_print_sglangs_ranks_in_another_bracket() -> None:
    found = head("2025-10-29 02:27:35 INFO 8900 [ DP15 TP15 EP15 file.py:222] ")
    assert found is not None
    assert (found.rank, found.file, found.level) == ("DP15 TP15 EP15", "file.py:222", "INFO")


@pytest.mark.parametrize(
    ("left", "rank", "frac"),
    [
        ("[2026-03-01 12:00:10] ", None, ""),
        ("[2026-03-01 12:00:10.250] ", None, "250"),
        (SGLANG, "DP0 TP1", ""),
        ("[2026-03-01 12:00:10.5 PP0] ", "PP0", "5"),
        ("[2026-03-01 12:00:10] INFO:     ", None, ""),
    ],
)
def test_sglangs_head(left: str, rank: str | None, frac: str) -> None:
    found = head(left)
    assert found is not None
    assert found.stamp == Stamp(2026, "03-01", "12:00:10", frac)
    assert found.rank == rank


@pytest.mark.parametrize(
    ("left", "pid", "dp"),
    [
        (VLLM, "", None),
        (f"(APIServer pid=449) {VLLM}", "449", None),
        (f"(A pid=1) (B pid=2, ip=10.0.0.1) {VLLM}", "2", None),
        (f"(EngineCore_DP3 pid=12) {VLLM}", "12", "3"),
        (f"(Worker_DP1_TP2 pid=12) [blue] {VLLM}", "12", "1"),
    ],
)
def test_the_process_that_wrote_the_line(left: str, pid: str, dp: str | None) -> None:
    found = head(left)
    assert found is not None
    assert (found.pid, found.dp) == (pid, dp)


@pytest.mark.parametrize(
    ("left", "origin"),
    [
        (VLLM, ""),
        (f"vllm-1  | {VLLM}", "vllm-1"),
        (f"[pod/vllm-0/server] {VLLM}", "pod/vllm-0/server"),
        (f"[rank0]: {VLLM}", ""),
    ],
)
def test_the_container_that_wrote_the_line(left: str, origin: str) -> None:
    found = head(left)
    assert found is not None
    assert found.origin == origin


def test_the_collectors_stamp_is_a_hint_beside_the_engines_and_a_clock_where_there_is_none() -> None:
    outer = Stamp(2026, "03-01", "10:00:10", "1", "Z")
    beside = head(f"2026-03-01T10:00:10.1Z {VLLM}")
    alone = head("vllm-1 | 2026-03-01T10:00:10.1Z ")
    assert beside is not None
    assert alone is not None
    assert (beside.stamp, beside.hint) == (Stamp(None, "03-01", "12:00:10"), outer)
    assert (alone.stamp, alone.hint) == (outer, None)


def test_the_time_of_a_json_record_is_a_hint_or_the_clock() -> None:
    outer = Stamp(2026, "03-01", "10:00:10")
    beside, alone = head(VLLM, outer, in_json=True), head("", outer, in_json=True)
    assert beside is not None
    assert alone is not None
    assert (beside.hint, alone.stamp) == (outer, outer)


@pytest.mark.parametrize(
    ("key", "value", "iso"),
    [
        ("asctime", "2026-03-01 12:00:10,250", "2026-03-01T12:00:10.250"),
        ("time", "2026-03-01T12:00:10Z", "2026-03-01T12:00:10Z"),
        ("created", 1772366410.5, "2026-03-01T12:00:10.500000Z"),
        ("timeMillis", 1772366410500, "2026-03-01T12:00:10.500000Z"),
        ("ts", 1772366410, "2026-03-01T12:00:10.000000Z"),
        ("ts", 1772366410.25, "2026-03-01T12:00:10.250000Z"),
        ("timestamp", 1772366410250, "2026-03-01T12:00:10.250000Z"),
        ("timestamp", 1772366410250000, "2026-03-01T12:00:10.250000Z"),
        ("timestamp", 1772366410250000000, "2026-03-01T12:00:10.250000Z"),
        ("@timestamp", "2026-03-01T12:00:10.250+01:00", "2026-03-01T12:00:10.250+01:00"),
        ("time", "noon", None),
        ("time", True, None),
        ("ts", 1e300, None),
        ("ts", float("inf"), None),
        ("ts", 10**400, None),
        ("ts", None, None),
    ],
)
def test_where_json_puts_the_time(key: str, value: object, iso: str | None) -> None:
    stream = LogStream("log", now=datetime(2026, 6, 1))
    (step,) = stream.feed((json.dumps({key: value, "message": BODY}) + "\n").encode())
    assert step.time == iso


@pytest.mark.parametrize("key", ["message", "msg", "log", "MESSAGE", "textPayload", "@message"])
def test_where_json_puts_the_text(key: str) -> None:
    assert logical(json.dumps({"a": 1, key: BODY}).encode()) == [Bare(BODY, None, True)]


@pytest.mark.parametrize(
    "record",
    [
        {"jsonPayload": {"message": BODY}},
        {"log": json.dumps({"message": BODY}) + "\n"},
        {"message": json.dumps({"log": json.dumps({"msg": BODY})})},
        {"log": "\x1b[32m" + BODY + "\x1b[0m\r\n"},
        {"log": {"level": "INFO"}, "textPayload": BODY},
        {"message": "", "log": BODY},
    ],
)
def test_json_in_json(record: dict[str, object]) -> None:
    assert [bare.text for bare in logical(json.dumps(record).encode())] == [BODY]


@pytest.mark.parametrize("left", ["", "(APIServer pid=1) ", "vllm-1  | ", f"{VLLM}"])
def test_what_may_stand_before_the_brace(left: str) -> None:
    line = left + json.dumps({"message": BODY})
    assert [bare.text for bare in logical(line.encode())] == [BODY]


@pytest.mark.parametrize(
    "line",
    [
        "he said " + json.dumps({"message": BODY}),
        json.dumps({"prompt": BODY}),
        json.dumps([BODY])[:-1] + ', "}',
        '{"message": "' + BODY + '"',
        json.dumps({"message": 7, "x": BODY}),
        "[1, {}, " + json.dumps({"x": BODY}),
    ],
)
def test_json_that_is_no_record_stays_as_it_is(line: str) -> None:
    assert [(bare.text, bare.in_json) for bare in logical(line.encode())] == [(line, False)]


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (f"{BODY}   \t\r\n", [BODY]),
        (f"{BODY}\0\0\0", [BODY]),
        (f"bar\r{BODY}", [BODY]),
        (f"{BODY}\rbar", [BODY]),
        (f"{BODY}\r{BODY}", [BODY, BODY]),
        (f"a\r\rb\r{BODY}\rc\r", [BODY]),
        ("nothing\rhere", []),
        (f"\x1b[2K{BODY}\x1b[0m", [BODY]),
        (f"\x1b]0;title\x07{BODY}", [BODY]),
        (f"\x1b]8;;http://x\x1b\\{BODY}\x1b]8;;\x1b\\", [BODY]),
        (f"\x1bP1$r\x1b\\{BODY}\x1b(B", [BODY]),
        (f"#033[32m{BODY}#033[0m", [BODY]),
        (json.dumps({"message": f"one\n{BODY}\r\ntwo"}), ["one", BODY]),
        (json.dumps({"message": f"{BODY}\n{BODY}"}), [BODY, BODY]),
        (json.dumps({"message": f"{BODY}\rtwo"}), [BODY]),
        (json.dumps({"log": f"{BAR}\r\r{BAR}\r{BODY}\r{BAR}\n"}), [BODY]),
        (json.dumps({"log": f"{BAR}\r{BAR}{BODY}\n"}), [BAR + BODY]),
    ],
)
def test_logical_lines_of_a_physical_one(line: str, texts: list[str]) -> None:
    assert [bare.text for bare in logical(line.encode())] == texts


@pytest.mark.parametrize(
    ("message", "openings"),
    [
        (BODY, [None]),
        (f"{BODY}\n{BODY}\n{BODY}", [None, BODY, BODY]),
        (f"prompt: \r{BODY}", [None, "prompt:"]),
        (f"{BAR}\r{BODY}", [None]),
        (f"{BAR}\n{BODY}", [None, BAR]),
        (f"{BAR}\r\r\n{BODY}", [None, ""]),
        (f"prompt: {BAR}'\r{BODY}", [None, f"prompt: {BAR}'"]),
        (f"{'x' * 300}\n{BODY}", [None, "x" * 200 + "…"]),
    ],
)
def test_only_the_first_line_of_a_json_records_message_is_its_own(message: str, openings: list[str | None]) -> None:
    assert [bare.opening for bare in logical(json.dumps({"message": message}).encode())] == openings


def test_invalid_utf_8_is_no_obstacle() -> None:
    assert [bare.text for bare in logical(b"\xff\xfe| " + BODY.encode())] == ["��| " + BODY]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("tab\there", "tab\there"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("\u202eoverride\u2066", "override"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
        ("lone \x1b", "lone "),
        ("x" * (RAW_LIMIT + 5), "x" * RAW_LIMIT),
    ],
)
def test_plain_text_for_people(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{VLLM}Message", "Message"),
        (f"(A pid=1) {VLLM}Message", "Message"),
        (f"{SGLANG}Message", "Message"),
        ("[2026-03-01 12:00:10] INFO:     Message", "Message"),
        ("2025-07-08 17:24:00 - name - INFO - Message", "Message"),
        ("2025-07-08 17:24:00 INFO 8900 [ TP0 f.py:1] Message", "Message"),
        ("no record here", None),
    ],
)
def test_where_a_records_message_begins(text: str, expected: str | None) -> None:
    start = message_start(Bare(text))
    assert (None if start is None else text[start:]) == expected


def test_a_json_text_without_head_is_all_message() -> None:
    assert message_start(Bare("Message", None, True)) == 0
    assert message_start(Bare(f"{VLLM}Message", None, True)) == len(VLLM)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1 [repeated 32x across cluster]", "a: 1"),
        ("a: 1 [repeated 2x across cluster] (Ray deduplicates logs by default)", "a: 1"),
        ("a: [repeated by hand]", "a: [repeated by hand]"),
        ("a: 1", "a: 1"),
    ],
)
def test_rays_note_of_repetition(text: str, expected: str) -> None:
    assert without_repeats(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ("  ", True), ("vllm-1 | ", True), (VLLM, True), ("said ", True), ("he said ", False)],
)
def test_what_counts_as_a_wrapper(text: str, expected: bool) -> None:
    assert is_wrapper(text) == expected
