"""Section of params.yaml: phrases."""

from typing import Literal

from pipeline.runtime.section import Name, Section


class PhrasesConfig(Section):
    """Phrases: whence they come."""

    source: Literal["corpus", "flickr30k_entities", "none"]
    path: Name | None
    splits: Literal["lists", "corpus"]
