"""Cross attention in Gram form against the literal form, which builds the attended vectors.

The literal form goes caption by caption against all images, with batched products, as SCAN's
published code does: words repeated for every image, the attended vectors as columns. (With them
as rows, the form "rows", the same products take about half the time on a CPU.) Each form runs in a
process of its own on one thread. Stated are processor time and by how much the peak of memory grows
beyond the inputs; all must give the same scores but "bf16", the Gram form under training.precision
= bf16, whose largest difference is stated.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from benchmarks.common import Cost, Row, apart, captions_of, cost, regions_of, size, split_of
from models.losses import PairLoss
from models.losses.max_margin import MaxMargin
from models.scan import SCAN, SCANConfig, Side
from pipeline.features.split import Regions, Words

REGIONS, FEATURES, DIM = size((36, 2048, 1024), (4, 8, 8))
WORD_DIM, VOCABULARY = size((300, 8000), (8, 50))
IMAGES, CAPTIONS, BATCH = size((200, 1000, 128), (6, 10, 4))
THREADS = 1
CLOSE = 1e-5  # every score
Work = Callable[[], torch.Tensor]
Results = dict[str, tuple[Cost, np.ndarray]]  # of a form: what it takes, and its scores


def rows() -> Iterator[Row]:
    """Scoring, and a step of training: the cross attention alone, and with encoders and Adam."""
    title = f"SCAN's scores of {IMAGES} images x {REGIONS} regions x {DIM:,}-d against "
    title += f"{CAPTIONS:,} captions of about 12 words"
    results = measured_forms(score, "gram", "bf16", "literal", "rows")
    yield row(title, score, results, "gram", ">= 9x, >= 5x, < 300 MB")
    yield row(title, score, results, "bf16", ">= 20x, >= 10x, < 300 MB")
    results = measured_forms(attention, "gram", "literal")
    title = f"training at batch {BATCH}, SCAN's cross attention, forwards and backwards"
    yield row(title, attention, results, "gram", ">= 3x, <= 0.33")
    results = measured_forms(step, "gram", "bf16", "literal")
    title = f"training at batch {BATCH}, SCAN's whole step with encoders and Adam"
    yield row(title, step, results, "gram", ">= 3x, <= 0.33")
    yield row(title, step, results, "bf16", ">= 10x, <= 0.33")


def measured_forms(work: Callable[[str], Work], *forms: str) -> Results:
    """What each form takes; all but bf16 must score as the literal one."""
    results = {form: apart(measured, work, form) for form in forms}
    for form in {"gram", "rows"} & set(forms):
        np.testing.assert_allclose(results[form][1], results["literal"][1], rtol=0, atol=CLOSE)
    return results


def measured(work: Callable[[str], Work], form: str) -> tuple[Cost, np.ndarray]:
    """What a form takes, and its scores."""
    took, scores = cost(work(form))
    return took, scores.numpy()


def row(title: str, work: Callable[[str], Work], results: Results, form: str, target: str) -> Row:
    """A form beside the literal one and, where that was measured, the one with rows."""
    ours, literal = results[form][0], results["literal"][0]
    others = [name for name in ("literal", "rows") if name in results]
    ratios = [results[name][0].processor / ours.processor for name in others]
    times = ", ".join(f"{results[name][0].processor:.2f} s" for name in (form, *others))
    figure = f"{ratios[0]:.1f}x less CPU than the literal form"
    if "rows" in results:
        bound = ours.bytes / 1e6
        figure += f", {ratios[1]:.1f}x less than it with rows ({times}), {bound:.0f} MB"
    else:
        bound = ours.bytes / literal.bytes
        figure += f" ({times}), {bound:.2f} of its memory ({ours.bytes / 1e6:.0f} MB, "
        figure += f"{literal.bytes / 1e6:,.0f} MB)"
    if form == "bf16":
        differ = np.abs(results[form][1] - results["literal"][1]).max()
        figure += f"; scores differ by up to {differ:.1g}"
    precision = "bf16" if form == "bf16" else "fp32"
    return Row(f"{title}, {precision}", figure, target, (*ratios, bound), work(form))


def literal_score(
    temperature: float,
    rows: bool,
    images: Side,
    captions: Side,
) -> torch.Tensor:
    """Similarity of every image with every caption, a column of images per caption, from attended
    vectors, which are columns, or rows."""
    columns = []
    regions = images.vectors
    for caption, length in zip(captions.vectors, captions.lengths.tolist(), strict=True):
        query = caption[:length].repeat(len(regions), 1, 1)
        cosines = functional.relu(torch.bmm(regions, query.transpose(1, 2)))
        affinity = functional.normalize(cosines, dim=2, eps=1e-8).transpose(1, 2)
        weights = torch.softmax(temperature * affinity.contiguous(), 2)
        if rows:
            attended = torch.bmm(weights, regions)
        else:
            across = weights.transpose(1, 2).contiguous()
            attended = torch.bmm(regions.transpose(1, 2), across).transpose(1, 2)
        norms = query.norm(dim=2) * attended.norm(dim=2)
        columns.append(((query * attended).sum(2) / norms.clamp_min(1e-8)).mean(1))
    return torch.stack(columns, 1)


def build(form: str) -> SCAN:
    """A model that scores in one of the forms, always with the same weights."""
    torch.manual_seed(0)
    training = SCANConfig().training.model_copy(
        update={"precision": "bf16" if form == "bf16" else "fp32"}
    )
    config = SCANConfig(word_dim=WORD_DIM, dim=DIM, training=training)
    model = SCAN(config, FEATURES, VOCABULARY)
    if form in ("literal", "rows"):
        model.score = partial(literal_score, config.temperature, form == "rows")
    return model


def unit(vectors: torch.Tensor) -> torch.Tensor:
    return functional.normalize(vectors, dim=-1)


def score(form: str) -> Work:
    """Score a split of regions and words as the stage does; both are embedded already."""
    model = build(form)
    lengths = captions_of(CAPTIONS, VOCABULARY).lengths
    regions = regions_of(IMAGES, REGIONS, DIM)
    words = unit(torch.randn(CAPTIONS, 16, DIM))
    regions = regions._replace(features=unit(regions.features))

    def embed_images(images: Regions) -> Side:
        return Side(images.features, images.counts)

    def embed_captions(captions: Words) -> Side:
        width = int(captions.lengths.max())
        return Side(words[captions.ids, :width], captions.lengths)

    model.embed_images = embed_images
    model.embed_captions = embed_captions
    split = split_of(regions, Words(torch.arange(CAPTIONS), lengths))
    return lambda: torch.from_numpy(model.score_split(split).scores)


def attention(form: str) -> Work:
    """Scores of a batch of embedded regions and words, and gradients with respect to both."""
    model = build(form)
    lengths = captions_of(BATCH, VOCABULARY).lengths
    regions, words = (unit(torch.randn(BATCH, number, DIM)) for number in (REGIONS, 16))
    regions.requires_grad_()
    words.requires_grad_()
    counts, towards = torch.full((BATCH,), REGIONS), torch.randn(BATCH, BATCH)

    def work() -> torch.Tensor:
        scores = model.score(Side(regions, counts), Side(words, lengths))
        scores.backward(towards)
        return scores.detach()

    return work


def step(form: str) -> Work:
    """One step of training from region features and word ids, hardest negatives."""
    model = build(form)
    regions = regions_of(BATCH, REGIONS, FEATURES)
    captions = captions_of(BATCH, VOCABULARY)
    loss, optimiser = PairLoss(MaxMargin(0.2)), torch.optim.Adam(model.parameters(), 5e-4)

    def work() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bf16"):
            scores = model.score(model.embed_images(regions), model.embed_captions(captions))
        loss(scores, torch.arange(BATCH)).backward()
        optimiser.step()
        return scores.detach()

    return work
