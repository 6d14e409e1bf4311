"""VSE: one vector per image, one per caption, a ranking loss on their cosines (Sun et al. 2019).

An image is a linear layer on its cached feature vector; a caption is what a recurrent network makes
of its words. `index`, which divides by their lengths, and `score`, their cosine, are those of all
models of vectors (models/base.py). It is the plain baseline that the others are measured against.
"""

from typing import ClassVar, Literal

from torch import Tensor, nn

from models.base import Model
from models.layers.linear import Standardise, glorot_linear
from models.layers.words import RecurrentEncoder
from pipeline.features.data import CaptionWords, ImageVectors, Inputs, RetrievalData
from pipeline.features.split import Words
from pipeline.runtime.section import Count
from pipeline.training.params import TrainingConfig, WordsConfig


class VSEConfig(WordsConfig):
    """The section `vse` of params.yaml; the paper's values are in parentheses."""

    dim: Count = 256  # K of the joint space (1024)
    hidden: Count = 256  # width of the recurrent network (1024)
    text_encoder: Literal["gru", "lstm"] = "gru"
    text_pool: Literal["last", "mean", "max", "gpo"] = "last"  # over the states of a caption
    training: TrainingConfig = TrainingConfig(epochs=9, batch_size=128, lr=0.001, lr_step=6)


class VSE(Model):
    """A linear and a recurrent branch (Sun et al. 2019, section 2.1, eq. 1).

    Args:
        config: The section of params.yaml.
        image_dim: D of the image features.
        vocabulary_size: V; word 0 is padding.
    """

    Config = VSEConfig
    NEEDS: ClassVar = {"features": "data/features/image.h5", "text": "data/vocabulary"}

    def __init__(self, config: VSEConfig, image_dim: int, vocabulary_size: int) -> None:
        super().__init__(config)
        self.text = RecurrentEncoder(
            vocabulary_size=vocabulary_size,
            word_dim=config.word_dim,
            hidden=config.hidden,
            cell=config.text_encoder,
            pool=config.text_pool,
        )
        # as in the paper the pooled state itself is the embedding where the widths are equal
        widens = config.hidden != config.dim
        self.text_projection = glorot_linear(config.hidden, config.dim) if widens else nn.Identity()
        self.image_projection = glorot_linear(image_dim, config.dim)
        self.image_standardise = Standardise(image_dim)

    @classmethod
    def open_data(cls, config: VSEConfig, files: Inputs, in_memory: bool = True) -> RetrievalData:
        """Image vectors and word ids.

        Args:
            config: The section of params.yaml; not read.
            files: The artefacts of NEEDS.
            in_memory: Whether features are read into memory where they fit.

        Returns:
            What the model reads.
        """
        return RetrievalData(
            files, ImageVectors(files.features, in_memory), CaptionWords(files.text)
        )

    def embed_images(self, images: Tensor) -> Tensor:  # type: ignore[override]
        """Features (B, D) to vectors (B, K), which `index` makes unit vectors."""
        embedded: Tensor = self.image_projection(self.image_standardise(images))
        return embedded

    def embed_captions(self, captions: Words) -> Tensor:  # type: ignore[override]
        """Words (B, T) to vectors (B, K)."""
        embedded: Tensor = self.text_projection(self.text(captions.ids, captions.lengths))
        return embedded
