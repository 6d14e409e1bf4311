"""Models whose images are features of a fixed network, or pixels that go through that network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class SeesPixels(nn.Module):
    """A network with room for an image CNN in front of what it makes of image features."""

    image_cnn: nn.Module | None  # normalised images (B, 3, S, S) to (B, D); None: features only
    pixel_mean: Tensor  # (3, 1, 1), by which pixels are normalised; none without an image CNN
    pixel_deviation: Tensor  # likewise

    def see_through(
        self, image_cnn: nn.Module | None, mean: Iterable[float], deviation: Iterable[float]
    ) -> None:
        """Put an image CNN in front, in a memory layout that is fast for it.

        Args:
            image_cnn: from normalised images (B, 3, S, S) to features (B, D); None for a network
                that takes features alone.
            mean: by which its inputs are normalised, per channel, of values in [0, 1].
            deviation: what they are divided by, likewise.
        """
        self.image_cnn = image_cnn
        if image_cnn is None:
            return
        image_cnn.to(memory_format=torch.channels_last)
        self.register_buffer("pixel_mean", 255 * torch.tensor(tuple(mean)).view(3, 1, 1))
        self.register_buffer("pixel_deviation", 255 * torch.tensor(tuple(deviation)).view(3, 1, 1))

    def image_features(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, S, S) uint8, their channels as the image CNN's, to its features (B, D)."""
        assert self.image_cnn is not None
        images = (pixels.float() - self.pixel_mean) / self.pixel_deviation
        features: Tensor = self.image_cnn(images.to(memory_format=torch.channels_last))
        return features

    def mean_features(self, crops: Tensor) -> Tensor:
        """The mean (B, D) of the features of crops (B, C, 3, S, S) uint8 and of their mirror
        images."""
        views = [view for crop in crops.unbind(1) for view in (crop, crop.flip(-1))]
        total = self.image_features(views[0])
        for view in views[1:]:
            total = total + self.image_features(view)
        return total / len(views)
