"""Queries of models that compare regions with words: a shortlist by vectors, then the model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.base.queries import Files, Query, found_regions, open_trained
from models.base.texts import stored_word_ids, word_ids
from pipeline.inputs.regions import RegionInputs, Regions
from pipeline.runtime.process import say
from pipeline.storage.checkpoint import Checkpoint

Embedded = tuple[Any, Tensor]  # what the model makes of one side, and its numbers of parts


class RegionQueries(ABC):
    """A models.base.queries.QueryModel; `network`: class of the model. WorkbenchError for files
    that are not those of the training."""

    network: Any

    def __init__(self, files: Files, checkpoint: Checkpoint, device: torch.device) -> None:
        self.read, model = open_trained(RegionInputs, self.network, files, checkpoint)
        self.model, self.files, self.device = model.to(device), files, device
        self._find_regions = found_regions(files, self.read.features, device)

    @abstractmethod
    def image_vectors(self, images: Embedded, /) -> Tensor:
        """The vectors (N, K) of images that score files keep."""

    @abstractmethod
    def caption_vectors(self, captions: Embedded, /) -> Tensor:
        """The vectors (M, K) of captions that score files keep."""

    @abstractmethod
    def score(self, images: Embedded, captions: Embedded) -> Tensor:
        """Similarities (N, M)."""

    @torch.inference_mode()
    def of_words(
        self, words: Sequence[str], wordnet: Path | None, tell: Callable[[str], None] = say
    ) -> Query:
        caption = self._of_words(*word_ids(words, self.read.vocabulary, tell))

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            images = self._of_regions(self.read.images(ids)(np.arange(len(ids))))
            return self.score(images, caption)[:, 0].cpu().numpy()

        return Query(self.caption_vectors(caption)[0].cpu().numpy(), rescore)

    @torch.inference_mode()
    def of_image(self, image: Image.Image) -> Query:
        found = self._of_regions(self._find_regions(image))

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            words = stored_word_ids(self.files["captions"], ids, self.read.vocabulary)
            return self.score(found, self._of_words(*words))[0].cpu().numpy()

        return Query(self.image_vectors(found)[0].cpu().numpy(), rescore)

    def _of_regions(self, regions: Regions) -> Embedded:
        there = regions.to(self.device)
        return self.model.embed_images(*there.tensors), there.counts

    def _of_words(self, tokens: Tensor, lengths: Tensor) -> Embedded:
        return self.model.embed_captions(tokens.to(self.device), lengths), lengths
