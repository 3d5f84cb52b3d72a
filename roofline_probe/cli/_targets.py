"""Where a command may write: never onto what it reads, and never twice into one file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from roofline_probe.errors import UsageError

_STDOUT = "-"
_File = tuple[int, int] | str  # device and inode, or the path of a file that does not exist yet


def check_targets(outputs: Mapping[str, str | os.PathLike[str] | None], inputs: Iterable[str | None] = ()) -> None:
    """Refuse outputs (by flag) that would destroy an input or each other, before anything is read.

    Args:
        outputs: flag -> path, ``-`` or None. A pipe or a device may be named twice.
        inputs: logs (globs and folders too), profiles and model configs; names that are no file are passed over.

    Raises:
        UsageError: an output is an input, or two outputs are one file.
    """
    given = {flag: os.fspath(target) for flag, target in outputs.items() if target is not None}
    targets = {flag: file for flag, target in given.items() if (file := _file(target)) is not None}
    if not targets:
        return
    read = {_file(name): name for name in _names(inputs)}
    written: dict[_File, str] = {}
    for flag, file in targets.items():
        if file in read:
            raise UsageError(f"{flag} {given[flag]} would overwrite {read[file]}, which is read; give another path.")
        if file in written:
            raise UsageError(f"{written[file]} and {flag} name one file, {given[flag]}; give each its own.")
        written[file] = flag


def _file(path: str) -> _File | None:
    """What tells files apart, whatever they are called; None for standard output, a pipe or a device."""
    if path == _STDOUT:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _names(inputs: Iterable[str | None]) -> Iterator[str]:
    from log_parsers.sources import expand

    for path in inputs:
        if path is None or path == _STDOUT:
            continue
        try:
            yield from (name for parts in expand([path]) for name in parts)
        except OSError:  # the name of a profile or a model; what is missing is said where it is read
            yield from _stored(path)


def _stored(name: str) -> Iterator[str]:
    from roofline_probe import store

    yield from (str(path) for path in store.stored() if path.stem == name.lower().removesuffix(".json"))
