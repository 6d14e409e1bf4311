"""What models of phrases read: which boxes each phrase stands for, the vectors of both, and how a
model is validated on them.

Models see a box as an image and a phrase as a caption: D numbers of a box, E of a phrase.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from models.base import Model, evaluating, in_blocks
from models.two_branch import draw_of_each
from pipeline.features.checkpoint import feature_identity
from pipeline.features.data import MEMORY_BUDGET, ImageRows, Inputs, SentenceVectors, open_vectors
from pipeline.features.feature_file import FeatureFile
from pipeline.phrases.absent import is_absent
from pipeline.phrases.found import Searched, first_ranks, recalls, search_of
from pipeline.phrases.tables import distinct_regions, load_phrases
from pipeline.training.trainer import Validation

# Boxes of a phrase that models learn from, drawn where it has more (Wang et al. 2016).
REGIONS_PER_PHRASE = 10
DRAWN = {"regions_per_phrase": REGIONS_PER_PHRASE}  # as checkpoints name it
IMAGES = 16  # whose proposals are embedded at once: 1,600
VECTORS = 1024  # embedded at once
EQUAL = 1e-3  # deviation of a phrase's scores: nothing is told apart


@dataclass(frozen=True)
class PhraseFiles:
    """The artefacts that models of phrases read.

    Args:
        phrases: Folder of the tables.
        proposals: Boxes that are proposed for each image, and their vectors.
        truth: Vectors of the phrases' own boxes.
        vectors: Of the phrases.
    """

    phrases: Path
    proposals: Path
    truth: Path
    vectors: Path

    @property
    def is_absent(self) -> bool:
        """Whether the corpus has no phrases."""
        return is_absent(self.proposals)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every file, by field and file name."""
        return Inputs.digests(self)  # type: ignore[arg-type]  # which reads all fields


@dataclass(frozen=True)
class PhrasePairs:
    """The training split: R boxes, C unique phrases, and what belongs to what.

    Args:
        regions: Rows (B,) of boxes to vectors (B, D).
        phrases: Rows (B,) of phrases to vectors (B, E).
        region_images: R names of the boxes' images.
        boxes: (R, 4) x1, y1, x2, y2 in pixels.
        related: (R, C) of 0 and 1, which boxes a phrase stands for.
        pairs: (P, 2) rows of a box and of a phrase to train on.
    """

    regions: ImageRows
    phrases: ImageRows
    region_images: list[str]
    boxes: np.ndarray
    related: csr_matrix
    pairs: np.ndarray


@dataclass(frozen=True)
class PhraseSearch:
    """The phrases of a split, each to be found among the boxes proposed for its image.

    Args:
        searched: The phrases and the boxes.
        proposals: Vectors of the boxes.
        vectors: Of the phrases.
    """

    searched: Searched
    proposals: FeatureFile
    vectors: FeatureFile

    @cached_property
    def hits(self) -> np.ndarray:
        """(Q, R) bool: which boxes are right."""
        return self.searched.hits()


class PhraseData:
    """What models of phrases are trained on and measured with.

    Args:
        files: The artefacts.
        seed: Of the run, draws the boxes of phrases that have many.

    Raises:
        WorkbenchError: An artefact is missing or damaged.
    """

    def __init__(self, files: PhraseFiles, seed: int) -> None:
        self.files = files
        self.seed = seed
        self.tables = load_phrases(files.phrases)
        self.proposals = FeatureFile(files.proposals)
        self.proposals.in_memory(MEMORY_BUDGET)
        self.captions = SentenceVectors(files.vectors)
        self.vectors = self.captions.file

    @property
    def identity(self) -> dict[str, str]:
        """What weights cannot be used without."""
        regions = feature_identity(self.proposals.attributes, "regions")
        return regions | feature_identity(self.vectors.attributes, "phrases")

    @property
    def sizes(self) -> dict[str, int]:
        """D of the boxes' vectors and E of the phrases', as models name those of images and
        captions."""
        return {"image_dim": self.proposals.shape()[-1], "sentence_dim": self.vectors.shape()[-1]}

    def search(self, split: str) -> PhraseSearch:
        """The phrases of a split: val or test."""
        searched = search_of(self.tables, split, self.proposals)
        return PhraseSearch(searched, self.proposals, self.vectors)

    @cached_property
    def train(self) -> PhrasePairs:
        """The training split."""
        rows = self.tables.of_split("train")
        regions = distinct_regions(self.tables.boxes, list(dict.fromkeys(rows["image_id"])))
        texts = sorted(set(rows["text"]))
        codes = {text: number for number, text in enumerate(texts)}
        both = set()
        for text, image, chain in zip(rows["text"], rows["image_id"], rows["chain"], strict=True):
            both |= {(codes[text], region) for region in regions.of_chain[image, chain]}
        phrases, places = np.array(sorted(both)).T
        shape = (len(regions.ids), len(texts))
        related = csr_matrix((np.ones(len(phrases), np.int8), (places, phrases)), shape)
        generator = np.random.default_rng([self.seed, 1])
        drawn = draw_of_each(phrases, REGIONS_PER_PHRASE, generator)
        return PhrasePairs(
            regions=ImageRows(open_vectors(self.files.truth), regions.ids),
            phrases=ImageRows(self.vectors, texts),
            region_images=regions.image_ids,
            boxes=regions.boxes,
            related=related,
            pairs=np.stack([places[drawn], phrases[drawn]], 1),
        )


# ---- scores


def phrase_scores(model: Model, search: PhraseSearch) -> np.ndarray:
    """Cosines of phrases and the boxes of their images: each phrase is compared with its own image
    alone.

    Args:
        model: On its device; left in the mode it was in.
        search: Q phrases, and R boxes an image at most.

    Returns:
        (Q, R) float32, -inf where an image has no box.
    """
    searched = search.searched
    texts, codes = np.unique(searched.phrases["text"].to_numpy(), return_inverse=True)
    scores = np.full((len(searched), searched.boxes.shape[1]), -np.inf, np.float32)
    order = np.argsort(searched.images, kind="stable")
    edges = np.searchsorted(searched.images[order], np.arange(len(searched.boxes) + 1))
    names = list(dict.fromkeys(searched.phrases["image_id"]))
    with evaluating(model):
        rows = ImageRows(search.vectors, texts.tolist())
        phrases = embed_rows(model, model.embed_captions, rows, len(texts))
        for image, regions in enumerate(embed_proposals(model, search.proposals, names)):
            members = order[edges[image] : edges[image + 1]]
            scores[members, : len(regions)] = (phrases[codes[members]] @ regions.T).cpu().numpy()
    return scores


def validate_phrases(model: Model, search: PhraseSearch) -> Validation:
    """How many phrases of a split are found: the largest sum of R@1, R@5 and R@10 is the best.

    Args:
        model: On its device; left in the mode it was in.
        search: The phrases, and the boxes of their images.

    Returns:
        The columns of the curve, and whether all boxes of a phrase have the same score.
    """
    scores = phrase_scores(model, search)
    found = recalls(first_ranks(scores, search.hits))
    spread = float(np.mean([row[np.isfinite(row)].std() for row in scores]))
    total = sum(found.values())
    columns = {"val_rsum": total} | {f"val_{name}": value for name, value in found.items()}
    collapsed = f"the scores of a phrase's regions are equal (deviation {spread:.2g})"
    return Validation(
        columns=columns | {"val_spread": spread},
        note=f"validation R@1 {found['r1']:.1f}, R@1 + R@5 + R@10 {total:.1f}",
        score=total,
        collapsed=collapsed if spread < EQUAL else "",
    )


def embed_rows(
    model: Model, embed: Callable[[Tensor], Tensor], vectors: ImageRows, count: int
) -> Tensor:
    """Unit rows of all boxes, or of all phrases.

    Args:
        model: On its device, in evaluation mode.
        embed: Its `embed_images` for boxes, its `embed_captions` for phrases.
        vectors: Of the boxes or phrases.
        count: How many there are, N.

    Returns:
        (N, K).
    """
    blocks = in_blocks(count, VECTORS)
    return torch.cat([model.index(embed(vectors(rows).to(model.device))) for rows in blocks])


def embed_proposals(model: Model, proposals: FeatureFile, images: list[str]) -> Iterator[Tensor]:
    """Unit rows of the boxes proposed for images.

    Args:
        model: On its device, in evaluation mode.
        proposals: The file of boxes.
        images: Their ids.

    Yields:
        (P, K) of one image after the other.
    """
    rows = proposals.rows(images)
    counts = proposals.read(rows, "counts")
    for block in in_blocks(len(rows), IMAGES):
        vectors = torch.from_numpy(proposals.read(rows[block])).float()
        pairs = zip(vectors, counts[block], strict=True)
        real = torch.cat([part[:count] for part, count in pairs])
        regions = model.index(model.embed_images(real.to(model.device)))
        yield from regions.split(counts[block].tolist())
