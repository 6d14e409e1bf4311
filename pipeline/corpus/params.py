"""Sections of params.yaml: how the corpus is read, or rendered."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.corpus.dataset import POSITIVES
from pipeline.runtime.section import (
    Count,
    CountOrShare,
    Name,
    Positive,
    Section,
    Share,
    cross_check,
    one_of,
    wrong_value,
)

# fewest and most of a scene
Objects = Annotated[list[Annotated[int, Field(ge=2, le=8)]], Field(min_length=2, max_length=2)]


class CorpusConfig(Section):
    annotations: Name | None = None
    images: Name | None = None
    restval: Literal["train", "drop"] = "train"
    split_files: Name | None = None
    val_images: CountOrShare = 1000
    test_images: CountOrShare = 1000
    image_field: Name | None = None
    caption_field: Name | None = None
    rows: Name | None = None
    text_lines: Literal["each", "joined", "first"] | None = None
    max_captions: Count | None = None
    skip_bad_images: bool = False
    max_megapixels: Positive = 64.0
    max_words: Count = 300
    positives: Annotated[str, one_of(("none", *POSITIVES))] = "none"
    positives_path: Name | None = None
    positives_threshold: Positive = 3.0
    mask_positives: bool = False

    @cross_check
    def _a_list_to_read(self) -> Iterator[InitErrorDetails]:
        named = self.positives == "none" or self.positives_path is not None
        if not named and POSITIVES.constant(self.positives, "NEEDS_PATH", False):
            yield wrong_value(
                "positives_path",
                None,
                f"must name a file inside raw when corpus.positives is {self.positives!r}",
            )
        if self.mask_positives and self.positives == "none":
            yield wrong_value("mask_positives", True, "needs corpus.positives to name a list")


class ShapesConfig(Section):
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    train: Count = 2400
    val: Count = 200
    test: Count = 200
    image_size: Annotated[int, Field(ge=32, le=1024)] = 128
    captions_per_image: Annotated[int, Field(ge=1, le=20)] = 5
    near_duplicates: Share = 0.25
    objects: Objects | None = None
    clutter: Annotated[int, Field(ge=0, le=200)] = 0
    relations: Literal["pairs", "between"] = "pairs"
    synonyms: bool = False
    misspelt: Share = 0.0

    @cross_check
    def _fewest_first(self) -> Iterator[InitErrorDetails]:
        if self.objects is not None and self.objects[0] > self.objects[1]:
            yield wrong_value("objects", self.objects, "must be fewest, then most")
