"""Models whose images are features of a fixed network, or pixels that go through that network."""

from collections.abc import Iterable

import torch
from torch import nn


class SeesPixels(nn.Module):
    """A network with room for an image CNN in front of what it makes of image features.

    Attributes:
        image_cnn: normalised images (B, 3, S, S) to (B, D), such as
            models.backbone.network.Backbone, or None: features only.
        pixel_mean: (3, 1, 1), by which pixels are normalised; none without an image CNN.
        pixel_deviation: likewise.
    """

    image_cnn: nn.Module | None
    pixel_mean: torch.Tensor
    pixel_deviation: torch.Tensor

    def see_through(
        self, image_cnn: nn.Module | None, mean: Iterable[float], deviation: Iterable[float]
    ) -> None:
        """Put an image CNN in front; it is laid out for speed in place.

        Args:
            image_cnn: as in the attributes.
            mean: by which its inputs, in [0, 1], are normalised, per channel of theirs.
            deviation: likewise.
        """
        self.image_cnn = image_cnn
        if image_cnn is None:
            return
        image_cnn.to(memory_format=torch.channels_last)
        self.register_buffer("pixel_mean", 255 * torch.tensor(tuple(mean)).view(3, 1, 1))
        self.register_buffer("pixel_deviation", 255 * torch.tensor(tuple(deviation)).view(3, 1, 1))

    def image_features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels (B, 3, S, S) uint8, their channels as the image CNN's, to its features (B, D).

        Raises ValueError when there is no image CNN.
        """
        if self.image_cnn is None:
            raise ValueError("this model has no image CNN: give it image features (B, D)")
        images = (pixels.float() - self.pixel_mean) / self.pixel_deviation
        features: torch.Tensor = self.image_cnn(images.to(memory_format=torch.channels_last))
        return features

    def mean_features(self, crops: torch.Tensor) -> torch.Tensor:
        """The mean (B, D) of the features of C crops and of their mirror images.

        Args:
            crops: (B, C, 3, S, S) uint8.
        """
        views = [view for crop in crops.unbind(1) for view in (crop, crop.flip(-1))]
        total = self.image_features(views[0])
        for view in views[1:]:
            total = total + self.image_features(view)
        return total / len(views)
