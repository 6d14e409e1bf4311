"""Image networks: cut, pooled, run over images, kept in a file.

torchvision's classifiers are known by their names, timm's as timm/NAME. Another network is a file
of models/backbone/networks, a pooling of feature maps one of models/backbone/poolings.
"""
