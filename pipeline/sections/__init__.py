"""The sections of params.yaml as frozen types: which keys there are and what each may hold."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.sections.inputs import (
    Corpus,
    Detector,
    ImageFeatures,
    PseudoClasses,
    Regions,
    Runtime,
    Sentences,
    Shapes,
    Vocabulary,
)
from pipeline.sections.models import CCA, DPRNN, SCAN, VSE, DualPath, Ranking, TwoBranch
from pipeline.sections.types import Count, Name, Natural, Positive, Section


class Scoring(Section):
    """What scoring computes; part of no model."""

    shortlist: Count


class Inference(Section):
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


class Evaluation(Section):
    """Protocol and confidence intervals."""

    folds: Count
    bootstrap: Natural
    confidence: Annotated[float, Field(gt=0, lt=1)]


class Params(Section):
    """The whole of params.yaml."""

    loss: Literal["sum_margin", "max_margin", "knn_margin"]
    dataset: Literal["shapes", "karpathy_json", "captions_csv", "cuhk_pedes"]
    raw: Name
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    runtime: Runtime
    corpus: Corpus
    shapes: Shapes
    vocabulary: Vocabulary
    detector: Detector
    image_features: ImageFeatures
    regions: Regions
    sentences: Sentences
    pseudo_classes: PseudoClasses
    ranking: Ranking
    vse: VSE
    two_branch: TwoBranch
    cca: CCA
    dual_path: DualPath
    scan: SCAN
    dp_rnn: DPRNN
    scoring: Scoring
    inference: Inference
    evaluation: Evaluation
