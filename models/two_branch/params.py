"""The two-branch network's section of params.yaml."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Section,
    WeightsSection,
    cross_check,
    wrong_value,
)
from pipeline.training.params import TrainingConfig


class TermWeightsConfig(WeightsSection):
    """Weights of the four terms of the two-branch loss (Wang et al. 2016, eq. 5)."""

    image_to_sentence: NonNegative = 1.0
    sentence_to_image: NonNegative = 2.0
    image_image: NonNegative = 0.0
    sentence_sentence: NonNegative = 0.2


class FineTuningConfig(Section):
    """Epochs from pixels, in which the network behind the image features is trained, too."""

    epochs: Natural = 0
    lr: Positive = 0.0001
    batch_size: Annotated[int, Field(ge=2)] = 64
    resize: Count = 128
    crop: Count = 112
    flip: bool = False
    workers: Natural = 2

    @cross_check
    def _crop_fits(self) -> Iterator[InitErrorDetails]:
        if self.crop > self.resize:
            text = f"must not exceed two_branch.fine_tuning.resize = {self.resize}"
            yield wrong_value("crop", self.crop, text)


class VectorBranchesConfig(Section):
    """Two branches on fixed vectors: widths, loss terms, optimisation."""

    branches: Literal["linear", "nonlinear"] = "nonlinear"
    hidden: Count = 512
    dim: Count = 256
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    batch_norm: bool = True
    standardise_images: bool = True
    standardise_sentences: bool = False
    margin: Positive = 0.1
    weights: TermWeightsConfig = TermWeightsConfig()
    structure_k: Count = 50
    training: TrainingConfig = TrainingConfig(
        epochs=12, batch_size=128, lr=0.001, lr_step=8, clip=0.0
    )

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of a TwoBranch beside those of its inputs."""
        hidden = self.hidden if self.branches == "nonlinear" else 0
        return {"hidden": hidden, "dim": self.dim, "batch_norm": int(self.batch_norm)}

    @property
    def terms(self) -> dict[str, Any]:
        """Arguments of a StructureLoss beside the ranking loss."""
        terms = self.weights.model_dump() | self.model_dump(include={"margin", "structure_k"})
        return terms | {"reduction": self.training.reduction}

    @property
    def extra(self) -> tuple[int, int]:
        """Neighbours within each view, captions and images, that a batch needs for its terms."""
        return int(self.weights.sentence_sentence > 0), int(self.weights.image_image > 0)


class TwoBranchConfig(VectorBranchesConfig):
    fine_tuning: FineTuningConfig = FineTuningConfig()


CONFIG = TwoBranchConfig
