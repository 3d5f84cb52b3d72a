"""Many logs on many processes: one Dask task a file, one row a file and rank, and what stands out among them.

Dask is an existing engine for this; there is no pool of our own. The default is a local cluster of one process per
core on loopback; a scheduler's address sends the same tasks to its workers, which need this package and the same paths.
Files behind a URL (``s3://``, ``gs://``) are opened by fsspec on the worker, and read as a stream: nothing is stored.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

import log_parsers
from log_parsers.step import LogFacts
from roofline_probe.analysis import Analysis, Options, analyse
from roofline_probe.errors import NothingUsable, ProbeError, UsageError
from roofline_probe.headline import headline
from roofline_probe.point import Bin
from roofline_probe.profile import Profile

if TYPE_CHECKING:
    from typing import BinaryIO

LOCAL = "local"
"""In place of a scheduler's address: a cluster on this machine."""
Parts = tuple[str, ...]
"""Files of one log in time order; the last one names it."""
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx|ucxx|inproc)://\S+|[\w.-]+:\d+)\Z")
CONNECT_S = 10.0
"""How long a scheduler may take to answer."""
_IN_FLIGHT = 4
"""Tasks handed out per core: enough that no worker waits, few enough that memory does not grow with the file count."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The fraction that stands for one kind of work, and what it is a fraction of."""

    fraction: float | None
    of: str


@dataclass(frozen=True, slots=True)
class Row:
    """One rank of one log."""

    path: str
    rank: str | None
    engine: str | None
    model: str | None
    kinds: tuple[Bin, ...]
    headlines: dict[str, Headline]
    first_time: str | None
    last_time: str | None
    kv_usage_max: float | None
    """Of the whole file."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one task returns: a few kB, whatever the log's size."""

    path: str
    rows: tuple[Row, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences about the input: cut archives and the like."""
    failure: str | None = None
    """One sentence; then there are no rows."""
    bytes_read: int = 0
    lines: int = 0
    steps: int = 0
    worker_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """What every task needs. A few kB sent with each task: data left on a worker would be lost with it."""

    profile: Profile | None
    options: Options
    engine: str | None


@dataclass(frozen=True)
class Fleet:
    """All files' rows, in the order of the paths."""

    files: tuple[FileResult, ...]
    workers: int
    start_s: float
    """Seconds until the cluster stood: not part of ``read_s``."""
    read_s: float

    @property
    def rows(self) -> list[Row]:
        """Rows of all files that could be judged."""
        return [row for file in self.files for row in file.rows]

    @property
    def failures(self) -> list[FileResult]:
        """Files without rows, each with its sentence."""
        return [file for file in self.files if file.failure is not None]


def is_address(text: str) -> bool:
    """Whether ``text`` names a Dask scheduler (``tcp://host:8786``, ``host:8786``) rather than a log."""
    return _ADDRESS.match(text) is not None


def compare_many(
    patterns: Sequence[str],
    profile: Profile | None,
    options: Options | None = None,
    *,
    engine: str | None = None,
    cluster: str = LOCAL,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fleet:
    """Read every file under the roof, on a cluster.

    Args:
        patterns: paths, globs (``**`` too), folders, or URLs that fsspec knows; every file stands for itself.
        profile: the measured device.
        options: the user's choices, as for ``analyse``.
        engine: ``vllm`` or ``sglang``, where the text should not decide.
        cluster: ``local``, or a scheduler's address.
        workers: processes of a local cluster; one per core if None.
        progress: called with (files done, files in all).

    Raises:
        UsageError: dask or a URL's package is missing, nothing matches, or no scheduler answers at ``cluster``.
        NothingUsable: not one file could be judged.
    """
    _require_dask()
    if cluster != LOCAL and not is_address(cluster):
        raise UsageError(
            f"{cluster} is not the address of a Dask scheduler; give one like tcp://host:8786, or --cluster alone."
        )
    logs = expand(patterns)
    slim = None if profile is None else msgspec.structs.replace(profile, trials=[], telemetry=[])
    job = Job(slim, options or Options(), engine)
    began = time.monotonic()
    with _client(cluster, workers) as client:
        ready = time.monotonic()
        cores = max(1, sum(client.nthreads().values()))
        done: dict[str, FileResult] = {}
        for result in _results(client, job, _largest_first(logs), cores * _IN_FLIGHT):
            done[result.path] = result
            if progress is not None:
                progress(len(done), len(logs))
        fleet = Fleet(tuple(done[parts[-1]] for parts in logs), cores, ready - began, time.monotonic() - ready)
    if not fleet.rows:
        first = fleet.files[0]
        raise NothingUsable(f"None of the {len(logs):,} logs could be judged; the first, {first.path}: {first.failure}")
    return fleet


def expand(patterns: Sequence[str]) -> list[Parts]:
    """Logs in order, each once: a file, or the parts of one rotated log in time order.

    Local names go by ``log_parsers``' rules, URLs by their file system's own globbing, every file for itself.

    Raises:
        UsageError: nothing matches, or the URL's package is not installed.
    """
    from log_parsers.sources import expand as expand_local

    if "-" in patterns:
        raise UsageError("Standard input is one stream: leave --cluster out for it.")
    try:
        urls = [(name,) for pattern in patterns if "://" in pattern for name in _expand_url(pattern)]
        local = [tuple(parts) for parts in expand_local(p for p in patterns if "://" not in p)]
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}.") from None
    return list(dict.fromkeys([*local, *urls]))


def _expand_url(pattern: str) -> list[str]:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(pattern)
        names: list[str] = system.glob(path) if any(c in path for c in "*?[") else [path]
    except ImportError as error:
        raise UsageError(f"{pattern} needs a package that is not installed ({error}).") from None
    except ValueError as error:
        raise UsageError(f"{pattern}: {error}.") from None
    if not names:
        raise FileNotFoundError(errno.ENOENT, "nothing matches", pattern)
    return [str(system.unstrip_protocol(name)) for name in names]


def _largest_first(logs: list[Parts]) -> list[Parts]:
    """A large log that starts last would leave the other workers waiting for it."""

    def size(parts: Parts) -> int:
        with contextlib.suppress(OSError):
            return sum(os.path.getsize(part) for part in parts)
        return 0

    return sorted(logs, key=size, reverse=True)


def _require_dask() -> None:
    try:
        import distributed  # noqa: F401
        import fsspec  # noqa: F401
    except ImportError:
        raise UsageError(
            "--cluster needs the packages dask, distributed and fsspec; "
            "install them with `pip install 'roofline-probe[fleet]'`."
        ) from None


@contextlib.contextmanager
def _client(cluster: str, workers: int | None) -> Iterator[Any]:
    """A connected client; a local cluster lives as long as it."""
    import dask
    from distributed import Client, LocalCluster

    if cluster != LOCAL:
        try:
            client = Client(cluster, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(
                f"The Dask scheduler at {cluster} does not answer ({type(error).__name__}); is the address right?"
            ) from None
        with client:
            yield client
        return
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        # One task at a time on a worker: those that wait there would be blamed for its death, and lost with it.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.worker.profile.enabled": False,
    }
    with (
        tempfile.TemporaryDirectory(prefix="probe-cluster-") as scratch,
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers or _cores(),
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


def _cores() -> int:
    """Cores this process may use: a container's share, not the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _results(client: Any, job: Job, logs: list[Parts], ahead: int) -> Iterator[FileResult]:
    """Results as they come, with at most ``ahead`` tasks handed out at a time."""
    from distributed import as_completed

    waiting = iter(logs)
    parts_of: dict[str, Parts] = {}

    def submit(parts: Parts) -> Any:
        future = client.submit(read_log, job, parts, pure=False)
        parts_of[future.key] = parts
        return future

    running = as_completed([submit(parts) for parts in itertools.islice(waiting, ahead)], loop=client.loop)
    for future in running:
        path = parts_of.pop(future.key)[-1]
        for following in itertools.islice(waiting, 1):
            running.add(submit(following))
        try:
            # A result that is lost with its worker is computed again; ``result`` waits for that.
            yield future.result()
        except Exception as error:  # read_log itself raises nothing: the worker died with it, of memory or a signal
            yield FileResult(path, failure=f"Its worker ended ({type(error).__name__}); out of memory?")


def read_log(job: Job, parts: Parts) -> FileResult:
    """One task: read one log to its end. Whatever is wrong with it becomes its ``failure``."""
    began, path = time.monotonic(), parts[-1]
    try:
        with contextlib.ExitStack() as stack:
            sources = [_opened(part, stack) for part in parts]
            analysis = analyse(log_parsers.parse(*sources, engine=job.engine), job.profile, job.options)
    except OSError as error:
        return FileResult(path, failure=f"It could not be read ({error.strerror or type(error).__name__}).")
    except ProbeError as error:
        return FileResult(path, failure=str(error))
    except Exception as error:  # a fault of ours in one file must not take the other thousand with it
        return FileResult(path, failure=f"It could not be judged ({type(error).__name__}: {error}).")
    return _result(path, analysis, time.monotonic() - began)


def _opened(path: str, stack: contextlib.ExitStack) -> str | BinaryIO:
    """A local path as it is; behind a URL, a stream."""
    if "://" not in path:
        return path
    import fsspec

    file: BinaryIO = stack.enter_context(fsspec.open(path, "rb"))
    return file


def _result(path: str, analysis: Analysis, seconds: float) -> FileResult:
    report, reason = analysis.report, analysis.nothing_usable
    if reason is None and analysis.roof is None:
        reason = "It holds no line of vLLM's or SGLang's statistics."
    rows = () if reason is not None else tuple(_rows(path, analysis))
    if reason is None and not rows:
        left_out = ", ".join(f"{n} {status}" for status, n in analysis.summary.excluded.items())
        reason = f"It holds no steady window ({left_out or 'none is left by the selection'})."
    return FileResult(
        path=path,
        rows=rows,
        problems=tuple(report.problems),
        failure=reason,
        bytes_read=report.bytes_read,
        lines=report.lines,
        steps=report.steps,
        worker_s=seconds,
    )


def _rows(path: str, analysis: Analysis) -> Iterator[Row]:
    summary, roof = analysis.summary, analysis.roof
    facts = next((f for f in reversed(analysis.facts) if f.model is not None), None) or LogFacts(source=path)
    assert roof is not None
    by_rank: dict[str | None, list[Bin]] = {}
    for bin_ in summary.ranks or summary.kinds:
        by_rank.setdefault(bin_.rank, []).append(bin_)
    for rank, kinds in by_rank.items():
        yield Row(
            path=path,
            rank=rank,
            engine=kinds[0].engine,
            model=facts.model,
            kinds=tuple(kinds),
            headlines={bin_.kind: Headline(*headline(bin_, roof)) for bin_ in kinds},
            first_time=summary.first_time,
            last_time=summary.last_time,
            kv_usage_max=summary.kv_usage_max,
        )
