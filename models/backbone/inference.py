"""Making a finished network fast without changing what it computes.

Batch norms are folded into the convolutions before them, images travel channels-last, and by choice
the arithmetic is bfloat16 and the graph compiled. Folding is exact up to rounding, bfloat16 is not.
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from models.backbone.network import Backbone, BackboneError
from pipeline.runtime.errors import first_line

Forward = Callable[[Tensor], Tensor]


def fold_batch_norm(graph: fx.GraphModule) -> int:
    """Fold each batch norm that alone follows a convolution into it: y = (Wx + b - mean) / sqrt(var
    + eps) * gamma + beta is again a convolution. Returns how many."""
    modules = dict(graph.named_modules())
    calls = Counter(node.target for node in graph.graph.nodes if node.op == "call_module")
    folded = sum(_fold_sequence(m) for m in modules.values() if isinstance(m, nn.Sequential))
    for node in list(graph.graph.nodes):
        source = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(source, fx.Node) or source.op != "call_module" or len(source.users) > 1:
            continue
        norm, convolution = modules[str(node.target)], modules[str(source.target)]
        if not (isinstance(norm, nn.BatchNorm2d) and isinstance(convolution, nn.Conv2d)):
            continue
        if calls[source.target] > 1 or calls[node.target] > 1:
            continue
        graph.set_submodule(str(source.target), fuse_conv_bn_eval(convolution, norm))
        node.replace_all_uses_with(source)
        graph.graph.erase_node(node)
        folded += 1
    graph.delete_all_unused_submodules()
    graph.recompile()
    return folded


def accelerate(
    backbone: Backbone, device: torch.device, precision: str, compiled: bool, batch: int, size: int
) -> Forward:
    """A fast function from float32 images (B, 3, H, W) on a device to float32 features (B, D). The
    backbone is changed in place. precision: fp32 or bf16 (autocast on CUDA, bfloat16 weights on the
    CPU); compiled: with torch.compile, for exactly `batch` images of size x size."""
    fold_batch_norm(backbone.graph)
    backbone.to(device).to(memory_format=torch.channels_last)
    if precision == "bf16" and device.type == "cpu":
        backbone.to(torch.bfloat16)
    run: Forward = backbone
    if compiled:  # freezing lays the weights out for the machine once instead of on every call
        run = torch.compile(backbone, dynamic=False, options={"freezing": True})
    kind = torch.bfloat16 if precision == "bf16" and device.type == "cpu" else torch.float32

    @torch.inference_mode()
    def forward(images: Tensor) -> Tensor:
        images = images.to(dtype=kind, memory_format=torch.channels_last)
        mixed = precision == "bf16" and device.type != "cpu"
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
            return run(images)

    if compiled:
        try:
            forward(torch.zeros(batch, 3, size, size, device=device))
        except (RuntimeError, OSError) as error:
            raise BackboneError(f"torch.compile failed: {first_line(error)}") from error
    return forward


def _fold_sequence(modules: nn.Sequential) -> int:
    """Fold within a block that torchvision keeps whole, such as Conv2dNormActivation."""
    folded = 0
    for index in range(len(modules) - 1):
        convolution, norm = modules[index], modules[index + 1]
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            modules[index] = fuse_conv_bn_eval(convolution, norm)
            modules[index + 1] = nn.Identity()
            folded += 1
    return folded
