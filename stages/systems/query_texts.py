"""The words of a query as models take captions: word ids, or the vector of a sentence encoder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pipeline.errors import WorkbenchError
from pipeline.feature_format import checked
from pipeline.feature_store import FeatureFile
from pipeline.files import sha256_file
from pipeline.runtime import say
from pipeline.search import REMEDY, check_words
from pipeline.sources import TokenRows
from pipeline.vocabulary import Vocabulary


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
    """The vector (1, E) of the words of a query, alone in a tuple.

    sentences: the corpus's vectors; encoder_path: the encoder that made them. Words that it leaves
    out are named on standard error. Raises WorkbenchError when it leaves out all of them, and when
    it is another encoder.
    """
    from pipeline.sentences.encoder import read_encoder  # scikit-learn takes a second to load

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
