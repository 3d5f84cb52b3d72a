"""Profiles as files: JSON that is validated when read and replaced whole when written."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import msgspec

from roofline_probe import plain_json
from roofline_probe.errors import UsageError
from roofline_probe.profile import SCHEMA_VERSION, Count, Profile


class _Header(msgspec.Struct):
    schema_version: Count


LARGEST_BYTES = 32 << 20
"""A machine of eight cards takes 2 MB."""


def encode(profile: Profile) -> bytes:
    """The document as indented JSON, ending in a newline."""
    return plain_json.document(profile)


def decode(data: bytes, origin: str) -> Profile:
    """Validate and return a document.

    Raises:
        UsageError: not JSON, not a profile, too large for one, or written by a newer schema; ``origin`` names it in the
            sentence.
    """
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{origin} is too large for a probe profile (over {LARGEST_BYTES:,} bytes); check the path.")
    try:
        version = msgspec.json.decode(data, type=_Header).schema_version
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{origin} is not a probe profile ({error}); write one with `probe measure --profile PATH`."
        ) from None
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{origin} was written by a newer probe (schema {version}, this one reads up to {SCHEMA_VERSION}); "
            "upgrade roofline-probe or measure again."
        )
    try:
        return msgspec.json.decode(data, type=Profile)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{origin} is a damaged probe profile ({error}); measure again with `probe measure`."
        ) from None


def save(profile: Profile, path: Path) -> None:
    """Write atomically: a reader, a crash or a full disk sees the old document or the new one, never half. A symbolic
    link stays one: what it points to is replaced.

    Raises:
        UsageError: the folder cannot be written, the disk is full, or the path is a device or pipe, which is no place
            to keep a document; the previous document is untouched.
    """
    check_place(path)
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(encode(profile))
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        before = " The profile that was there before is intact." if path.exists() else ""
        raise UsageError(
            f"The profile could not be saved to {path} ({error.strerror or error}); "
            f"free some space or choose another place with --profile PATH.{before}"
        ) from None


_PASSING = ("/dev/std", "/dev/fd/", "/proc/")
"""What these lead to may be a regular file, but not one in which something is kept under that name."""


def check_place(path: Path) -> None:
    """Refuse what a document cannot be kept in.

    Raises:
        UsageError: a folder, a device or pipe, a path that leads nowhere.
    """
    what = None
    try:
        mode = path.stat().st_mode
        what = None if stat.S_ISREG(mode) else "a folder" if stat.S_ISDIR(mode) else "a device or pipe"
    except FileNotFoundError:
        pass
    except OSError as error:
        what = f"not to be reached ({error.strerror})"
    if str(path.absolute()).startswith(_PASSING):
        what = "a device or pipe"
    if what is not None:
        raise UsageError(f"A profile cannot be kept in {path}: it is {what}; give --profile the path of a file.")
