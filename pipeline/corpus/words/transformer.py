"""Word vectors of a transformer: the input embeddings of the words that its tokenizer keeps whole.

Of a model's folder, in Hugging Face's layout, tokenizer.json and one tensor are read, no more.
"""

import re
import unicodedata
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.corpus.words.files import LARGEST_DIM, Rows
from pipeline.corpus.words.sample import WordSample
from pipeline.features.arrays.file import Array
from pipeline.features.arrays.formats import open_arrays
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.text import read_json

TOKENIZER = "tokenizer.json"
LARGEST = 1 << 27  # bytes of a tokenizer; those of 250,000 pieces have 33 million
# libraries give the input embeddings one of these names, most of them after a prefix
TABLES = ("word_embeddings", "shared", "embed_tokens", "wte", "token_embedding", "tok_embeddings")
SPECIAL = re.compile(r"\[.+\]|<.+>")  # [CLS], [unused7], <s>
# GPT-2's letters for bytes: a printable byte is its own letter, the others follow U+0100
PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
BYTES = dict(zip(map(chr, PRINTABLE), PRINTABLE, strict=True))
BYTES |= {chr(256 + i): byte for i, byte in enumerate(sorted({*range(256)}.difference(PRINTABLE)))}


def model_folder(name: str, file: str = TOKENIZER) -> Path | None:
    """The folder of a model; None where there is none.

    Args:
        name: a path, or a name such as `org/name`, which is looked for in Hugging Face's cache.
        file: one that the folder in the cache must hold.

    Returns:
        An existing folder: `name` itself, or the one of the cache that holds `file`; None for
        neither.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(name, file)
    except ValueError:  # not the form of a name
        return None
    return Path(cached).parent if isinstance(cached, str) else None


class Transformer:
    """The whole words of a model and the table of their vectors (V, D); WorkbenchError for a folder
    that has no such files, or files of two models."""

    def __init__(self, name: Path) -> None:
        folder = model_folder(str(name)) or name
        path = folder / TOKENIZER
        if not path.is_file() or path.stat().st_size > LARGEST:
            raise WorkbenchError(
                f"{path}: no such file, or larger than {LARGEST:,} bytes",
                f"set vocabulary.vectors to a folder with {TOKENIZER} and model.safetensors",
            )
        content = read_json(path)
        try:
            self._words = sorted(_whole_words(content["model"]))
            self._lower, self._plain = _normaliser(content.get("normalizer"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WorkbenchError(f"{path}: not a tokenizer of Hugging Face: {error!r}") from None
        if not self._words:
            raise WorkbenchError(f"{path}: no entry is a whole word")
        weights, self._table = _table(folder, 1 + self._words[-1][0])
        self.sha256 = {file.name: sha256_file(file) for file in (path, weights)}

    def normalise(self, word: str) -> str:
        """A word in the case, and with the accents, in which the tokenizer looks it up."""
        if self._plain:
            letters = unicodedata.normalize("NFD", word)
            word = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
        return word.lower() if self._lower else word

    def read(self, wanted: Container[str], sample: WordSample) -> tuple[int, Rows]:
        """The vectors of wanted words that the tokenizer keeps whole.

        Args:
            wanted: words as the tokenizer looks them up (`normalise`).
            sample: it is offered the other words.

        Returns:
            D, and a row (D,) float32 per word.
        """
        rows: Rows = {}
        begin = 0
        index = 0
        for block in self._table.blocks():
            while index < len(self._words) and self._words[index][0] < begin + len(block):
                number, word = self._words[index]
                index += 1
                if word in wanted:
                    rows[word] = block[number - begin].astype(np.float32)
                if index == sample.next:
                    sample.offer(word, block[number - begin])
            begin += len(block)
        return self._table.shape[1], rows


def _whole_words(model: Any) -> Iterator[tuple[int, str]]:
    """Yield (id, word) of pieces that begin and end a word. WordPiece marks the others (`##`), byte
    pairs and Unigram the space before a word (`Ġ`, `▁`), CLIP its end (`</w>`)."""
    pieces = model["vocab"]
    others = model.get("continuing_subword_prefix") or ""
    end = model.get("end_of_word_suffix") or ""
    marked = isinstance(pieces, list) or "merges" in model
    if isinstance(pieces, list):  # Unigram: (piece, score), ids are positions
        pieces = {piece: number for number, (piece, _) in enumerate(pieces)}
    mark = "" if end else max("▁Ġ", key=lambda mark: sum(piece[:1] == mark for piece in pieces))
    for piece, number in pieces.items():
        if type(number) is not int or number < 0:
            raise ValueError(f"{piece!r} has the id {number!r}")
        word = ""
        if marked and piece.startswith(mark) and piece.endswith(end):
            word = piece[len(mark) : len(piece) - len(end)]
            word = word if mark == "▁" else _decoded(word)
        elif not (marked or SPECIAL.fullmatch(piece) or (others and piece.startswith(others))):
            word = piece
        if word:
            yield number, word


def _decoded(piece: str) -> str:
    """A piece in GPT-2's letters as text; empty where it is none."""
    try:
        return bytes(BYTES[letter] for letter in piece).decode()
    except (KeyError, UnicodeDecodeError):
        return ""


def _normaliser(stated: Any) -> tuple[bool, bool]:
    """Whether a tokenizer lower-cases words, and whether it takes their accents away."""
    steps = stated.get("normalizers", [stated]) if stated else []
    kinds = {step["type"]: step for step in steps}
    bert = kinds.get("BertNormalizer", {"lowercase": False})
    accents = bert.get("strip_accents")
    lower = "Lowercase" in kinds or bert["lowercase"]
    return lower, "StripAccents" in kinds or (bert["lowercase"] if accents is None else accents)


def _table(folder: Path, rows: int) -> tuple[Path, Array]:
    """The file with the input embeddings and the array, which has `rows` rows or more."""
    files = [open_arrays(path) for path in sorted(folder.glob("model*.safetensors"))]
    if not files:
        raise WorkbenchError(
            f"{folder}: no model.safetensors; a pickle as pytorch_model.bin can run code and is "
            "not read",
            "if you trust the model, save it with: model.save_pretrained(FOLDER)",
        )
    arrays = [(f".{name}", file.path, file.array(name)) for file in files for name in file.names]
    fitting = [
        (name, path, array)
        for name, path, array in arrays
        if len(array.shape) == 2 and array.shape[0] >= rows and 1 <= array.shape[1] <= LARGEST_DIM
        if array.dtype.kind == "f"  # integers would be a quantised table
    ]
    for known in TABLES:
        for name, path, array in fitting:
            if name.endswith(f".{known}.weight"):
                return path, array
    shown = listing(f"{name[1:]} {array.shape}" for name, _, array in fitting)
    raise WorkbenchError(
        f"{folder}: no table of word embeddings ({', '.join(TABLES)}) with {rows:,} rows, as the "
        f"ids of {TOKENIZER} need; tables of this size: {shown or 'none'}",
        "take both files from the same model, or give the table one of these names",
    )
