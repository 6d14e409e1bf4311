"""Fisher vectors of captions, as fast as memory can be read (Klein et al. 2015, arXiv:1411.7399,
without the gradients of the mixture's weights).

Before its normalisation the Fisher vector of a caption is a sum over its words, whose summands are
computed once, as a table. Where most words belong to few centres of a mixture, it holds their
gradients for those alone.

Shapes: V words, C dimensions of a word vector, K centres, M captions of T known words, P pairs of a
word and a centre that it belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch

from pipeline.features.sentences.bags import Bags, add_rows, bags_of, index_words
from pipeline.features.sentences.mixtures import Mixture
from pipeline.features.sentences.state import State
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress

TILE = 64  # captions at a time: few enough to stay in the cache
PAIRS = 128  # of the table at a time
# A word's gradients for a centre are left out below this share of its largest. Behind the root of
# the normalisation it is 2^-24, the rounding of float32 for a row of length 1.
LEAST = 2.0**-48
FULL = 0.5  # share of the pairs from which it is quicker to hold and add them all
_TINY = torch.finfo(torch.float32).tiny


class FisherVector:
    """Fisher vectors over a mixture of word vectors, [K x C first order | K x C second order].

    Args:
        words: V different words.
        vectors: (V, C) of the words, in the space the mixture was fitted in.
        mixture: of K centres. A table of 2PC float32 is held, P at most V K.

    Raises:
        WorkbenchError: for values that are not finite.
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray, mixture: Mixture) -> None:
        self._index = index_words(words, vectors)
        self._vectors = np.array(vectors, np.float32)
        self._mixture = mixture
        self._table = fisher_table(self._vectors, mixture)
        self.dim = 2 * mixture.laplacian.size

    def known(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """How many words of each of M captions have a vector, (M,) int64."""
        return bags_of(captions, self._index).lengths

    def encode(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """M captions to (M, 2KC) float32, unit rows; zeros for a caption without a known word."""
        encoded = np.empty((len(captions), self.dim), np.float32)
        for start in range(0, len(captions), TILE):
            tile = slice(start, start + TILE)
            sums = self._table.add(bags_of(captions[tile], self._index))
            normalise(sums, out=torch.from_numpy(encoded[tile]).view_as(sums))
        return encoded

    def state(self) -> State:
        """Words, vectors and mixture; the table is computed from them."""
        values = {field.name: getattr(self._mixture, field.name) for field in fields(Mixture)}
        kind = values.pop("kind")
        values["laplacian"] = values["laplacian"].astype(np.uint8)  # files hold no booleans
        arrays = {name: array.copy() for name, array in values.items()}
        return State({"kind": kind}, list(self._index), {"vectors": self._vectors.copy(), **arrays})

    @classmethod
    def restore(cls, state: State) -> Self:
        """The Fisher vectors that have a state, computed to the same bytes."""
        arrays = dict(state.arrays)
        vectors = arrays.pop("vectors")
        arrays["laplacian"] = arrays["laplacian"].astype(np.bool_)
        return cls(state.words, vectors, Mixture(state.settings["kind"], **arrays))


def normalise(sums: torch.Tensor, out: torch.Tensor) -> None:
    """Signed root of every value, then unit rows (Perronnin et al. 2010); rows of zeros stay.

    Args:
        sums: (M, 2K, C) float32, a row for each of M captions.
        out: (M, 2K, C) float32, takes the result.
    """
    torch.abs(sums, out=out)
    # The squared L2 norm of the roots is the sum of the values. In two steps, because a sum to one
    # number is split among the threads and its last bits then depend on how many rows there are.
    norm = out.sum(2).sum(1).clamp_min_(_TINY)
    out.mul_(norm.reciprocal_()[:, None, None]).sqrt_().copysign_(sums)


@dataclass(frozen=True, eq=False)
class FisherTable:
    """The Fisher vectors of single words before normalisation."""

    # gradients for locations and for widths, of all pairs (V, 2, K, C), or of those that LEAST
    # leaves, word after word, (2, P, C)
    values: np.ndarray
    centres: np.ndarray  # (P,) int64, of which centre, ascending for each word
    starts: np.ndarray  # (V,) int64, where the pairs of a word begin
    counts: np.ndarray  # (V,) int64, how many it has, at least 1
    most: int  # K

    def add(self, bags: Bags) -> torch.Tensor:
        """Sums over the words of M captions, (M, 2K, C); each in the order of its words."""
        width = self.values.shape[-1]
        if self.values.ndim == 4:
            rows = self.values.reshape(len(self.values), -1)
        else:
            rows = self.values.reshape(-1, width)
            bags = self._spread(bags)
        return add_rows(torch.from_numpy(rows), bags).view(-1, 2 * self.most, width)

    def _spread(self, bags: Bags) -> Bags:
        """A bag for every caption, order of gradients and centre, from one for every caption."""
        counts = self.counts[bags.rows]
        slots = 2 * self.most * len(bags.lengths)
        before = np.cumsum(counts) - counts
        rows = np.repeat(self.starts[bags.rows] - before, counts) + np.arange(counts.sum())
        firsts = np.repeat(np.arange(0, slots, 2 * self.most), bags.lengths)
        slot = np.repeat(firsts, counts) + self.centres[rows]
        rows = np.concatenate([rows, rows + len(self.centres)])
        # numpy sorts small types by their digits, many times as fast
        slot = np.concatenate([slot, slot + self.most]).astype(np.min_scalar_type(slots))
        lengths = np.bincount(slot, minlength=slots)
        order = slot.argsort(kind="stable")
        return Bags(rows[order], np.cumsum(lengths) - lengths, lengths)


def fisher_table(
    vectors: np.ndarray, mixture: Mixture, dtype: type[np.floating] = np.float32
) -> FisherTable:
    """The Fisher vectors of single words before normalisation, computed in float64 a few pairs at a
    time.

    Args:
        vectors: (V, C) of the words.
        mixture: of K centres.
        dtype: to which the result is rounded, once.

    Returns:
        The table of all pairs of a word and a centre, or of those that LEAST leaves.

    Raises:
        WorkbenchError: for words too far from the centres.
    """
    share = mixture.responsibilities(vectors) / np.sqrt(mixture.weights)
    kept = share > LEAST * share.max(axis=1, keepdims=True)
    is_full = bool(kept.mean() > FULL)
    words, centres = np.nonzero(kept | is_full)
    counts = np.bincount(words, minlength=len(kept))
    share = share[words, centres]
    width = vectors.shape[1]
    most = kept.shape[1]
    shape = (len(kept), 2, most, width) if is_full else (2, len(words), width)
    values = np.empty(shape, dtype)
    with Progress("Fisher table", len(words), "gradients") as progress:
        for start in range(0, len(words), PAIRS):
            tile = slice(start, start + PAIRS)
            out = _gradients(mixture, vectors[words[tile]], centres[tile], share[tile], dtype)
            if not np.isfinite(out).all():
                raise WorkbenchError(
                    "word vectors are too far from the mixture's centres for a Fisher vector",
                    "fit the mixture on vectors of the same file and preparation",
                )
            if is_full:
                values[words[tile], :, centres[tile]] = out.swapaxes(0, 1)
            else:
                values[:, tile] = out
            progress.update(out.shape[1])
    return FisherTable(values, centres, np.cumsum(counts) - counts, counts, most)


def _gradients(
    mixture: Mixture,
    x: np.ndarray,
    centres: np.ndarray,
    share: np.ndarray,
    dtype: type[np.floating],
) -> np.ndarray:
    """Gradients of words' log-likelihood by the centres' locations and widths, (2, B, C).

    They are divided by the roots of the Fisher information: w / sigma^2 and 2w / sigma^2 for mean
    and deviation of a Gaussian, w / s^2 for median and scale of a Laplacian, whose slope at its
    median is taken from the right. x: (B, C); centres: (B,); share: (B,), responsibilities over the
    roots of the weights w.
    """
    laplacian = mixture.laplacian[centres]
    location = np.where(laplacian, mixture.median[centres], mixture.mean[centres])
    width = np.where(laplacian, mixture.scale[centres], np.sqrt(mixture.variance[centres]))
    away = (x - location) / width
    factor = share[:, None]
    first = np.where(laplacian, np.copysign(1.0, away), away) * factor
    second = np.where(laplacian, np.abs(away), np.square(away)) - 1
    second *= np.where(laplacian, 1.0, np.sqrt(0.5))
    with np.errstate(over="ignore"):  # becomes infinite, which is reported
        return np.stack([first, second * factor]).astype(dtype)
