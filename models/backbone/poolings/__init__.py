"""How a feature map becomes a vector, a file each: its name is what `image_features.pool` says.

A pooling is `pool(maps) -> Tensor`: maps (B, C, P) float32 of P positions to (B, K) float32.
"""

from pipeline.runtime.registry import Registry

POOLINGS = Registry("models.backbone.poolings", "image pooling", "pool", "pool(maps) -> Tensor")
