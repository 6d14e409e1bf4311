"""Section of params.yaml: which regions of an image are kept."""

from typing import Literal

from pipeline.runtime.section import Count, CountOrAdaptive, Name, Natural, Section, Share


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
