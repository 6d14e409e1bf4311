"""What the pipeline asks of a detector: it trains, judges and uses one without importing any."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn


class RegionOutput(Protocol):
    """The P proposals of one image, as models.region_selection.RegionOutput describes them.

    boxes: (P, 4); features: (P, D); object_scores: (P, C + 1); attribute_scores: (P, A).
    """

    @property
    def boxes(self) -> Tensor: ...
    @property
    def features(self) -> Tensor: ...
    @property
    def object_scores(self) -> Tensor: ...
    @property
    def attribute_scores(self) -> Tensor: ...


class Detector(Protocol):
    """A module that can be trained: images are uint8 RGB (3, H, W), of any sizes."""

    def losses(
        self, images: Sequence[Tensor], targets: Sequence[Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Loss terms (scalars) by name; targets: per image boxes, labels and attributes."""
        ...

    def regions(self, images: Sequence[Tensor]) -> Sequence[Any]:
        """A RegionOutput, a named tuple, for every image."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...
    def train(self) -> Any: ...
    def eval(self) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...
