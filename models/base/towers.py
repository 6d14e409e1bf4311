"""The two towers of a model as plain modules, which can be traced: tensors in, unit rows out."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

BATCHES, LENGTHS = (1, 3, 8), (1, 2, 5, 12, 40)


@dataclass(frozen=True)
class Tower:
    module: nn.Module  # takes the inputs by name, gives (B, K) unit rows
    inputs: dict[str, torch.Tensor]  # an example of each, with at least two rows
    words: tuple[str, ...] = ()  # inputs whose second dimension is the number of words, any
    lengths: tuple[str, ...] = ()  # inputs that hold the lengths of the captions in words
    # by name, the first number that is no value of an input of whole numbers
    largest: dict[str, int] = field(default_factory=dict)

    def example(self, batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
        """Random inputs of `batch` rows and, where captions have any length, `length` words."""
        inputs = {}
        for name, value in self.inputs.items():
            shape = [batch, *value.shape[1:]]
            if name in self.words:
                shape[1] = length
            if name in self.lengths:
                inputs[name] = torch.randint(1, length + 1, (batch,), generator=generator)
                inputs[name][0] = length
            elif value.is_floating_point():
                inputs[name] = torch.randn(shape, generator=generator)
            else:
                drawn = torch.randint(0, self.largest[name], shape, generator=generator)
                inputs[name] = drawn.to(value.dtype)
        return inputs


class ImageTower(nn.Module):
    """`embed_images` of a model."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> Any:
        """What the model takes of images, to (B, K)."""
        return self.network.embed_images(images)


class CaptionTower(nn.Module):
    """`embed_captions` of a model that takes one tensor of captions."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, captions: torch.Tensor) -> Any:
        """What the model takes of captions, to (B, K)."""
        return self.network.embed_captions(captions)
