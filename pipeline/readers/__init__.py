"""Which readers of captioned images there are, one file per source format.

To add one write a module here that offers `read(raw, out, options) -> Source` (see source.py), and
name it in READERS. The module is imported only when its dataset is read.
"""

from typing import NamedTuple


class DatasetReader(NamedTuple):
    """A reader.

    Attributes:
        module: what offers `read`.
        boxes: whether it brings boxes that a detector can learn from.
        signs: globs in a folder, by whose files `dataset: auto` knows that this reader is meant.
    """

    module: str
    boxes: bool = False
    signs: tuple[str, ...] = ()


READERS = {
    "auto": DatasetReader("pipeline.readers.auto"),
    "shapes": DatasetReader("pipeline.readers.shapes", boxes=True),
    "karpathy_json": DatasetReader("pipeline.readers.karpathy_json", signs=("dataset_*.json",)),
    "coco_captions": DatasetReader(
        "pipeline.readers.coco_captions",
        signs=("captions_*20*.json", "annotations/captions_*20*.json"),
    ),
    "captions_csv": DatasetReader(
        "pipeline.readers.captions_csv", signs=("captions.txt", "results.csv")
    ),
    "cuhk_pedes": DatasetReader(
        "pipeline.readers.cuhk_pedes", signs=("reid_raw.json", "caption_all.json")
    ),
    "parquet_shards": DatasetReader("pipeline.readers.parquet_shards", signs=("**/*.parquet",)),
    "webdataset": DatasetReader("pipeline.readers.webdataset", signs=("**/*.tar",)),
}
