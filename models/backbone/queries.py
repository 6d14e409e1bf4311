"""An image file as features, extracted as those of the corpus were."""

from pathlib import Path

import torch
from PIL import Image

from models.backbone.file import read_network
from models.backbone.inference import accelerate
from models.backbone.network import weights_digest
from pipeline.corpus.images import MAX_ASPECT
from pipeline.runtime.errors import WorkbenchError
from pipeline.search.index import REMEDY
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import checked


def image_features(
    image: Image.Image, network: Path, stored: FeatureFile, device: torch.device
) -> torch.Tensor:
    """Features of an RGB image, the mean over its views.

    Args:
        image: RGB, upright.
        network: the file of the network behind the corpus's features.
        stored: those features.
        device: where the network runs.

    Returns:
        (1, D) float32, on the CPU, rounded as the corpus's were.

    Raises:
        WorkbenchError: another network than that behind the features, an image much longer than
            wide.
    """
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise WorkbenchError(f"the image is more than {MAX_ASPECT} times as long as wide")
    made = read_network(network)
    if weights_digest(made.backbone) != stored.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{stored.path}: not made by the network of {network}", REMEDY)
    # compiling would take longer than a single image ever gives back
    precision, crop = made.settings["precision"], made.preprocessing.crop
    forward = accelerate(made.backbone, device, precision, False, 1, crop)
    crops = torch.from_numpy(made.preprocessing.crops(image))[None].to(device)
    views = torch.cat([forward(view) for view in made.preprocessing.inputs(crops)])
    mean = views.mean(0, keepdim=True).cpu().numpy()
    # rounded as the corpus's were
    return torch.from_numpy(checked("query", mean, stored.dtype(), ["the image"])).float()
