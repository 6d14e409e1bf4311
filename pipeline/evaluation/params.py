"""Sections of params.yaml: how scores are ranked and judged."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.evaluation.criteria import CRITERIA
from pipeline.runtime.section import (
    Count,
    Natural,
    Positive,
    Section,
    cross_check,
    one_of,
    wrong_value,
)


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
