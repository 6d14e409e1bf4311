"""Sections of params.yaml: how scores are ranked and judged."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Natural, Positive, Section


class InferenceConfig(Section):
    """The inference criterion that is evaluated beside the model's own scores."""

    criterion: Literal[
        "naive",
        "inverted_softmax",
        "csls",
        "dual_softmax",
        "querybank",
        "sinkhorn",
        "hungarian",
    ]
    beta: Positive
    k: Count
    iterations: Count


class EvaluationConfig(Section):
    """Protocol and confidence intervals."""

    folds: Count
    bootstrap: Natural
    confidence: Annotated[float, Field(gt=0, lt=1)]
