"""One frame of ``probe tail``: a snapshot in, styled lines out. Fits 80 columns and 24 rows, and less by leaving out.

The frame is plain text lines, not tables: each row keeps its place from frame to frame, so that the eye can rest on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from roofline_probe.point import Point, Roof, flags_of
from roofline_probe.report.caveats import WRONG_ROOF
from roofline_probe.report.console import STYLES, grade
from roofline_probe.report.finding_words import BOUND_WORDS
from roofline_probe.report.live_rows import (
    Canvas,
    alert_rows,
    card_rows,
    duration,
    generated,
    history_rows,
    kind_rows,
    label,
    log_row,
    rank_name,
    rank_rows,
)
from roofline_probe.report.text import bar, clean, model_name, number, percent, significant, tera
from roofline_probe.tail.state import ATTAINED, OF_PI, OF_ROOF, Seen, Snapshot, headed_by, is_current


@dataclass(frozen=True, slots=True)
class Section:
    """Lines that stand or fall together; the lowest ``weight`` goes first when the window is low."""

    weight: int
    lines: list[Text]


def frame(snapshot: Snapshot, canvas: Canvas) -> Text:
    """The whole view, no line wider than the canvas and no more lines than its height."""
    above = [
        Section(100, [_title(snapshot, canvas)]),
        Section(60, _roof_line(snapshot)),
        *_now(snapshot, canvas),
        Section(50, history_rows(snapshot, canvas)),
        Section(45, kind_rows(snapshot)),
    ]
    below = [
        Section(30, card_rows(snapshot)),
        Section(85, alert_rows(snapshot, canvas)),
        Section(65, [log_row(snapshot)]),
    ]
    room = canvas.height - 1 - _rows(above + below, blanks=False)
    sections = [*above, Section(55, rank_rows(snapshot, room)), *below]
    return _stack([section for section in sections if section.lines], canvas)


def _stack(sections: list[Section], canvas: Canvas) -> Text:
    height = max(1, canvas.height - 1)  # the cursor rests below the frame
    blanks = True
    while _rows(sections, blanks) > height and len(sections) > 1:
        if blanks:
            blanks = False
        else:
            sections.remove(min(sections, key=lambda section: section.weight))
    lines: list[Text] = []
    for position, section in enumerate(sections):
        if blanks and position > 1:
            lines.append(Text())
        lines.extend(section.lines)
    for line in lines[:height]:
        line.truncate(canvas.width, overflow="ellipsis")
    return Text("\n").join(lines[:height])


def _rows(sections: list[Section], blanks: bool) -> int:
    return sum(len(section.lines) for section in sections) + (max(0, len(sections) - 2) if blanks else 0)


def _title(snapshot: Snapshot, canvas: Canvas) -> Text:
    clock = duration(snapshot.elapsed_s)
    room = canvas.width - len(clock) - 1
    left = clean(" · ".join(["probe tail", *_identity(snapshot)]), max(10, room))
    return Text.assemble((left.ljust(room + 1), "bold"), (clock, "dim"))


def _identity(snapshot: Snapshot) -> list[str]:
    facts = snapshot.facts
    if facts is None or not facts.engine:
        return [snapshot.source]
    model = model_name(facts.model)
    sizes = (("TP", facts.tp), ("PP", facts.pp), ("DP", facts.dp))
    known = [f"{facts.engine} {facts.engine_version or ''}".strip(), model, facts.dtype, facts.quantization]
    return [text for text in known if text] + [f"{name} {size}" for name, size in sizes if size and size > 1]


def _roof_line(snapshot: Snapshot) -> list[Text]:
    """Whose roof, and whose count the fractions divide."""
    roof = snapshot.roof
    if roof is None:
        return []
    origin = {"measured": "measured", "datasheet": "as published", "given": "given"}[roof.origin]
    given = roof.origin == "given"
    device = flags_of(roof.pi_tflops, roof.beta_gbps) if given else f"{clean(roof.device, 40)} (assumed)"
    if WRONG_ROOF in roof.caveats:
        known = roof.pi_tflops is not None or roof.beta_gbps is not None
        means = "percentages mean nothing" if known else "no percentages without --profile"
        wrong = f"another kind of device: {means} ({clean(roof.device, 40)})"
        return [label("roof").append(wrong, style="bold red")]
    parts = [device, f"{roof.dtype} {origin}" + (f" {roof.date[:10]}" if roof.date else "")]
    basis = snapshot.ranks[0].point.basis if snapshot.ranks else None
    if basis is not None:
        parts.append("work recounted" if basis == "recounted" else "work as the engine counts it")
    return [label("roof").append(" · ".join(parts), style="dim")]


def _now(snapshot: Snapshot, canvas: Canvas) -> list[Section]:
    if not snapshot.ranks:
        return [Section(95, [label("NOW", "bold").append("no step yet", style="dim")])]
    seen = snapshot.ranks[0]
    point = seen.point
    return [
        Section(95, [_what(seen, snapshot, canvas), _headline(point, snapshot.roof, canvas)]),
        Section(80, _roofs(point, snapshot.roof, canvas)),
        Section(70, _parts(point, canvas)),
        Section(75, _load(point, snapshot)),
    ]


def _what(seen: Seen, snapshot: Snapshot, canvas: Canvas) -> Text:
    step, point = seen.point.step, seen.point
    line = label("NOW", "bold").append(step.kind, style=STYLES.get(step.kind, "bold"))
    parts = []
    if len(snapshot.ranks) > 1:
        parts.append(f"rank {rank_name(point, snapshot)}, worst of {len(snapshot.ranks)}")
    if point.batch is not None:
        rows = number(point.batch, 0 if point.batch >= 10 or point.batch % 1 == 0 else 1)
        parts.append(f"{rows} tokens" if step.kind == "prefill" else f"batch {rows}")
    if point.context:
        parts.append(f"context {number(point.context)}")
    if point.bound and step.status == "steady":
        parts.append(f"bound by {BOUND_WORDS[point.bound]}")
    line.append("".join(f" · {part}" for part in parts))
    if step.status != "steady":
        line.append(f" · {step.status}", style="yellow")
    if not is_current(seen, snapshot.now):
        line.append(f" · {duration(snapshot.now - seen.at)} ago", style="yellow")
    reason = f" ({clean(step.status_reason)})" if step.status_reason else ""
    if len(line.plain) + len(reason) <= canvas.width:  # half a reason tells nothing
        line.append(reason, style="yellow")
    return line


def _headline(point: Point, roof: Roof | None, canvas: Canvas) -> Text:
    """The one bar: prefill against pi, everything else by its step's time."""
    bar_of = {OF_PI: _of_pi, ATTAINED: _attained}.get(headed_by(point), _of_roof)
    return bar_of(point, roof, canvas, headline=True)


def _roofs(point: Point, roof: Roof | None, canvas: Canvas) -> list[Text]:
    """What stands under the headline: pi (or, under a prefill's pi, what is attained), then beta."""
    tflops, gbps = _rates(point)
    if roof is None:
        return [label("rates").append(f"{significant(tflops)} TFLOP/s · {tera(gbps)}")]
    beside = _attained if headed_by(point) == OF_PI else _of_pi
    return [beside(point, roof, canvas), _of_beta(point, roof, canvas)]


def _rates(point: Point) -> tuple[float | None, float | None]:
    if point.basis == "recounted":
        return point.recounted_tflops, point.recounted_gbps
    return point.step.tflops, point.step.gbps


def _of_pi(point: Point, roof: Roof | None, canvas: Canvas, *, headline: bool = False) -> Text:
    pi = roof.pi_tflops if roof is not None else None
    name = f"{roof.pi_name} pi" if roof is not None and roof.origin == "measured" else "pi"
    behind = f"{significant(_rates(point)[0])} of {significant(pi)} TFLOP/s {name}"
    return _bar_line(OF_PI, point.compute_fraction, behind, canvas, headline=headline)


def _of_beta(point: Point, roof: Roof, canvas: Canvas) -> Text:
    # Without a fraction, what the engine printed is no rate of this memory.
    gbps = _rates(point)[1] if point.bandwidth_fraction is not None else None
    beta = roof.read_beta_gbps if point.beta_name == "read" else roof.beta_gbps
    name = "read beta" if point.beta_name == "read" else "beta"
    return _bar_line("of beta", point.bandwidth_fraction, f"{tera(gbps)} of {tera(beta)} {name}", canvas)


def _attained(point: Point, _: Roof | None, canvas: Canvas, *, headline: bool = False) -> Text:
    estimated = " (parts estimated)" if point.estimated else ""
    behind = f"of {significant(point.step_ms)} ms a step{estimated}" if point.step_ms is not None else ""
    return _bar_line(ATTAINED, point.attained_fraction, behind, canvas, headline=headline)


def _of_roof(point: Point, _: Roof | None, canvas: Canvas, *, headline: bool = False) -> Text:
    behind = "of the nearer roof" if point.roof_fraction is not None else ""
    return _bar_line(OF_ROOF, point.roof_fraction, behind, canvas, headline=headline)


def _bar_line(name: str, fraction: float | None, behind: str, canvas: Canvas, *, headline: bool = False) -> Text:
    line = label(name, "bold" if headline else "dim")
    line.append(bar(fraction, canvas.bar_width, canvas.ascii_only), style=grade(fraction) if headline else "cyan")
    line.append(f" {percent(fraction):>6}", style="bold" if headline else "")
    return line.append(f"  {behind}", style="dim")


PARTS = (
    ("GEMMs", "█", "#", "cyan"),
    ("KV", "▓", "=", "magenta"),
    ("link", "▒", "+", "blue"),
    ("rest", "░", ".", "yellow"),
)


def _parts(point: Point, canvas: Canvas) -> list[Text]:
    """The step taken apart, as one bar and in figures; a negative rest is printed as it is and drawn as nothing."""
    times = (point.gemm_ms, point.kv_ms, point.link_ms, point.rest_ms)
    known = [(*part, ms) for part, ms in zip(PARTS, times, strict=True) if ms]
    if point.step_ms is None or not known:
        return []
    line = label("step")
    sign = "=" if point.rest_ms is not None else "of which"
    figures = Text(f" {significant(point.step_ms):>6}  ms {sign} ")
    for position, (name, _, _, style, ms) in enumerate(known):
        figures.append(" + " if position else "", style="dim").append(f"{name} {number(ms, 2)}", style=style)
    cells = max(8, min(canvas.bar_width, canvas.width - len(line) - len(figures)))  # a cut figure is worse than bars
    total = max(point.step_ms, sum(max(0.0, part[-1]) for part in known)) or 1.0
    edge = drawn = 0.0
    for _, block, sign, style, ms in known:
        edge += max(0.0, ms) / total * cells
        line.append((sign if canvas.ascii_only else block) * (round(edge) - round(drawn)), style=style)
        drawn = edge
    return [line.append(" " * (cells - round(drawn))).append(figures)]


def _load(point: Point, snapshot: Snapshot) -> list[Text]:
    step = point.step
    prompt, gen = step.prompt_tok_s, step.gen_tok_s
    for other in snapshot.others:  # SGLang prints the two rates on two lines
        prompt = other.point.step.prompt_tok_s if prompt is None else prompt
        gen = other.point.step.gen_tok_s if gen is None else gen
    waiting = step.waiting if step.waiting is not None else step.queue
    speed = label("tok/s").append(f"{number(gen)} generated · {number(prompt)} prompt")
    if step.accept_len is not None:
        speed.append(f" · {step.accept_len:.2f} accepted a step")
    if len(snapshot.ranks) > 1:
        speed.append(f" · {number(generated(snapshot))} by all ranks")
    load = label("requests").append(f"{number(step.running)} running · {number(waiting)} waiting")
    load.append(f" · KV {percent(step.kv_usage)}", style="yellow" if (step.kv_usage or 0) >= 0.9 else "")
    load.append(f" · prefix hits {percent(step.prefix_hit_rate)}")
    return [speed, load]
