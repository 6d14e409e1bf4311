"""What image features say of the settings that they were made with."""

from collections.abc import Mapping
from typing import Any

from models.backbone.params import UNNAMED

UNREAD = ("workers", "source", "file")


def provenance(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What of the section image_features the values depend on, for the file's attributes: no number
    of workers and no path (the content of a weights file is recorded by digest); the seed where
    weights are random. The values of UNNAMED go without saying."""
    kept = {
        name: value
        for name, value in settings.items()
        if name not in UNREAD and value != UNNAMED.get(name, ...)
    }
    if settings["weights"] not in ("random", "imagenet", "detector"):
        kept["weights"] = "file"
    return kept | ({"seed": seed} if settings["weights"] == "random" else {})
