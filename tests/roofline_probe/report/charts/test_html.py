"""The page: complete in itself, escaped, and working in a real browser."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from roofline_probe.comparison import compare
from roofline_probe.profile import Profile
from roofline_probe.report import chart, html, report_page

pytest.importorskip("altair", reason="pages need the plot extra")

ROOT = Path(__file__).parents[4]
H200 = ROOT / "fixtures/profiles/h200-reference.json"
LOG = ROOT / "fixtures/logs/vllm/0.24.0-h200-graph-1s.log"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'`{{7*7}}<!--"
ALL_DRAWN = "Array.from(document.querySelectorAll('.chart')).every(c => c.dataset.drawn === 'yes')"


class Elements(HTMLParser):
    """Every element with its attributes, and the page's visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="session")
def report() -> str:
    return report_page.report_page(compare(LOG, H200))


@pytest.fixture(scope="session")
def report_file(report: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report, encoding="utf-8")
    return path


def test_page_says_what_the_report_says(report: str) -> None:
    text = Elements(report).text
    for said in (
        "NVIDIA H200 (assumed",
        "% attained",
        "By kind, batch and context",
        "Slowest windows",
        "What would help",
    ):
        assert said in text
    assert "580" in text, "the driver is part of the environment"


def test_page_names_nothing_outside_itself(report: str) -> None:
    for tag, attributes in Elements(report).found:
        assert not {"src", "href", "action", "poster", "background"} & set(attributes), tag
        assert tag not in {"link", "iframe", "img", "object", "embed", "form", "base"}
    assert "url(" not in re.sub(r"<script>.*?</script>", "", report, flags=re.DOTALL)


def test_policy_allows_its_own_scripts_by_hash_and_no_eval(report: str) -> None:
    policy = next(a["content"] for t, a in Elements(report).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src 'sha256-[^']+' 'sha256-[^']+';", policy)


def test_hostile_text_stays_text_everywhere(profile: Profile) -> None:
    table = html.Table(HOSTILE, (html.Column(HOSTILE),), ((html.words_cell(HOSTILE),),), HOSTILE)
    page = html.Page(
        title=HOSTILE, subtitle=HOSTILE, cards=((HOSTILE,) * 3,), words=((HOSTILE, (HOSTILE,)),), warnings=(HOSTILE,),
        notes=(HOSTILE,), tables=(table,), facts=((HOSTILE, ((HOSTILE, HOSTILE),)),),
    )  # fmt: skip
    figure = dataclasses.replace(chart.profile_figure(profile), title=HOSTILE)
    figure.main.datasets["trials"][0]["label"] = HOSTILE
    elements = Elements(html.render(page, figure))
    assert all(tag != "img" for tag, _ in elements.found)
    assert sum(tag == "script" for tag, _ in elements.found) == 2 + 1 + len(figure.panels)
    assert elements.text.count("onerror=alert(1)") >= 12


def test_hostile_model_name_in_a_log_stays_text(tmp_path: Path) -> None:
    log = tmp_path / "hostile.log"
    text = LOG.read_text(encoding="utf-8")
    log.write_text(text.replace("/models/Meta-Llama-3-8B-Instruct", "/m/<img src=x onerror=alert(1)>-llama-3-8b"))
    page = report_page.report_page(compare(log, H200))
    elements = Elements(page)
    assert all(tag != "img" for tag, _ in elements.found)
    assert "<img src=x onerror=alert(1)>-llama-3-8b" in elements.text, "the name is shown, as text"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("</script><script>", id="closing-tag"),
        pytest.param("<!--<script", id="comment"),
        pytest.param("\u2028\u2029", id="line-separators"),
    ],
)
def test_json_in_a_script_cannot_leave_it(value: str) -> None:
    text = html.script_json({"name": value})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"name": value}


def test_unknown_numbers_are_dashes_that_sort_last() -> None:
    assert html.number_cell(None) == html.Cell("–", "")
    assert html.percent_cell(1.134) == html.Cell("113", "1.134"), "not clamped"


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[pytest.param((1200, False), id="desktop-light"), pytest.param((380, True), id="phone-dark")])
def opened(request: pytest.FixtureRequest, browser: Any, report_file: Path) -> Any:
    width, dark = request.param
    browser.open(report_file.as_uri(), width=width, dark=dark)
    browser.wait(ALL_DRAWN)
    return browser


def test_charts_are_drawn_without_complaint_or_request(opened: Any, report_file: Path) -> None:
    assert opened.complaints() == []
    assert opened.requests() == [report_file.as_uri()]
    marks = opened.evaluate(
        "Array.from(document.querySelectorAll('.chart')).map(c => c.querySelectorAll('svg .mark-symbol path, "
        "svg .mark-rect path').length)"
    )
    assert len(marks) == 5
    assert all(count >= 10 for count in marks), marks


def test_page_fits_its_window(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_text_keeps_contrast_in_both_themes(opened: Any) -> None:
    luminance = """(css => { const c = css.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; })"""
    ratio = opened.evaluate(
        f"""(() => {{ const lum = {luminance};
        const back = lum(getComputedStyle(document.body).backgroundColor);
        return Math.min(...['h1', 'figcaption', '.chart svg .role-axis-label text'].map(name => {{
            const style = getComputedStyle(document.querySelector(name));
            const fore = lum(name.includes('svg') ? style.fill : style.color);
            return (Math.max(fore, back) + 0.05) / (Math.min(fore, back) + 0.05); }})); }})()"""
    )
    assert ratio >= 4.5


def test_clicking_a_head_sorts_the_table_and_keeps_dashes_last(browser: Any, report_file: Path) -> None:
    browser.open(report_file.as_uri())
    column = """(table => Array.from(table.tBodies[0].rows).map(row => row.cells[7].dataset.v))
        (document.querySelectorAll('table.data')[1])"""
    click = "document.querySelectorAll('table.data')[1].tHead.rows[0].cells[7].querySelector('button').click()"
    for ascending in (True, False):
        browser.evaluate(click)
        values = browser.evaluate(column)
        numbers = [float(v) for v in values if v != ""]
        assert numbers == sorted(numbers, reverse=not ascending)
        assert all(v == "" for v in values[len(numbers) :])
        assert len(numbers) < len(values), "this log has a bin whose step could not be taken apart"


def test_hovering_a_step_tells_its_figures(browser: Any, report_file: Path) -> None:
    browser.open(report_file.as_uri())
    browser.wait(ALL_DRAWN)
    place = json.loads(
        browser.evaluate(
            """JSON.stringify((() => { const mark = Array.from(document.querySelectorAll(
            '#roofline svg .mark-symbol path')).filter(
                p => (p.getAttribute('aria-label') || '').includes('log line'))[5];
            mark.scrollIntoView({block: 'center'});
            const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })())"""
        )
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    browser.wait("document.querySelector('#vg-tooltip-element.visible') !== null", 10)
    told = browser.evaluate("document.querySelector('#vg-tooltip-element').innerText")
    for name in ("log line", "attained, %", "step, ms", "batch"):
        assert name in told


# ---- a long log ------------------------------------------------------------------------------------------------------


def lengthened(steps: int) -> str:
    """The captured run over and over, its clock running on and its rates jittered by 3 %."""
    lines = LOG.read_text(encoding="utf-8").splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if "Engine 000:" in line)
    body = [line for line in lines[first:] if "Engine 000:" in line]
    generator, clock, written = random.Random(1), datetime(2026, 11, 29, 14, 25, 19), 0
    out = lines[:first]
    while written < steps:
        line = body[(len(out) - first) % len(body)]
        clock += timedelta(seconds="throughput" in line)
        line = re.sub(r"\d\d-\d\d \d\d:\d\d:\d\d", f"{clock:%m-%d %H:%M:%S}", line, count=1)
        out.append(
            re.sub(r"(?<=throughput: )[\d.]+", lambda m: f"{float(m[0]) * generator.uniform(0.97, 1.03):.1f}", line)
        )
        written += "MFU:" in line
    return "".join(out)


def test_page_of_20000_steps_stays_under_3_megabytes(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_text(lengthened(20_000), encoding="utf-8")
    result = compare(log, H200)
    assert len(result.points) >= 20_000
    page = report_page.report_page(result)
    assert len(page.encode()) <= 3_000_000
    text = Elements(page).text
    assert re.search(r"[\d,]+ windows in [\d,]+ marks", text), "the page says that windows were merged"
    assert re.search(r"[\d,]+ windows averaged in [\d,]+ marks", text)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param("vllm/0.24.0-h200-tp2-2s.log", id="two-cards"),
        pytest.param("vllm/0.24.0-nan-zero-debug.log", id="no-rates"),
        pytest.param("vllm/0.32.0-cpu-dp2.log", id="two-engines"),
        pytest.param("vllm/0.33.0-iteration-details.log", id="no-parts"),
        pytest.param("wrapped/markup-in-model-name.log", id="markup-in-a-name"),
    ],
)
def test_page_of_any_log_draws_without_complaint(log: str, browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(report_page.report_page(compare(ROOT / "fixtures/logs" / log, H200)), encoding="utf-8")
    browser.open(path.as_uri())
    browser.wait(ALL_DRAWN)
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]
