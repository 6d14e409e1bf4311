"""A caption as the vector of a pretrained sentence transformer (Reimers & Gurevych 2019)."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from pipeline.corpus.tokens import joined
from pipeline.features.sentences.params import TransformerConfig
from pipeline.features.sentences.state import Material, State
from pipeline.features.sentences.text_network import (
    find_network,
    load_network,
    network_digest,
    pooling_of,
    read_network,
)
from pipeline.runtime.errors import WorkbenchError

APART = ":"  # in place of the `/` of a file's name, which is no name of an array


class Transformer:
    """The network reads a caption's words, in lower case and without punctuation, as all encodings
    do, with blanks where their script has them. Words that its tokeniser does not know are left
    out.

    Args:
        settings: model, for messages; precision, batch_size.
        files: contents of the network's files by name.
        checked: that nothing of the network is drawn at random was seen before.
    """

    block = 2048  # captions that are ordered by their lengths: of fewer, more is padding

    def __init__(self, settings: dict[str, Any], files: dict[str, bytes], checked: bool) -> None:
        self._settings = settings
        self._files = files
        self._network = load_network(files, settings["model"], checked)
        self._knows = lru_cache(maxsize=None)(self._is_known)
        self.dim = int(self._network.get_embedding_dimension())
        if settings["precision"] == "bf16":
            body = self._network[0].to(torch.bfloat16)
            body.register_forward_hook(_as_float32)  # pooled and normalised in float32

    @property
    def layer(self) -> str:
        """How token states become one vector, and the tokens that are read, for the record."""
        return f"pooling {pooling_of(self._network)} of {self._network.max_seq_length} tokens"

    def to(self, device: torch.device) -> None:
        """Compute there from now on."""
        self._network.to(device)

    def known(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """How many words of each of M captions the tokeniser knows, (M,) int64."""
        counts = (sum(map(self._knows, words)) for words in captions)
        return np.fromiter(counts, np.int64, len(captions))

    def cut(self, captions: Sequence[Sequence[str]]) -> int:
        """How many captions are longer than the network reads: their ends are left out."""
        longest = self._network.max_seq_length
        texts = list(map(self._text, captions))
        if not longest or not texts:
            return 0
        ids = self._network.tokenizer(texts, truncation=False)["input_ids"]
        return sum(len(row) > longest for row in ids)

    def encode(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """M captions to (M, dim) float32; zeros for a caption without a known word. Batches are of
        captions of like length, padded to the longest of the batch."""
        vectors = np.zeros((len(captions), self.dim), np.float32)
        for rows, batch in self._outputs(captions, "sentence_embedding"):
            vectors[rows] = batch
        return vectors

    def token_states(self, captions: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """States (S, E) float32, before pooling, of all tokens that the network reads of M
        captions, its marks of begin and end among them, end to end, and their numbers (M,) int64:
        0 for a caption without a known word. WorkbenchError for a network that gives none."""
        width = self._network[0].get_embedding_dimension()
        states = [np.zeros((0, width), np.float32)] * len(captions)
        for rows, outputs in self._outputs(captions, None):
            for row, output in zip(rows, outputs, strict=True):
                if "token_embeddings" not in output:
                    raise WorkbenchError(
                        f"{self._settings['model']}: gives vectors of texts alone, none of tokens",
                        "choose another sentences.transformer.model, or vse_infinity.words: gru",
                    )
                mask = output["attention_mask"].bool()  # the padding may be at either end
                states[row] = output["token_embeddings"][mask].float().cpu().numpy()
        return np.concatenate(states), np.array(list(map(len, states)), np.int64)

    def token_ids(self, captions: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Ids (S,) int32 of the tokens whose states `token_states` gives, and their numbers (M,)
        int64."""
        ids = [np.zeros(0, np.int32)] * len(captions)
        for row, text in enumerate(map(self._text, captions)):
            if text:
                read = self._network.preprocess([text])
                ids[row] = read["input_ids"][read["attention_mask"].bool()].int().cpu().numpy()
        return np.concatenate(ids), np.array(list(map(len, ids)), np.int64)

    @property
    def body(self) -> Any:
        """The network before pooling, of the library transformers."""
        return self._network.transformers_model

    def _outputs(
        self, captions: Sequence[Sequence[str]], kind: str | None
    ) -> Iterator[tuple[list[np.int64], Any]]:
        """Batches of rows of captions with a known word, and what the network gives of these: an
        output of the library's `encode`, None for a mapping with all of them for each."""
        texts = [self._text(words) for words in captions]
        lengths = [len(ids) for ids in self._network.tokenizer(texts)["input_ids"]] if texts else []
        by_length = np.argsort(lengths, kind="stable")[::-1]
        size = self._settings["batch_size"]
        for start in range(0, len(texts), size):
            rows = [row for row in by_length[start : start + size] if texts[row]]
            if rows:
                batch = [texts[row] for row in rows]
                outputs = self._network.encode(
                    batch, output_value=kind, batch_size=size, show_progress_bar=False
                )
                yield rows, outputs

    def state(self) -> State:
        """All files of the network, so that the encoder needs neither folder nor cache."""
        arrays = {
            name.replace("/", APART): np.frombuffer(content, np.uint8)
            for name, content in self._files.items()
        }
        return State(self._settings, [], dict(sorted(arrays.items())))

    @classmethod
    def fit(cls, material: Material) -> Self:
        """The network that the settings name; nothing is fitted."""
        settings: TransformerConfig = material.settings
        files = read_network(find_network(settings.model))
        return cls(settings.named(), files, checked=False)

    @staticmethod
    def depends_on(settings: TransformerConfig) -> dict[str, object]:
        """What of the settings the vectors depend on: the network by the digest of its files."""
        files = read_network(find_network(settings.model))
        return settings.named() | {"sha256": network_digest(files)}

    @classmethod
    def restore(cls, state: State, wordnet: Path | None = None) -> Self:
        """The encoding that has a state.

        Args:
            state: what `state` gave.
            wordnet: not read.

        Returns:
            An encoding that gives the same bytes.
        """
        files = {name.replace(APART, "/"): row.tobytes() for name, row in state.arrays.items()}
        return cls(state.settings, files, checked=True)

    def _text(self, words: Sequence[str]) -> str:
        return joined(list(filter(self._knows, words)))

    def _is_known(self, word: str) -> bool:
        unknown = self._network.tokenizer.unk_token_id
        ids = self._network.tokenizer(word, add_special_tokens=False)["input_ids"]
        return any(number != unknown for number in ids)


def _as_float32(module: object, inputs: object, output: dict[str, object]) -> dict[str, object]:
    """A hook behind a network that computes in bfloat16."""
    return {
        name: value.float()
        if isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16
        else value
        for name, value in output.items()
    }
