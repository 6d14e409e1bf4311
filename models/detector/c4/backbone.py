"""The ResNet of the bottom-up detector as Caffe has it: He et al. 2016 with MSRA's first details.

Two of them differ from torchvision's ResNet, whose weights therefore do not fit: the stride of a
stage is in its first 1 x 1 convolution, and the stem's max-pooling has no padding and keeps the
last, incomplete window. Submodules have detectron2's names, which the public conversions use.
"""

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import FrozenBatchNorm2d

EXPANSION = 4  # output channels of a block to those of its 3 x 3 convolution


class NormedConv(nn.Conv2d):
    """A convolution without bias, then batch normalisation with fixed statistics."""

    def __init__(
        self, inside: int, outside: int, size: int, stride: int = 1, dilation: int = 1
    ) -> None:
        padding = dilation * (size // 2)
        super().__init__(inside, outside, size, stride, padding, dilation, bias=False)
        self.norm = FrozenBatchNorm2d(outside)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, inside, H, W) to (B, outside, H', W')."""
        return self.norm(super().forward(maps))


class Stem(nn.Module):
    """Images (B, 3, H, W) to maps (B, width, H', W') of stride 4."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = NormedConv(3, width, 7, stride=2)

    def forward(self, images: Tensor) -> Tensor:
        """7 x 7 convolution, then 3 x 3 max-pooling of stride 2, unpadded, rounded up."""
        return F.max_pool2d(F.relu(self.conv1(images)), 3, 2, padding=0, ceil_mode=True)


class Bottleneck(nn.Module):
    """Residual block (B, inside, H, W) to (B, 4 x width, H', W'); the stride is in `conv1`."""

    def __init__(self, inside: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        outside = EXPANSION * width
        self.conv1 = NormedConv(inside, width, 1, stride)
        self.conv2 = NormedConv(width, width, 3, dilation=dilation)
        self.conv3 = NormedConv(width, outside, 1)
        changes = stride != 1 or inside != outside
        self.shortcut = NormedConv(inside, outside, 1, stride) if changes else None

    def forward(self, maps: Tensor) -> Tensor:
        """Three convolutions added to the input or to its projection."""
        inner = F.relu(self.conv2(F.relu(self.conv1(maps))))
        straight = maps if self.shortcut is None else self.shortcut(maps)
        return F.relu(self.conv3(inner) + straight)


def stage(inside: int, width: int, blocks: int, stride: int, dilation: int = 1) -> nn.Sequential:
    """Residual blocks, the first with the stride: (B, inside, H, W) to (B, 4 x width, H', W')."""
    outside = EXPANSION * width
    return nn.Sequential(
        Bottleneck(inside, width, stride, dilation),
        *(Bottleneck(outside, width, 1, dilation) for _ in range(blocks - 1)),
    )


def trunk(width: int, blocks: tuple[int, int, int]) -> nn.Sequential:
    """Stem and res2 to res4: (B, 3, H, W) to (B, 16 x width, H', W') of stride 16."""
    return nn.Sequential(
        OrderedDict(
            stem=Stem(width),
            res2=stage(width, width, blocks[0], stride=1),
            res3=stage(4 * width, 2 * width, blocks[1], stride=2),
            res4=stage(8 * width, 4 * width, blocks[2], stride=2),
        )
    )
