"""Region files of other tools, a kind for each file here: its name is what `regions.source` of
params.yaml says. A kind is the function `open_regions` of its file, which makes of a path and the
corpus a `RegionSource` (pipeline.features.regions.source).

- tsv: bottom-up attention's text files and LXMERT's;
- scan_npy: SCAN's arrays with captions and ids, or a folder with an array for each image;
- butd_h5: the HDF5 files of bottom-up-attention-vqa, and those with datasets for each image.
"""

from pipeline.runtime.registry import Registry

REGION_FILES = Registry(
    "pipeline.features.regions.imports",
    "kind of region files",
    "open_regions",
    "open_regions(path, corpus) -> RegionSource",
)
