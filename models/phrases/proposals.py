"""Boxes that phrases are looked for in, and the vectors of these and of any other boxes.

A `View` computes the maps of some images once: of a detector, which proposes boxes and describes
them by its head (FPNView, C4View), or of an image network, from whose maps boxes are pooled
(NetworkView). params.yaml says which (`describer`); `BoxSources` joins what proposes and what
describes, and `extract_boxes` fills the files of proposals and of the phrases' own boxes.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import VGG
from torchvision.ops import roi_align

from models.backbone.network import (
    Backbone,
    BackboneError,
    check_known,
    cut,
    pooled,
    weights_digest,
)
from models.backbone.preprocessing import Pictures, check_aspects, preprocessing_of
from models.backbone.weights import classifier_with_weights, load_detector_body
from models.detector.c4 import C4Detector
from models.detector.fpn import FPNDetector, alike, ratios
from models.detector.weights import load_detector
from pipeline.corpus.loading import ImageFiles, decode_ahead
from pipeline.corpus.tables import images_digest
from pipeline.features.batches import RowInputs, alone, in_blocks
from pipeline.features.feature_file import FeatureWriter, Rows
from pipeline.phrases.boxes import rows_of_images
from pipeline.phrases.params import BoxFeaturesConfig, BoxNetworkConfig, PhrasesConfig
from pipeline.phrases.tables import DistinctRegions
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress

CELLS = 7  # along each side of a pooled box
SAMPLES = 2  # points along each side of a cell

# From an image's id and size to its boxes and their scores.
BoxFile = Callable[[str, tuple[int, int]], tuple[np.ndarray, np.ndarray]]


# ---- views


class Proposed(NamedTuple):
    """Proposals of one image, best first.

    Args:
        boxes: (P, 4) x1, y1, x2, y2 in pixels of the image as given.
        scores: (P,) probability that there is any object.
        features: (P, D) vectors of the boxes, where whoever proposes them makes them anyway.
    """

    boxes: Tensor
    scores: Tensor
    features: Tensor | None = None


class FPNView:
    """Images in the pyramid of an FPN detector; images of one size share a batch.

    Args:
        network: In evaluation mode.
        images: B, uint8 RGB (3, H, W) on its device.
    """

    def __init__(self, network: FPNDetector, images: Sequence[Tensor]) -> None:
        self.network = network
        self.count = len(images)
        self.groups = []
        for indices in alike(images):
            batch, maps = network.maps([images[index] for index in indices])
            first = images[indices[0]]
            scale = torch.tensor(ratios(first, batch.image_sizes[0]))
            self.groups.append((indices, batch, maps, scale.to(first.device)))

    def proposals(self) -> list[Proposed]:
        """The boxes of the proposal network in each image, of any class."""
        proposed: dict[int, Proposed] = {}
        heads = self.network.roi_heads
        for indices, batch, maps, scale in self.groups:
            boxes, _ = self.network.rpn(batch, maps)
            vectors = heads.vectors(maps, boxes, batch.image_sizes)
            scores = 1 - heads.box_predictor(vectors)[0].softmax(1)[:, 0]
            counts = [len(part) for part in boxes]
            parts = zip(indices, boxes, scores.split(counts), vectors.split(counts), strict=True)
            for index, corners, score, rows in parts:
                proposed[index] = sort_by_score(corners / scale, score, rows)
        return [proposed[index] for index in range(self.count)]

    def features(self, boxes: Sequence[Tensor]) -> list[Tensor]:
        """Vectors (P, D) float32 of the boxes (P, 4) of each image, of the detector's box head."""
        vectors: dict[int, Tensor] = {}
        for indices, batch, maps, scale in self.groups:
            scaled = [boxes[index] * scale for index in indices]
            rows = self.network.roi_heads.vectors(maps, scaled, batch.image_sizes)
            parts = rows.split([len(part) for part in scaled])
            vectors |= dict(zip(indices, parts, strict=True))
        return [vectors[index] for index in range(self.count)]


class C4View:
    """Images in the maps of a C4 detector, one at a time.

    Args:
        network: In evaluation mode.
        images: B, uint8 RGB (3, H, W) on its device.
    """

    def __init__(self, network: C4Detector, images: Sequence[Tensor]) -> None:
        self.network = network
        self.seen = []
        for image in images:
            pixels, scale = network.scaled(image)
            self.seen.append((network.backbone(pixels), pixels.shape[-2:], scale))

    def proposals(self) -> list[Proposed]:
        """The boxes of the proposal network in each image, of any class."""
        proposed = []
        for maps, (height, width), scale in self.seen:
            boxes = self.network.proposal_generator(maps, height, width, scale)
            features, scores, _ = self.network.roi_heads(maps, boxes)
            proposed.append(sort_by_score(boxes / scale, 1 - scores[:, 0], features))
        return proposed

    def features(self, boxes: Sequence[Tensor]) -> list[Tensor]:
        """Vectors (P, D) float32 of the boxes (P, 4) of each image: of res5, averaged over the
        cells of a box."""
        heads = self.network.roi_heads
        seen = zip(self.seen, boxes, strict=True)
        return [heads.features(maps, corners * scale) for (maps, _, scale), corners in seen]


class NetworkView:
    """Images in the feature maps of a cut network, each box pooled from them (He et al. 2017).

    Args:
        backbone: The network, in evaluation mode.
        head: From cells (P, C, 7, 7) to vectors (P, D); None: the network's pool.
        inputs: B images as the network sees them, normalised and scaled (3, H, W).
        sizes: Width and height of the images as given.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: nn.Module | None,
        inputs: Sequence[Tensor],
        sizes: Sequence[tuple[int, int]],
    ) -> None:
        self.backbone = backbone
        self.head = head
        self.sizes = sizes
        self.maps = [backbone.graph(image[None]) for image in inputs]

    def features(self, boxes: Sequence[Tensor]) -> list[Tensor]:
        """Vectors (P, D) float32 of the boxes (P, 4) of each image: RoIAlign of 7 x 7 cells from
        every layer, pooled, side by side."""
        seen = zip(boxes, self.maps, self.sizes, strict=True)
        return [
            torch.cat(list(self._layer_vectors(corners, maps, size)), 1)
            for corners, maps, size in seen
        ]

    def _layer_vectors(
        self, boxes: Tensor, maps: dict[str, Tensor], size: tuple[int, int]
    ) -> Iterator[Tensor]:
        for node in self.backbone.nodes:
            layer = maps[node].float()
            places = boxes.new_tensor([layer.shape[-1] / size[0], layer.shape[-2] / size[1]])
            cells = roi_align(layer, [boxes * places.tile(2)], CELLS, 1.0, SAMPLES, aligned=True)
            yield self.head(cells) if self.head else pooled(cells, self.backbone.pooling)


View = FPNView | C4View | NetworkView


def sort_by_score(boxes: Tensor, scores: Tensor, features: Tensor) -> Proposed:
    """Proposals, best first; of equal ones the earlier.

    Args:
        boxes: (P, 4).
        scores: (P,).
        features: (P, D).

    Returns:
        The same in another order.
    """
    order = scores.argsort(descending=True, stable=True)
    return Proposed(boxes[order], scores[order], features[order])


def scaled_input(
    image: Tensor, short_side: int, long_side: int, mean: Tensor, std: Tensor, bgr: bool
) -> Tensor:
    """An image scaled to a shorter side, as Fast R-CNN does (Girshick 2015), and normalised.

    Args:
        image: uint8 RGB (3, H, W).
        short_side: Pixels of the shorter side, unless the longer one would exceed `long_side`.
        long_side: The most pixels of the longer side; 0 for any number.
        mean: (3, 1, 1), subtracted from values of 0 to 1.
        std: (3, 1, 1), that divides them then.
        bgr: Whether the network reads blue, green, red.

    Returns:
        (3, H', W') float32.
    """
    short, long = sorted(image.shape[-2:])
    scale = short_side / short
    if long_side and round(scale * long) > long_side:
        scale = long_side / long
    size = [max(round(side * scale), 1) for side in image.shape[-2:]]
    pixels = (image.flip(0) if bgr else image).float() / 255
    resized = F.interpolate(pixels[None], size=size, mode="bilinear", antialias=True)[0]
    return (resized - mean) / std


# ---- which views params.yaml asks for


@dataclass(frozen=True)
class Describer:
    """What makes vectors of boxes.

    Args:
        see: From B images, uint8 RGB (3, H, W) on its device, to a view of them.
        model: Name of the network.
        layer: Whose output a box is pooled from.
        weights: SHA-256 of the network.
        width: D of a vector.
        proposes: Whether its views propose boxes, too.
        is_batched: Whether images of one size pass the network together.
        sizes: Of a detector, which its weights do not tell, JSON-able.
    """

    see: Callable[[Sequence[Tensor]], View]
    model: str
    layer: str
    weights: str
    width: int
    proposes: bool = False
    is_batched: bool = False
    sizes: dict[str, Any] | None = None


def describer(settings: BoxFeaturesConfig, detector: Path, device: torch.device) -> Describer:
    """What makes the vectors of boxes that params.yaml asks for.

    Args:
        settings: The section phrases.features.
        detector: The file of the detector.
        device: Where the network runs.

    Returns:
        The detector, or an image network.

    Raises:
        WorkbenchError: A file is missing or damaged, or the network cannot be used.
    """
    if settings.source == "detector":
        return detector_views(detector, device)
    return network_views(settings.network, detector, device)


def detector_views(path: Path, device: torch.device) -> Describer:
    """A detector, which proposes boxes and describes them by its head.

    Args:
        path: Of its file.
        device: Where it runs.

    Returns:
        Its views.

    Raises:
        WorkbenchError: The file is missing or damaged.
    """
    network: Any = load_detector(path)[0]
    is_fpn = isinstance(network, FPNDetector)
    digest = weights_digest(network)
    network.to(device).eval()
    see: Any = partial(FPNView if is_fpn else C4View, network)
    return Describer(
        see=see,
        model=network.architecture,
        layer="box_head" if is_fpn else "res5",
        weights=digest,
        width=network.region_dim,
        proposes=True,
        is_batched=is_fpn,
        sizes=asdict(network.sizes),
    )


def network_views(settings: BoxNetworkConfig, detector: Path, device: torch.device) -> Describer:
    """An image network, from whose maps boxes are pooled.

    Args:
        settings: The section phrases.features.network.
        detector: The file that its weights are taken from where they are `detector`.
        device: Where it runs.

    Returns:
        Its views.

    Raises:
        WorkbenchError: Networks, layers and weights that cannot be used.
    """
    try:
        backbone, head = _cut(settings, detector)
    except BackboneError as error:
        message = f"phrases.features.network: {error}"
        raise WorkbenchError(message, "change it in params.yaml") from error
    backbone = backbone.to(device)
    head = None if head is None else head.to(device)
    seen = preprocessing_of(settings.model, None, "center", "short_side", settings.normalisation)
    mean = torch.tensor(seen.mean, device=device).view(3, 1, 1)
    std = torch.tensor(seen.std, device=device).view(3, 1, 1)

    def see(images: Sequence[Tensor]) -> NetworkView:
        inputs = [
            scaled_input(
                image,
                short_side=settings.short_side,
                long_side=settings.long_side,
                mean=mean,
                std=std,
                bgr=seen.bgr,
            )
            for image in images
        ]
        sizes = [(image.shape[-1], image.shape[-2]) for image in images]
        return NetworkView(backbone, head, inputs, sizes)

    blank = torch.zeros(3, settings.short_side, settings.short_side, dtype=torch.uint8)
    box = torch.tensor([[0.0, 0.0, 1.0, 1.0]], device=device) * settings.short_side
    with torch.inference_mode():
        width = see([blank.to(device)]).features([box])[0].shape[1]
    parts = [backbone] if head is None else [backbone, head]
    return Describer(
        see=see,
        model=settings.model,
        layer=",".join(settings.layers),
        weights=weights_digest(nn.ModuleList(parts)),
        width=width,
    )


def _cut(settings: BoxNetworkConfig, detector: Path) -> tuple[Backbone, nn.Module | None]:
    """The cut network, and its head where boxes go through the network's own layers (fc7)."""
    network = classifier_with_weights(settings.model, settings.weights)
    head = vgg_head(network, settings.layers) if settings.pool == "fc7" else None
    if head is not None:
        check_known(head, ("fc7",))
    pool = "mean" if settings.pool == "fc7" else settings.pool
    backbone, _ = cut(network, settings.layers, pool, settings.short_side)
    if settings.weights == "detector":
        load_detector_body(backbone, settings.model, detector, "phrases.features.network")
    with torch.inference_mode():
        maps = backbone.graph(torch.zeros(1, 3, settings.short_side, settings.short_side))
    nodes = zip(settings.layers, backbone.nodes, strict=True)
    flat = [name for name, node in nodes if maps[node].ndim != 4]
    if flat:
        raise BackboneError(f"layers {flat}: boxes are pooled from maps, these give vectors")
    return backbone, head


def vgg_head(network: nn.Module, layers: Sequence[str]) -> nn.Module:
    """A VGG's fully connected layers up to fc7, on 7 x 7 cells of its last map (Girshick 2015),
    which take the place of the last max-pooling.

    Args:
        network: The whole VGG.
        layers: What it is cut at, which must be the map before the last max-pooling.

    Returns:
        From cells (P, C, 7, 7) to vectors (P, 4096).

    Raises:
        BackboneError: It is another network, or cut elsewhere.
    """
    if not isinstance(network, VGG):
        raise BackboneError("pool fc7 is for networks of torchvision's VGG")
    last = f"features.{len(network.features) - 2}"
    if list(layers) != [last]:
        raise BackboneError(f"pool fc7 takes layers [{last}], not {list(layers)}")
    return nn.Sequential(nn.Flatten(), *list(network.classifier)[:5]).eval()


def as_tensors(pictures: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Pictures as tensors.

    Args:
        pictures: B arrays (H, W, 3) uint8 RGB.
        device: Where they go.

    Returns:
        B tensors (3, H, W).
    """
    return [torch.from_numpy(image).permute(2, 0, 1).contiguous().to(device) for image in pictures]


# ---- proposals with their vectors


@dataclass(frozen=True)
class BoxSources:
    """What proposes boxes, and what describes them.

    Args:
        describer: Makes the vectors.
        proposer: Proposes; the describer itself where it does, None where a file has the boxes.
        file: Has the boxes; None where the proposer does.
        number: R, proposals of an image at most.
    """

    describer: Describer
    proposer: Describer | None
    file: BoxFile | None
    number: int

    def look(self, images: Sequence[Tensor], ids: Sequence[str]) -> tuple[View, list[Proposed]]:
        """Propose and describe boxes in images.

        Args:
            images: B, uint8 RGB (3, H, W) on the device.
            ids: Their B ids, for a file.

        Returns:
            A view of the images, and the proposals of each with their vectors.
        """
        view = self.describer.see(images)
        proposed = self._proposals(view, images, ids)
        boxes = [group.boxes[: self.number] for group in proposed]
        scores = [group.scores[: self.number] for group in proposed]
        if self.proposer is self.describer:
            made = [group.features for group in proposed]
            features = [vectors[: self.number] for vectors in made if vectors is not None]
        else:
            features = view.features(boxes)
        kept = zip(boxes, scores, features, strict=True)
        return view, [Proposed(*parts) for parts in kept]

    def _proposals(
        self, view: View, images: Sequence[Tensor], ids: Sequence[str]
    ) -> list[Proposed]:
        if self.file is not None:
            proposed = []
            for image, name in zip(images, ids, strict=True):
                boxes, scores = self.file(name, (image.shape[-1], image.shape[-2]))
                on_device = torch.from_numpy(boxes).to(image.device)
                proposed.append(Proposed(on_device, torch.from_numpy(scores).to(image.device)))
            return proposed
        assert self.proposer is not None, "boxes come from a file or from a proposer"
        own: Any = view if self.proposer is self.describer else self.proposer.see(images)
        found: list[Proposed] = own.proposals()
        return found


def described(
    settings: PhrasesConfig, sources: BoxSources, images: pd.DataFrame
) -> dict[str, str | int | float]:
    """What files of proposals say of themselves.

    Args:
        settings: The section `phrases` of params.yaml.
        sources: What made them.
        images: Rows of the images table.

    Returns:
        The attributes of the file.
    """
    proposals = settings.proposals.model_dump(exclude={"path", "other_images"})
    features = settings.features.model_dump(mode="json", exclude={"workers", "batch_size"})
    if settings.features.source == "detector":
        del features["network"]
    elif not settings.features.network.long_side:
        # files name the limit where there is one, so that vectors made alike have equal bytes
        del features["network"]["long_side"]
    maker = sources.describer
    return {
        "model": maker.model,
        "layer": maker.layer,
        "weights_sha256": maker.weights,
        "params": json.dumps({"proposals": proposals, "features": features}, sort_keys=True),
        "corpus_sha256": images_digest(images),
    }


def proposal_datasets(number: int, width: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """What a file of proposals holds.

    Args:
        number: R, boxes of an image at most.
        width: D.

    Returns:
        Shape of a row and type of every dataset.
    """
    return {
        "features": ((number, width), "float16"),
        "boxes": ((number, 4), "float32"),
        "scores": ((number,), "float32"),
        "counts": ((), "int32"),
        "sizes": ((2,), "int32"),
    }


def row_inputs(
    images: pd.DataFrame, regions: DistinctRegions, sources: BoxSources, batch_size: int
) -> tuple[RowInputs, RowInputs]:
    """What the rows of both files depend on, beside settings and machine.

    An image passes most networks alone, and so do its boxes: its rows depend on its pixels, the
    boxes that a file proposes, and the phrases' own boxes in it. In an FPN detector images of one
    size pass together, and all their boxes: the last bits may depend on all of the batch.

    Args:
        images: N rows of the images table.
        regions: The phrases' own boxes, R.
        sources: What proposes and describes boxes.
        batch_size: Images of a batch.

    Returns:
        The inputs of the N rows of proposals and of the R rows of the phrases' own boxes.

    Raises:
        WorkbenchError: A file of boxes has none of an image that can be used.
    """
    ids = images["image_id"].tolist()
    owners = regions.owners(ids)
    sizes = zip(images["width"].tolist(), images["height"].tolist(), strict=True)
    inputs = zip(ids, images["sha256"], sizes, rows_of_images(owners, len(ids)), strict=True)
    digests = []
    for name, image, size, rows in inputs:
        proposed = sources.file(name, size) if sources.file else ()
        digest = hashlib.sha256(f"{image} {len(rows)}".encode())
        for array in (regions.boxes[rows], *proposed):
            digest.update(array.tobytes())
        digests.append(digest.hexdigest())
    makers = (sources.describer, sources.proposer)
    is_batched = any(maker is not None and maker.is_batched for maker in makers)
    of_images = (in_blocks if is_batched else alone)(digests, batch_size)
    numbers = [name.rpartition("#")[2] for name in regions.ids]
    pairs = zip(numbers, owners.tolist(), strict=True)
    of_boxes = [f"{number} of {of_images.keys[owner]}" for number, owner in pairs]
    return of_images, alone(of_boxes, batch_size)


def extract_boxes(
    images: pd.DataFrame,
    regions: DistinctRegions,
    sources: BoxSources,
    settings: PhrasesConfig,
    device: torch.device,
    max_pixels: int,
    batches: list[Rows],
    proposals: FeatureWriter,
    truth: FeatureWriter,
) -> None:
    """Compute some rows of two files.

    Args:
        images: Rows of the images table.
        regions: The phrases' own boxes.
        sources: What proposes and describes boxes.
        settings: The section `phrases` of params.yaml.
        device: Where the networks run.
        max_pixels: Larger images are refused.
        batches: Which images, those that are computed together.
        proposals: Writes `proposal_datasets` of each image.
        truth: Writes `features` (D,) of each of the phrases' own boxes.

    Raises:
        WorkbenchError: An image cannot be read, or nothing is proposed for one.
    """
    check_aspects(images)
    ids = images["image_id"].tolist()
    regions_of = rows_of_images(regions.owners(ids), len(ids))
    source = Pictures(ImageFiles(images, max_pixels), batches)
    done = len(ids) - sum(map(len, batches))
    with Progress("proposals", len(ids), "images", done=done) as progress:
        for batch in decode_ahead(source, settings.features.workers, "phrases.features"):
            names = [ids[row] for row in batch.rows]
            per_image = [regions_of[row] for row in batch.rows]
            boxes = [torch.from_numpy(regions.boxes[rows]).to(device) for rows in per_image]
            with torch.inference_mode():
                view, kept = sources.look(as_tensors(batch.pictures, device), names)
                for name, group in zip(names, kept, strict=True):
                    if not len(group.boxes):
                        raise WorkbenchError(
                            f"no proposals in image {name}",
                            "train the detector longer, or see phrases.proposals.source",
                        )
                vectors = torch.cat(view.features(boxes))
            sizes = [(picture.shape[1], picture.shape[0]) for picture in batch.pictures]
            rows = np.concatenate(per_image)
            if len(rows):
                truth.write(rows, features=vectors.float().cpu().numpy())
            proposals.write(batch.rows, **_padded(kept, sizes, sources.number))
            progress.update(len(batch.rows))


def _padded(
    proposed: Sequence[Proposed], sizes: Sequence[tuple[int, int]], number: int
) -> dict[str, np.ndarray]:
    """The datasets' rows of B images: zeros beyond the counts."""
    assert proposed[0].features is not None, "proposals have vectors"
    shapes = proposal_datasets(number, proposed[0].features.shape[1])
    arrays = {
        name: np.zeros((len(proposed), *row), "float32" if name == "features" else kind)
        for name, (row, kind) in shapes.items()
    }
    for row, (group, size) in enumerate(zip(proposed, sizes, strict=True)):
        count = len(group.boxes)
        arrays["counts"][row] = count
        arrays["sizes"][row] = size
        for name, values in group._asdict().items():
            arrays[name][row, :count] = values.float().cpu().numpy()
    return arrays
