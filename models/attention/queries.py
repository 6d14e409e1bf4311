"""Queries of models that compare regions with words: a shortlist by vectors, then the model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from models.attention.inputs import open_rows
from models.base.queries import Query
from models.base.texts import stored_word_ids, word_ids
from pipeline.corpus.images import check_aspect
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.regions import RegionRows, Regions
from pipeline.inputs.words import identity
from pipeline.runtime.process import say
from pipeline.storage.checkpoint import Checkpoint


class RegionQueries(ABC):
    """A models.base.queries.QueryModel; `network`: class of the model.

    Args:
        files: by what they are: `text`, `features`, `captions` and `detector` are read.
        checkpoint: of the model.
        device: where it runs.

    Raises:
        WorkbenchError: files that are not those of the training.
    """

    network: Any

    def __init__(
        self, files: dict[str, Path], checkpoint: Checkpoint, device: torch.device
    ) -> None:
        self.vocabulary, self.regions = Vocabulary.load(files["text"]), open_rows(files["features"])
        checkpoint.require(identity(self.vocabulary, self.regions))
        self.model, self.device = checkpoint.build(self.network).to(device), device
        self.files = files

    @abstractmethod
    def embed_regions(self, regions: Regions) -> Any:
        """N images, regions on the device."""

    @abstractmethod
    def embed_words(self, tokens: torch.Tensor, lengths: torch.Tensor) -> Any:
        """M captions, word ids (M, T) on the device."""

    @abstractmethod
    def vectors(self, images: Any = None, captions: Any = None) -> torch.Tensor:
        """The vectors (B, K) of either side that score files keep."""

    @abstractmethod
    def score(self, images: Any, captions: Any) -> torch.Tensor:
        """Similarities (N, M)."""

    @torch.inference_mode()
    def of_words(
        self, words: Sequence[str], wordnet: Path | None, tell: Callable[[str], None] = say
    ) -> Query:
        """The query of a text; images are scored by their regions.

        Args:
            words: of the text.
            wordnet: folder of WordNet's files, None to look for them.
            tell: is told of words that are not known.
        """
        caption = self._embedded(*word_ids(words, self.vocabulary, tell))

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            images = RegionRows(self.regions, ids)(np.arange(len(ids))).to(self.device)
            return self.score(self.embed_regions(images), caption)[:, 0].cpu().numpy()

        return Query(self.vectors(captions=caption)[0].cpu().numpy(), rescore)

    @torch.inference_mode()
    def of_image(self, image: Image.Image) -> Query:
        """The query of an image; captions are scored by their words."""
        check_aspect(image)
        found = self.embed_regions(self._find_regions(image).to(self.device))

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            words = stored_word_ids(self.files["captions"], ids, self.vocabulary)
            return self.score(found, self._embedded(*words))[0].cpu().numpy()

        return Query(self.vectors(images=found)[0].cpu().numpy(), rescore)

    @cached_property
    def _find_regions(self) -> Callable[[Image.Image], Regions]:
        from models.detector.queries import region_finder  # torchvision takes seconds to load

        return region_finder(self.regions, self.files["detector"], self.device)

    def _embedded(self, tokens: torch.Tensor, lengths: torch.Tensor) -> Any:
        return self.embed_words(tokens.to(self.device), lengths)
