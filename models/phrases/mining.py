"""Hard negatives: proposals that lie nearer to a phrase than its own boxes (Wang et al. 2016, 3.3).

The images of a phrase's training pairs are searched. A proposal that overlaps enough with one of
the phrase's boxes is what the model should find, so it is no negative.
"""

from typing import Any

import numpy as np
import torch

from models.phrases.batches import Mined
from models.phrases.data import OpenedPhrases, PhrasePairs
from models.phrases.params import MiningConfig
from models.phrases.scoring import embedded, embedded_proposals
from models.two_branch.batches import some_of_each
from pipeline.phrases.boxes import overlaps, rows_of_images
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import FeatureFile
from pipeline.storage.hdf5 import mapped


@torch.inference_mode()
def mine(
    network: Any,
    data: PhrasePairs,
    opened: OpenedPhrases,
    settings: MiningConfig,
    seed: int,
    device: torch.device,
) -> Mined:
    """The hard negatives of every unique phrase of the training split."""
    phrases = embedded(network.embed_captions, data.phrases, data.related.shape[1], device)
    regions = embedded(network.embed_images, data.regions, len(data.boxes), device)
    names, owners = np.unique(data.region_images, return_inverse=True)
    wanted = by_image(data, owners, len(names))
    places = opened.proposals.rows(names.tolist())
    boxes, counts = (opened.proposals.read(places, name) for name in ("boxes", "counts"))
    regions_of, hard = rows_of_images(owners, len(names)), []
    for image, vectors in enumerate(
        embedded_proposals(network, opened.proposals, names.tolist(), device)
    ):
        codes, here = wanted[image], regions_of[image]
        if not len(codes):
            continue
        related = data.related[here][:, codes].toarray() > 0  # (G, U) boxes of this image
        truth = (regions[here] @ phrases[codes].T).cpu().numpy()
        nearest = np.where(related, truth, -np.inf).max(0)
        scores = (vectors @ phrases[codes].T).cpu().numpy()
        near = overlaps(boxes[image, : counts[image]], data.boxes[here]) >= settings.overlap
        slots, columns = np.nonzero((scores > nearest) & ~(near.astype(np.int32) @ related > 0))
        hard.append(np.stack([np.full_like(slots, places[image]), slots, codes[columns]], 1))
    return kept(np.concatenate(hard), opened.proposals, settings.negatives, seed)


def by_image(data: PhrasePairs, owners: np.ndarray, count: int) -> list[np.ndarray]:
    """The unique phrases of each image's training pairs; owners: (R,) image of each region."""
    both = np.unique(np.stack([owners[data.pairs[:, 0]], data.pairs[:, 1]], 1), axis=0)
    return np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, count)))


def kept(found: np.ndarray, proposals: FeatureFile, most: int, seed: int) -> Mined:
    """At most so many drawn hard negatives of a phrase; found: (H, 3) image, slot and phrase."""
    if not len(found):
        raise WorkbenchError(
            "no proposal lies nearer to a phrase than its own boxes: nothing to learn from",
            "set phrase_two_branch.mining.epochs to 0",
        )
    found = found[some_of_each(found[:, 2], most, np.random.default_rng([seed, 2]))]
    values = mapped(proposals.path, proposals.layouts["features"])

    def vectors(rows: np.ndarray) -> torch.Tensor:
        images, slots = found[rows, :2].T
        return torch.from_numpy(np.asarray(values[images, slots])).float()

    return Mined(vectors, found[:, 2])
