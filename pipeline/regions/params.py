"""Section of params.yaml: which regions of an image are kept."""

import os
from collections.abc import Iterator
from typing import Literal

from pydantic_core import InitErrorDetails

from pipeline.runtime.section import (
    Count,
    CountOrAdaptive,
    Name,
    Natural,
    Section,
    Share,
    contradictions,
    wrong_value,
)


class RegionsConfig(Section):
    """Which regions of an image are kept, or whose file they come from."""

    source: Literal["detector", "tsv", "scan_npy", "butd_h5"]
    path: Name | None
    other_images: Literal["error", "skip"]
    boxes: CountOrAdaptive
    min: Count
    max: Count
    threshold: Share
    batch_size: Count
    workers: Natural

    @contradictions
    def _path_fits_the_source(self) -> Iterator[InitErrorDetails]:
        if self.source == "detector":
            if self.path is not None:
                yield wrong_value("path", self.path, "must be null when source is 'detector'")
        elif self.path is None:
            yield wrong_value("path", None, f"source {self.source!r} needs the path of its files")
        elif not os.path.exists(self.path):
            yield wrong_value("path", self.path, "no such file or folder")
        if self.min > self.max:
            yield wrong_value("min", self.min, f"must not exceed regions.max = {self.max}")
