"""The two-branch network: vectors of images and of sentences, fixed beforehand, in one space."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from models.layers.linear import Divide, Standardise, undivided, unit_rows
from models.layers.pixels import SeesPixels

SEEN_AT_ONCE = 32  # images, in evaluation: VGG holds 26 MB of maps for each of 224 x 224 pixels


class TwoBranch(SeesPixels):
    """Two perceptrons that end in unit vectors (Wang et al. 2016, sections 2.1 and 3.1): fully
    connected, ReLU, dropout, fully connected, batch norm, L2. With hidden = 0 the linear variant of
    section 3.2: one layer, immediately followed by L2.

    With an image CNN, images are its features (B, D), or pixels: crops (B, 3, S, S) uint8, or C
    crops of each image (B, C, 3, S, S), whose features and those of their mirror images are
    averaged. It stays in evaluation mode under train(), and is frozen at first.

    image_dim: D; sentence_dim: E; hidden: width of the layer between, 0 for none; dim: K of the
    joint space; batch_norm: 0 leaves the batch norm out (the linear variant never has one);
    dropout: probability after the ReLU; image_cnn, mean, deviation: as in SeesPixels.
    """

    def __init__(
        self,
        image_dim: int,
        sentence_dim: int,
        hidden: int,
        dim: int,
        batch_norm: int = 1,
        dropout: float = 0.5,
        image_cnn: nn.Module | None = None,
        mean: Iterable[float] = (0.485, 0.456, 0.406),
        deviation: Iterable[float] = (0.229, 0.224, 0.225),
    ) -> None:
        super().__init__()
        self.image_standardise = Standardise(image_dim)
        self.sentence_standardise = Standardise(sentence_dim)
        self.image_branch = branch(image_dim, hidden, dim, bool(batch_norm), dropout)
        self.sentence_branch = branch(sentence_dim, hidden, dim, bool(batch_norm), dropout)
        self.see_through(image_cnn, mean, deviation)

    def train(self, mode: bool = True) -> "TwoBranch":
        """Set training mode, except for the image CNN."""
        super().train(mode)
        if self.image_cnn is not None:
            self.image_cnn.eval()
        return self

    def embed_images(self, images: Tensor) -> Tensor:
        """Image features (B, D), or pixels as above, to unit rows (B, K)."""
        features = images if images.ndim == 2 else self._seen(images)
        return unit_rows(self.image_branch(self.image_standardise(features)))

    def _seen(self, pixels: Tensor) -> Tensor:
        see = self.image_features if pixels.ndim == 4 else self.mean_features
        if self.training or torch.compiler.is_exporting():
            return see(pixels)
        return torch.cat([see(part) for part in pixels.split(SEEN_AT_ONCE)])

    def embed_captions(self, vectors: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Sentence vectors (B, E) to unit rows (B, K); their lengths in words play no part."""
        return unit_rows(self.sentence_branch(self.sentence_standardise(vectors)))

    def forward(
        self, images: Tensor, vectors: Tensor, divide: Divide = undivided
    ) -> tuple[Tensor, Tensor]:
        """Images (I, ...), features or pixels, and sentence vectors (C, E) to unit rows (I, K) and
        (C, K). In training mode a branch with batch norm raises ValueError on a single row."""
        return divide(self.embed_images, images), divide(self.embed_captions, vectors)


def branch(inputs: int, hidden: int, dim: int, batch_norm: bool, dropout: float) -> nn.Sequential:
    """The layers of one branch up to its L2 normalisation, from (B, inputs) to (B, dim).

    The layer before the ReLU has He's weights, the last one Glorot's; the paper names none. Biases
    are torch's small random ones, so that a sentence without known words has a direction.
    """
    before: list[nn.Module] = []
    if hidden:
        first = nn.Linear(inputs, hidden)
        nn.init.kaiming_uniform_(first.weight, nonlinearity="relu")
        before = [first, nn.ReLU(), nn.Dropout(dropout)]
    norm = [nn.BatchNorm1d(dim)] if hidden and batch_norm else []
    # batch norm subtracts the mean, and with it any bias of the layer before
    last = nn.Linear(hidden or inputs, dim, bias=not norm)
    nn.init.xavier_uniform_(last.weight)
    return nn.Sequential(*before, last, *norm)


def sees_pixels(architecture: Mapping[str, Any]) -> bool:
    """Whether images go through an image CNN of the network's own, which was tuned with it."""
    return "image_model" in architecture


def build(**sizes: Any) -> TwoBranch:
    """The network of a checkpoint's architecture: sizes of TwoBranch and, where it has an image
    CNN, the entries `image_...` of models.backbone.image_cnn."""
    if not sees_pixels(sizes):
        return TwoBranch(**sizes)
    from models.backbone.image_cnn import with_image_cnn  # torchvision takes seconds to load

    return TwoBranch(**with_image_cnn(**sizes))
