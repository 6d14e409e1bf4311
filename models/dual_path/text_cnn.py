"""A residual network over the words of a caption, which mirrors an image ResNet block for block."""

import torch
from torch import Tensor, nn
from torch.nn import functional

# blocks per stage and how much wider a block's output is than its width (He et al. 2016, table 1)
STAGES = {
    "resnet18": ((2, 2, 2, 2), 1),
    "resnet50": ((3, 4, 6, 3), 4),
    "resnet152": ((3, 8, 36, 3), 4),
}


class TextCNN(nn.Module):
    """Word lookup and residual blocks of 1x2 convolutions (Zheng et al. 2020, section 3.2).

    The paper's 1x1 convolution over one-hot words is a lookup. Then come four stages of blocks, as
    many as the image network of the same name has: two 1x2 convolutions (resnet18) or bottlenecks
    of 1x1, 1x2, 1x1; each stage after the first halves the slots and doubles the width. `outputs`
    is D of the result, 8 * width, times 4 for bottlenecks. vocabulary_size: V, row 0 is an empty
    slot; word_dim: 300 in the paper; depth: a key of STAGES; width: of the first stage (64 as in
    the image networks); pool: over the slots that are left, mean (as in the paper) or max (its
    code).
    """

    def __init__(
        self, vocabulary_size: int, word_dim: int, depth: str, width: int, pool: str = "max"
    ) -> None:
        super().__init__()
        counts, expansion = STAGES[depth]
        self.pool, self.outputs = pool, 8 * width * expansion
        self.words = nn.Embedding(vocabulary_size, word_dim, padding_idx=0)
        blocks, inputs = [], word_dim
        for stage, count in enumerate(counts):
            for block in range(count):
                stride = 2 if stage and not block else 1
                blocks.append(TextBlock(inputs, width << stage, expansion, stride))
                inputs = (width << stage) * expansion
        self.blocks = nn.Sequential(*blocks)
        nn.init.xavier_uniform_(self.words.weight)  # the paper's random initialisation
        with torch.no_grad():
            self.words.weight[0].zero_()
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, slots: Tensor) -> Tensor:
        """Word ids (B, S), 0 where a slot is empty, to (B, outputs)."""
        maps = self.blocks(self.words(slots))
        return maps.amax(1) if self.pool == "max" else maps.mean(1)


class TextBlock(nn.Module):
    """One residual block: (B, S, inputs) to (B, S / stride rounded up, width * expansion). width:
    channels of all convolutions but the last; expansion: 1 for two 1x2 convolutions, otherwise 1x1,
    1x2, 1x1 around a narrower middle; stride: of the 1x2 convolution that shortens the slots."""

    def __init__(self, inputs: int, width: int, expansion: int, stride: int) -> None:
        super().__init__()
        outputs = width * expansion
        if expansion == 1:
            steps = [_Convolution(inputs, width, 2, stride), _Convolution(width, outputs, 2)]
        else:
            steps = [_Convolution(inputs, width, 1), _Convolution(width, width, 2, stride)]
            steps.append(_Convolution(width, outputs, 1))
        for index in range(len(steps) - 1, 0, -1):
            steps.insert(index, nn.ReLU())  # type: ignore[arg-type]
        self.body = nn.Sequential(*steps)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _Convolution(inputs, outputs, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, S, inputs) to (B, S / stride rounded up, outputs)."""
        return functional.relu(self.body(maps) + self.shortcut(maps))


class _Convolution(nn.Sequential):
    """A 1 x kernel convolution with batch norm, (B, S, inputs) to (B, S / stride rounded up,
    outputs); zeros behind the last slot. All windows in one matrix product take half the time that
    torch's convolution takes on a CPU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        layer = nn.Conv1d(inputs, outputs, kernel, stride, bias=False)
        super().__init__(layer, nn.BatchNorm1d(outputs))
        self.kernel, self.stride = kernel, stride

    def forward(self, maps: Tensor) -> Tensor:
        layer, norm = self
        padded = functional.pad(maps, (0, 0, 0, self.kernel - 1))
        windows = padded.unfold(1, self.kernel, self.stride).flatten(2)
        rows = functional.linear(windows, layer.weight.flatten(1))  # type: ignore[operator]
        result: Tensor = norm(rows.flatten(0, 1)).view_as(rows)
        return result
