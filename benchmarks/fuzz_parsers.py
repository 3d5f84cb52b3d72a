"""Throw mutated logs at the parsers: never an exception, the same steps however the bytes are cut, never much time.

    python -m benchmarks.fuzz_parsers [--seconds 600] [--corpus FOLDER] [--keep 300]

Coverage-guided, with atheris, which is no dependency of this project (``pip install atheris``). The corpus begins with
pieces of the fixtures and is reduced to ``--keep`` small files at the end. What breaks is written beside the corpus.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ONLY_BY_NAME = True
LOGS = Path(__file__).parent.parent / "fixtures/logs"
LONGEST = 4096
SLOW_S = 2.0
"""Of this process, so that a busy machine breaks nothing."""


def seeds() -> list[bytes]:
    """Pieces of every fixture, short enough to be mutated often: its beginning, its middle, its end."""
    pieces = []
    for path in sorted(LOGS.rglob("*")):
        if path.is_file() and path.suffix != ".json":
            text = path.read_bytes()
            middle = text.rfind(b"\n", 0, len(text) // 2) + 1
            pieces += [text[:LONGEST], text[middle : middle + LONGEST], text[-LONGEST:]]
    return pieces


def check(data: bytes) -> None:
    """The first byte chooses where the text is cut; the rest is text, archive or anything else."""
    import io

    import log_parsers
    from log_parsers.decode import Decoder
    from log_parsers.stream import LogStream

    began = time.process_time()
    step_size = 1 + (data[0] if data else 0) % 97
    text = b"".join(map(bytes, _decoded(Decoder(), data[1:])))
    whole, cut = LogStream("-"), LogStream("-")
    steps = whole.feed(text) + whole.close()
    pieces = [piece for low in range(0, len(text), step_size) for piece in cut.feed(text[low : low + step_size])]
    assert pieces + cut.close() == steps, "the steps depend on how the bytes are cut"
    assert cut.report == whole.report, "the counts depend on how the bytes are cut"
    log = log_parsers.parse(io.BytesIO(data[1:]))
    assert [step for step in log if not isinstance(step.line_no, int)] == []
    assert time.process_time() - began < SLOW_S, "this input takes too long"


def _decoded(decoder, data):  # type: ignore[no-untyped-def]
    yield from decoder.feed(data)
    yield from decoder.close()


def fuzz(corpus: Path, seconds: int) -> None:
    """In this process until ``seconds`` have passed; atheris ends the process."""
    import atheris

    with atheris.instrument_imports(include=["log_parsers"]):
        import log_parsers  # noqa: F401
        from log_parsers.engines import load_engines

        load_engines()
    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus.parent}/", str(corpus)], check)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--keep", type=int, default=300, help="files of the corpus that are kept")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("skip atheris is not installed: `pip install atheris` for this benchmark only")
        return 0
    corpus = given.corpus or Path(tempfile.mkdtemp()) / "corpus"
    if given.in_this_process:
        fuzz(corpus, given.seconds)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number:04}").write_bytes(b"\x10" + seed)
    command = [sys.executable, "-m", "benchmarks.fuzz_parsers", "--in-this-process", "--corpus", str(corpus)]
    code = subprocess.run([*command, "--seconds", str(given.seconds)]).returncode
    files = sorted(corpus.iterdir(), key=lambda path: path.stat().st_size)
    for path in files[given.keep :]:
        path.unlink()
    print(
        f"{'ok  ' if code == 0 else 'OVER'} {given.seconds} s of fuzzing, {len(files)} inputs of interest, code {code}"
    )
    if given.corpus is None and code == 0:
        shutil.rmtree(corpus.parent)
    return code


if __name__ == "__main__":
    sys.exit(main())
