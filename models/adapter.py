"""An adapter behind two towers that already agree, such as CLIP's: a residual map on each side.

A side is x + scale * g(x), as in CLIP-Adapter (Gao et al. 2021, eq. 3 and 4) but without its
factor in front of x. The last layer of g begins at zero, so that the adapter begins as the identity
(Houlsby et al. 2019, section 2.1): before its first step it *is* zero-shot retrieval
(models/zero_shot.py). These weights are validated as epoch 0, and kept where no epoch is better.
"""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from models.base import Model, Run
from models.layers.linear import at_least_float32
from models.zero_shot import open_towers
from pipeline.features.data import Inputs, RetrievalData
from pipeline.runtime.section import Count, Positive, Section
from pipeline.training.params import TrainingConfig
from pipeline.training.trainer import Phase


class AdapterConfig(Section):
    """The section `adapter` of params.yaml."""

    branches: Literal["nonlinear", "linear"] = "nonlinear"  # g has two layers, or one
    hidden: Count = 256  # width between the two layers (a quarter of D)
    scale: Positive = 1.0  # of g(x) beside x
    margin: Positive = 0.2
    training: TrainingConfig = TrainingConfig(epochs=12, batch_size=128, lr=0.0003, lr_step=8)


class Adapter(Model):
    """Residual maps on both sides that begin as the identity.

    Args:
        config: The section of params.yaml.
        image_dim: D of the image features.
        sentence_dim: D of the sentence vectors, which lie in the same space.
    """

    Config = AdapterConfig
    NEEDS: ClassVar = {"features": "data/features/image.h5", "text": "data/features/sentences.h5"}
    BEGINS_AS: ClassVar = "zero_shot"

    def __init__(self, config: AdapterConfig, image_dim: int, sentence_dim: int) -> None:
        super().__init__(config)
        self.image_map = residual(image_dim, config)
        self.sentence_map = residual(sentence_dim, config)

    @classmethod
    def open_data(
        cls, config: AdapterConfig, files: Inputs, in_memory: bool = True
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

    def embed_images(self, images: Tensor) -> Tensor:  # type: ignore[override]
        """Image features (B, D) to vectors (B, D), which `index` makes unit vectors."""
        return self.adapted(images, self.image_map)

    def embed_captions(self, captions: Tensor) -> Tensor:  # type: ignore[override]
        """Sentence vectors (B, D) to vectors (B, D)."""
        return self.adapted(captions, self.sentence_map)

    def adapted(self, vectors: Tensor, residual_map: nn.Module) -> Tensor:
        """One side, x + scale * g(x).

        Args:
            vectors: (B, D) of a tower, of any length: g sees their directions, and what it gives is
                scaled as they are, so that cosines do not depend on their lengths.
            residual_map: g.

        Returns:
            (B, D), at least float32; a row of zeros stays zero.
        """
        vectors = at_least_float32(vectors)
        lengths = vectors.norm(dim=1, keepdim=True)
        directions = vectors / lengths.clamp_min(1e-12)
        moved = at_least_float32(residual_map(directions))
        return vectors + self.config.scale * lengths * moved

    def unread(self) -> Any:
        """The width between two layers where there is one layer."""
        return {"hidden"} if self.config.branches == "linear" else None

    def phases(self, data: RetrievalData, run: Run) -> list[Phase]:
        """The epochs of all models of pairs, behind epoch 0, the towers as they are.

        Args:
            data: What they are trained and validated on.
            run: Names the ranking loss.

        Returns:
            One phase, or two, each of at least one epoch.
        """
        first, *others = super().phases(data, run)
        return [replace(first, keeps_start=True), *others]


def residual(dim: int, config: AdapterConfig) -> nn.Sequential:
    """The map g of one side, (B, D) to (B, D), zero at first.

    Args:
        dim: D of the vectors.
        config: Its layers.

    Returns:
        The layers; all weights of the last are zero, those of the one before are torch's.
    """
    before: list[nn.Module] = []
    width = dim
    if config.branches == "nonlinear":
        before = [nn.Linear(dim, config.hidden), nn.ReLU()]
        width = config.hidden
    last = nn.Linear(width, dim)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*before, last)
