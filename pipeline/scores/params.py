"""Sections of params.yaml: what scoring computes, and which score files are averaged."""

import re
from collections.abc import Iterator
from typing import Literal

from pydantic_core import InitErrorDetails

from pipeline.runtime.section import Count, Positive, Section, contradictions, wrong_value

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # safe in a path, a command and dvc.yaml
MOST_MEMBERS = 4  # as many as dvc.yaml can name deps
ALLOWED_NAME = "a name has letters, digits, _ and - alone"


class ScoringConfig(Section):
    """What scoring computes; part of no model."""

    shortlist: Count


class AverageConfig(Section):
    """One average: its members by name, their weights, and what is done to their scores."""

    members: list[str]
    weights: list[Positive] | None
    normalise: Literal["none", "z"]

    @contradictions
    def _members_and_weights_fit(self) -> Iterator[InitErrorDetails]:
        if not 2 <= len(self.members) <= MOST_MEMBERS:
            yield wrong_value("members", self.members, f"must be 2 to {MOST_MEMBERS} names")
        for name in self.members:
            if not FILE_NAME.fullmatch(name):
                yield wrong_value("members", self.members, f"{name!r}: {ALLOWED_NAME}")
        twice = sorted({name for name in self.members if self.members.count(name) > 1})
        if twice:
            yield wrong_value("members", self.members, f"{', '.join(twice)} twice; use weights")
        if self.weights is not None and len(self.weights) != len(self.members):
            yield wrong_value(
                "weights",
                self.weights,
                f"must be {len(self.members)} numbers, one for each member, or null",
            )
