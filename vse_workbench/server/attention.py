"""What a model attends to in any text and an image of the corpus, as a picture."""

from functools import cache
from pathlib import Path

import torch
from PIL import Image

from models.attention.pictures import open_attention
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.data import Inputs
from pipeline.report.attention import draw_attention
from pipeline.report.attention_reader import AttentionReader
from pipeline.search.index import query_words
from vse_workbench.search.searcher import Searcher

INPUTS = ("images", "captions", "features", "text")


class AttentionPictures:
    """A model that compares regions with words, with a reader for each split that is asked for.

    Args:
        searcher: of the model.
        device: on which it computes.
    """

    def __init__(self, searcher: Searcher, device: torch.device) -> None:
        files = searcher.files
        inputs = Inputs(**{name: files[name] for name in INPUTS})
        checkpoint = read_checkpoint(files["checkpoint"], searcher.name)

        def open_split(split: str) -> AttentionReader:
            return open_attention(searcher.name, checkpoint, inputs, device, split)

        self.reader = cache(open_split)

    def drawn(self, text: str, image_id: str, path: Path | str, split: str) -> Image.Image:
        """The image for every word of a text, lit where the model looks.

        Args:
            text: in its words.
            image_id: of the split.
            path: the image's file.
            split: of the corpus.

        Returns:
            A sheet.

        Raises:
            WorkbenchError: the split does not have the image, or the text no word.
        """
        pair = self.reader(split).of_words(image_id, query_words(text))
        return draw_attention(pair, path, text)
