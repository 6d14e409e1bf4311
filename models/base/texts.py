"""From the words of a query to what networks take of captions: word ids, or a sentence vector."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.corpus.tables import load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.batches import CaptionSource
from pipeline.inputs.sources import TokenRows
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import checked

Tell = Callable[[str], None]


@dataclass(frozen=True)
class CaptionEmbedder:
    """What the analysis needs of a model; only words that it knows are left out in turn."""

    embed: Callable[[Sequence[Sequence[str]]], np.ndarray]  # C captions to unit vectors (C, K)
    knows: Callable[[str], bool]


def token_rows(captions: Iterable[Sequence[str]], vocabulary: Vocabulary) -> TokenRows:
    """Word ids of captions, words out of the vocabulary as in training."""
    return TokenRows([vocabulary.encode(words) for words in captions])


def vocabulary_embedder(
    network: Any,
    vocabulary: Vocabulary,
    device: torch.device,
    rows_of: Callable[..., CaptionSource] = token_rows,
) -> CaptionEmbedder:
    """An embedder by `embed_captions` of a network on the device; rows_of: as token_rows."""

    def embed(captions: Sequence[Sequence[str]]) -> np.ndarray:
        ids, *lengths = rows_of(captions, vocabulary)(np.arange(len(captions)))
        with torch.inference_mode():
            return network.embed_captions(ids.to(device), *lengths).float().cpu().numpy()

    return CaptionEmbedder(embed, lambda word: Vocabulary.UNK not in vocabulary.encode([word]))


def stored_word_ids(
    captions: Path, ids: Sequence[str], vocabulary: Vocabulary
) -> tuple[torch.Tensor, torch.Tensor]:
    """Word ids (M, T) and lengths (M,) of M captions of the corpus, all of which must be there."""
    table = load_captions(captions).set_index("caption_id")["tokens"]
    lost = [name for name in ids if name not in table.index]
    if lost:
        raise WorkbenchError(f"{captions}: no caption {listing(lost, 5)}", OUT_OF_STEP)
    return token_rows(table[list(ids)], vocabulary)(np.arange(len(ids)))


def check_words(words: Sequence[str], known: Sequence[bool], model: str) -> list[str]:
    """The words of a query that the model does not know, each once; it must know one of them."""
    unknown = list(dict.fromkeys(w for w, knows in zip(words, known, strict=True) if not knows))
    if not any(known):
        raise WorkbenchError(
            f"no word of the query is known to {model}: {listing(unknown)}",
            "use words of the training captions",
        )
    return unknown


def unknown_words(words: Sequence[str], vocabulary: Vocabulary) -> list[str]:
    """The words of a query that a vocabulary lacks; WorkbenchError where it has none of them."""
    known = [Vocabulary.UNK not in vocabulary.encode([word]) for word in words]
    return check_words(words, known, "the vocabulary")


def word_ids(
    words: Sequence[str], vocabulary: Vocabulary, tell: Tell = say
) -> tuple[torch.Tensor, ...]:
    """Word ids (1, T) and their number (1,) of the T words of a query; unknown ones are told."""
    unknown = unknown_words(words, vocabulary)
    if unknown:
        tell(f"not in the vocabulary, read as <unk>: {', '.join(unknown)}")
    return token_rows([words], vocabulary)(np.array([0]))


def known_to(encoder: Any, words: Sequence[str], tell: Tell) -> None:
    """Tell which words of a query a sentence encoder leaves out; WorkbenchError for all."""
    known = encoder.encoding.known([[word] for word in words]) > 0
    unknown = check_words(words, known.tolist(), f"the sentence encoder {encoder.name}")
    if unknown:
        kinds = "unknown or stop words" if encoder.name == "tfidf" else "unknown words"
        tell(f"{kinds}, left out: {', '.join(unknown)}")


def sentence_vector(
    words: Sequence[str], sentences: FeatureFile, encoder: Any, tell: Tell = say
) -> tuple[torch.Tensor]:
    """The vector (1, E) float32 of a query's words, alone in a tuple; words left out are told.
    sentences: (M, E). WorkbenchError where all are left out."""
    known_to(encoder, words, tell)
    # rounded as the corpus's were, so that a caption of the corpus finds what it finds there
    vector = checked("query", encoder.encode([list(words)]), sentences.dtype(), ["the query"])
    return (torch.from_numpy(vector).float(),)
