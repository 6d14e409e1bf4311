"""How feature maps become vectors, a file each, named in `image_features.pool`: `pool(maps) ->
Tensor`, maps (B, C, P) float32 of P positions to (B, K) float32."""

from pipeline.runtime.registry import Registry

POOLINGS = Registry("models.backbone.poolings", "image pooling", "pool", "pool(maps) -> Tensor")
