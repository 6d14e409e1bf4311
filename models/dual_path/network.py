"""The dual-path network: an image CNN and a text CNN into one space, trainable from pixels.

The image CNN is the very network that extracts image features, so that training can begin on
cached features and go on from pixels with the same weights and the same results.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from models.backbone.image_cnn import with_image_cnn
from models.dual_path.text_cnn import TextCNN
from models.layers.linear import Divide, Standardise, undivided, unit_rows
from models.layers.pixels import SeesPixels

PARTS = ("text", "words", "image_head", "image_cnn")


class DualPath(SeesPixels):
    """Two CNNs with equal heads, FC, batch norm, ReLU, dropout, FC (Zheng et al. 2020, figure 2),
    to vectors f (B, K) for the instance loss. Images are features (B, D) of the image CNN, or
    pixels (B, 3, S, S) uint8, which go through it first."""

    def __init__(
        self,
        image_dim: int,  # D of the image CNN's features
        vocabulary_size: int,  # V, as in TextCNN
        word_dim: int,  # width of a word vector, as in TextCNN
        text_cnn: str,  # depth of the TextCNN
        text_width: int,  # width of the TextCNN
        hidden: int,  # width between the two FC layers of a head (2048 in the paper)
        dim: int,  # K (2048 in the paper)
        text_pool: str = "max",  # mean or max, as in TextCNN
        dropout: float = 0.75,  # share of hidden activations set to zero in training
        flip: bool = True,  # in evaluation average with the mirror image (section 6.2)
        image_cnn: nn.Module | None = None,  # as in SeesPixels
        mean: Iterable[float] = (0.485, 0.456, 0.406),  # as in SeesPixels
        deviation: Iterable[float] = (0.229, 0.224, 0.225),  # as in SeesPixels
    ) -> None:
        super().__init__()
        self.frozen: tuple[str, ...] = ()
        self.text = TextCNN(vocabulary_size, word_dim, text_cnn, text_width, text_pool)
        self.text_head = head(self.text.outputs, hidden, dim, dropout)
        self.image_standardise = Standardise(image_dim)
        self.image_head = head(image_dim, hidden, dim, dropout)
        self.flip = flip
        self.see_through(image_cnn, mean, deviation)
        self.trainable(PARTS)

    def trainable(self, parts: Iterable[str]) -> None:
        """Train the named parts of PARTS: text, the text CNN and its head; words, its word lookup;
        image_head; image_cnn, which may be absent. Other parts are frozen: no gradients, and
        evaluation mode under train()."""
        chosen = set(parts)
        self.frozen = tuple(part for part in PARTS if part not in chosen)
        for part in PARTS:
            for module in self.modules_of(part):
                module.requires_grad_(part in chosen)
        self.train(self.training)

    def modules_of(self, part: str) -> list[nn.Module]:
        """The modules whose weights belong to one of PARTS; none where there is no image CNN."""
        modules: dict[str, list[nn.Module | None]] = {
            "text": [self.text.blocks, self.text_head],
            "words": [self.text.words],
            "image_head": [self.image_head],
            "image_cnn": [self.image_cnn],
        }
        return [module for module in modules[part] if module is not None]

    def train(self, mode: bool = True) -> "DualPath":
        """Set training mode, except for frozen parts."""
        super().train(mode)
        for part in self.frozen:
            for module in self.modules_of(part):
                module.eval()
        return self

    def image_vectors(self, images: Tensor) -> Tensor:
        """f of features (B, D) or of pixels (B, 3, S, S) uint8: (B, K)."""
        if images.ndim == 2:
            return self._image_vectors_of(images)
        vectors = self._image_vectors_of(self.image_features(images))
        if self.training or not self.flip:
            return vectors
        return (vectors + self._image_vectors_of(self.image_features(images.flip(-1)))) / 2

    def caption_vectors(self, slots: Tensor) -> Tensor:
        """f of captions as word ids in slots (B, S), 0 where a slot is empty: (B, K)."""
        vectors: Tensor = self.text_head(self.text(slots))
        return vectors

    def embed_images(self, images: Tensor) -> Tensor:
        """Features (B, D) or pixels (B, 3, S, S) uint8 to unit rows (B, K)."""
        return unit_rows(self.image_vectors(images))

    def embed_captions(self, slots: Tensor) -> Tensor:
        """Word ids (B, S) to unit rows (B, K)."""
        return unit_rows(self.caption_vectors(slots))

    def forward(
        self, images: Tensor, slots: Tensor, divide: Divide = undivided
    ) -> tuple[Tensor, Tensor]:
        """f (B, K) of a batch's images, features (B, D) or pixels (B, 3, S, S) uint8, and of its
        captions as word ids (B, S), not normalised; divide: how rows are shared."""
        return divide(self.image_vectors, images), divide(self.caption_vectors, slots)

    def _image_vectors_of(self, features: Tensor) -> Tensor:
        vectors: Tensor = self.image_head(self.image_standardise(features))
        return vectors


def head(inputs: int, hidden: int, outputs: int, dropout: float) -> nn.Sequential:
    """FC, batch norm, ReLU, dropout, FC: (B, inputs) to (B, outputs); He's weights, no bias before
    the batch norm, which would take it away again."""
    first, last = nn.Linear(inputs, hidden, bias=False), nn.Linear(hidden, outputs)
    nn.init.kaiming_normal_(first.weight, nonlinearity="relu")
    nn.init.xavier_uniform_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout), last)


def build(slots: int = 0, **sizes: Any) -> DualPath:
    """The network of a checkpoint's architecture: sizes of DualPath, and the entries `image_...` of
    models.backbone.image_cnn; slots, words that a caption may have, are not read."""
    return DualPath(**with_image_cnn(**sizes))
