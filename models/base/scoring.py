"""From a trained model and a split to the scores that retrieval is measured on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch

from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import ImagesById, OpenedInputs
from pipeline.scores.file import SplitScores
from pipeline.scores.tiles import Products
from pipeline.storage.checkpoint import Checkpoint

EMBED_BATCH = 256  # inputs embedded at once


class VectorModel(Protocol):
    """A model that embeds images and captions apart from each other (models.vse.network.VSE)."""

    training: bool

    def train(self, mode: bool = True) -> object: ...

    def embed_images(self, images: torch.Tensor, /) -> torch.Tensor: ...

    @property
    def embed_captions(self) -> Callable[..., torch.Tensor]:
        """Takes what a caption source yields for some rows: word ids and lengths, or vectors."""


def score_vectors(model: VectorModel, split: Split, device: torch.device) -> SplitScores:
    """Score every image of a split against every caption by the inner product of embeddings.

    The model is used in evaluation mode and left in the mode it was in. Memory holds the
    embeddings; products are made when they are asked for.

    Args:
        model: on the device, K wide.
        split: N images and M captions.
        device: where the model is.

    Returns:
        Products (N, M) of the embeddings, and these, with the ids.
    """
    with evaluating(model):
        images = torch.cat(list(embedded_images(model, split, device))).cpu().numpy()
        captions = torch.cat(list(embedded_captions(model, split, device))).cpu().numpy()
    return scores_of(split, Products(images, captions), images, captions)


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
    """A function from a split's name to its scores; the sizes come from the checkpoint.

    Args:
        opened: the kind of the model's inputs, such as pipeline.inputs.words.WordInputs.
        network: from the checkpoint's architecture to the network.
        checkpoint: weights of the model.
        inputs: its artefacts.
        device: where it runs.
        score: from the network, a split and the device to scores, with embeddings and ids.
        images: as in pipeline.inputs.sources.OpenedInputs.split.

    Raises:
        WorkbenchError: inputs that are not those of the training.
    """
    read = opened(inputs)
    checkpoint.require(read.identity)
    model = checkpoint.build(network).to(device)
    return lambda name: score(model, read.split(name, images), device)


def embedded_images(
    model: VectorModel, split: Split, device: torch.device
) -> Iterator[torch.Tensor]:
    """Embeddings (B, K) of a split's images, batch by batch in the order of the split.

    Args:
        model: on the device.
        split: with its images.
        device: where the model is.
    """
    for rows in in_batches(len(split.image_ids)):
        yield model.embed_images(split.images(rows).to(device))


def embedded_captions(
    model: VectorModel, split: Split, device: torch.device
) -> Iterator[torch.Tensor]:
    """Embeddings (B, K) of a split's captions, batch by batch in the order of the split.

    Args:
        model: on the device.
        split: with its captions.
        device: where the model is.
    """
    for rows in in_batches(len(split.caption_ids)):
        first, *others = split.captions(rows)
        yield model.embed_captions(first.to(device), *others)


def in_batches(count: int, size: int = EMBED_BATCH) -> Iterator[np.ndarray]:
    """Row numbers 0 to count - 1 in runs of `size`."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))
