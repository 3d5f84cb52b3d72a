"""Run the benchmarks that need no GPU, each in a process of its own: ``python -m benchmarks [NAME ...]``.

A benchmark is a module of this folder with a ``main``; its options are its own (``python -m benchmarks.logs --help``).
One that needs a GPU, or that runs for long, says so in ``ONLY_BY_NAME``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, tuple[str, bool]]:
    """Name -> its first line, and whether it runs without being named; read from the text, nothing is imported."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        constants = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if "main" in names and not path.stem.startswith("__") and path.stem != "make_log":
            found[path.stem] = ((ast.get_docstring(tree) or "").partition("\n")[0], "ONLY_BY_NAME" not in constants)
    return found


def main() -> int:
    known = benchmarks()
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        print(f"no benchmark is called {unknown[0]!r}; there are:", file=sys.stderr)
        for name, (line, by_default) in known.items():
            print(f"  {name:14} {line}{'' if by_default else ' (only by name)'}", file=sys.stderr)
        return 2
    failed = 0
    for name in sys.argv[1:] or [name for name, (_, by_default) in known.items() if by_default]:
        print(f"== {name}: {known[name][0]}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=FOLDER.parent).returncode
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
