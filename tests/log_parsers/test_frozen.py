"""A quickly made frozen instance is like any other."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from log_parsers.frozen import quick
from log_parsers.step import LogFacts, ServingStep


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    a: int
    b: list[int] = dataclasses.field(default_factory=list)
    c: str = "c"


MakePair = quick(Pair)


def test_it_is_of_the_class_equal_hashable_frozen_and_shown_alike() -> None:
    made = MakePair(1, c="d")
    assert type(made) is Pair
    assert made == Pair(1, c="d")
    assert repr(made) == repr(Pair(1, c="d"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 2  # type: ignore[misc]
    assert dataclasses.replace(made, a=3) == Pair(3, c="d")


def test_fields_without_a_default_are_asked_for_and_factories_are_called_each_time() -> None:
    with pytest.raises(TypeError, match="'a'"):
        MakePair()  # type: ignore[call-arg]
    assert MakePair(1).b is not MakePair(1).b


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_it_can_be_copied_and_pickled(copied: object) -> None:
    assert copied(MakePair(1, [2])) == Pair(1, [2])  # type: ignore[operator]


def test_the_public_types_can_be_made_so() -> None:
    said = {"source": "-", "run": 0, "line_no": 1, "engine": "vllm", "engine_version": None, "rank": None}
    step = quick(ServingStep)(**said, kind="decode", status="idle")  # type: ignore[arg-type]
    assert step == ServingStep(**said, kind="decode", status="idle")  # type: ignore[arg-type]
    assert hash(step) == hash(dataclasses.replace(step))
    assert quick(LogFacts)() == LogFacts()
