"""Mistakes a user can make, each with the exit code that the README documents.

``cli.main`` prints the message as one sentence on stderr and exits with ``exit_code``: no traceback. A traceback means
a bug of ours.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_GATE = 1
EXIT_USAGE = 2
EXIT_NOTHING_USABLE = 3
EXIT_NO_ROOF = 4
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class ProbeError(Exception):
    """One sentence: what happened and what to do about it."""

    exit_code = EXIT_USAGE


class UsageError(ProbeError):
    """Wrong flag value, missing file, unreadable or invalid profile, missing optional package."""


class GateNotMet(ProbeError):
    """A threshold given by the user (``--fail-under``, ``--fail-over``) was not met."""

    exit_code = EXIT_GATE


class NothingUsable(ProbeError):
    """The log was read and holds nothing that can be judged; the sentence says why."""

    exit_code = EXIT_NOTHING_USABLE


class NoRoof(ProbeError):
    """No profile to compare with; the sentence names the shipped ones and the other ways out."""

    exit_code = EXIT_NO_ROOF
