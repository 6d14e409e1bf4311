"""From a trained model and a split to the scores that retrieval is measured on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import Products
from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import ImagesById, OpenedInputs
from pipeline.storage.checkpoint import Checkpoint

EMBED_BATCH = 256  # inputs embedded at once


def score_vectors(model: Any, split: Split, device: torch.device) -> SplitScores:
    """Score every image of a split against every caption: inner products (N, M) of embeddings, made
    when they are asked for. model: on the device, with `embed_images` and `embed_captions`; used in
    evaluation mode, left as it was."""
    of_images, of_captions = [], []
    with evaluating(model):
        for rows in in_batches(len(split.image_ids)):
            of_images.append(embedded_images(model, split.images(rows).to(device)))
        for rows in in_batches(len(split.caption_ids)):
            first, *others = split.captions(rows)
            of_captions.append(model.embed_captions(first.to(device), *others))
        images, captions = (torch.cat(part).cpu().numpy() for part in (of_images, of_captions))
    return scores_of(split, Products(images, captions), images, captions)


def embedded_images(model: Any, images: Any) -> torch.Tensor:
    """The embeddings (B, K) of a source's images."""
    vectors: torch.Tensor = model.embed_images(*tensors_of(images))
    return vectors


def tensors_of(images: Any) -> tuple[torch.Tensor, ...]:
    """What a network takes of a source's images: a tensor, or those of Regions."""
    return (images,) if isinstance(images, torch.Tensor) else images.tensors


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """A model in evaluation mode and without gradients, afterwards in the mode it was in."""
    mode = model.training
    model.train(False)
    with torch.inference_mode():
        yield
    model.train(mode)


def scores_of(split: Split, scores: Any, images: np.ndarray, captions: np.ndarray) -> SplitScores:
    """Scores (N, M) and embeddings (N, K) and (M, K), with the ids of their split."""
    return SplitScores(
        scores=scores,
        image_ids=split.image_ids,
        caption_ids=split.caption_ids,
        caption_image_ids=[split.image_ids[row] for row in split.described],
        image_groups=split.image_groups,
        image_embeddings=images,
        caption_embeddings=captions,
    )


def split_scorer(
    opened: Callable[[Inputs], OpenedInputs],
    network: Callable[..., Any],
    checkpoint: Checkpoint,
    inputs: Inputs,
    device: torch.device,
    score: Callable[[Any, Split, torch.device], SplitScores] = score_vectors,
    images: ImagesById | None = None,
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint. opened: the
    kind of the model's inputs, which must be those of the training; images: as in
    pipeline.inputs.sources.OpenedInputs.split."""
    read = opened(inputs)
    checkpoint.require(read.identity)
    model = checkpoint.build(network).to(device)
    return lambda name: score(model, read.split(name, images), device)


def in_batches(count: int, size: int = EMBED_BATCH) -> Iterator[np.ndarray]:
    """Row numbers 0 to count - 1 in runs of `size`."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))
