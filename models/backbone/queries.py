"""An image file as features, extracted as those of the corpus were."""

from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image

from models.backbone.file import read_network
from models.backbone.inference import accelerate
from models.backbone.network import weights_digest
from pipeline.corpus.images import check_aspect
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import checked


def feature_extractor(
    network: Path, stored: FeatureFile, device: torch.device
) -> Callable[[Image.Image], torch.Tensor]:
    """A function from an RGB image to its features (1, D) float32 on the CPU, rounded as `stored`.
    WorkbenchError where another network made the stored ones, or an image is a ribbon."""
    image_network = read_network(network)
    if weights_digest(image_network.backbone) != stored.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{stored.path}: not made by the network of {network}", OUT_OF_STEP)
    # compiling would take longer than a single image ever gives back
    precision, crop = image_network.settings["precision"], image_network.preprocessing.crop
    forward = accelerate(image_network.backbone, device, precision, False, 1, crop)

    def features(image: Image.Image) -> torch.Tensor:
        check_aspect(image)
        crops = torch.from_numpy(image_network.preprocessing.crops(image))[None].to(device)
        views = torch.cat([forward(view) for view in image_network.preprocessing.inputs(crops)])
        mean = views.mean(0, keepdim=True).cpu().numpy()
        # rounded as the corpus's were
        return torch.from_numpy(checked("query", mean, stored.dtype(), ["the image"])).float()

    return features
