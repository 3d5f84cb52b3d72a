"""The dependency rule, kept by reading the sources, and what `compare` really loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for package in ("roofline_probe", "log_parsers") for path in (ROOT / package).rglob("*.py")
)  # fmt: skip
HEAVY = ("torch", "triton", "numpy", "pandas", "altair", "vl_convert", "dask", "distributed", "fsspec", "scipy")


def imports(path: Path, *, at_start: bool = False) -> set[str]:
    """Full names that a module imports; ``at_start``: only those that run when it is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _run_on_import(tree.body) if at_start else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path} imports relatively"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _run_on_import(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements at module level, those under ``if`` and ``try`` included, but not under ``if TYPE_CHECKING``."""
    run: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            run += _run_on_import(node.orelse)
        elif isinstance(node, (ast.If, ast.Try)):
            run += _run_on_import([*node.body, *node.orelse])
        run.append(node)
    return run


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def uses(path: Path, *packages: str, at_start: bool = False) -> set[str]:
    return {name for name in imports(path, at_start=at_start) if name.split(".")[0] in packages}


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_module_obeys_the_dependency_rule(path: Path) -> None:
    where = place(path)
    if where.startswith("log_parsers/"):
        assert not uses(path, "roofline_probe", "rich", "typer", "msgspec", *HEAVY), "log_parsers stands alone"
    if not where.startswith("roofline_probe/measure/"):
        assert not uses(path, "torch", "triton"), "torch belongs under measure/"
    if not where.startswith(("roofline_probe/report/", "roofline_probe/cli/")):
        assert not uses(path, "rich"), "rich belongs under report/ and cli/"
    if not where.startswith("roofline_probe/cli/"):
        assert not uses(path, "typer"), "typer belongs under cli/"
        assert not any(name.startswith("roofline_probe.cli") for name in imports(path)), "nothing calls the cli"


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_heavy_packages_are_loaded_only_when_they_are_needed(path: Path) -> None:
    allowed = {"roofline_probe/measure/": ("torch", "triton", "numpy"), "roofline_probe/report/charts/": ("altair",)}
    own = next((names for folder, names in allowed.items() if place(path).startswith(folder)), ())
    assert not uses(path, *(name for name in HEAVY if name not in own), at_start=True)


PURE = (
    "roofline", "kpi", "headline", "summary", "correlate", "recount", "point", "shard", "roof", "ceiling", "diagnose",
    "findings", "advice", "above", "fit", "diff/bootstrap", "diff/collect", "diff/pace", "diff/profiles", "plan/law",
    "plan/room", "plan/model",
)  # fmt: skip


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_do_no_input_or_output(name: str) -> None:
    path = ROOT / "roofline_probe" / f"{name}.py"
    assert not uses(path, "os", "sys", "io", "pathlib", "subprocess", "socket", "platformdirs")
    assert "roofline_probe.store" not in imports(path)
    calls = {
        n.func.id
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert not calls & {"open", "print", "input"}


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_no_file_outgrows_a_few_screens(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def loaded_by(*arguments: str) -> set[str]:
    """Top-level modules in memory after ``probe ARGUMENTS``."""
    code = (
        "import json, sys; from roofline_probe.cli import main; sys.stdout = open('/dev/null', 'w');"
        "code = main(sys.argv[1:]); json.dump([code, sorted(sys.modules)], sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    code_, modules = json.loads(result.stderr)
    assert code_ == 0, result.stderr
    return {name.split(".")[0] for name in modules} | set(modules)


LOG = str(ROOT / "fixtures" / "logs" / "vllm" / "0.24.0-h200-graph-1s.log")
PROFILE = str(ROOT / "fixtures" / "profiles" / "h200-reference.json")


def test_compare_loads_nothing_heavy() -> None:
    assert not loaded_by("compare", LOG, "--profile", PROFILE, "--json", "/dev/null") & set(HEAVY)


def test_compare_loads_rich_only_to_draw() -> None:
    assert "rich" not in loaded_by("compare", LOG, "--profile", PROFILE, "-q", "--json", "/dev/null")
    assert "rich" in loaded_by("compare", LOG, "--profile", PROFILE)


def test_help_of_all_commands_loads_nothing_heavy() -> None:
    assert not loaded_by("--help") & set(HEAVY)


def test_log_parsers_can_be_used_alone() -> None:
    code = (
        f"import sys, log_parsers; n = len(list(log_parsers.parse({LOG!r}))); print(n, 'roofline_probe' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, contaminated = result.stdout.split()
    assert int(count) > 100
    assert contaminated == "False"
