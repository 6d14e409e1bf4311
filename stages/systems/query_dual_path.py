"""Queries of the dual path: words in slots, images as pixels, both as at its scoring."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from pipeline.checkpoint import Checkpoint
from pipeline.feature_store import FeatureFile
from pipeline.pixels import pixel_preprocessing
from pipeline.runtime import say
from pipeline.search import check_words
from pipeline.slots import SlotRows
from pipeline.vocabulary import Vocabulary
from stages.systems.dual_path_inputs import identity
from stages.systems.dual_path_network import build
from stages.systems.queries import Query
from stages.systems.query_inputs import check_aspect


class DualPathQueries:
    """A stages.systems.queries.QueryModel; the image CNN is part of the checkpoint."""

    def __init__(
        self, files: dict[str, Path], checkpoint: Checkpoint, device: torch.device
    ) -> None:
        self.vocabulary, self.device = Vocabulary.load(files["text"]), device
        checkpoint.require(identity(self.vocabulary, FeatureFile(files["features"])))
        self.network = checkpoint.build(build).to(device)
        self.sizes = checkpoint.description.architecture

    @torch.inference_mode()
    def of_words(self, words: Sequence[str], wordnet: Path | None) -> Query:
        """The query of a text, begun in the first slot and clipped to the slots."""
        known = [Vocabulary.UNK not in self.vocabulary.encode([word]) for word in words]
        unknown = check_words(words, known, "the vocabulary")
        if unknown:
            say(f"not in the vocabulary, left out: {', '.join(unknown)}")
        ids = [word for word in self.vocabulary.encode(words) if word != Vocabulary.UNK]
        slots = SlotRows([ids], int(self.sizes["slots"]), "left")
        if slots.clipped:
            say(f"clipped to the first {self.sizes['slots']} words")
        (first,) = slots(np.array([0]))
        return Query(self.network.embed_captions(first.to(self.device))[0].cpu().numpy())

    @torch.inference_mode()
    def of_image(self, image: Image.Image) -> Query:
        """The query of an image, the mean of it and its mirror image as the network says."""
        check_aspect(image)
        resize, crop = int(self.sizes["image_resize"]), int(self.sizes["image_crop"])
        crops = pixel_preprocessing(str(self.sizes["image_model"]), resize, crop).crops(image)
        pixels = torch.from_numpy(crops).to(self.device)
        return Query(self.network.embed_images(pixels)[0].cpu().numpy())
