"""From a query to its embedding: a trained model, checked against what it was trained with, so that
a query lands in the space of the stored embeddings.

A text goes through what the captions of the corpus went through, an image through the network or
the detector that the corpus's images went through (`Producer`). Models that compare pairs have no
common space: their `index` vectors make a shortlist, whose members the model itself scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from models.base import Model, Rows
from models.layers.pixels import SeesPixels
from models.registry import load_model, model_names
from pipeline.corpus.tables import load_captions
from pipeline.features.checkpoint import Checkpoint, read_checkpoint
from pipeline.features.data import (
    CaptionKind,
    ImageRegions,
    Inputs,
    SentenceVectors,
    TokenStates,
    encode_query,
)
from pipeline.features.split import Captions, Images, to_device
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.runtime.graph import stage_of, stage_paths, stages_of_models
from pipeline.runtime.process import say
from pipeline.search.index import Index, top_rows

FILES = ("images", "captions", "features", "text", "checkpoint", "output")  # of stages.score
Files = dict[str, Path]
Warn = Callable[[str], None]


class Producer(NamedTuple):
    """What made a file of the corpus, and what a query goes through, too."""

    stage: str
    option: str  # of the stage's command
    made: str  # the file, as a model's NEEDS names it


PRODUCERS = {
    "image_network": Producer("extract_image_features", "network", "data/features/image.h5"),
    "detector": Producer("extract_region_features", "detector", "data/features/regions.h5"),
    "encoder": Producer("encode_sentences", "encoder", "data/features/sentences.h5"),
    "token_encoder": Producer("encode_tokens", "encoder", "data/features/token_states.h5"),
}


@dataclass(frozen=True)
class Query:
    """What a model makes of a query.

    Args:
        vector: (K,), of length 1.
        rescore: Where a model compares more than vectors, from N ids of what is searched to their
            scores (N,); None where the vector is all.
    """

    vector: np.ndarray
    rescore: Callable[[Sequence[str]], np.ndarray] | None = None


def query_files(name: str) -> Files:
    """The files that a model's queries need, where dvc.yaml has them: those of its scoring, and
    what queries go through beside the model."""
    needed = load_model(name).NEEDS.values()
    files = stage_paths(stage_of(name, stages_of_models("score")), FILES, name)
    for key, producer in PRODUCERS.items():
        if producer.made in needed:
            files[key] = stage_paths(producer.stage, (producer.option,))[producer.option]
    return files


def open_embedder(
    name: str, device: torch.device, exported: Files | None = None
) -> tuple["QueryEmbedder", Files]:
    """A model that takes queries about the corpus.

    Args:
        name: Of the model.
        device: That it runs on.
        exported: Files to use instead of those of dvc.yaml, of an exported folder. Not its
            features, which are those of one image: it is the corpus that is searched.

    Returns:
        The model, and its files.
    """
    files = query_files(name)
    files |= {key: path for key, path in (exported or {}).items() if key != "features"}
    checkpoint = read_checkpoint(files["checkpoint"], name)
    return QueryEmbedder(name, files, checkpoint, device), files


class QueryEmbedder:
    """A trained model that takes queries.

    Args:
        name: Of the model.
        files: By the names of FILES and PRODUCERS, wherever they lie.
        checkpoint: The weights.
        device: That it runs on.

    Raises:
        WorkbenchError: The files are not those of the training.
    """

    def __init__(
        self, name: str, files: Files, checkpoint: Checkpoint, device: torch.device
    ) -> None:
        kind = load_model(name)
        paths = {key: files.get(key, Path()) for key in ("images", "captions", "features", "text")}
        text_encoder = files.get("token_encoder") or files.get("encoder")
        model = kind.from_checkpoint(checkpoint, name)
        self.data = kind.open_data(
            model.config, Inputs(**paths, encoder=text_encoder), in_memory=False
        )
        checkpoint.require(self.data.identity)
        self.model: Model = model.to(device)
        self.checkpoint = checkpoint
        self.files = files
        self.text_encoder = text_encoder
        self.device = device

    @property
    def sha256(self) -> str:
        """The digest of the weights and their description."""
        return self.checkpoint.sha256

    @property
    def compares_vectors(self) -> bool:
        """Whether inner products of vectors are the model's scores."""
        return self.model.VECTORS

    # ---- queries

    @torch.inference_mode()
    def of_words(self, words: Sequence[str], wordnet: Path | None, warn: Warn = say) -> Query:
        """The query of the words of a text.

        Args:
            words: In lower case, without punctuation.
            wordnet: Folder of WordNet's files, for an encoder that looks words up.
            warn: Takes a line about words that the model does not know.

        Returns:
            The vector and, where the model compares more, how pairs are scored.

        Raises:
            WorkbenchError: It knows none of them.
        """
        return self._text_query(encode_query(self.captions(wordnet), words, warn))

    @torch.inference_mode()
    def of_image(self, image: Image.Image) -> Query:
        """The query of an RGB image, read as the corpus's were; WorkbenchError for another network
        than the corpus's."""
        side = self.model.embed_images(to_device(self.read_image(image), self.device))
        vector = self.model.index(side)[0].cpu().numpy()
        if self.model.VECTORS:
            return Query(vector)

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            captions = self._embed_captions(self._stored_captions(ids))
            scores: np.ndarray = self.model.score(side, captions)[0].cpu().numpy()
            return scores

        return Query(vector, rescore)

    def embed_texts(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """Unit vectors (C, K) of C texts, lists of words of which each has one that is known."""
        with torch.inference_mode():
            side = self._embed_captions(self.captions().encode(texts))
            vectors: np.ndarray = self.model.index(side).float().cpu().numpy()
        return vectors

    def knows(self, word: str) -> bool:
        """Whether a word of a text counts for the model."""
        return self.captions().known([word])[0]

    def captions(self, wordnet: Path | None = None) -> CaptionKind:
        """What reads texts, its encoder opened with the first text: scikit-learn takes a second.

        Args:
            wordnet: Folder of WordNet's files, for an encoder that looks words up.

        Returns:
            The captions of the model's data.
        """
        captions = self.data.captions
        if captions.encoder is None and self.text_encoder is not None:
            from pipeline.features.sentences.encoder import encoder_of, read_encoder

            if isinstance(captions, SentenceVectors):
                captions.encoder = encoder_of(captions.file, self.text_encoder, wordnet)
            elif isinstance(captions, TokenStates):
                captions.encoder = read_encoder(self.text_encoder)
        return captions

    def _text_query(self, caption: Captions) -> Query:
        side = self._embed_captions(caption)
        vector = self.model.index(side)[0].cpu().numpy()
        if self.model.VECTORS:
            return Query(vector)

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            images = self.data.images.source(ids)(np.arange(len(ids)))
            embedded = self.model.embed_images(to_device(images, self.device))
            scores: np.ndarray = self.model.score(embedded, side)[:, 0].cpu().numpy()
            return scores

        return Query(vector, rescore)

    def _embed_captions(self, captions: Captions) -> Rows:
        return self.model.embed_captions(to_device(captions, self.device))

    def _stored_captions(self, ids: Sequence[str]) -> Captions:
        """Captions of the corpus by their ids, all of which must be there."""
        table = load_captions(self.files["captions"]).set_index("caption_id")["tokens"]
        lost = [name for name in ids if name not in table.index]
        if lost:
            text = f"{self.files['captions']}: no caption {listing(lost, 5)}"
            raise WorkbenchError(text, OUT_OF_STEP)
        return self.data.captions.encode(list(table[list(ids)]))

    # ---- from an RGB image to what the model takes of it

    @cached_property
    def read_image(self) -> Callable[[Image.Image], Images]:
        """From an RGB image to a batch of one: its pixels, its features or its regions. What makes
        them is opened with the first image: torchvision takes seconds to load."""
        if isinstance(self.model, SeesPixels) and self.model.image_cnn is not None:
            from models.backbone.image_cnn import pixels_of

            return pixels_of(self.checkpoint.description.architecture)
        if isinstance(self.data.images, ImageRegions):
            from models.detector.queries import region_finder

            return region_finder(self.data.images.file, self.files["detector"], self.device)
        from models.backbone.extraction import feature_extractor

        return feature_extractor(self.files["image_network"], self.data.images.file, self.device)


def rescored(index: Index, query: Query, count: int) -> tuple[Index, np.ndarray]:
    """What is searched, with its scores; where a model rescores, the nearest alone.

    Args:
        index: (N, K) embeddings with their ids, perhaps an approximate index, which finds `count`.
        query: Its vector chooses, its `rescore` decides.
        count: How many of the nearest are rescored.

    Returns:
        The index of what is left, n items, and their scores (n,).
    """
    candidates, scores = index.candidates(query.vector, count)
    if query.rescore is None:
        return candidates, scores
    rows = top_rows(scores, count)
    near = Index([candidates.ids[row] for row in rows], candidates.embeddings[rows])
    return near, query.rescore(near.ids)


def text_embedder(name: str, device: torch.device) -> QueryEmbedder:
    """A model whose scores are products of vectors, for texts that are in no corpus.

    Args:
        name: Of the model.
        device: That it runs on.

    Returns:
        The model.

    Raises:
        WorkbenchError: The model compares more than vectors.
    """
    if not load_model(name).VECTORS:
        able = ", ".join(other for other in model_names() if load_model(other).VECTORS)
        raise WorkbenchError(
            f"words of captions can be left out for {able}, not for {name}",
            "choose other analyses with --only",
        )
    return open_embedder(name, device)[0]
