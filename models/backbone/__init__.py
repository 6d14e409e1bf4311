"""Image networks: cut, pooled, run over images, kept in a file.

torchvision's classifiers are known by their names. To add a network write a module here with a
function that builds it, an nn.Module of normalised images (B, 3, H, W), and name both in NETWORKS.
Its sizes are those of torchvision's ResNets, and so is its normalisation where it is torchvision's.
"""

NETWORKS: dict[str, str] = {
    # "name": "models.backbone.module:function",
}
