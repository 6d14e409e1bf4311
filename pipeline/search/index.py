"""Searching an indexed corpus: the embeddings of a split in a score file nearest to that of a
query, best first. A model of pairs scores the rows that vectors chose again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.corpus.tokens import tokenise
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.runtime.text import printable

KINDS = ("image", "caption")
SHORTLIST = 100  # how many of the nearest are scored again, where there are such
Nearest = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True, eq=False)
class Index:
    """What is searched: N ids and embeddings (N, K) float32, finite, perhaps mapped from a file.
    `nearest` maps vectors (Q, K) and a count to rows (Q, count) that are among the nearest, -1
    where fewer were found; None: all rows are compared, and the result is exact."""

    ids: list[str]
    embeddings: np.ndarray
    nearest: Nearest | None = None

    def candidates(self, vector: np.ndarray, count: int) -> tuple["Index", np.ndarray]:
        """What may be found for a query, in the order of the rows, with exact inner products.

        Args:
            vector: (K,) of the query.
            count: how many an approximate index finds; an exact one gives all rows.

        Returns:
            The items that may be found, and the score (n,) of each.
        """
        if self.nearest is None:
            return self, self.embeddings @ vector
        nearest = self.nearest(np.asarray(vector[None], np.float32), count)[0]
        rows = np.sort(nearest[nearest >= 0])  # so that equal scores are in the order of the rows
        near = Index([self.ids[row] for row in rows], self.embeddings[rows])
        return near, near.embeddings @ vector


@dataclass(frozen=True)
class Hit:
    """One result: rank from 1, score, id, its caption (or the image's first), path of the image."""

    rank: int
    score: float
    name: str
    text: str
    path: str


def read_index(path: Path, split: str, kind: str, checkpoint_sha256: str) -> Index:
    """The ids and embeddings of a split, digests verified, memory-mapped.

    Args:
        path: the score file.
        split: of the corpus.
        kind: image or caption.
        checkpoint_sha256: digest of the weights that must have made them.

    Returns:
        An exact index.

    Raises:
        WorkbenchError: an unknown split, a model without embeddings, other weights, a damaged file.
    """
    file = GroupFile(path)
    if split not in file.layouts:
        raise WorkbenchError(f"split {split!r}: {path} has {listing(sorted(file.layouts))}")
    if file.attributes.get("checkpoint_sha256") != checkpoint_sha256:
        raise WorkbenchError(f"{path}: not made with the weights of the checkpoint", OUT_OF_STEP)
    name = f"{kind}_embeddings"
    if name not in file.names(split):
        raise WorkbenchError(
            f"{path}: has no {name}: its model has no vectors of single images and captions",
            "search with a model that has, such as vse",
        )
    return Index(file.texts(split, f"{kind}_ids"), np.asarray(file.view(split, name)))


def top_rows(scores: np.ndarray, top: int) -> np.ndarray:
    """Rows of the largest scores, best first; equal scores in the order of the rows.

    Args:
        scores: (N,).
        top: how many; all where it is 0 or at least N.

    Returns:
        (top,) int64.
    """
    negated = -scores
    rows = np.arange(len(scores))
    if 0 < top < len(scores):  # a sort of those alone that can be among them
        worst = np.partition(negated, top - 1)[top - 1]
        rows = np.flatnonzero(~(negated > worst))
    return rows[np.argsort(negated[rows], kind="stable")][:top]


def query_words(text: str) -> list[str]:
    """The words of a query, cut as those of the corpus; WorkbenchError when there are none."""
    words = tokenise(text)
    if not words:
        raise WorkbenchError(
            f"the query {text!r} has no words" if text.strip() else "the query is empty",
            'give words to search for, such as: "a big red star"',
        )
    return words


def rows_of_ids(names: pd.Index, wanted: Iterable[str], where: str) -> np.ndarray:
    """Rows of ids in a table or file.

    Args:
        names: its ids.
        wanted: Q ids.
        where: the table or file, for the message.

    Returns:
        (Q,) int64.

    Raises:
        WorkbenchError: it lacks one of the ids.
    """
    chosen = pd.Index(list(wanted))
    rows = names.get_indexer(chosen)
    if (rows < 0).any():
        text = f"{where} lacks {listing(chosen[rows < 0], 5)}"
        raise WorkbenchError(f"{text}: the files are of different corpora", OUT_OF_STEP)
    return rows


class Catalogue:
    """The tables of a corpus, looked up by ids: what that takes of a million rows is made once.

    Args:
        images: the images table.
        captions: the captions table.
    """

    def __init__(self, images: pd.DataFrame, captions: pd.DataFrame) -> None:
        self.images = images
        self.captions = captions
        keys = {"image": images["image_id"], "caption": captions["caption_id"]}
        self._keys = {kind: pd.Index(ids) for kind, ids in keys.items()}

    def rows(self, kind: str, names: Sequence[str]) -> pd.DataFrame:
        """The rows of some images or captions.

        Args:
            kind: image or caption.
            names: their ids.

        Returns:
            Rows of the table in the order of the ids.

        Raises:
            WorkbenchError: the corpus lacks one of the ids.
        """
        table = self.images if kind == "image" else self.captions
        return table.iloc[rows_of_ids(self._keys[kind], names, "the corpus")]

    @cached_property
    def first_captions(self) -> pd.Series:
        """By image_id the text of its first caption in the order of the corpus."""
        return self.captions.drop_duplicates("image_id").set_index("image_id")["text"]


def find_hits(
    index: Index, scores: np.ndarray, top: int, catalogue: Catalogue, kind: str
) -> list[Hit]:
    """The best items of an index, with their texts and files.

    Args:
        index: of N images or captions.
        scores: (N,) of the items.
        top: how many, all where there are fewer.
        catalogue: the corpus.
        kind: image or caption.

    Returns:
        Best first; equal scores in the order of the index.
    """
    rows = top_rows(scores, top)
    names = [index.ids[row] for row in rows]
    if kind == "caption":
        captions = catalogue.rows("caption", names)
        pictures = captions["image_id"].tolist()
        texts = captions["text"].tolist()
    else:
        pictures = names
        texts = catalogue.first_captions.reindex(names, fill_value="").tolist()
    paths = catalogue.rows("image", pictures)["path"].tolist()
    ranks = range(1, len(names) + 1)
    return list(map(Hit, ranks, scores[rows].tolist(), names, texts, paths))


def hit_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """Aligned lines for a terminal: rank, score, id and text, control characters made visible."""
    names = [printable(hit.name) for hit in hits]
    places = len(str(len(hits)))
    width = max(map(len, names), default=0)
    for hit, name in zip(hits, names, strict=True):
        text = f'"{printable(" ".join(hit.text.split()))}"' if hit.text else ""
        yield f"{hit.rank:>{places + 1}} {hit.score:7.3f}  {name:<{width}}  {text}".rstrip()
