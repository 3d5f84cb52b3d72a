"""Predict first: what the user expects before anything runs, scored against what was measured. Pure."""

from __future__ import annotations

from collections.abc import Callable

from roofline_probe.errors import UsageError
from roofline_probe.profile import Prediction, Profile

QUESTIONS = (
    "What percentage of the published 16-bit peak will the largest square GEMM reach?",
    "What percentage of the published bandwidth will copy reach?",
    "Will triad be higher or lower than copy?",
    "Will the measured 16-bit ridge be higher or lower than the datasheet's?",
)
"""The second and third belong together: what copy reaches, and whether triad is above it."""
Answers = tuple[str, str, str, str]


def check_answer(index: int, text: str) -> str:
    """The answer in its plain form (``80``, ``higher``).

    Raises:
        UsageError: not an answer to that question.
    """
    word = text.strip().lower().removesuffix("%").strip()
    if index >= 2:
        found = [choice for choice in ("higher", "lower") if word and choice.startswith(word)]
        if len(found) == 1:
            return found[0]
        raise UsageError(f'{text!r} is no answer to "{QUESTIONS[index]}"; say higher or lower.')
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise UsageError(f'{text!r} is no answer to "{QUESTIONS[index]}"; give a percentage such as 80.')
    return f"{value:g}"


def parse_answers(text: str) -> Answers:
    """``--predictions 80,90,higher,lower``.

    Raises:
        UsageError: not four answers of that form.
    """
    parts = text.split(",")
    if len(parts) != len(QUESTIONS):
        raise UsageError(f"--predictions takes four answers such as 80,90,higher,lower; {text!r} has {len(parts)}.")
    a, b, c, d = (check_answer(index, part) for index, part in enumerate(parts))
    return a, b, c, d


def ask(read: Callable[[str], str]) -> Answers:
    """Put each question to ``read`` until it is answered."""
    a, b, c, d = (_ask_one(read, index, question) for index, question in enumerate(QUESTIONS))
    return a, b, c, d


def _ask_one(read: Callable[[str], str], index: int, question: str) -> str:
    while True:
        try:
            return check_answer(index, read(question))
        except UsageError as error:
            question = str(error)


def score(answers: Answers, profile: Profile) -> list[Prediction]:
    """Each answer with what was measured; unscored where a figure is missing."""
    dtype = next((d for d in ("bf16", "fp16") if profile.pi_tflops(d) is not None), None)
    sheet = profile.datasheet
    published_pi = sheet.tflops.get(dtype) if sheet and dtype else None
    published_beta = sheet.gbps if sheet else None
    square = _largest_square(profile, dtype)
    copy, triad = profile.beta_of("copy"), profile.beta_of("triad")
    return [
        _percentage(0, answers[0], square, published_pi, _WHY_PI),
        _percentage(1, answers[1], copy, published_beta, _WHY_COPY),
        _direction(2, answers[2], triad, copy, _why_triad(triad, copy), "GB/s"),
        _direction(3, answers[3], *_ridges(profile, dtype), _WHY_RIDGE, "FLOP/byte"),
    ]


_WHY_PI = "The power cap lowers the clock under a large GEMM, and the datasheet assumes the boost clock."
_WHY_COPY = "Refresh, read-write turnaround and row misses keep DRAM below its pin rate."
_WHY_TRIAD = "two reads a write turn the memory bus around less often than one read a write does."
_WHY_NOT_TRIAD = "triad should gain from turning the memory bus around less often; here something else held it back."
_WHY_RIDGE = "the ridge is pi over beta: it moves to the side of whichever peak misses its datasheet by less."


def _why_triad(triad: float | None, copy: float | None) -> str:
    """The usual explanation only where the figures agree with it."""
    return _WHY_TRIAD if triad is None or copy is None or triad > copy else _WHY_NOT_TRIAD


def _largest_square(profile: Profile, dtype: str | None) -> float | None:
    """Its plain rate in the sweep; after a rest (a quick run has only that) it would be a burst."""
    squares = [
        t
        for t in profile.trials
        if t.kernel == "gemm" and t.dtype == dtype and t.status == "ok" and t.m == t.n == t.k and t.tflops is not None
    ]
    largest = max((t.m or 0 for t in squares), default=0)
    of_largest = sorted((t for t in squares if t.m == largest), key=lambda t: t.regime != "median")
    return of_largest[0].tflops if of_largest else None


def _ridges(profile: Profile, dtype: str | None) -> tuple[float | None, float | None]:
    pi = profile.pi_tflops(dtype) if dtype else None
    beta, sheet = profile.beta_gbps, profile.datasheet
    published_pi = sheet.tflops.get(dtype) if sheet and dtype else None
    measured = pi * 1e3 / beta if pi and beta else None
    return measured, published_pi * 1e3 / sheet.gbps if sheet and published_pi and sheet.gbps else None


def _percentage(index: int, answer: str, achieved: float | None, published: float | None, why: str) -> Prediction:
    if achieved is None or not published:
        return _unscored(index, answer)
    percent = 100 * achieved / published
    return Prediction(
        question=QUESTIONS[index],
        answer=answer,
        measured=f"{percent:.1f}",
        correct=abs(percent - float(answer)) <= 5,
        error_points=percent - float(answer),
        comment=why,
    )


def _direction(index: int, answer: str, value: float | None, against: float | None, why: str, unit: str) -> Prediction:
    if value is None or against is None:
        return _unscored(index, answer)
    measured = "higher" if value > against else "lower"
    return Prediction(
        question=QUESTIONS[index],
        answer=answer,
        measured=measured,
        correct=measured == answer,
        comment=f"{value:.0f} against {against:.0f} {unit}: {why}",
    )


def _unscored(index: int, answer: str) -> Prediction:
    return Prediction(
        question=QUESTIONS[index],
        answer=answer,
        comment="This run has no such figure, or the card has no datasheet.",
    )
