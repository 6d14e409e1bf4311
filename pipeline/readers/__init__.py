"""Which readers of captioned images there are, one file per source format.

To add one write a module here that offers `read(raw, out, options) -> Source` (see source.py), and
name it in READERS. The module is imported only when its dataset is read.
"""

from typing import NamedTuple


class DatasetReader(NamedTuple):
    """module: what offers `read`; boxes: whether it brings boxes that a detector can learn from."""

    module: str
    boxes: bool = False


READERS = {
    "shapes": DatasetReader("pipeline.readers.shapes", boxes=True),
    "karpathy_json": DatasetReader("pipeline.readers.karpathy_json"),
    "coco_captions": DatasetReader("pipeline.readers.coco_captions"),
    "captions_csv": DatasetReader("pipeline.readers.captions_csv"),
    "cuhk_pedes": DatasetReader("pipeline.readers.cuhk_pedes"),
    "parquet_shards": DatasetReader("pipeline.readers.parquet_shards"),
    "webdataset": DatasetReader("pipeline.readers.webdataset"),
}
