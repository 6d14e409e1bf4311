"""Training data of phrases: which regions each unique phrase has, and the vectors of both."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_matrix

from models.two_branch.batches import some_of_each
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import MEMORY_BUDGET, FeatureRows, open_vectors
from pipeline.phrases.absent import is_absent
from pipeline.phrases.tables import PhraseTables, distinct_regions, load_phrases
from pipeline.storage.checkpoint import feature_identity
from pipeline.storage.features import FeatureFile


@dataclass(frozen=True)
class PhraseInputs:
    """The files that models of phrases read: the tables' folder, proposals with their vectors, and
    the vectors of the phrases' own boxes (truth) and of the phrases."""

    phrases: Path
    proposals: Path
    truth: Path
    vectors: Path

    @property
    def absent(self) -> bool:
        return is_absent(self.proposals)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every file, by field and file name."""
        return Inputs.digests(self)  # type: ignore[arg-type]  # which reads all fields


@dataclass(frozen=True)
class OpenedPhrases:
    tables: PhraseTables
    proposals: FeatureFile
    vectors: FeatureFile

    @property
    def sizes(self) -> dict[str, int]:
        """As pipeline.inputs.sources.VectorInputs: D of the regions' vectors and E of the
        phrases'."""
        return {"image_dim": self.proposals.shape()[-1], "sentence_dim": self.vectors.shape()[-1]}

    @property
    def identity(self) -> dict[str, str]:
        """Digests of the vectors that weights belong to."""
        of_regions = feature_identity(self.proposals.attributes, "regions")
        return of_regions | feature_identity(self.vectors.attributes, "phrases")


def open_phrases(inputs: PhraseInputs) -> OpenedPhrases:
    """Open the artefacts; WorkbenchError when one is missing or damaged."""
    proposals = FeatureFile(inputs.proposals)
    proposals.in_memory(MEMORY_BUDGET)
    return OpenedPhrases(load_phrases(inputs.phrases), proposals, open_vectors(inputs.vectors))


@dataclass(frozen=True)
class PhrasePairs:
    """The training split: R regions, C unique phrases, and what belongs to what."""

    regions: FeatureRows  # rows (B,) of regions to vectors (B, D)
    phrases: FeatureRows  # rows (B,) of phrases to vectors (B, E)
    region_images: list[str]  # (R,) name of each region's image
    boxes: np.ndarray  # (R, 4) x1, y1, x2, y2 in pixels
    related: csr_matrix  # (R, C) of 0 and 1, which region a phrase stands for
    pairs: np.ndarray  # (P, 2) rows of a region and a phrase to train on


# Regions of a phrase that models learn from, drawn where it has more (Wang et al. 2016).
REGIONS_PER_PHRASE = 10
DRAWN = {"regions_per_phrase": REGIONS_PER_PHRASE}  # as files of weights name it


def training_pairs(opened: OpenedPhrases, truth: Path, seed: int) -> PhrasePairs:
    """The pairs of regions and phrases of the training split; truth: vectors of its regions."""
    rows = opened.tables.of_split("train")
    regions = distinct_regions(opened.tables.boxes, list(dict.fromkeys(rows["image_id"])))
    texts = sorted(set(rows["text"]))
    codes = {text: number for number, text in enumerate(texts)}
    named = zip(rows["text"], rows["image_id"], rows["chain"], strict=True)
    both = sorted(
        {(codes[text], region) for text, *key in named for region in regions.of_chain[tuple(key)]}
    )
    phrases, places = np.array(both).T
    shape = len(regions.ids), len(texts)
    related = csr_matrix((np.ones(len(both), np.int8), (places, phrases)), shape)
    kept = some_of_each(phrases, REGIONS_PER_PHRASE, np.random.default_rng([seed, 1]))
    return PhrasePairs(
        FeatureRows(open_vectors(truth), regions.ids),
        FeatureRows(opened.vectors, texts),
        regions.image_ids,
        regions.boxes,
        related,
        np.stack([places[kept], phrases[kept]], 1),
    )


def dense(rows: csr_matrix) -> torch.Tensor:
    """A sparse matrix of 0 and more as a bool tensor."""
    return torch.from_numpy(rows.toarray() > 0)
