"""Queries of models that compare regions with words: a shortlist by vectors, then the model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.base.queries import Files, Query, found_regions, open_trained
from models.base.texts import Tell, stored_word_ids, word_ids
from pipeline.inputs.regions import RegionInputs, Regions
from pipeline.runtime.process import say
from pipeline.storage.checkpoint import Checkpoint

Embedded = tuple[Any, Tensor]  # what the model makes of one side, and its numbers of parts


class RegionQueries:
    """A model that takes queries, as models.base.queries.VectorQueries. WorkbenchError for files
    that are not those of the training.

    network: class of the model; image_vectors, caption_vectors: from a model and one side to the
    vectors (N, K) that score files keep; score: from a model, images and captions to similarities
    (N, M).
    """

    def __init__(
        self,
        network: Callable[..., Any],
        image_vectors: Callable[[Any, Embedded], Tensor],
        caption_vectors: Callable[[Any, Embedded], Tensor],
        score: Callable[[Any, Embedded, Embedded], Tensor],
        files: Files,
        checkpoint: Checkpoint,
        device: torch.device,
    ) -> None:
        self.read, model = open_trained(RegionInputs, network, files, checkpoint)
        self.model, self.files, self.device = model.to(device), files, device
        self.image_vectors, self.caption_vectors = image_vectors, caption_vectors
        self.score, self.find_regions = score, found_regions(files, self.read.features, device)

    @torch.inference_mode()
    def of_words(self, words: Sequence[str], wordnet: Path | None, tell: Tell = say) -> Query:
        caption = self._of_words(*word_ids(words, self.read.vocabulary, tell))

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            images = self._of_regions(self.read.images(ids)(np.arange(len(ids))))
            return self.score(self.model, images, caption)[:, 0].cpu().numpy()

        return Query(self.caption_vectors(self.model, caption)[0].cpu().numpy(), rescore)

    @torch.inference_mode()
    def of_image(self, image: Image.Image) -> Query:
        embedded = self._of_regions(self.find_regions(image))

        @torch.inference_mode()
        def rescore(ids: Sequence[str]) -> np.ndarray:
            words = stored_word_ids(self.files["captions"], ids, self.read.vocabulary)
            return self.score(self.model, embedded, self._of_words(*words))[0].cpu().numpy()

        return Query(self.image_vectors(self.model, embedded)[0].cpu().numpy(), rescore)

    def _of_regions(self, regions: Regions) -> Embedded:
        on_device = regions.to(self.device)
        return self.model.embed_images(*on_device.tensors), on_device.counts

    def _of_words(self, tokens: Tensor, lengths: Tensor) -> Embedded:
        return self.model.embed_captions(tokens.to(self.device), lengths), lengths
