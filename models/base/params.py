"""What the sections of models that read words have in common."""

from typing import Literal

from pipeline.runtime.section import Count, Positive, Section


class WordsConfig(Section):
    word_dim: Count = 100
    word_vectors: Literal["random", "pretrained"] = "random"
    standardise_images: bool = True
    margin: Positive = 0.2
