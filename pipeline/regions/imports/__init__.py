"""Region features of other tools: reading their files, and writing ours in their formats.

tsv: bottom-up attention's text files and LXMERT's; scan_npy: SCAN's arrays with captions and ids,
or a folder with an array for each image; butd_h5: the HDF5 files of bottom-up-attention-vqa, and
those with datasets for each image.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from pipeline.arrays.hdf5 import read_hdf5
from pipeline.arrays.per_image import images_of_folder, images_of_hdf5, is_folder_of_images
from pipeline.corpus.tables import load_captions
from pipeline.matching.precomp import is_precomp
from pipeline.regions.file import described, region_datasets
from pipeline.regions.imports.butd_h5 import WHOLE, ButdRegions
from pipeline.regions.imports.per_image import PerImageRegions
from pipeline.regions.imports.scan_npy import ScanRegions
from pipeline.regions.imports.source import (
    ImportCorpus,
    RegionSource,
    files_of,
    import_regions,
    imported_slots,
)
from pipeline.regions.imports.tsv import TsvRegions
from pipeline.regions.params import RegionsConfig
from pipeline.storage.shards import FeatureJob


def _hdf5(path: Path, corpus: ImportCorpus) -> RegionSource:
    """One of the two kinds of HDF5 files, by what the first file has."""
    files = files_of(path, "*.h*5")
    if read_hdf5(files[0]).get(WHOLE) is None:
        return PerImageRegions(files, images_of_hdf5, corpus)
    return ButdRegions(path, corpus)


def _npy(path: Path, corpus: ImportCorpus) -> RegionSource:
    """SCAN's arrays of whole splits, or a folder with an array for each image."""
    if is_folder_of_images(path) and not is_precomp(path):
        return PerImageRegions([path], images_of_folder, corpus)
    return ScanRegions(path, corpus)


_READERS: dict[str, Callable[[Path, ImportCorpus], RegionSource]] = {
    "tsv": TsvRegions,
    "scan_npy": _npy,
    "butd_h5": _hdf5,
}


def import_job(settings: RegionsConfig, images: pd.DataFrame, captions: Path | None) -> FeatureJob:
    """Regions from other tools' files; captions: for formats that name images by captions."""
    table = load_captions(captions) if captions else None
    corpus = ImportCorpus(images, table, skip_others=settings.other_images == "skip")
    source = _READERS[settings.source](Path(str(settings.path)), corpus)
    attributes = described(
        images,
        settings.model_dump(),
        model=f"imported from {settings.source}",
        layer="unknown",
        weights=source.digest,
        has_boxes=source.has_boxes,
    )
    slots = imported_slots(source, settings.boxes, settings.max)
    fill = partial(import_regions, source, batch_size=settings.batch_size)
    datasets = region_datasets(slots, source.width)
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, [], fill)
