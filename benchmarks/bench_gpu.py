r"""What an NVIDIA GPU does with this: one program of at most 8 minutes on one H100.

    python -m benchmarks gpu

It needs this repository, Python from 3.11, torch, torchvision, h5py, numpy, pandas, pyarrow and
Pillow, and the small packages of CARRIED. It does not need DVC. Data are generated, weights are
random. What a machine without a network lacks is brought along as wheels, made for its Python on
another, here what pydantic is made of:

    pip download --dest wheels --no-deps --constraint constraints.txt --only-binary=:all: \
        --python-version 3.12 --platform manylinux_2_17_x86_64 \
        pydantic pydantic-core annotated-types typing-inspection
    pip install --no-index --find-links wheels --no-deps \
        pydantic pydantic-core annotated-types typing-inspection

A row compares with flash-kmeans where that is installed. Every row is printed when it is there;
`--page FILE` also keeps FILE up to date, a copy of docs/benchmarks.md. So the program can be cut
anywhere. A part that would take longer than what is left of the time is left out, and says so.

With BENCHMARKS_SMALL=1 all rows run on the CPU with tiny data.
"""

import copy
import gc
import importlib.util
import inspect
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks import bench_cross_attention, bench_dp_rnn, bench_vse
from benchmarks.common import (
    SMALL,
    Cost,
    Paired,
    Row,
    apart,
    captions_of,
    clustered,
    cost,
    new_folder,
    paired,
    photographs,
    regions_of,
    seconds,
    side_by_side,
    size,
    split_of,
)
from benchmarks.gpu_trainings import MAKERS, Trained, train_all, train_short_of_memory
from models.backbone.extraction import accelerate, extract
from models.backbone.image_cnn import PixelRows
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import Pictures, preprocessing_of
from models.base import Model
from models.dual_path.instance import InstanceLoss
from models.dual_path.model import DualPath, DualPathConfig, ImageBatches
from models.dual_path.text import SlotRows
from models.layers.linear import length_mask
from models.layers.sets import GPO, TEMPERATURE, positions
from models.losses import PairLoss
from models.losses.max_margin import MaxMargin
from models.losses.sum_margin import SumMargin
from models.registry import load_model, model_names
from models.scan import Side
from models.vse import VSE, VSEConfig
from models.vse_infinity import VSEInfinity, VSEInfinityConfig
from pipeline.corpus.loading import ImageFiles, decode_ahead
from pipeline.evaluation.ranks import retrieval_ranks
from pipeline.evaluation.scores import Products
from pipeline.features.feature_file import FeatureWriter
from pipeline.features.split import Batch, PairBatches, Regions, Split, Words
from pipeline.features.statistics.kmeans import kmeans, squared_norms
from pipeline.runtime.repeatable import seed_everything
from pipeline.training.schedule import build_optimiser

# what it needs beside the packages of the first lines; a test runs it with nothing else
CARRIED = (
    "annotated-types",
    "pydantic",
    "pydantic-core",
    "safetensors",
    "scipy",
    "threadpoolctl",
    "typing-inspection",
)
DEVICE = torch.device("cpu" if SMALL or not torch.cuda.is_available() else "cuda")
ON_GPU = DEVICE.type == "cuda"
THREADS = os.cpu_count() or 1
LIMIT = 450.0  # seconds; the machine is looked at before, and Python is started
RUNS = size(3, 1)
WORKERS = size(max(THREADS - 2, 1), 0)

FILES, TIMES, PICTURE, CROP, LOT = size((512, 12, (500, 375), 224, 256), (3, 2, (48, 40), 32, 2))
POINTS, WIDTH, K, UPDATES = size((113_287, 2_048, 10_000, 5), (60, 4, 5, 2))
IMAGES, CAPTIONS = size((1_000, 5_000), (4, 6))
MANY = size(5_000, 6)  # images, with EACH captions
EACH, DIM = 5, size(1_024, 8)
BATCH, FEATURES, REGIONS = size((128, 2_048, 36), (4, 8, 3))
WORD_DIM, VOCABULARY, STEPS = size((300, 8_000, 20), (6, 20, 1))
PIXELS, CLASSES, TEXT_CNN = size((32, 29_783, "resnet50"), (2, 6, "resnet18"))
TEXT_WIDTH, SLOTS = size((64, 32), (2, 8))
COMPARED = size((64, 128), (4, 6))  # images and captions whose scores both devices compute
CLIP, RATE = 2.0, 2e-4
SHARES = [0.97, 0.9, 0.8]  # of the memory that a training would take

NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)

Work = Callable[[], Any]


def rows() -> Iterator[Row]:
    """All rows, the most important ones first, as long as there is time for them."""
    seed_everything(0)
    end = time.monotonic() + LIMIT
    for part, needed in PARTS.items():
        name = part.__name__.replace("_", " ")
        left = end - time.monotonic()
        if left < needed and not SMALL:
            yield Row(name, f"left out: it needs about {needed} s, and {left:.0f} s are left")
            continue
        try:
            yield from part()
        except Exception as error:  # the others are not lost for one
            if SMALL:
                raise
            yield Row(name, f"failed: {type(error).__name__}: {error}", "<= 0 failures", 1)
        gc.collect()
        if ON_GPU:
            torch.cuda.empty_cache()
            torch.cuda.reset_accumulated_memory_stats()  # of a part that ran out of memory


# ---- the same training, again and beside others


def repeated_trainings() -> Iterator[Row]:
    """Twice alone and three times side by side, each in a process of its own."""
    alone = [apart(train_all, DEVICE.type) for _ in range(size(2, 1))]
    beside = side_by_side(size(3, 2), train_all, DEVICE.type)
    for name in MAKERS:
        runs = [run[name] for run in alone + beside]
        others = len({run.digest for run in runs}) - 1
        took = max(run[name].seconds for run in beside)
        figure = (
            f"{len(runs)} checkpoints, {others} with other bytes; {alone[0][name].seconds:.1f} s "
            f"alone, {took:.1f} s side by side, {gigabytes(runs[0].reserved)} reserved each"
        )
        if others:
            figure += f"; {cause(runs)}"
        yield Row(
            f"training of {name} twice alone, and three times side by side",
            figure,
            "<= 0 with other bytes",
            others,
        )
    yield short_of_memory(alone[0]["dual_path"])


def cause(runs: list[Trained]) -> str:
    """Where trainings have parted, and what is known of why."""
    first = runs[0]
    notes = []
    for number, run in enumerate(runs[1:], 2):
        if run.digest == first.digest:
            continue
        pairs = zip(first.losses, run.losses, strict=False)
        epochs = [epoch for epoch, (one, two) in enumerate(pairs, 1) if one != two]
        where = f"from epoch {epochs[0]} on" if epochs else "in no mean loss"
        notes.append(f"training {number} parts {where}, memory refused {run.refused} times")
    settings = f"cuDNN's benchmark {torch.backends.cudnn.benchmark}, workspaces of cuBLAS "
    settings += os.environ.get("CUBLAS_WORKSPACE_CONFIG", "not set")
    return ", ".join([*notes, settings])


def short_of_memory(whole: Trained) -> Row:
    """The dual path trained with too little memory, in which other algorithms may be taken."""
    work = "training of dual_path with too little memory"
    if not ON_GPU:
        return Row(work, "no GPU")
    notes = []
    for share, run in zip(
        SHARES,
        apart(train_short_of_memory, "dual_path", whole.reserved, SHARES),
        strict=True,
    ):
        found = run
        if isinstance(run, Trained):
            found = f"{'equal' if run.digest == whole.digest else 'other'} bytes, memory refused "
            found += f"{run.refused} times"
        notes.append(f"{share:.0%} of {gigabytes(whole.reserved)}: {found}")
    return Row(work, "; ".join(notes))


# ---- images


def extraction() -> Iterator[Row]:
    """Features of JPEG files against what bounds them: the bare network, and decoding alone."""
    preprocessing = preprocessing_of("resnet50", size(None, CROP), "center")
    crop = preprocessing.crop
    network = classifier("resnet50", 0)
    backbone, width = cut(copy.deepcopy(network), ["pool5"], "mean", crop)
    forward = accelerate(backbone, DEVICE, "bf16", False, LOT, crop)
    bare = network.eval().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)
    batch = torch.randn(LOT, 3, crop, crop).to(DEVICE, torch.bfloat16)
    batch = batch.to(memory_format=torch.channels_last)
    count = FILES * TIMES
    with new_folder() as folder:
        some = photographs(folder, PICTURE, FILES)
        table = pd.concat([some] * TIMES, ignore_index=True)
        table["image_id"] = [f"{number:06}" for number in range(count)]
        batches = [np.arange(at, min(at + LOT, count)) for at in range(0, count, LOT)]

        def ours() -> None:
            shapes = {"features": ((width,), np.float16)}
            with FeatureWriter(folder, "work", table["image_id"].tolist(), shapes, {}) as writer:
                of = table, forward, preprocessing, writer
                extract(*of, batch_size=LOT, workers=WORKERS, device=DEVICE)
                writer.finish(folder / "image.h5")

        def decoding() -> None:
            files = ImageFiles(table, None)
            pictures = Pictures(files, batches, read=preprocessing.crops, join=np.stack)
            for _ in decode_ahead(pictures, WORKERS, "image_features"):
                pass

        @torch.inference_mode()
        def passes() -> None:
            for _ in batches:
                bare(batch)

        costs, peak = in_turn(ours, passes, decoding)
    rates = [count / np.median([each.wall for each in form]) for form in costs]
    share = 100 * rates[0] / min(rates[1:])
    for form in costs[1:]:
        paired(list(zip(costs[0], form, strict=True)))
    yield Row(
        f"ResNet-50 at {crop}, bf16, batch {LOT}, from {PICTURE[0]} x {PICTURE[1]} JPEG files, "
        f"{WORKERS} decoding processes",
        f"{rates[0]:,.0f} images/s; the bare forward pass {rates[1]:,.0f}, decoding alone "
        f"{rates[2]:,.0f}: {share:.0f} % of the smaller; {gigabytes(peak)}",
        ">= 90 % of the smaller",
        share,
    )


# ---- scores


def scores_of_scan() -> Iterator[Row]:
    """SCAN's scores of embedded regions and words, and with the encoders."""
    model = bench_cross_attention.build("gram").to(DEVICE)
    regions = regions_of(IMAGES, bench_cross_attention.REGIONS, bench_cross_attention.FEATURES)
    captions = captions_of(CAPTIONS, bench_cross_attention.VOCABULARY)
    whole = split_of(regions, captions)
    numbered = Words(torch.arange(CAPTIONS), captions.lengths)
    split = split_of(regions._replace(features=torch.arange(IMAGES)), numbered)
    shape = (IMAGES, bench_cross_attention.REGIONS, bench_cross_attention.DIM)
    vectors = bench_cross_attention.unit(torch.randn(shape, device=DEVICE))
    shape = (CAPTIONS, 16, bench_cross_attention.DIM)
    words = bench_cross_attention.unit(torch.randn(shape, device=DEVICE))

    def embed_images(images: Regions) -> Side:
        return Side(vectors[images.features], images.counts.to(DEVICE))

    def embed_captions(texts: Words) -> Side:
        width = int(texts.lengths.max())
        return Side(words[texts.ids, :width], texts.lengths.to(DEVICE))

    embedded = copy.copy(model)
    embedded.embed_images = embed_images  # type: ignore[method-assign,assignment]
    embedded.embed_captions = embed_captions  # type: ignore[method-assign,assignment]
    costs, peak = in_turn(partial(embedded.score_split, split), partial(model.score_split, whole))
    alone, all_of_it = (np.median([each.wall for each in form]) for form in costs)
    paired(list(zip(*costs, strict=True)))
    yield Row(
        f"SCAN's scores of {IMAGES:,} images x {shape_text(vectors)} and {CAPTIONS:,} captions "
        "of about 12 words",
        f"{alone:.2f} s, {all_of_it:.2f} s with the encoders; {gigabytes(peak)}",
        "< 1 s",
        float(alone),
    )


def scores_of_dp_rnn() -> Iterator[Row]:
    """DP-RNN's scores at the published sizes, of which few are with recurrence."""
    sizes = bench_dp_rnn.PUBLISHED
    model = bench_dp_rnn.build(bench_dp_rnn.CANDIDATES, sizes).to(DEVICE)
    model.shortlist = bench_dp_rnn.SHORTLIST
    few = bench_dp_rnn.inputs(sizes.images, min(sizes.captions, 128), sizes)
    split = bench_dp_rnn.inputs(sizes.images, sizes.captions, sizes)
    model.score_split(few)  # a warm-up
    took, peak = with_peak(partial(model.score_split, split))
    yield Row(
        f"DP-RNN's scores of {sizes.images:,} images x {sizes.regions} x {sizes.dim:,} and "
        f"{sizes.captions:,} captions, shortlist {bench_dp_rnn.SHORTLIST}",
        f"{took.wall:.1f} s; {gigabytes(peak)}",
        "< 30 s",
        took.wall,
    )


def shape_text(vectors: Tensor) -> str:
    return " x ".join(f"{length:,}" for length in vectors.shape[1:])


# ---- clusters


def clusters() -> Iterator[Row]:
    """K-means from the same first centres, as many updates each."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(2 * K, WIDTH, generator=generator)
    members = torch.randint(2 * K, (POINTS,), generator=generator)
    points = torch.randn(POINTS, WIDTH, generator=generator)
    points = points.add_(centres[members]).clamp_(min=0).to(DEVICE)
    work = f"K-means of {POINTS:,} x {WIDTH:,}, k = {K:,}, {UPDATES} updates"
    ours = partial(kmeans, points, K, points[:K], UPDATES, 0)
    costs, peak = in_turn(ours, partial(plain_kmeans, points))
    pair = paired(list(zip(*costs, strict=True)))
    figure = f"{compared(pair, 'the same in plain torch')}; {gigabytes(peak)}"
    yield Row(work, figure, "<= 1.5x", pair.ratio)
    if importlib.util.find_spec("flash_kmeans") is None:
        yield Row(f"{work}, against flash-kmeans", "its wheel is not here")
        return
    costs, _ = in_turn(ours, partial(flash_kmeans, points))
    pair = paired(list(zip(*costs, strict=True)))
    figure = compared(pair, "flash-kmeans")
    yield Row(f"{work}, against flash-kmeans", figure, "<= 1.5x", pair.ratio)


def plain_kmeans(points: Tensor) -> Tensor:
    """Lloyd's algorithm as one writes it down: all distances, and sums that do not repeat."""
    centres = points[:K].clone()
    torch.use_deterministic_algorithms(False)
    try:
        for _ in range(UPDATES):
            half = squared_norms(centres) / 2
            labels = torch.cat(
                [torch.addmm(half, part, centres.T, alpha=-1).argmin(1) for part in blocks(points)]
            )
            sums = torch.zeros_like(centres).index_add_(0, labels, points)
            counts = torch.bincount(labels, minlength=K)[:, None]
            centres = torch.where(counts > 0, sums / counts.clamp_min(1), centres)
    finally:
        torch.set_deterministic_debug_mode("warn")
    return centres


def flash_kmeans(points: Tensor) -> object:
    from flash_kmeans import batch_kmeans_Euclid

    first = points[None, :K].clone()
    return batch_kmeans_Euclid(points[None], K, max_iters=UPDATES, tol=0.0, init_centroids=first)


def blocks(points: Tensor) -> tuple[Tensor, ...]:
    return points.split(8_192)


# ---- steps of training


def steps() -> Iterator[Row]:
    """A step of every trained model against the arithmetic of the published loop, from the same
    weights and batch: loss, gradient, its norm cut, Adam."""
    yield step_row("VSE", vse_steps())
    yield step_row("VSE-infinity", vse_infinity_steps())
    yield step_row("SCAN", scan_steps())
    yield step_row("DP-RNN, 10 wrong images per caption", dp_rnn_steps())


def step_row(name: str, forms: tuple[Work, Work]) -> Row:
    """One row.

    Args:
        name: Of the model.
        forms: A step of ours, and of the published loop; each returns the loss.

    Returns:
        Milliseconds of both.
    """
    first = [float(form()) for form in forms]
    costs, peak = in_turn(*(partial(repeat, form) for form in forms))
    pair = paired(list(zip(*costs, strict=True)))
    ours, published = (1e3 * each.wall / STEPS for each in (pair.ours, pair.reference))
    figure = (
        f"{pair.ratio:.2f}x of the published loop ({ours:.1f} ms, {published:.1f} ms); first "
        f"losses differ by {abs(first[0] / first[1] - 1):.1g}; {gigabytes(peak)}"
    )
    return Row(f"training step, {name}, fp32", figure, "<= 1x", pair.ratio)


def repeat(step: Work) -> None:
    for _ in range(STEPS):
        step()


def step_of(model: Model, batch: Batch, loss: nn.Module) -> Work:
    """A step as the Trainer takes it.

    Args:
        model: On its device.
        batch: On the same.
        loss: Of pairs.

    Returns:
        What takes a step and returns its loss.
    """
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = build_optimiser("adam", parameters, lr=RATE)
    rows = torch.arange(len(batch), device=DEVICE)

    def step() -> Tensor:
        optimiser.zero_grad()
        images = model.embed_images(batch.images)
        captions = model.embed_captions(batch.captions)
        pairs = model.pairs(images, captions, batch, rows)
        assert pairs is not None
        value: Tensor = loss(pairs.scores, batch.image_groups, pairs.computed, batch.related)
        value.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        return value.detach()

    return step


def published_step(scores: Work, weights: nn.Module, loss: Callable[[Tensor], Tensor]) -> Work:
    """A step of a loop as it is published.

    Args:
        scores: Makes those of the batch, (B, B).
        weights: What is trained.
        loss: Of the scores.

    Returns:
        What takes a step and returns its loss.
    """
    parameters = list(weights.parameters())
    optimiser = torch.optim.Adam(parameters, RATE)

    def step() -> Tensor:
        optimiser.zero_grad()
        value = loss(scores())
        value.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        return value.detach()

    return step


def batch_of(images: Any, captions: Any) -> Batch:
    """All of some images with a caption each, on the device."""
    count = len(captions.ids)
    made = PairBatches(split_of(images, captions), size=count, seed=0).batch(np.arange(count))
    return made.to(DEVICE)


def sorted_captions() -> Words:
    """As published loops sort a batch: the longest first."""
    captions = captions_of(BATCH, VOCABULARY)
    return captions._replace(lengths=captions.lengths.sort(descending=True).values)


def vse_steps() -> tuple[Work, Work]:
    torch.manual_seed(0)
    config = VSEConfig(word_dim=WORD_DIM, hidden=DIM, dim=DIM)
    model = VSE(config, FEATURES, VOCABULARY).to(DEVICE)
    published = bench_vse.Published(copy.deepcopy(model))
    batch = batch_of(torch.randn(BATCH, FEATURES), sorted_captions())
    scores = partial(published, batch.images, batch.captions)
    loss = PairLoss(SumMargin(bench_vse.MARGIN))
    ours = step_of(model, batch, loss)
    return ours, published_step(scores, published, bench_vse.published_loss)


class PublishedPool(nn.Module):
    """The generalised pooling operator as it is published: weights are made for every set anew.

    Args:
        pool: Ours, whose weights it takes.
    """

    def __init__(self, pool: GPO) -> None:
        super().__init__()
        self.gru, self.score = pool.gru, pool.score

    def forward(self, items: Tensor, counts: Tensor) -> Tensor:
        """The weighted sum of each set's sorted values.

        Args:
            items: (B, R, K) sets of vectors, padded at the end.
            counts: (B,) items that exist.

        Returns:
            (B, K).
        """
        width = items.shape[1]
        present = length_mask(counts, width, items.device)
        codes = positions(width, self.gru.input_size).to(items).expand(len(items), -1, -1)
        packed = pack_padded_sequence(codes, counts.cpu(), batch_first=True, enforce_sorted=False)
        states = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=width)[0]
        scores = self.score(sum(states.chunk(2, 2)) / 2)[..., 0] / TEMPERATURE
        weights = scores.masked_fill(~present, -10_000).softmax(1)
        ordered = items.masked_fill(~present[..., None], -10_000).sort(1, descending=True).values
        return (ordered.masked_fill(~present[..., None], 0) * weights[..., None]).sum(1)


def vse_infinity_steps() -> tuple[Work, Work]:
    torch.manual_seed(0)
    config = VSEInfinityConfig(word_dim=WORD_DIM, dim=DIM)
    model = VSEInfinity(config, FEATURES, VOCABULARY).to(DEVICE)
    published = copy.deepcopy(model)
    published.image_pool = PublishedPool(model.image_pool)
    published.text_pool = PublishedPool(model.text_pool)
    published = copy.deepcopy(published)
    regions = regions_of(BATCH, REGIONS, FEATURES)
    batch = batch_of(regions, sorted_captions())
    loss = PairLoss(MaxMargin(0.2))

    def scores() -> Tensor:
        images = published.embed_images(batch.images)  # type: ignore[arg-type]
        captions = published.embed_captions(batch.captions)  # type: ignore[arg-type]
        return functional.normalize(images, dim=1) @ functional.normalize(captions, dim=1).T

    def of_all(values: Tensor) -> Tensor:
        return loss(values, batch.image_groups)

    return step_of(model, batch, loss), published_step(scores, published, of_all)


def scan_steps() -> tuple[Work, Work]:
    ours, published = (bench_cross_attention.build(form).to(DEVICE) for form in ("gram", "literal"))
    regions = regions_of(BATCH, bench_cross_attention.REGIONS, bench_cross_attention.FEATURES)
    batch = batch_of(regions, captions_of(BATCH, bench_cross_attention.VOCABULARY))
    loss = PairLoss(MaxMargin(0.2))

    def scores() -> Tensor:
        images = published.embed_images(batch.images)  # type: ignore[arg-type]
        captions = published.embed_captions(batch.captions)  # type: ignore[arg-type]
        return published.score(images, captions)

    def of_all(values: Tensor) -> Tensor:
        return loss(values, batch.image_groups)

    return step_of(ours, batch, loss), published_step(scores, published, of_all)


def dp_rnn_steps() -> tuple[Work, Work]:
    """Of one of the two networks; the published loop computes all pairs of the batch in full."""
    sizes, count = bench_dp_rnn.PUBLISHED, bench_dp_rnn.BATCH
    regions = regions_of(count, sizes.regions, sizes.features)
    batch = batch_of(regions, captions_of(count, sizes.vocabulary))
    loss = PairLoss(SumMargin(0.2))
    forms = []
    for candidates in (bench_dp_rnn.CANDIDATES, count - 1):
        model = bench_dp_rnn.build(candidates, sizes).to(DEVICE)
        forms.append(step_of(model.single(next(iter(model.towers))), batch, loss))
    return forms[0], forms[1]


def steps_from_pixels() -> Iterator[Row]:
    """The dual path with both CNNs trained: images from JPEG files against ready batches, a product
    with the classifier for each branch, and plain SGD."""
    with new_folder() as folder:
        side = size(256, 40)
        table = photographs(folder, (side, side), size(8, 2) * PIXELS)
        ours, published, steps_each = pixel_epochs(table, side)
        costs, peak = in_turn(ours, published)
    pair = paired(list(zip(*costs, strict=True)))
    milliseconds = [1e3 * each.wall / steps_each for each in (pair.ours, pair.reference)]
    yield Row(
        f"training step, the dual path from JPEG files, two networks, crops of {CROP}, batch "
        f"{PIXELS}, {CLASSES:,} classes",
        f"{pair.ratio:.2f}x of the published loop on ready batches ({milliseconds[0]:.0f} ms, "
        f"{milliseconds[1]:.0f} ms); {gigabytes(peak)}",
        "<= 1.1x",
        pair.ratio,
    )


def pixel_epochs(table: pd.DataFrame, side: int) -> tuple[Work, Work, int]:
    """An epoch of ours, one of the published loop, and how many steps both have.

    Args:
        table: Of the images.
        side: Of the images, pixels.

    Returns:
        Both forms, from the same weights, and the number of steps.
    """
    torch.manual_seed(0)
    layers = ["pool5"]
    _, width = cut(classifier(TEXT_CNN), layers, "mean", CROP)
    image = {
        "image_model": TEXT_CNN,
        "image_layers": ",".join(layers),
        "image_pool": "mean",
        "image_resize": side,
        "image_crop": CROP,
        "image_dim": width,
    }
    config = DualPathConfig(
        dim=2 * DIM,
        hidden=2 * DIM,
        word_dim=WORD_DIM,
        slots=SLOTS,
        text_cnn=TEXT_CNN,
        text_width=TEXT_WIDTH,
        resize=side,
        crop=CROP,
    )
    model = DualPath(config, VOCABULARY, **image).to(DEVICE).train()
    instance = InstanceLoss(CLASSES, config.dim).to(DEVICE)
    ranking = PairLoss(SumMargin(1.0))
    ids = table["image_id"].tolist()
    rules = preprocessing_of(TEXT_CNN, CROP, "center")
    pixels = PixelRows(table, ids, rules, workers=max(WORKERS, 1), budget=0)
    texts = np.random.default_rng(0).integers(2, VOCABULARY, (len(ids), SLOTS // 2)).tolist()
    split = Split(
        image_ids=ids,
        image_groups=ids,
        caption_ids=ids,
        described=np.arange(len(ids)),
        images=pixels,
        captions=SlotRows(texts, SLOTS),
    )
    batches = ImageBatches(split, PIXELS, 0, split.groups)
    ready = [batch.to(DEVICE) for batch in batches.epoch(0)]

    def ours_of(batch: Batch, network: Any, classes: InstanceLoss) -> Tensor:
        images = network.embed_images(batch.images)
        captions = network.embed_captions(batch.captions)
        total = torch.stack(classes(images, captions, batch.labels)).sum()
        return total + ranking(network.score(images, captions), batch.image_groups)

    def published_of(batch: Batch, network: Any, classes: InstanceLoss) -> Tensor:
        sides = [network.embed_images(batch.images), network.embed_captions(batch.captions)]
        named = [functional.cross_entropy(each @ classes.weight.T, batch.labels) for each in sides]
        left, right = (functional.normalize(each, dim=1) for each in sides)
        return sum(named) + bench_vse.published_loss(left @ right.T)

    other, other_instance = copy.deepcopy((model, instance))
    ours = sgd_epoch(ours_of, model, instance)
    published = sgd_epoch(published_of, other, other_instance)
    from_files = partial(batches.epoch, 0)
    return lambda: ours(from_files()), lambda: published(ready), batches.steps


def sgd_epoch(loss: Callable[..., Tensor], model: nn.Module, instance: InstanceLoss) -> Any:
    """What takes a step on each of some batches."""
    weights = [*model.parameters(), *instance.parameters()]
    optimiser = build_optimiser("sgd", weights, lr=0.001, momentum=0.9)

    def epoch(batches: Any) -> None:
        for batch in batches:
            optimiser.zero_grad()
            loss(batch.to(DEVICE), model, instance).backward()
            optimiser.step()

    return epoch


# ---- the same values


def values() -> Iterator[Row]:
    """Scores and gradients of every model on the CPU and on the GPU, from the same weights."""
    for name in model_names():
        yield values_row(name)


def values_row(name: str) -> Row:
    """Scores of some images and captions, and the gradients of their weighted sum.

    Args:
        name: Of the model.

    Returns:
        By how much both devices differ; TF32 is what torch allows convolutions and recurrent
        networks on a GPU under `precision: fp32`.
    """
    torch.manual_seed(0)
    model, images, captions = random_model(name)
    found = [
        scores_and_gradients(copy.deepcopy(model).to(device), images, captions)
        for device in (torch.device("cpu"), DEVICE)
    ]
    used = torch.backends.cudnn.enabled
    with torch.backends.cudnn.flags(enabled=used, benchmark=False, allow_tf32=False):
        exact = scores_and_gradients(copy.deepcopy(model).to(DEVICE), images, captions)
    scores = difference(found[0][0], found[1][0])
    figure = f"{scores:.1g} of the largest score, {difference(found[0][0], exact[0]):.1g} without "
    figure += "TF32"
    if found[0][1] is not None:
        figure += f"; gradients {difference(found[0][1], found[1][1]):.1g} of their largest, "
        figure += f"{difference(found[0][1], exact[1]):.1g} without TF32"
    return Row(f"{name}: CPU against GPU", figure, "<= 0.001 of the largest score", scores)


def random_model(name: str) -> tuple[Model, Any, Any]:
    """A model of the registry with random weights in evaluation mode, and what it reads.

    Args:
        name: Of the model; what it needs is told by its NEEDS and its constructor.

    Returns:
        The model, images and captions, on the CPU.
    """
    kind = load_model(name)
    needs = set(kind.NEEDS.values())
    asked = inspect.signature(kind).parameters
    of_data = {"image_dim": FEATURES, "sentence_dim": FEATURES, "vocabulary_size": VOCABULARY}
    sizes: dict[str, Any] = {key: value for key, value in of_data.items() if key in asked}
    in_slots = "vocabulary_size" in asked and "image" in asked
    if in_slots:
        _, width = cut(classifier("resnet18"), ["pool5"], "mean", CROP)
        sizes |= {"image_model": "resnet18", "image_layers": "pool5", "image_pool": "mean"}
        sizes |= {"image_resize": CROP, "image_crop": CROP, "image_dim": width}
    model = kind(kind.Config(), **sizes).eval()
    for weight in model.buffers():
        if weight.is_floating_point() and not weight.any():
            weight.normal_()  # what is fitted, not trained
    many_images, many_captions = COMPARED
    images: Any = torch.randn(many_images, FEATURES)
    if "data/features/regions.h5" in needs:
        images = regions_of(many_images, REGIONS, FEATURES)
    elif in_slots:
        images = torch.randint(256, (many_images, 3, CROP, CROP), dtype=torch.uint8)
    captions: Any = captions_of(many_captions, VOCABULARY)
    if "data/features/sentences.h5" in needs:
        captions = torch.randn(many_captions, FEATURES)
    elif in_slots:
        captions = captions.ids
    return model, images, captions


def scores_and_gradients(
    model: Model, images: Any, captions: Any
) -> tuple[Tensor, dict[str, Tensor] | None]:
    """On the model's device, without dropout, and batch norms with their own moments.

    Args:
        model: With its weights.
        images: What it reads.
        captions: Likewise.

    Returns:
        Scores (N, M), and gradients by weight, both on the CPU; None for a model without any.
    """
    model.train()  # cuDNN has no gradient of a recurrent network in evaluation mode
    for module in model.modules():
        if isinstance(module, NORMS):
            module.eval()
    batch = Batch(images, captions, torch.zeros(1), torch.zeros(1)).to(model.device)
    scores = model.score(model.embed_images(batch.images), model.embed_captions(batch.captions))
    towards = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1))
    gradients = None
    if scores.requires_grad:
        scores.backward(towards.to(scores.device))
        weights = {name: weight.grad for name, weight in model.named_parameters()}
        gradients = {name: grad.cpu() for name, grad in weights.items() if grad is not None}
    return scores.detach().float().cpu(), gradients


def difference(one: Any, two: Any) -> float:
    """The largest difference of two tensors, or two sets of them, as a share of the largest
    magnitude."""
    if isinstance(one, Tensor):
        one, two = {"": one}, {"": two}
    largest = max(float(value.abs().max()) for value in one.values())
    apart_by = max(float((value - two[name]).abs().max()) for name, value in one.items())
    return apart_by / max(largest, 1e-30)


# ---- evaluation


def evaluation() -> Iterator[Row]:
    """Ranks of both directions, which the processors count, against the GPU's products and its
    counting with the thresholds given."""
    pictures, texts = clustered(MANY, EACH, DIM, 8)
    groups = np.arange(MANY)
    of_captions = np.repeat(groups, EACH)

    def ours() -> object:
        return retrieval_ranks(Products(pictures, texts), groups, of_captions)

    def on_device() -> list[Tensor]:
        left, right = (torch.from_numpy(side).to(DEVICE) for side in (pictures, texts))
        level = 0.1
        by_image = []
        by_caption = torch.zeros(len(right), dtype=torch.int64, device=DEVICE)
        for part in left.split(1_024):
            over = part @ right.T >= level
            by_image.append(over.sum(1))
            by_caption += over.sum(0)
        return [torch.cat(by_image).cpu(), by_caption.cpu()]

    costs, _ = in_turn(ours, on_device)
    pair = paired(list(zip(*costs, strict=True)))
    memory, _ = cost(ours)
    yield Row(
        f"evaluation of {MANY:,} x {MANY * EACH:,} at {DIM:,}-d, ranks of both directions on "
        f"{THREADS} processors",
        f"{pair.ours.wall:.2f} s, {memory.bytes / 1e9:.2f} GB beside the embeddings; products and "
        f"counting on the GPU {pair.reference.wall:.2f} s",
    )


# ---- timing


def in_turn(*forms: Work) -> tuple[list[list[Cost]], int]:
    """Costs of several forms in turn, after a warm-up of each.

    Args:
        forms: Ours first.

    Returns:
        The costs of each form's runs, and the peak of ours in bytes.
    """
    _, peak = with_peak(forms[0])
    for form in forms[1:]:
        form()
    costs: list[list[Cost]] = [[] for _ in forms]
    for _ in range(RUNS):
        for taken, form in zip(costs, forms, strict=True):
            taken.append(seconds(partial(finished, form)))
    return costs, peak


def finished(work: Work) -> None:
    """A work, and the GPU's part of it."""
    work()
    if ON_GPU:
        torch.cuda.synchronize()


def with_peak(work: Work) -> tuple[Cost, int]:
    """What a run takes, and its peak of memory in bytes: the GPU's, else the process's."""
    if not ON_GPU:
        took, _ = cost(work)
        return took, took.bytes
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    took = seconds(partial(finished, work))
    return took, torch.cuda.max_memory_allocated()


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"


def compared(pair: Paired, than: str) -> str:
    """Ratio and seconds of a comparison, in words."""
    return f"{pair.ratio:.2f}x of {than} ({pair.ours.wall:.2f} s, {pair.reference.wall:.2f} s)"


# each with the seconds that it takes at most
PARTS: dict[Callable[[], Iterator[Row]], int] = {
    repeated_trainings: 160,
    extraction: 60,
    scores_of_scan: 15,
    scores_of_dp_rnn: 45,
    clusters: 30,
    steps: 45,
    steps_from_pixels: 30,
    values: 30,
    evaluation: 30,
}
