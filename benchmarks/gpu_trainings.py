"""Small trainings of random data, whose checkpoints must have the same bytes in every process.

`train_all` trains one model after the other; benchmarks/bench_gpu.py calls it in processes that are
alone on a GPU, and in several at once. `train_short_of_memory` lets a training run out of memory.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.common import new_folder, size, split_of
from models.base import Model, Run, train_model
from models.dp_rnn.model import DPRNN, DPRNNConfig, DPRNNEpochsConfig
from models.dual_path.instance import InstanceLoss
from models.dual_path.model import PHASES, DualPath, DualPathConfig, ImageBatches
from models.ranking import RankingConfig
from models.scan import SCAN, SCANConfig
from models.vse import VSE, VSEConfig
from models.vse_infinity import VSEInfinity, VSEInfinityConfig
from pipeline.features.checkpoint import Description, write_checkpoint
from pipeline.features.split import Regions, Split, Words
from pipeline.runtime.repeatable import seed_everything
from pipeline.training.process_group import ProcessGroup
from pipeline.training.resume import ResumeFile
from pipeline.training.trainer import Phase

TRAIN, VAL, EACH = size((1_280, 256, 2), (24, 8, 2))  # images, and captions of an image
CLASSES, WORDS, LENGTH = size((50, 20, 12), (4, 3, 4))  # kinds of images, words of each, of a text
SLOTS = size(32, 6)  # that the dual path puts a text into
FEATURES, REGIONS = size((2_048, 36), (6, 3))
DIM, WORD_DIM, BATCH = size((512, 300, 128), (6, 4, 8))
EPOCHS, STAGE_I = size((2, 20), (1, 1))
TEXT_CNN, TEXT_WIDTH, SIDE = size(("resnet50", 64, 224), ("resnet18", 2, 32))
SEED = 1


class Trained(NamedTuple):
    """What a training has left behind."""

    digest: str  # sha256 of the checkpoint
    losses: list[float]  # mean of every epoch
    seconds: float
    reserved: int  # bytes of the GPU at most
    refused: int  # how often the allocator had no memory to give


class Data:
    """What stands for a model's data: splits that are in memory."""

    identity: dict[str, str] = {}  # noqa: RUF012 - never changed

    def __init__(self, splits: dict[str, Split], sizes: dict[str, Any]) -> None:
        self.splits = splits
        self.sizes = sizes

    def split(self, name: str) -> Split:
        return self.splits[name]


class StageI(DualPath):
    """The dual path in its stage I, the training that has parted from its twins on a GPU, on the
    features that the data hold and with a class for each image."""

    def start(self, data: Any, run: Run) -> None:
        """Make the losses.

        Args:
            data: Not read.
            run: Names the ranking loss.
        """
        instance = InstanceLoss(TRAIN, self.config.dim)
        self.criterion = nn.ModuleDict(
            {"ranking": self.ranking_loss(run, run.loss), "instance": instance}
        )

    def phases(self, data: Any, run: Run) -> list[Phase]:
        """Stage I alone.

        Args:
            data: What it is trained and validated on.
            run: Has the seed.

        Returns:
            One phase.
        """
        batches = ImageBatches(data.split("train"), BATCH, run.seed, np.arange(TRAIN))
        phase = Phase(
            name="stage_1",
            epochs=STAGE_I,
            batches=batches,
            val=data.split("val"),
            ranking=self.criterion["ranking"],
            section=PHASES[0],
            lr=PHASES[0].lr,
            ranks=False,
        )
        return [phase]


def train_all(device: str) -> dict[str, Trained]:
    """Train every model of MAKERS, one after the other.

    Args:
        device: cpu or cuda.

    Returns:
        What each has left behind, by its name.
    """
    return {name: train(name, device) for name in MAKERS}


def train(name: str, device: str) -> Trained:
    """Train a model as `stages/train.py` does, on data that hold something to learn.

    Args:
        name: Of MAKERS.
        device: cpu or cuda.

    Returns:
        What it has left behind.
    """
    on_gpu = device == "cuda"
    seed_everything(SEED)
    model, data = MAKERS[name]()
    run = Run("sum_margin", RankingConfig().model_dump(), SEED)
    model.start(data, run)
    model.to(device)
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    with new_folder() as folder:

        def open_resume(part: str) -> ResumeFile:
            return ResumeFile(folder / f"work-{part}", "benchmark")

        result = train_model(model, data, run, open_resume, ProcessGroup(), name)
        took = time.perf_counter() - began
        digest = checkpoint_digest(folder / "weights.safetensors", name, model, data, result.epoch)
    return Trained(
        digest=digest,
        losses=[row["loss"] for row in result.history],
        seconds=took,
        reserved=torch.cuda.max_memory_reserved() if on_gpu else 0,
        refused=torch.cuda.memory_stats()["num_ooms"] if on_gpu else 0,
    )


def checkpoint_digest(path: Path, name: str, model: Model, data: Any, epoch: int) -> str:
    """SHA-256 of the checkpoint that a training writes.

    Args:
        path: Where to.
        name: Of the model.
        model: Trained.
        data: That it was trained on.
        epoch: The kept one.

    Returns:
        64 digits.
    """
    description = Description(
        model=name,
        architecture=model.architecture(data.sizes),
        params={},
        inputs={},
        epoch=epoch,
        val_rsum=0.0,
    )
    write_checkpoint(path, model.weights(), description)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def train_short_of_memory(name: str, reserved: int, shares: list[float]) -> list[Trained | str]:
    """Train with less and less memory of the GPU, without the check that ends such a training.

    Args:
        name: Of MAKERS.
        reserved: Bytes that it takes where it gets all it asks for.
        shares: Of these bytes that it may have.

    Returns:
        What each has left behind; the error of one that could not go on.
    """
    whole = torch.cuda.get_device_properties("cuda").total_memory
    found: list[Trained | str] = []
    for share in shares:
        torch.cuda.empty_cache()
        torch.cuda.reset_accumulated_memory_stats()
        torch.cuda.set_per_process_memory_fraction(share * reserved / whole)
        try:
            found.append(train(name, "cuda"))
        except torch.OutOfMemoryError:
            found.append("out of memory")
    torch.cuda.set_per_process_memory_fraction(1.0)
    return found


# ---- the models and their data


def texts(images: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Kinds of images, and what captions say of them.

    Args:
        images: N.
        generator: Draws.

    Returns:
        The kind of each image (N,), and word ids (EACH N, LENGTH), all of the image's kind; the
        m-th caption describes image m modulo N.
    """
    kinds = torch.randint(CLASSES, (images,), generator=generator)
    drawn = torch.randint(WORDS, (EACH * images, LENGTH), generator=generator)
    return kinds, 2 + kinds.repeat(EACH)[:, None] * WORDS + drawn


def data_of(regions: bool, slots: bool = False, **sizes: Any) -> Any:
    """Splits of images that are a prototype of their kind and noise.

    Args:
        regions: Whether an image has regions, else one vector.
        slots: Whether captions are word ids in slots alone.
        sizes: Of the data, more than those of all models.

    Returns:
        The data.
    """
    generator = torch.Generator().manual_seed(SEED)
    prototypes = torch.randn(CLASSES, FEATURES, generator=generator)
    splits = {}
    for name, images in (("train", TRAIN), ("val", VAL)):
        kinds, ids = texts(images, generator)
        shape = (images, REGIONS, FEATURES) if regions else (images, FEATURES)
        near = prototypes[kinds][:, None] if regions else prototypes[kinds]
        features = near + torch.randn(shape, generator=generator)
        side: Any = features
        if regions:
            boxes = torch.rand(images, REGIONS, 4, generator=generator)
            side = Regions(features, boxes, torch.full((images,), REGIONS))
        words: Any = Words(ids, torch.full((len(ids),), LENGTH))
        if slots:
            words = functional.pad(ids, (0, SLOTS - LENGTH))
        splits[name] = split_of(side, words)
    return Data(splits, {"vocabulary_size": 2 + CLASSES * WORDS, "image_dim": FEATURES} | sizes)


def trained_for(kind: Any, **changes: Any) -> Any:
    """The default section of a model with EPOCHS and BATCH, and other values.

    Args:
        kind: The class of its section.
        changes: By key.

    Returns:
        The section.
    """
    training = kind().training.model_copy(update={"epochs": EPOCHS, "batch_size": BATCH})
    values = {"word_dim": WORD_DIM, "dim": DIM, "standardise_images": False, "training": training}
    return kind(**(values | changes))


def make_dual_path() -> tuple[Model, Any]:
    image = {
        "image_model": "resnet18",
        "image_layers": "pool5",
        "image_pool": "mean",
        "image_resize": SIDE,
        "image_crop": SIDE,
    }
    config = DualPathConfig(
        dim=DIM,
        hidden=DIM,
        word_dim=WORD_DIM,
        slots=SLOTS,
        text_cnn=TEXT_CNN,
        text_width=TEXT_WIDTH,
        crop=SIDE,
        resize=SIDE,
    )
    data = data_of(regions=False, slots=True, **image)
    return StageI(config, **data.sizes), data


def make_vse() -> tuple[Model, Any]:
    data = data_of(regions=False)
    return VSE(trained_for(VSEConfig, hidden=DIM), **data.sizes), data


def make_vse_infinity() -> tuple[Model, Any]:
    data = data_of(regions=True)
    return VSEInfinity(trained_for(VSEInfinityConfig), **data.sizes), data


def make_scan() -> tuple[Model, Any]:
    data = data_of(regions=True)
    return SCAN(trained_for(SCANConfig), **data.sizes), data


def make_dp_rnn() -> tuple[Model, Any]:
    epochs = DPRNNEpochsConfig(matching=1, recurrent=0, all=1)
    training = DPRNNConfig().training.model_copy(update={"epochs": epochs, "batch_size": BATCH})
    data = data_of(regions=True)
    return DPRNN(trained_for(DPRNNConfig, training=training, dim=DIM // 4 + 2), **data.sizes), data


MAKERS: dict[str, Callable[[], tuple[Model, Any]]] = {
    "dual_path": make_dual_path,
    "vse": make_vse,
    "vse_infinity": make_vse_infinity,
    "scan": make_scan,
    "dp_rnn": make_dp_rnn,
}
