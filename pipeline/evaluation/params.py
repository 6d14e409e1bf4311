"""Sections of params.yaml: what scoring computes, averages, reranking, scores of other programs,
and how scores are ranked and judged."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.evaluation.criteria import CRITERIA
from pipeline.runtime.section import (
    Count,
    ExistingPath,
    Name,
    Natural,
    Positive,
    Section,
    cross_check,
    not_found,
    one_of,
    wrong_value,
    wrong_whole,
)

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # safe in a path, a command and dvc.yaml
MOST_MEMBERS = 4  # as many as dvc.yaml can name deps
MATRICES = ("scores", "val_scores", "images", "captions")  # keys of `external` that name files
ALLOWED_NAME = "a name has letters, digits, _ and - alone"


class InferenceConfig(Section):
    criteria: Annotated[list[Annotated[str, one_of(CRITERIA)]], Field(min_length=1)] = Field(
        default=["inverted_softmax"]
    )
    beta: Positive = 30.0
    k: Count = 10
    iterations: Count = 20


class EvaluationConfig(Section):
    folds: Count = 1
    subset: Natural = 0
    bootstrap: Natural = 1000
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    recall_k: list[Count] = Field(default=[])

    @cross_check
    def _one_protocol(self) -> Iterator[InitErrorDetails]:
        if self.subset and self.folds > 1:
            yield wrong_value(
                "subset",
                self.subset,
                f"must be 0 with folds = {self.folds}: the first images are ranked at once, or "
                "all images by folds",
            )


class ScoringConfig(Section):
    """What scoring computes; part of no model."""

    shortlist: Count = 200
    cut: bool = False
    keep: Literal["scores", "embeddings"] = "scores"


class AverageConfig(Section):
    """One average: its members by name, their weights, and what is done to their scores."""

    members: list[str]
    weights: list[Positive] | None = None
    normalise: Literal["none", "z"] = "none"

    @cross_check
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


class RerankConfig(Section):
    """Two models one after the other: the `top` items of each query that `first` finds, in the
    order of `second`."""

    first: str
    second: str
    top: Count = 100

    @cross_check
    def _two_models(self) -> Iterator[InitErrorDetails]:
        if self.first == self.second:
            yield wrong_value("second", self.second, "must be another model than first")


class ExternalConfig(Section):
    """What another program says of images and captions: a matrix of scores, images by captions,
    larger is better, or embeddings of both, compared by `similarity`. folder: holds the files, and
    the lists of ids beside them; DVC depends on it."""

    folder: ExistingPath
    scores: Name | None = None
    val_scores: Name | None = None
    images: Name | None = None
    captions: Name | None = None
    similarity: Literal["cosine", "dot"] = "cosine"

    @property
    def files(self) -> dict[str, Path]:
        """The path of each file that is given, by its key."""
        names = {key: getattr(self, key) for key in MATRICES}
        return {key: Path(self.folder, name) for key, name in names.items() if name is not None}

    @cross_check
    def _one_kind(self) -> Iterator[InitErrorDetails]:
        keys = {
            name for name, value in self if value is not None and name in self.model_fields_set
        } - {"folder"}
        kinds = ({"scores", "val_scores"}, {"images", "captions", "similarity"})
        has_one = {"scores"} <= keys or {"images", "captions"} <= keys
        if not has_one or not any(keys <= kind for kind in kinds):
            listed = [name for name in type(self).model_fields if name in keys]
            yield wrong_whole(
                "",
                f"has {', '.join(listed) or 'no key but folder'}; expected are either scores, with "
                "or without val_scores, or images and captions, with or without similarity",
            )

    @cross_check
    def _files_are_there(self) -> Iterator[InitErrorDetails]:
        for key, path in self.files.items():
            name = getattr(self, key)
            if path.resolve().parent != Path(self.folder).resolve():
                yield wrong_value(key, name, f"must be the name of a file in {self.folder}")
            elif not path.exists():
                yield wrong_value(key, name, not_found(name, f"file in {self.folder}"))
