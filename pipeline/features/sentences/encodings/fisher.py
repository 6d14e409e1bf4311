"""Fisher vectors of several mixtures side by side, as Klein et al. 2015 join GMM and HGLMM.

Each mixture sees the words in the scale that suits it, and its Fisher vector is normalised by
itself; the joined vector has unit length again. The components of the words are found once.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from pipeline.corpus.vocabulary import load_background, load_known_vectors, load_unlisted_vectors
from pipeline.features.sentences.fisher import FisherVector
from pipeline.features.sentences.mixtures import fit_mixture
from pipeline.features.sentences.params import FisherConfig
from pipeline.features.sentences.state import Material, State
from pipeline.features.sentences.word_space import SCALES, fit_word_space
from pipeline.runtime.process import say


class JoinedFisher:
    """The Fisher vectors of several mixtures, [first | second | ...]; for one its own and nothing
    else. parts: by the kind of their mixture, all of the same words."""

    by_row = True  # a vector depends on its caption alone

    def __init__(self, parts: dict[str, FisherVector]) -> None:
        self.parts = parts
        self.dim = sum(part.dim for part in parts.values())

    def known(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """How many words of each of M captions have a vector, (M,) int64."""
        return next(iter(self.parts.values())).known(captions)

    def encode(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """M captions to (M, dim) float32, unit rows; zeros for a caption without a known word."""
        rows = [part.encode(captions) for part in self.parts.values()]
        joined = np.concatenate(rows, axis=1)
        # every part is of length 1, or 0 where its gradients cancel
        units = np.sum([part.any(axis=1) for part in rows], axis=0, dtype=np.float32)
        joined /= np.sqrt(np.maximum(units, 1))[:, None]
        return joined

    def state(self) -> State:
        """Words, and the vectors and mixture of each part, its arrays named `kind.array`."""
        states = {kind: part.state() for kind, part in self.parts.items()}
        first = next(iter(states.values()))
        if len(states) == 1:
            return first
        arrays = {
            f"{kind}.{name}": array
            for kind, state in states.items()
            for name, array in state.arrays.items()
        }
        return State({"kinds": list(states)}, first.words, arrays)

    @classmethod
    def fit(cls, material: Material) -> Self:
        """Fit word space and mixtures to the vectors of the vocabulary's tokens, and to those of
        other words where it has a background. Unlisted words are placed in the space alone."""
        settings: FisherConfig = material.settings
        words, vectors = load_known_vectors(material.vocabulary)
        unlisted, more = load_unlisted_vectors(material.vocabulary)
        background = load_background(material.vocabulary)
        basis = vectors if background is None else np.concatenate([vectors, background])
        space = fit_word_space(basis, settings.ica, 1.0, material.seed)
        parts = {}
        for kind in settings.mixtures:
            scaled = replace(space, scale=SCALES[kind])
            placed = scaled.apply(basis)
            centres = settings.centres
            mixture, fit = fit_mixture(placed, kind, centres, settings.iterations, material.seed)
            say(
                f"{kind} of {centres} centres on {len(placed):,} word vectors: mean log-likelihood "
                f"{fit[0]:.2f} after the first iteration, {fit[-1]:.2f} after {len(fit)}"
            )
            rows = np.concatenate([placed[: len(words)], scaled.apply(more)])
            parts[kind] = FisherVector([*words, *unlisted], rows, mixture)
        return cls(parts)

    @classmethod
    def restore(cls, state: State, wordnet: Path | None = None) -> Self:
        """The encoding that has a state.

        Args:
            state: what `state` gave.
            wordnet: not read.

        Returns:
            An encoding that gives the same bytes.
        """
        if "kind" in state.settings:
            return cls({state.settings["kind"]: FisherVector.restore(state)})
        kinds: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in state.settings["kinds"]}
        for name, array in state.arrays.items():
            kind, _, key = name.partition(".")
            kinds[kind][key] = array
        parts = {
            kind: FisherVector.restore(State({"kind": kind}, state.words, arrays))
            for kind, arrays in kinds.items()
        }
        return cls(parts)
