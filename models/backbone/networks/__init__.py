"""Image networks beside torchvision's and timm's, a file each: its name is the network's.

A network is `build() -> nn.Module` of normalised images (B, 3, H, W). Its sizes are those of
torchvision's ResNets, and so is its normalisation where it is torchvision's.
"""

from pipeline.runtime.registry import Registry

NETWORKS = Registry("models.backbone.networks", "image network", "build", "build() -> nn.Module")
