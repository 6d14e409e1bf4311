"""Two towers as they are (Radford et al. 2021, CLIP): the cosine of an image's vector and a
caption's, without any training.

The vectors are those of `image_features` and `sentences`, which must lie in one space already, as
those of recipe `clip_zero_shot` do. It is what an adapter (models/adapter.py) begins as.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from models.base import Model, Run
from pipeline.features.data import ImageVectors, Inputs, RetrievalData, SentenceVectors
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.runtime.section import Section
from pipeline.training.trainer import TrainingResult


def open_towers(files: Inputs, in_memory: bool) -> RetrievalData:
    """Vectors of images and of captions that can be compared without a map between them.

    Args:
        files: The artefacts, `features` of images and `text` of captions.
        in_memory: Whether vectors are read into memory where they fit.

    Returns:
        The opened data.

    Raises:
        WorkbenchError: The vectors of one side are wider than those of the other.
    """
    images = ImageVectors(files.features, in_memory)
    sentences = SentenceVectors(files.text, in_memory)
    image_dim = images.sizes["image_dim"]
    sentence_dim = sentences.sizes["sentence_dim"]
    if image_dim != sentence_dim:
        raise WorkbenchError(
            f"{files.features} has {image_dim:,} numbers an image, {files.text} {sentence_dim:,} a "
            "caption: two towers of one space have as many",
            "choose image_features and sentences of one network, as recipe clip_zero_shot does, "
            "or learn the space: dvc repro evaluate@cca",
        )
    return RetrievalData(files, images, sentences)


class ZeroShotConfig(Section):
    """The section `zero_shot` of params.yaml, which has no keys."""


class ZeroShot(Model):
    """The cosine of both vectors.

    Args:
        config: The section of params.yaml.
        image_dim: D of the image features.
        sentence_dim: D of the sentence vectors.
    """

    Config = ZeroShotConfig
    NEEDS: ClassVar = {"features": "data/features/image.h5", "text": "data/features/sentences.h5"}

    scale: Tensor  # (1,) of both sides, always 1: a checkpoint has one tensor at least

    def __init__(self, config: ZeroShotConfig, image_dim: int, sentence_dim: int) -> None:
        super().__init__(config)
        self.register_buffer("scale", torch.ones(1))

    @classmethod
    def open_data(
        cls, config: ZeroShotConfig, files: Inputs, in_memory: bool = True
    ) -> RetrievalData:
        """Vectors of images and of captions.

        Args:
            config: The section of params.yaml; not read.
            files: The artefacts of NEEDS.
            in_memory: Whether vectors are read into memory where they fit.

        Returns:
            What the model reads.

        Raises:
            WorkbenchError: As for `open_towers`.
        """
        return open_towers(files, in_memory)

    @property
    def device(self) -> torch.device:
        """Where the one tensor is."""
        return self.scale.device

    def embed_images(self, images: Tensor) -> Tensor:  # type: ignore[override]
        """Image features (B, D) as they are."""
        return images * self.scale

    def embed_captions(self, captions: Tensor) -> Tensor:  # type: ignore[override]
        """Sentence vectors (B, D) as they are."""
        return captions * self.scale

    def start(self, data: RetrievalData, run: Run) -> None:
        """Nothing: there are no first weights.

        Args:
            data: Not read.
            run: Not read.
        """

    def used(self, name: str, run: Run) -> dict[str, Any]:
        """What decides the scores beside the vectors: nothing, neither loss nor seed.

        Args:
            name: Of the model.
            run: Not read.

        Returns:
            The empty section.
        """
        return {name: {}}

    def fit(self, data: RetrievalData) -> TrainingResult:
        """Validate the towers; nothing is fitted.

        Args:
            data: Of the run.

        Returns:
            One row, of the validation.
        """
        validation = self.validate(data.split("val"))
        say(f"zero_shot: {validation.note}, without training")
        return TrainingResult(1, [{"epoch": 1, "phase": "fit"} | validation.columns])
