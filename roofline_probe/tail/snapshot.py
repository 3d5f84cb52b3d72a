"""One frame's worth of knowledge, taken from a running session by the thread that draws."""

from __future__ import annotations

import time

from roofline_probe.point import Summary
from roofline_probe.tail.card import CardWatch
from roofline_probe.tail.session import Session
from roofline_probe.tail.state import SUMMARY_EVERY_S, Seen, Snapshot


class Camera:
    """Takes snapshots; the running summary, which costs more, is taken once a second."""

    def __init__(self, source: str, card: CardWatch | None = None) -> None:
        self._source = source
        self._card = card
        self._began = time.monotonic()
        self._summary: Summary | None = None
        self._summed_at = float("-inf")

    def hint(self, session: Session) -> str | None:
        """What to look at while nothing usable arrives."""
        return session.pump.hint(time.monotonic() - self._began)

    def __call__(self, session: Session) -> Snapshot:
        """What is known now. The lock is held for the copying only."""
        pump, now = session.pump, time.monotonic()
        with pump.lock:
            if now - self._summed_at >= SUMMARY_EVERY_S:
                self._summary, self._summed_at = pump.judge.summary(), now
            ranks = pump.state.ranks()
            others = pump.state.others(ranks[0]) if ranks else ()
            series = _series(ranks)
            history, history_of = pump.state.history(series), pump.state.history_of(series)
        board = pump.board
        return Snapshot(
            source=self._source,
            elapsed_s=now - self._began,
            silent_s=session.reader.silent_s,
            lines=pump.report.lines,
            steps=pump.report.steps,
            warnings=board.warnings if board else None,
            errors=board.errors if board else None,
            ranks=ranks,
            others=others,
            history=history,
            history_of=history_of,
            summary=self._summary,
            roof=pump.judge.roof,
            facts=pump.facts[-1] if pump.facts else None,
            card=self._card.reading if self._card is not None else None,
            hint=pump.hint(now - self._began),
            now=now,
        )


def _series(ranks: tuple[Seen, ...]) -> str | None:
    """SGLang's prefill and decode windows overlap: two series, of which the one that stands under NOW is drawn."""
    shown = ranks[0].point.step if ranks else None
    return shown.kind if shown is not None and shown.engine == "sglang" else None
