"""From a query to its embedding: a trained model, checked against what it was trained with, so that
a query lands in the space of the stored embeddings. Paths are those of the commands in dvc.yaml.

Models that compare regions with words have no such space: theirs are vectors that make a shortlist,
whose members are scored by the model itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image

from models.base.registry import models_with, offered
from pipeline.analysis.discriminative import CaptionEmbedder
from pipeline.corpus.images import MAX_ASPECT
from pipeline.corpus.tables import load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.embeddings.source import IMPORTED
from pipeline.inputs.sources import TokenRows, identity
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from pipeline.search.index import REMEDY, Index, best, check_words
from pipeline.storage.checkpoint import Checkpoint, read_checkpoint
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import checked

FILES = ("images", "captions", "features", "text", "checkpoint", "output")
# What queries may go through beside the model itself: by name, the stage that makes it and its
# option. The queries.py of a model names its own in BESIDE.
MADE_BY = {
    "image_network": ("extract_image_features", "network"),
    "encoder": ("encode_sentences", "encoder"),
    "detector": ("extract_region_features", "detector"),
}
Files = dict[str, Path]
TextInputs = Callable[[Sequence[str], Path | None], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Query:
    """vector: (K,) embedding; rescore: from N ids of what is searched to their scores (N,) by the
    model itself, None where embeddings are all that it compares."""

    vector: np.ndarray
    rescore: Callable[[Sequence[str]], np.ndarray] | None = None


class QueryModel(Protocol):
    """A model that takes queries: made from the paths of its artefacts, by the options of
    `stages.score`, its weights and a device.

    Raises WorkbenchError for files that are missing, damaged, or not those of the training.
    """

    def of_words(self, words: Sequence[str], wordnet: Path | None) -> Query:
        """The query of the words of a text; unknown ones are named on standard error.

        wordnet: as in pipeline.sentences.encoder.read_encoder. WorkbenchError when none is known.
        """

    def of_image(self, image: Image.Image) -> Query:
        """The query of an RGB image, read as the corpus's were."""


def open_queries(
    name: str, device: torch.device, exported: Files | None = None
) -> tuple[QueryModel, Files, Checkpoint]:
    """A model that takes queries about the corpus.

    Args:
        name: of the model.
        device: where it runs.
        exported: files to use instead of those of dvc.yaml, as models.portable.folder gives them.

    Returns:
        The model, its artefacts and its weights.

    Raises:
        WorkbenchError: an unknown name, files that do not fit each other.
    """
    files = query_files(name)
    # of an export not the features: they are those of one image, and a corpus is searched
    files |= {key: path for key, path in (exported or {}).items() if key != "features"}
    checkpoint = read_checkpoint(files["checkpoint"], name)
    return query_model(name, files, checkpoint, device), files, checkpoint


def query_files(name: str) -> Files:
    """The files that a model's queries need, where dvc.yaml has them: those of its scoring, and
    what its queries.py names in BESIDE.

    Raises WorkbenchError for an unknown model and for one that takes no queries.
    """
    _maker(name)
    own: Any = offered(name, "queries", "BESIDE")
    places = {key: MADE_BY[key] for key in own or ()}
    beside = {key: stage_paths(stage, (option,))[option] for key, (stage, option) in places.items()}
    return stage_paths("score", FILES, name) | beside


def query_model(
    name: str, files: Files, checkpoint: Checkpoint, device: torch.device
) -> QueryModel:
    """A model that takes queries, of files wherever they lie.

    Args:
        name: of the model.
        files: by the names of FILES and MADE_BY.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: a model that takes none, files that are not those of the training.
    """
    model: QueryModel = _maker(name)(files, checkpoint, device)
    return model


def _maker(name: str) -> Callable[..., Any]:
    make = offered(name, "queries", "queries")
    if make is None:
        able = ", ".join(models_with("queries", "queries"))
        raise WorkbenchError(f"model {name!r} cannot be searched with; {able} can")
    return make


def caption_embedder(name: str, device: torch.device) -> tuple[CaptionEmbedder, str]:
    """The embedder of a model that reads words by a vocabulary, and the digest of its weights.

    Raises WorkbenchError for other models, and for files that are not those of the training.
    """
    make = offered(name, "queries", "embedder")
    if make is None:
        able = ", ".join(models_with("queries", "embedder"))
        raise WorkbenchError(
            f"words of captions can be left out for {able}, not for {name}",
            "choose other analyses with --only",
        )
    files = stage_paths("score", ("text", "features", "checkpoint"), name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    return make(files, checkpoint, device), checkpoint.sha256


def rescored(index: Index, query: Query, count: int) -> tuple[Index, np.ndarray]:
    """What is searched, with its scores; the nearest alone where a model rescores.

    Args:
        index: (N, K) embeddings with their ids.
        query: its vector (K,) and, where there is one, the model that rescores.
        count: how many of the nearest are rescored.

    Returns:
        The index with its scores (N,), or that of the nearest with theirs (up to `count`,).
    """
    scores = index.similarities(query.vector)
    if query.rescore is None:
        return index, scores
    rows = best(scores, count)
    near = Index([index.ids[row] for row in rows], index.embeddings[rows])
    return near, query.rescore(near.ids)


class VectorQueries:
    """A models.base.queries.QueryModel of cached image features.

    Args:
        network: embeds both sides.
        features: of the corpus's images.
        text: from the words of a query and the folder of WordNet's files to what the network takes
            of captions.
        device: where the network is put.
        image_network: file of the network that made the features.
    """

    def __init__(
        self,
        network: Any,
        features: FeatureFile,
        text: TextInputs,
        device: torch.device,
        image_network: Path,
    ) -> None:
        self.network, self.features = network.to(device), features
        self.text, self.device, self.image_network = text, device, image_network

    @torch.inference_mode()
    def of_words(self, words: Sequence[str], wordnet: Path | None) -> Query:
        """The query of a text."""
        first, *others = self.text(words, wordnet)
        return Query(self.network.embed_captions(first.to(self.device), *others)[0].cpu().numpy())

    def of_image(self, image: Image.Image) -> Query:
        """The query of an image; WorkbenchError for another network than the corpus's."""
        from models.backbone.queries import image_features  # torchvision takes seconds to load

        features = image_features(image, self.image_network, self.features, self.device)
        with torch.inference_mode():
            vectors = self.network.embed_images(features.to(self.device))
        return Query(vectors[0].cpu().numpy())


def sentence_queries(
    files: Files, checkpoint: Checkpoint, device: torch.device, network: Callable[..., Any]
) -> VectorQueries:
    """Queries of a model of image and sentence vectors.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.
        network: its class.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    features, sentences = FeatureFile(files["features"]), FeatureFile(files["text"])
    checkpoint.require(identity(features, sentences))
    return VectorQueries(
        checkpoint.build(network),
        features,
        lambda words, wordnet: sentence_vector(words, sentences, files["encoder"], wordnet),
        device,
        files["image_network"],
    )


def check_aspect(image: Image.Image) -> None:
    """Raise WorkbenchError for an image much longer than wide: resized, it would fill memory."""
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise WorkbenchError(f"the image is more than {MAX_ASPECT} times as long as wide")


def stored_word_ids(
    captions: Path, ids: Sequence[str], vocabulary: Vocabulary
) -> tuple[torch.Tensor, torch.Tensor]:
    """Word ids of captions of the corpus.

    Args:
        captions: table of the corpus.
        ids: M captions.
        vocabulary: what reads their words.

    Returns:
        Word ids (M, T) and lengths (M,).

    Raises:
        WorkbenchError: naming those that the table does not have.
    """
    table = load_captions(captions).set_index("caption_id")["tokens"]
    lost = [name for name in ids if name not in table.index]
    if lost:
        raise WorkbenchError(f"{captions}: no caption {listing(lost, 5)}", REMEDY)
    rows = TokenRows([vocabulary.encode(words) for words in table[list(ids)]])
    return rows(np.arange(len(ids)))


def word_ids(words: Sequence[str], vocabulary: Vocabulary) -> tuple[torch.Tensor, ...]:
    """Word ids (1, T) and their number (1,) of the T words of a query.

    Unknown ones are named on standard error. Raises WorkbenchError when all are unknown.
    """
    known = [Vocabulary.UNK not in vocabulary.encode([word]) for word in words]
    unknown = check_words(words, known, "the vocabulary")
    if unknown:
        say(f"not in the vocabulary, read as <unk>: {', '.join(unknown)}")
    return TokenRows([vocabulary.encode(words)])(np.array([0]))


def sentence_vector(
    words: Sequence[str], sentences: FeatureFile, encoder_path: Path, wordnet: Path | None
) -> tuple[torch.Tensor]:
    """The vector of the words of a query.

    Words that the encoder leaves out are named on standard error.

    Args:
        words: of the query.
        sentences: the corpus's vectors, (M, E).
        encoder_path: the encoder that made them.
        wordnet: folder of WordNet's files, None to look for them.

    Returns:
        (1, E) float32, alone in a tuple.

    Raises:
        WorkbenchError: the vectors were made elsewhere, the encoder is missing or another one, or
            leaves out all words.
    """
    from pipeline.sentences.encoder import read_encoder  # scikit-learn takes a second to load

    if str(sentences.attributes.get("model")).startswith(IMPORTED):
        raise WorkbenchError(
            f"{sentences.path}: its vectors come from a file (sentences.encoding: file): there is "
            "no encoder here that makes one from a text",
            "search with an image, or with a model that reads words, as vse",
        )
    if not encoder_path.is_file():
        raise WorkbenchError(f"{encoder_path}: no such file", "make it with: dvc repro")
    if sha256_file(encoder_path) != sentences.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{encoder_path}: not the encoder of {sentences.path}", REMEDY)
    encoder = read_encoder(encoder_path, wordnet)
    known = encoder.encoding.known([[word] for word in words]) > 0
    unknown = check_words(words, known.tolist(), f"the sentence encoder {encoder.name}")
    if unknown:
        kinds = "unknown or stop words" if encoder.name == "tfidf" else "unknown words"
        say(f"{kinds}, left out: {', '.join(unknown)}")
    # rounded as the corpus's were, so that a caption of the corpus finds what it finds there
    vector = checked("query", encoder.encode([list(words)]), sentences.dtype(), ["the query"])
    return (torch.from_numpy(vector).float(),)
