"""Sections of params.yaml: what scoring computes, which score files are averaged, and which come
from other programs."""

import re
from collections.abc import Iterator
from typing import Literal

from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    ExistingPath,
    Positive,
    Section,
    contradictions,
    wrong_value,
    wrong_whole,
)

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # safe in a path, a command and dvc.yaml
MOST_MEMBERS = 4  # as many as dvc.yaml can name deps
ALLOWED_NAME = "a name has letters, digits, _ and - alone"


class ScoringConfig(Section):
    """What scoring computes; part of no model."""

    shortlist: Count = 200
    keep: Literal["scores", "embeddings"] = "scores"


class AverageConfig(Section):
    """One average: its members by name, their weights, and what is done to their scores."""

    members: list[str]
    weights: list[Positive] | None = None
    normalise: Literal["none", "z"] = "none"

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


class ExternalConfig(Section):
    """What another program says of images and captions: a matrix of scores, or embeddings of both.

    An item has the keys of one kind.

    Attributes:
        scores: file of a matrix, images by captions, larger is better.
        val_scores: the same of the validation split.
        images: file of embeddings of images.
        captions: file of embeddings of captions.
        similarity: what embeddings are compared by.
    """

    scores: ExistingPath | None = None
    val_scores: ExistingPath | None = None
    images: ExistingPath | None = None
    captions: ExistingPath | None = None
    similarity: Literal["cosine", "dot"] = "cosine"

    @contradictions
    def _one_kind(self) -> Iterator[InitErrorDetails]:
        given = [
            name for name, value in self if value is not None and name in self.model_fields_set
        ]
        kinds = ({"scores", "val_scores"}, {"images", "captions", "similarity"})
        has_one = {"scores"} <= set(given) or {"images", "captions"} <= set(given)
        if not has_one or not any(set(given) <= kind for kind in kinds):
            yield wrong_whole(
                "",
                f"has {', '.join(given) or 'no key'}; expected are either scores, with or without "
                "val_scores, or images and captions, with or without similarity",
            )
