"""Draw the README's terminal pictures from a captured log and the shipped H200 profile."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

import roofline_probe
from roofline_probe import store
from roofline_probe.report.profile_view import print_answer
from roofline_probe.report.terminal import print_report

ONLY_BY_NAME = True
ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "fixtures" / "images"
LOG = ROOT / "fixtures" / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"


def main() -> int:
    IMAGES.mkdir(parents=True, exist_ok=True)
    profile, _ = store.load("h200")
    result = roofline_probe.compare(LOG, "h200")
    draw("compare-terminal", "probe compare vllm.log --profile h200", 112, lambda c: print_report(result, c))
    draw("show-terminal", "probe show h200", 84, lambda c: print_answer(profile, c))
    return 0


def draw(name: str, title: str, width: int, view: Callable[[Console], None]) -> None:
    """One SVG whose text stays text; no font is fetched from anywhere."""
    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, color_system="standard", markup=False,
        highlight=False, emoji=False,
    )  # fmt: skip
    view(console)
    svg = console.export_svg(title=title, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace(
        "font-family: Fira Code, monospace", "font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace"
    )
    (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
