"""Live engines by their ``/metrics`` pages: the steps that ``probe tail URL...`` shows.

Every target is asked in a thread of its own at each tick, so a dead or slow one delays nobody's scrape; a tick ends
when all have answered or the time-out is over. Threads fit: the work is waiting, and one page parses in milliseconds.
"""

from __future__ import annotations

import os
import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlsplit

from log_parsers.step import LogFacts, ServingStep
from roofline_probe.errors import UsageError
from roofline_probe.fleet.counters import EngineHistory, advance, facts_of, silence_sentence
from roofline_probe.fleet.exposition import EngineKey, EngineSample, parse, require_parser
from roofline_probe.fleet.parallelism import DegreeFinder
from roofline_probe.fleet.scrape import ScrapeFailed, Scraper, authorization, metrics_address

DEFAULT_INTERVAL_S = 5.0
LONGEST_INTERVAL_S = 86_400
DEFAULT_TIMEOUT_S = 5.0
_GRACE_S = 0.25
"""How much longer than the time-out a tick waits for threads that are about to report."""


class Reading(NamedTuple):
    """One target at one tick."""

    label: str
    """The address as the user gave it; also ``ServingStep.source``."""
    steps: list[ServingStep]
    """One per engine or rank; empty at the first scrape, after a restart, and when ``problem`` says so."""
    facts: list[LogFacts]
    """What the page states of the run, one entry; empty when the target could not be read."""
    problem: str | None
    """One sentence: unreachable, slow, restarted, counters missing … None when all is well."""


class Target:
    """One address and what is remembered of the engines behind it. ``scrape`` is called by one thread at a time."""

    def __init__(self, label: str, scraper: Scraper, timeout_s: float, name: str | None = None) -> None:
        self.label = label
        self._name = name
        self.thread: threading.Thread | None = None
        self._scraper = scraper
        self._timeout_s = timeout_s
        self._histories: dict[EngineKey, EngineHistory] = {}
        self._degrees: DegreeFinder | None = None
        self._facts: LogFacts | None = None

    @property
    def busy(self) -> bool:
        """Whether an earlier scrape has not come back yet."""
        return self.thread is not None and self.thread.is_alive()

    def scrape(self) -> Reading:
        """Ask once; a failure is a reading with its sentence, never an exception."""
        try:
            page, at = self._scraper.get(self._timeout_s)
            samples = parse(page)
        except ScrapeFailed as failure:
            return Reading(self.label, [], [], str(failure))
        return self._read(samples, at)

    def abort(self) -> None:
        """Give up a scrape that is under way."""
        self._scraper.abort()

    def close(self) -> None:
        """Close the connection."""
        self._scraper.close()

    def _read(self, samples: dict[EngineKey, EngineSample], at: float) -> Reading:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        steps: list[ServingStep] = []
        problems: dict[str, None] = {}
        for key, sample in samples.items():
            history = self._histories.get(key)
            if history is None:
                self._histories[key] = EngineHistory(sample, at)
                continue
            self._histories[key], gained = advance(history, sample, at, self.label, now)
            steps += gained
            if self._histories[key].run > history.run:
                problems["The server restarted; the work since the scrape before is not in the figures."] = None
            if self._histories[key].silent:
                problems[silence_sentence(sample.engine)] = None
        for key in self._histories.keys() - samples.keys():
            del self._histories[key]  # a rank that went away starts afresh when it comes back
        facts = self._state(steps)
        return Reading(self.label, [self._named(step) for step in steps], [facts], " ".join(problems) or None)

    def _named(self, step: ServingStep) -> ServingStep:
        """Among several servers every one has an engine 0: there the server's name comes first."""
        if self._name is None:
            return step
        return replace(step, rank=self._name if len(self._histories) == 1 else f"{self._name} {step.rank}")

    def _state(self, steps: list[ServingStep]) -> LogFacts:
        """Facts of the address: its first engine's, as all serve one model. The same object until they change."""
        first = next(iter(self._histories.values()))
        facts = facts_of(first, self.label, engines=len(self._histories))
        if self._degrees is None or (self._facts is not None and facts.run != self._facts.run):
            self._degrees = DegreeFinder(facts)
        for step in steps:
            if step.rank == first.sample.rank:
                self._degrees.feed(step)
        facts = replace(facts, tp=self._degrees.degree)
        if facts != self._facts:
            self._facts = facts
        return self._facts


class MetricsSource:
    """Several engines' counters as a stream of serving steps.

    Args:
        urls: ``http(s)://host:port[/metrics]``, one per server.
        interval_s: seconds between two scrapes of a target.
        timeout_s: seconds a target may take in all; at most the interval.
        environ: where credentials are looked up (``PROBE_METRICS_BEARER_TOKEN``, or ``PROBE_METRICS_USER`` and
            ``PROBE_METRICS_PASSWORD``). Certificates are OpenSSL's: ``SSL_CERT_FILE``, ``SSL_CERT_DIR``.

    Raises:
        UsageError: a bad address, an interval that is not positive, or prometheus-client is missing.
    """

    def __init__(
        self,
        urls: Sequence[str],
        interval_s: float = DEFAULT_INTERVAL_S,
        timeout_s: float | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if not 0 < interval_s <= LONGEST_INTERVAL_S:
            raise UsageError(
                f"The interval must be more than 0 and at most {LONGEST_INTERVAL_S:,} seconds, not {interval_s:g}."
            )
        require_parser()
        self.interval_s = interval_s
        self.timeout_s = min(timeout_s or DEFAULT_TIMEOUT_S, interval_s)
        header = authorization(environ)
        addresses = {url: metrics_address(url) for url in urls}
        secure = any(address.startswith("https:") for address in addresses.values())
        tls = ssl.create_default_context() if secure else None
        names = _short_names(list(addresses.values()))
        self.targets = [
            Target(url, Scraper(address, header, tls=tls), self.timeout_s, names.get(address))
            for url, address in addresses.items()
        ]
        self._stop = threading.Event()

    def __enter__(self) -> MetricsSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ticks(self) -> Iterator[list[Reading]]:
        """Readings of all targets, one list per interval, until ``close``. The first has no steps: a rate needs two.

        A tick that took longer than the interval (many dead targets) is followed by the next one at once, and ticks
        that were missed are left out.
        """
        due = time.monotonic()
        while not self._stop.is_set():
            yield self.scrape()
            due = max(due + self.interval_s, time.monotonic())
            self._stop.wait(due - time.monotonic())

    def scrape(self) -> list[Reading]:
        """Ask every target once, at the same time; in the order given."""
        answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
        asked = {target.label for target in self.targets if self._start(target, answers.put)}
        deadline = time.monotonic() + self.timeout_s + _GRACE_S
        readings: dict[str, Reading] = {}
        while len(readings) < len(asked):
            try:
                reading = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            readings[reading.label] = reading
        return [readings.get(target.label) or self._late(target) for target in self.targets]

    def close(self) -> None:
        """End ``ticks`` and drop the connections; threads that still wait for a dead target do not hold the process."""
        self._stop.set()
        for target in self.targets:
            target.abort() if target.busy else target.close()

    def _start(self, target: Target, deliver: Callable[[Reading], None]) -> bool:
        if target.busy:
            return False
        target.thread = threading.Thread(target=lambda: deliver(target.scrape()), daemon=True, name=target.label)
        target.thread.start()
        return True

    def _late(self, target: Target) -> Reading:
        target.abort()
        sentence = f"It did not answer within {self.timeout_s:g} s; is it overloaded, or behind a firewall?"
        return Reading(target.label, [], [], sentence)


def _short_names(addresses: Sequence[str]) -> dict[str, str]:
    """Address -> host and port, or the whole address where two share those; nothing for a single address."""
    if len(addresses) < 2:
        return {}
    hosts = [urlsplit(address).netloc for address in addresses]
    return {a: host if hosts.count(host) == 1 else a for a, host in zip(addresses, hosts, strict=True)}
