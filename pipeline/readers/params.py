"""Sections of params.yaml: how the corpus is read, or rendered."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.runtime.section import Count, Name, Positive, Section, Share


class CorpusConfig(Section):
    """How the files under `raw` are read and checked."""

    annotations: Name | None
    images: Name | None
    restval: Literal["train", "drop"]
    split_files: Name | None
    val_images: Count
    test_images: Count
    skip_bad_images: bool
    max_megapixels: Positive


class ShapesConfig(Section):
    """Seed and sizes of the rendered built-in world."""

    seed: Annotated[int, Field(ge=0, lt=2**32)]
    train: Count
    val: Count
    test: Count
    image_size: Annotated[int, Field(ge=32, le=1024)]
    captions_per_image: Annotated[int, Field(ge=1, le=20)]
    near_duplicates: Share
