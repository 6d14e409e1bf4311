"""Features of a cut network: of a corpus's images, in a feature file, and of one image of a query.

The way of an image: `network_job` builds the network, `accelerate` makes it fast without changing
what it computes, and `extract` fills the file. `fill` decodes batches of images ahead in worker
processes; each goes through the network, view by view, and the mean over the views is its row.

Batches have fixed boundaries in the order of the corpus, so that a resumed run computes each batch
in the same company as an undisturbed one: float sums may differ in the last bits between batch
sizes.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from models.backbone.network import (
    Backbone,
    BackboneError,
    ImageNetwork,
    cut_network,
    read_network,
    weights_digest,
    write_network,
)
from models.backbone.params import ImageFeaturesConfig, provenance
from models.backbone.preprocessing import (
    PictureBatch,
    Pictures,
    Preprocessing,
    ReadPicture,
    check_aspects,
)
from models.backbone.weights import classifier_with_weights, load_detector_body
from pipeline.corpus.images import check_aspect
from pipeline.corpus.loading import ImageFiles, Rows, decode_ahead
from pipeline.corpus.tables import images_digest, require_files
from pipeline.features.batches import alone
from pipeline.features.feature_file import FeatureFile, FeatureWriter
from pipeline.features.layout import Array, Attributes, Datasets, cast_finite
from pipeline.features.shards import FeatureJob
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, first_line, ran_out_of_memory
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.process import Progress
from pipeline.runtime.repeatable import name_of, pick_device, warn_of_gpu_memory
from pipeline.runtime.section import RuntimeConfig

Forward = Callable[[Tensor], Tensor]  # images (B, 3, S, S) float32 to (B, ...) float32
MakeArrays = Callable[[Rows, npt.NDArray[np.float32]], dict[str, Array]]


def network_job(
    settings: ImageFeaturesConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    detector: Path,
    max_pixels: int,
    network: Path | None,
) -> FeatureJob:
    """The feature file that a cut network makes of the images.

    Args:
        settings: the section `image_features`.
        runtime: its device is where the network runs.
        images: N rows of the corpus's table.
        detector: the file that weights `detector` are taken from.
        max_pixels: larger images are refused before they are decoded.
        network: the file to keep the network in, None for nowhere.

    Returns:
        A file with a row of D float16 numbers per image, which is not written yet.

    Raises:
        WorkbenchError: images without files; a network, layers or weights that cannot be used.
    """
    require_files(
        images,
        "image_features.source: network",
        "set image_features.source: file, and image_features.file.path to the vectors; models of "
        "regions do without them: dvc repro evaluate@scan",
    )
    image_network = build_network(settings, detector)
    attributes: dict[str, str | int | float] = {
        "model": settings.model,
        "layer": ",".join(settings.layers),
        "weights_sha256": weights_digest(image_network.backbone),
        "params": json.dumps(image_network.settings),
        "corpus_sha256": images_digest(images),
    }
    if network is not None:
        write_network(network, image_network)  # before it is accelerated in place
    return extraction_job(
        image_network,
        images,
        runtime=runtime,
        attributes=attributes,
        datasets={"features": ((image_network.width,), "float16")},
        precision=settings.precision,
        compiled=settings.compile,
        batch_size=settings.batch_size,
        workers=settings.workers,
        max_pixels=max_pixels,
        section="image_features",
    )


def build_network(settings: ImageFeaturesConfig, detector: Path) -> ImageNetwork:
    """The network of params.yaml with its first weights.

    Args:
        settings: the section `image_features`.
        detector: the file that weights `detector` are taken from.

    Returns:
        The cut network in evaluation mode, with its width D and its preprocessing.

    Raises:
        WorkbenchError: a network, layers or weights that cannot be used.
    """
    try:
        network = classifier_with_weights(settings.model, settings.weights)
        kept = provenance(settings.model_dump(mode="json"))
        image_network = cut_network(network, settings, kept)
        if settings.weights == "detector":
            backbone = image_network.backbone
            load_detector_body(backbone, settings.model, detector, section="image_features")
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    return image_network


def extraction_job(
    network: ImageNetwork,
    images: pd.DataFrame,
    runtime: RuntimeConfig,
    attributes: Attributes,
    datasets: Datasets,
    *,
    precision: str,
    compiled: bool,
    batch_size: int,
    workers: int,
    max_pixels: int,
    section: str,
    arrays: MakeArrays | None = None,
) -> FeatureJob:
    """The feature file that a network makes of the images, whichever section of params.yaml asks.

    Args:
        network: accelerated in place.
        images: N rows of the corpus's table.
        runtime: its device is where the network runs.
        attributes: what the file says of itself.
        datasets: shape of a row and type of each dataset.
        precision: fp32 or bf16, as for `accelerate`.
        compiled: whether torch.compile makes code for this machine.
        batch_size: images at a time.
        workers: decoding processes, 0 for none.
        max_pixels: larger images are refused before they are decoded.
        section: of params.yaml, for messages.
        arrays: as for `extract`.

    Returns:
        The file's ids, datasets and attributes, and the function that computes its missing rows.

    Raises:
        WorkbenchError: torch.compile does not work on this machine.
    """
    device = pick_device(runtime.device)
    crop = network.preprocessing.crop
    try:
        forward = accelerate(
            network.backbone,
            device,
            precision=precision,
            compiled=compiled,
            batch=batch_size,
            size=crop,
        )
    except BackboneError as error:
        raise WorkbenchError(f"{section}: {error}", "change it in params.yaml") from error
    fill_file = partial(
        extract,
        images,
        forward,
        network.preprocessing,
        batch_size=batch_size,
        workers=workers,
        device=device,
        max_pixels=max_pixels,
        arrays=arrays,
        section=section,
    )
    machine = describe_machine(device, runtime)
    return FeatureJob(
        ids=images["image_id"].tolist(),
        datasets=datasets,
        attributes=attributes,
        machine=machine,
        fill=fill_file,
        inputs=alone(images["sha256"].tolist(), batch_size),
    )


def describe_machine(device: torch.device, runtime: RuntimeConfig) -> list[Any]:
    """What else the values of features may depend on: a half-made file is continued only where all
    of it is the same.

    Args:
        device: where the network runs.
        runtime: its threads divide sums on a CPU.

    Returns:
        Values that JSON can hold: device, threads, version of torch, and the kernels that are
        loaded.
    """
    return [name_of(device), runtime.threads, torch.__version__, *loaded_kernels()]


def fill(
    images: pd.DataFrame,
    writer: FeatureWriter,
    compute: Callable[[PictureBatch], dict[str, Array]],
    *,
    batch_size: int,
    workers: int,
    max_pixels: int | None = None,
    section: str,
    read: ReadPicture = np.array,
    join: Callable[[list[npt.NDArray[np.uint8]]], Any] = tuple,
) -> None:
    """Compute the missing rows of a feature file; neither workers nor interruptions change them.

    Args:
        images: N rows with path, width, height and sha256, in the order of the writer's ids.
        writer: of the file.
        compute: from a batch of B images to the rows (B, ...) of every dataset.
        batch_size: images at a time.
        workers: decoding processes, 0 for none.
        max_pixels: larger images are refused before they are decoded, None for no limit.
        section: of params.yaml, for messages and progress.
        read: as for Pictures.
        join: as for Pictures.

    Raises:
        WorkbenchError: images that cannot be read, have changed or are extremely long.
    """
    check_aspects(images)
    todo = writer.batches(batch_size)
    source = Pictures(ImageFiles(images, max_pixels), todo, read=read, join=join)
    done = len(images) - sum(len(rows) for rows in todo)

    refused = 0
    with Progress(section.replace("_", " "), len(images), "images", done=done) as progress:
        for batch in decode_ahead(source, workers, section):
            writer.write(batch.rows, **compute(batch))
            refused = warn_of_gpu_memory(refused)
            progress.update(len(batch.rows))


def extract(
    images: pd.DataFrame,
    forward: Forward,
    preprocessing: Preprocessing,
    writer: FeatureWriter,
    *,
    batch_size: int,
    workers: int,
    device: torch.device,
    max_pixels: int | None = None,
    arrays: MakeArrays | None = None,
    section: str = "image_features",
) -> None:
    """Compute the missing rows of a feature file by a network: of each image the mean over its
    views. Neither workers nor interruptions change the result.

    Args:
        images: N rows with path, width, height and sha256, in the order of the writer's ids.
        forward: from (batch_size, 3, S, S) float32 to (batch_size, ...), a row per image.
        preprocessing: from a picture to its views.
        writer: of the file.
        batch_size: images at a time.
        workers: decoding processes, 0 for none.
        device: where `forward` runs.
        max_pixels: larger images are refused before they are decoded, None for no limit.
        arrays: from the rows (B,) of a batch and its features (B, ...) to the rows of the
            datasets; None where the features are the one dataset.
        section: of params.yaml, for messages and progress.

    Raises:
        WorkbenchError: images that cannot be read, have changed or are extremely long.
    """

    def compute(batch: PictureBatch) -> dict[str, Array]:
        crops = torch.from_numpy(batch.pictures).to(device)  # (B, C, 3, S, S)
        if len(crops) < batch_size:  # compiled code takes whole batches only
            crops = torch.cat([crops, crops[:1].expand(batch_size - len(crops), -1, -1, -1, -1)])
        with torch.inference_mode():
            views = (forward(view) for view in preprocessing.inputs(crops))
            total = next(views)
            for features in views:
                total = total + features
            mean = total[: len(batch.rows)] / preprocessing.views_per_image
        rows = mean.cpu().numpy()
        return {"features": rows} if arrays is None else arrays(batch.rows, rows)

    fill(
        images,
        writer,
        compute,
        batch_size=batch_size,
        workers=workers,
        max_pixels=max_pixels,
        section=section,
        read=preprocessing.crops,
        join=np.stack,
    )


def accelerate(
    backbone: Backbone, device: torch.device, precision: str, compiled: bool, batch: int, size: int
) -> Forward:
    """Make a finished network fast: batch norms are folded into the convolutions before them,
    images travel channels-last, and by choice the arithmetic is bfloat16 and the graph compiled.
    Folding is exact up to rounding, bfloat16 is not.

    Args:
        backbone: changed in place.
        device: where the images will be.
        precision: fp32 or bf16 (autocast on CUDA, bfloat16 weights on the CPU).
        compiled: with torch.compile, for exactly `batch` images of size x size.
        batch: B, read only when compiled.
        size: side of the images, pixels, read only when compiled.

    Returns:
        A function from float32 images (B, 3, H, W) on the device to float32 features (B, D).

    Raises:
        BackboneError: the network cannot be compiled on this machine.
    """
    fold_batch_norm(backbone.graph)
    backbone.to(device).to(memory_format=torch.channels_last)
    has_bf16_weights = precision == "bf16" and device.type == "cpu"
    if has_bf16_weights:
        backbone.to(torch.bfloat16)
    run: Forward = backbone
    if compiled:  # freezing lays the weights out for the machine once instead of on every call
        run = torch.compile(backbone, dynamic=False, options={"freezing": True})
    kind = torch.bfloat16 if has_bf16_weights else torch.float32
    is_mixed = precision == "bf16" and device.type != "cpu"

    @torch.inference_mode()
    def forward(images: Tensor) -> Tensor:
        images = images.to(dtype=kind, memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=is_mixed):
            return run(images)

    if compiled:
        try:
            forward(torch.zeros(batch, 3, size, size, device=device))
        except (RuntimeError, OSError) as error:
            if ran_out_of_memory(error):
                raise
            raise BackboneError(f"torch.compile failed: {first_line(error)}") from error
    return forward


def fold_batch_norm(graph: fx.GraphModule) -> int:
    """Fold each batch norm that alone follows a convolution into it: y = (Wx + b - mean) / sqrt(var
    + eps) * gamma + beta is again a convolution. Returns how many."""
    modules = dict(graph.named_modules())
    calls = Counter(node.target for node in graph.graph.nodes if node.op == "call_module")
    folded = sum(_fold_sequence(m) for m in modules.values() if isinstance(m, nn.Sequential))
    for node in list(graph.graph.nodes):
        source = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(source, fx.Node) or source.op != "call_module" or len(source.users) > 1:
            continue
        norm = modules[str(node.target)]
        convolution = modules[str(source.target)]
        if not (isinstance(norm, nn.BatchNorm2d) and isinstance(convolution, nn.Conv2d)):
            continue
        if calls[source.target] > 1 or calls[node.target] > 1:
            continue
        graph.set_submodule(str(source.target), fuse_conv_bn_eval(convolution, norm))
        node.replace_all_uses_with(source)
        graph.graph.erase_node(node)
        folded += 1
    graph.delete_all_unused_submodules()
    graph.recompile()
    return folded


def _fold_sequence(modules: nn.Sequential) -> int:
    """Fold within a block that torchvision keeps whole, such as Conv2dNormActivation."""
    folded = 0
    for index in range(len(modules) - 1):
        convolution = modules[index]
        norm = modules[index + 1]
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            modules[index] = fuse_conv_bn_eval(convolution, norm)
            modules[index + 1] = nn.Identity()
            folded += 1
    return folded


def feature_extractor(
    network: Path, stored: FeatureFile, device: torch.device
) -> Callable[[Image.Image], Tensor]:
    """A function that extracts the features of one image as those of the corpus were.

    Args:
        network: the file of the network behind the corpus's features.
        stored: those features.
        device: where the network runs.

    Returns:
        From an RGB image to its features (1, D), float32 on the CPU, rounded as the stored ones;
        WorkbenchError for an image much longer than wide.

    Raises:
        WorkbenchError: another network made the stored features.
    """
    image_network = read_network(network)
    if weights_digest(image_network.backbone) != stored.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{stored.path}: not made by the network of {network}", OUT_OF_STEP)
    preprocessing = image_network.preprocessing
    forward = accelerate(
        image_network.backbone,
        device,
        image_network.settings["precision"],
        compiled=False,  # compiling would take longer than a single image ever gives back
        batch=1,
        size=preprocessing.crop,
    )

    def features(image: Image.Image) -> Tensor:
        check_aspect(image)
        crops = torch.from_numpy(preprocessing.crops(image))[None].to(device)
        views = torch.cat([forward(view) for view in preprocessing.inputs(crops)])
        mean = views.mean(0, keepdim=True).cpu().numpy()
        # rounded as the corpus's were
        return torch.from_numpy(
            cast_finite("query", mean, dtype=stored.dtype(), ids=["the image"])
        ).float()

    return features
