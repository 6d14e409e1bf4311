"""Fisher vectors of captions, as fast as memory can be read.

Before its normalisation the Fisher vector of a caption is a sum over its words, and the summand
depends on the word alone. All summands are computed once, as a table with a row per word, so that
encoding a caption is adding a dozen rows. The definition is that of Klein et al. 2015
(arXiv:1411.7399), without the gradients of the mixture's weights.

Shapes: V words, C dimensions of a word vector, K centres, M captions of T known words.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Self

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from pipeline.sentences.bags import add_rows, gather, index_words
from pipeline.sentences.mixtures import Mixture
from pipeline.sentences.state import State

TILE = 64  # captions, or words of the table, at a time: few enough to stay in the cache
_TINY = torch.finfo(torch.float32).tiny


class FisherVector:
    """Fisher vectors over a mixture of word vectors, [K x C first order | K x C second order].

    Holds the table of (V, 2KC) float32.

    Args:
        words: V different words.
        vectors: (V, C) in the space the mixture was fitted in.
        mixture: of K centres and C dimensions.

    Raises:
        WorkbenchError: words, vectors and mixture do not fit each other, or a value is not finite.
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray, mixture: Mixture) -> None:
        self._index = index_words(words, vectors)
        self._vectors = np.array(vectors, np.float32)
        self._mixture = mixture
        self._table = torch.from_numpy(fisher_table(self._vectors, mixture))
        self.dim = self._table.shape[1]

    def known(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """How many words of each of M captions have a vector, (M,) int64."""
        return gather(captions, self._index).lengths

    def encode(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """M captions to (M, 2KC) float32, unit rows; zeros for a caption without a known word."""
        encoded = np.empty((len(captions), self.dim), np.float32)
        for start in range(0, len(captions), TILE):
            tile = slice(start, start + TILE)
            sums = add_rows(self._table, gather(captions[tile], self._index))
            sums = sums.view(len(sums), -1, self._vectors.shape[1])
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
        """The encoder whose state this is."""
        arrays = dict(state.arrays)
        vectors = arrays.pop("vectors")
        arrays["laplacian"] = arrays["laplacian"].astype(np.bool_)
        return cls(state.words, vectors, Mixture(state.settings["kind"], **arrays))


def normalise(sums: torch.Tensor, out: torch.Tensor) -> None:
    """Signed root of every value, then unit rows: (M, 2K, C) float32 into `out` of that shape.

    A row of zeros stays one. A factor common to a row drops out, so the T^-1/2 of the definition is
    never multiplied in.
    """
    torch.abs(sums, out=out)
    # The squared L2 norm of the roots is the sum of the values. In two steps, because a sum to one
    # number is split among the threads and its last bits then depend on how many rows there are.
    norm = out.sum(2).sum(1).clamp_min_(_TINY)
    out.mul_(norm.reciprocal_()[:, None, None]).sqrt_().copysign_(sums)


def fisher_table(
    vectors: np.ndarray, mixture: Mixture, dtype: type[np.floating] = np.float32
) -> np.ndarray:
    """The Fisher vectors of single words before normalisation.

    Computed in float64 a few words at a time, rounded to `dtype` once.

    Args:
        vectors: (V, C) of the words.
        mixture: of K centres and C dimensions.
        dtype: of the result.

    Returns:
        (V, 2KC).

    Raises:
        WorkbenchError: vectors not as wide as the mixture, or too far from its centres for that
            type.
    """
    _check_width(vectors, mixture)
    table = np.empty((len(vectors), 2, *mixture.laplacian.shape), dtype)
    share = torch.from_numpy(mixture.responsibilities(vectors) / np.sqrt(mixture.weights))
    # memory allocated anew for every tile would take longer than the arithmetic
    spare = torch.empty(2, TILE, *mixture.laplacian.shape, dtype=torch.float64)
    with Progress("Fisher table", len(vectors), "words") as progress:
        for start in range(0, len(vectors), TILE):
            tile = slice(start, start + TILE)
            x, out = torch.from_numpy(vectors[tile]).double(), torch.from_numpy(table[tile])
            _write_gradients(x, share[tile], mixture, spare[:, : len(x)], out)
            _check_finite(out)
            progress.update(len(x))
    return table.reshape(len(vectors), -1)


def _write_gradients(
    x: torch.Tensor, share: torch.Tensor, mixture: Mixture, spare: torch.Tensor, out: torch.Tensor
) -> None:
    """Gradients of words' log-likelihood with respect to the centres' locations and widths.

    x: (B, C) float64; share: (B, K), responsibilities over the roots of the weights w; spare:
    (2, B, K, C) float64, overwritten; out: (B, 2, K, C). The gradients are divided by the roots of
    the Fisher information, which is w / sigma^2 and 2w / sigma^2 for mean and deviation of a
    Gaussian, w / s^2 for median and scale of a Laplacian. At its median a Laplacian's slope is
    taken from the right.
    """
    laplacian = torch.from_numpy(mixture.laplacian)
    location = np.where(mixture.laplacian, mixture.median, mixture.mean)
    width = np.where(mixture.laplacian, mixture.scale, np.sqrt(mixture.variance))
    second = torch.from_numpy(np.where(mixture.laplacian, 1.0, np.sqrt(0.5)))
    away, value = spare
    torch.sub(x[:, None], torch.from_numpy(location), out=away).div_(torch.from_numpy(width))
    torch.copysign(torch.ones((), dtype=torch.float64), away, out=value)
    torch.where(laplacian, value, away, out=value)
    out[:, 0] = value.mul_(share[..., None])
    torch.square(away, out=value)
    torch.where(laplacian, away.abs_(), value, out=value)
    out[:, 1] = value.sub_(1).mul_(second).mul_(share[..., None])


def _check_width(vectors: np.ndarray, mixture: Mixture) -> None:
    width = mixture.laplacian.shape[1]
    if vectors.shape[1] != width:
        raise WorkbenchError(
            f"word vectors have {vectors.shape[1]} dimensions, but the mixture has {width}",
            "map the vectors into the space in which the mixture was fitted",
        )


def _check_finite(gradients: torch.Tensor) -> None:
    if not gradients.isfinite().all():
        raise WorkbenchError(
            "word vectors are too far from the mixture's centres for a Fisher vector",
            "fit the mixture on vectors of the same file and preparation",
        )
