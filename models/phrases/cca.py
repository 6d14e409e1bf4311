"""Canonical correlation analysis of boxes and phrases, the baseline (Plummer et al. 2015)."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from models.base import Run, in_blocks
from models.cca import BLOCK, CCA, CCAConfig
from models.phrases.data import DRAWN, PhraseData, PhrasePairs, PhraseSearch, validate_phrases
from pipeline.training.trainer import TrainingResult, Validation


class PhraseCCAConfig(CCAConfig):
    """The section `phrase_cca` of params.yaml (Plummer et al. 2015: power 4)."""


class PhraseCCA(CCA):
    """Both sides in the space of normalised CCA."""

    Config: ClassVar[type[CCAConfig]] = PhraseCCAConfig

    def used(self, name: str, run: Run) -> dict[str, Any]:
        """What decides the weights: the section, and the seed, which draws the pairs.

        Args:
            name: Of the model.
            run: Has the seed.

        Returns:
            The values, which JSON can hold.
        """
        return {name: self.config.model_dump() | DRAWN, "seed": run.seed}

    def fit(self, data: PhraseData) -> TrainingResult:  # type: ignore[override]
        """Fit the training pairs.

        Args:
            data: Of the run.

        Returns:
            The kept fit, and a row for each regularisation.
        """
        pairs = data.train.pairs
        blocks = paired_blocks(data.train)
        return self.fit_pairs("phrase_cca", blocks, len(pairs), data.search("val"))

    def validate(self, val: PhraseSearch) -> Validation:  # type: ignore[override]
        """How many phrases are found."""
        return validate_phrases(self, val)


def paired_blocks(data: PhrasePairs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Vectors (B, D) of boxes and (B, E) of phrases, a row per pair."""
    for rows in in_blocks(len(data.pairs), BLOCK):
        regions, phrases = data.pairs[rows].T
        yield data.regions(regions).numpy(), data.phrases(phrases).numpy()
