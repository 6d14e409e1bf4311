"""How a section of params.yaml says what is wrong with it."""

from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    WRONG_VALUE,
    WRONG_WHOLE,
    ExistingPath,
    Section,
    contradictions,
    wrong_value,
    wrong_whole,
)


class Inner(Section):
    low: int
    high: int

    @contradictions
    def _order(self) -> Iterator[InitErrorDetails]:
        if self.low > self.high:
            yield wrong_value("low", self.low, f"must not exceed {{{self.high}}}")
            yield wrong_whole("", "{upside} down")


class Outer(Section):
    parts: tuple[Inner, ...]
    place: ExistingPath

    @contradictions
    def _small(self) -> Iterator[InitErrorDetails]:
        if self.parts[0].low > 9:
            yield wrong_value("parts.low", self.parts[0].low, "too much")


def found(**changes):
    """Type, location, text and value of every problem."""
    values = {"parts": ({"low": 1, "high": 2},), "place": "/"} | changes
    try:
        Outer.model_validate(values)
    except ValidationError as error:
        return [(e["type"], e["loc"], e["msg"], e["input"]) for e in error.errors()]
    return []


def test_all_problems_of_a_section_are_reported_where_they_are():
    problems = found(parts=({"low": 1, "high": 2}, {"low": 3, "high": 2}), place="nowhere")
    assert problems == [
        (WRONG_VALUE, ("parts", 1, "low"), "must not exceed {2}", 3),
        (WRONG_WHOLE, ("parts", 1), "{upside} down", None),
        (WRONG_VALUE, ("place",), "no such file or folder", "nowhere"),
    ]


def test_a_section_is_judged_once_its_keys_are_right():
    assert [kind for kind, *_ in found(parts=({"low": 9, "high": "x"},))] == ["int_type"]
    assert found(parts=({"low": 10, "high": 11},)) == [
        (WRONG_VALUE, ("parts", "low"), "too much", 10)
    ]
