"""The public interface to an exported model: vectors of images and captions in three lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from models.base.queries import query_model
from pipeline.corpus.images import open_rgb
from pipeline.search.index import words_of
from vse_workbench.export.folder import read_folder

MAX_PIXELS = 100_000_000


class Embedder:
    """An exported model that embeds images and captions.

    `Embedder.load(folder)` makes one, of a folder that `vse export model` wrote. Inner products of
    its vectors are the scores of vse, two_branch, cca and dual_path; of scan and dp_rnn, which
    compare regions with words, they are the vectors by which search makes its shortlist.
    """

    def __init__(self, folder: Path | str, device: str = "cpu") -> None:
        self.model, files, checkpoint = read_folder(Path(folder))
        self._queries = query_model(self.model, files, checkpoint, torch.device(device))
        self.sha256 = checkpoint.sha256

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu") -> Self:
        """The model of an exported folder, on the device `cpu` or `cuda`."""
        return cls(folder, device)

    def images(self, paths: Sequence[Path | str]) -> np.ndarray:
        """Vectors of N image files, (N, K) float32 with unit rows."""
        opened = (open_rgb(Path(path), MAX_PIXELS) for path in paths)
        return np.stack([self._queries.of_image(image).vector for image in opened])

    def captions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of M texts, (M, K) float32 with unit rows; unknown words go to standard error."""
        return np.stack([self._queries.of_words(words_of(text), None).vector for text in texts])
