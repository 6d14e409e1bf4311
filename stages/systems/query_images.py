"""An image file as features, extracted as those of the corpus were."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image

from models.backbones import BackboneError, classifier, cut, load_strict, weights_digest
from models.inference import accelerate
from pipeline.errors import WorkbenchError, listing
from pipeline.extraction import provenance
from pipeline.feature_format import checked
from pipeline.feature_store import FeatureFile
from pipeline.preprocessing import MAX_ASPECT, preprocessing_of
from pipeline.search import REMEDY
from pipeline.sections import ImageFeatures
from pipeline.weights import published_state


def image_features(
    image: Image.Image,
    settings: ImageFeatures,
    seed: int,
    stored: FeatureFile,
    device: torch.device,
) -> torch.Tensor:
    """Features (1, D) of an RGB image, the mean over its views.

    settings, seed: of params.yaml; stored: the corpus's features. Raises WorkbenchError when they
    were made with other settings or weights, and for an image much longer than wide.
    """
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise WorkbenchError(f"the image is more than {MAX_ASPECT} times as long as wide")
    _check_settings(provenance(settings.model_dump(), seed), stored)
    try:
        network = classifier(settings.model, seed)
        state = published_state(settings.model, settings.weights)
        if state is not None:
            load_strict(network, state)
        if weights_digest(network) != stored.attributes.get("weights_sha256"):
            raise WorkbenchError(f"{stored.path}: made with other weights of the network", REMEDY)
        preprocessing = preprocessing_of(settings.model, settings.size, settings.views)
        backbone, _ = cut(network, settings.layers, settings.pool, preprocessing.crop)
        # compiling would take longer than a single image ever gives back
        forward = accelerate(backbone, device, settings.precision, False, 1, preprocessing.crop)
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    crops = torch.from_numpy(preprocessing.crops(image))[None].to(device)
    views = torch.cat([forward(view) for view in preprocessing.inputs(crops)])
    mean = views.mean(0, keepdim=True).cpu().numpy()
    # rounded as the corpus's were
    return torch.from_numpy(checked("query", mean, stored.dtype(), ["the image"])).float()


def _check_settings(asked: Mapping[str, Any], stored: FeatureFile) -> None:
    """Raise WorkbenchError naming settings that are not those of the stored features."""
    try:
        recorded = dict(json.loads(str(stored.attributes["params"])))
        asked = json.loads(json.dumps(asked))  # tuples are lists there
    except (KeyError, TypeError, ValueError):
        raise WorkbenchError(f"{stored.path}: does not say how it was made", REMEDY) from None
    names = sorted(k for k in asked.keys() | recorded.keys() if asked.get(k) != recorded.get(k))
    changes = [f"{k} = {asked.get(k)!r}, there {recorded.get(k)!r}" for k in names]
    if changes:
        raise WorkbenchError(
            f"image_features of params.yaml is not that of {stored.path}: {listing(changes)}",
            "undo the change, or " + REMEDY,
        )
