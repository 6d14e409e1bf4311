"""What a model attends to in any text and an image of the corpus, as a picture."""

from pathlib import Path

import torch
from PIL import Image

from models.base.attention import attention_of
from pipeline.attention.reader import AttentionReader
from pipeline.inputs.files import Inputs
from pipeline.report.attention import draw_attention
from pipeline.search.index import words_of
from pipeline.storage.checkpoint import read_checkpoint
from vse_workbench.search.searcher import Searcher


class AttentionPictures:
    """A model that compares regions with words, with a reader for each split that is asked for."""

    def __init__(self, searcher: Searcher, device: torch.device) -> None:
        self.files, self.device = searcher.files, device
        self.open = attention_of(searcher.name)
        self.checkpoint = read_checkpoint(self.files["checkpoint"], searcher.name)
        self._readers: dict[str, AttentionReader] = {}

    def drawn(self, text: str, image_id: str, path: Path | str, split: str) -> Image.Image:
        """The image for every word of the text, lit where the model looks."""
        if split not in self._readers:
            names = ("images", "captions", "features", "text")
            inputs = Inputs(**{name: self.files[name] for name in names})
            self._readers[split] = self.open(self.checkpoint, inputs, self.device, split)
        pair = self._readers[split].of_words(image_id, words_of(text))
        return draw_attention(pair, path, text)
