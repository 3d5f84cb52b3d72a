"""Predict first: what counts as an answer, and how answers are scored."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from roofline_probe.errors import UsageError
from roofline_probe.measure import MeasureOptions, predict, run
from roofline_probe.measure.fake import FAKE_INFO, FakeDevice

PROFILE = run(replace(MeasureOptions(), dtypes=("bf16",), m_sweep=(1,)), device=FakeDevice())


def test_good_answers_are_scored_right_and_bad_ones_by_how_far_they_are_off() -> None:
    """The fake's largest square reaches 680 of 989.4 (68.7 %), copy 89.6 %, its ridge 186 lies under 206."""
    scored = predict.score(("70", "50", "lower", "lower"), PROFILE)
    assert [p.correct for p in scored] == [True, False, False, True]
    assert scored[0].error_points == pytest.approx(-1.3, abs=0.2)
    assert scored[1].error_points == pytest.approx(39.5, abs=0.5)
    assert all(p.comment for p in scored)


@pytest.mark.parametrize(("triad", "said"), [(4400.0, "less often"), (3000.0, "held it back")], ids=["above", "below"])
def test_triad_is_only_explained_where_it_came_out_as_the_explanation_says(triad: float, said: str) -> None:
    betas = [msgspec.structs.replace(b, gbps=triad) if b.pattern == "triad" else b for b in PROFILE.betas]
    shown = predict.score(("70", "50", "higher", "lower"), msgspec.structs.replace(PROFILE, betas=betas))[2].comment
    assert shown is not None
    assert said in shown.partition(": ")[2]


def test_a_card_without_a_datasheet_leaves_percentages_unscored() -> None:
    scored = predict.score(("70", "50", "higher", "lower"), msgspec.structs.replace(PROFILE, datasheet=None))
    assert [p.correct for p in scored] == [None, None, True, None]


def test_a_run_without_bandwidth_leaves_its_questions_unscored() -> None:
    scored = predict.score(("70", "50", "higher", "lower"), msgspec.structs.replace(PROFILE, betas=[]))
    assert [p.correct for p in scored] == [True, None, None, None]


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("80,90,higher,lower", ("80", "90", "higher", "lower")),
        (" 80% , 90.5 %, H, low", ("80", "90.5", "higher", "lower")),
    ],
    ids=["plain", "abbreviated"],
)
def test_answers_in_the_usual_spellings(text: str, answers: tuple[str, ...]) -> None:
    assert predict.parse_answers(text) == answers


@pytest.mark.parametrize(
    "text", ["", "80", "80,90,higher", "x,90,higher,lower", "80,90,same,lower", "-5,90,higher,lower", "80,90,,lower"]
)
def test_what_is_no_answer_is_refused_with_the_question_or_the_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"80,90,higher,lower|is no answer to"):
        predict.parse_answers(text)


def test_a_bad_answer_is_asked_again_with_the_reason() -> None:
    said = iter(["eighty", "80", "90", "up", "higher", "lower"])
    asked: list[str] = []

    def read(question: str) -> str:
        asked.append(question)
        return next(said)

    assert predict.ask(read) == ("80", "90", "higher", "lower")
    assert "'eighty' is no answer" in asked[1]
    assert "say higher or lower" in asked[4]


def test_the_fake_is_the_card_that_the_figures_above_belong_to() -> None:
    assert PROFILE.datasheet is not None
    assert FAKE_INFO.name == "NVIDIA H200"
