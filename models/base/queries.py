"""From a query to its embedding: a trained model, checked against what it was trained with, so that
a query lands in the space of the stored embeddings. Paths are those of the commands in dvc.yaml.

Models that compare regions with words have no such space: theirs are vectors that make a shortlist,
whose members are scored by the model itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from models.base.registry import offered, required
from models.base.scoring import embedded_images
from models.base.texts import (
    CaptionEmbedder,
    Tell,
    sentence_vector,
    vocabulary_embedder,
    word_ids,
)
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import OpenedInputs, VectorInputs
from pipeline.inputs.words import WordInputs
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from pipeline.search.index import Index, top_rows
from pipeline.storage.checkpoint import Checkpoint, read_checkpoint
from pipeline.storage.features import FeatureFile

FILES = ("images", "captions", "features", "text", "checkpoint", "output")
# What queries may go through beside the model itself: by name, the stage that makes it and its
# option. The queries.py of a model names its own in BESIDE.
MADE_BY = {
    "image_network": ("extract_image_features", "network"),
    "encoder": ("encode_sentences", "encoder"),
    "token_encoder": ("encode_tokens", "encoder"),
    "detector": ("extract_region_features", "detector"),
}
Files = dict[str, Path]
ImageInputs = Callable[[Image.Image], Any]  # to a tensor, or to Regions
TextInputs = Callable[[Sequence[str], Path | None, Tell], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Query:
    """A vector (K,) and, where a model compares more than vectors, `rescore`: from N ids of what is
    searched to their scores (N,)."""

    vector: np.ndarray
    rescore: Callable[[Sequence[str]], np.ndarray] | None = None


def open_queries(
    name: str, device: torch.device, exported: Files | None = None
) -> tuple[Any, Files, Checkpoint]:
    """A model that takes queries about the corpus, as VectorQueries, its artefacts and its weights.
    exported: files to use instead of those of dvc.yaml, of an exported folder."""
    files = query_files(name)
    # of an export not the features: they are those of one image, and a corpus is searched
    files |= {key: path for key, path in (exported or {}).items() if key != "features"}
    checkpoint = read_checkpoint(files["checkpoint"], name)
    return query_model(name, files, checkpoint, device), files, checkpoint


def query_files(name: str) -> Files:
    """The files that a model's queries need, where dvc.yaml has them: those of its scoring, and
    what its queries.py names in BESIDE. WorkbenchError for a model that takes no queries."""
    _maker(name)
    keys: Any = offered(name, "queries", "BESIDE")
    places = {key: MADE_BY[key] for key in keys or ()}
    beside = {key: stage_paths(stage, (option,))[option] for key, (stage, option) in places.items()}
    return stage_paths("score", FILES, name) | beside


def query_model(name: str, files: Files, checkpoint: Checkpoint, device: torch.device) -> Any:
    """A model that takes queries, of files (named as in FILES and MADE_BY) wherever they lie."""
    return _maker(name)(files, checkpoint, device)


def _maker(name: str) -> Callable[..., Any]:
    problem = "model {name!r} cannot be searched with; {able} can"
    return required(name, "queries", "queries", problem)


def caption_embedder(name: str, device: torch.device) -> tuple[CaptionEmbedder, str]:
    """The embedder of a model that reads words by a vocabulary, and the digest of its weights."""
    problem = "words of captions can be left out for {able}, not for {name}"
    make = required(name, "queries", "embedder", problem, "choose other analyses with --only")
    files = query_files(name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    return make(files, checkpoint, device), checkpoint.sha256


def rescored(index: Index, query: Query, count: int) -> tuple[Index, np.ndarray]:
    """What is searched with its scores (N,); the `count` nearest alone where a model rescores.
    index: (N, K) embeddings with their ids, perhaps an approximate index, which finds `count`."""
    candidates, scores = index.candidates(query.vector, count)
    if query.rescore is None:
        return candidates, scores
    rows = top_rows(scores, count)
    near = Index([candidates.ids[row] for row in rows], candidates.embeddings[rows])
    return near, query.rescore(near.ids)


class VectorQueries:
    """A model that takes queries, of a network that embeds both sides apart. image: from an RGB
    image to a batch of one; text: likewise from words, the folder of WordNet's files and what is
    told of unknown words."""

    def __init__(
        self, network: Any, image: ImageInputs, text: TextInputs, device: torch.device
    ) -> None:
        self.network, self.device = network.to(device), device
        self.image, self.text = image, text

    @torch.inference_mode()
    def of_words(self, words: Sequence[str], wordnet: Path | None, tell: Tell = say) -> Query:
        """The query of the words of a text; `tell` is told of unknown ones; one must be known.
        wordnet: as in pipeline.sentences.encoder.read_encoder."""
        first, *others = self.text(words, wordnet, tell)
        return Query(self.network.embed_captions(first.to(self.device), *others)[0].cpu().numpy())

    def of_image(self, image: Image.Image) -> Query:
        """The query of an RGB image, read as the corpus's were; WorkbenchError for another network
        than the corpus's."""
        inputs = self.image(image)
        with torch.inference_mode():
            vectors = embedded_images(self.network, inputs.to(self.device))
        return Query(vectors[0].cpu().numpy())


def open_trained(
    opened: Callable[..., OpenedInputs],
    network: Callable[..., Any],
    files: Files,
    checkpoint: Checkpoint,
) -> tuple[Any, Any]:
    """A model's inputs, left in their files, and its network with the trained weights. opened: the
    kind of its inputs; files: by the options of `stages.score`. WorkbenchError for artefacts that
    are not those of the training."""
    paths = {name: files.get(name, Path()) for name in ("images", "captions", "features", "text")}
    read = opened(Inputs(**paths), in_memory=False)
    checkpoint.require(read.identity)
    return read, checkpoint.build(network)


def cached_features(files: Files, features: FeatureFile, device: torch.device) -> ImageInputs:
    """A function from an image to its features, extracted as those of the corpus were; the network
    is opened with the first image."""

    @cache
    def extract() -> ImageInputs:
        from models.backbone.extraction import feature_extractor

        return feature_extractor(files["image_network"], features, device)

    return lambda image: extract()(image)


def found_regions(files: Files, features: FeatureFile, device: torch.device) -> ImageInputs:
    """A function from an image to its regions, found as those of the corpus were; the detector is
    opened with the first image."""

    @cache
    def find() -> ImageInputs:
        from models.detector.queries import region_finder  # torchvision takes seconds to load

        return region_finder(features, files["detector"], device)

    return lambda image: find()(image)


def sentence_queries(
    network: Callable[..., Any],
    files: Files,
    checkpoint: Checkpoint,
    device: torch.device,
    image: ImageInputs | None = None,
) -> VectorQueries:
    """Queries of a model of image and sentence vectors; arguments are as for open_trained. image:
    from an RGB image to what the network takes of it, None: its cached features."""
    read, trained = open_trained(VectorInputs, network, files, checkpoint)

    @lru_cache(maxsize=1)
    def encoder(wordnet: Path | None) -> Any:
        from pipeline.sentences.encoder import encoder_of  # scikit-learn takes a second to load

        return encoder_of(read.sentences, files["encoder"], wordnet)

    return VectorQueries(
        trained,
        image or cached_features(files, read.features, device),
        lambda words, wordnet, tell: sentence_vector(words, read.sentences, encoder(wordnet), tell),
        device,
    )


def word_queries(
    network: Callable[..., Any],
    files: Files,
    checkpoint: Checkpoint,
    device: torch.device,
    opened: type[WordInputs] = WordInputs,
    image: Callable[[Files, FeatureFile, torch.device], ImageInputs] = cached_features,
) -> VectorQueries:
    """Queries of a model of image vectors, or regions, and word ids; arguments are as for
    open_trained. image: makes what turns an image into the network's input."""
    read, trained = open_trained(opened, network, files, checkpoint)
    return VectorQueries(
        trained,
        image(files, read.features, device),
        lambda words, _, tell: word_ids(words, read.vocabulary, tell),
        device,
    )


def word_embedder(
    network: Callable[..., Any],
    files: Files,
    checkpoint: Checkpoint,
    device: torch.device,
    opened: type[WordInputs] = WordInputs,
) -> CaptionEmbedder:
    """A trained model that embeds lists of words; arguments are as for open_trained."""
    read, trained = open_trained(opened, network, files, checkpoint)
    return vocabulary_embedder(trained.to(device), read.vocabulary, device)
