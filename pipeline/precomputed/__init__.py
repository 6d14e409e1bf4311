"""Region features of other tools: reading their files, and writing ours in their formats.

tsv: bottom-up attention's text files; scan_npy: SCAN's arrays with captions and ids; butd_h5: the
HDF5 files of bottom-up-attention-vqa.
"""

from collections.abc import Callable
from pathlib import Path

from pipeline.errors import WorkbenchError
from pipeline.precomputed.butd_h5 import ButdRegions
from pipeline.precomputed.scan_npy import ScanRegions
from pipeline.precomputed.source import Corpus, RegionSource, import_regions, imported_slots
from pipeline.precomputed.tsv import TsvRegions

__all__ = ["Corpus", "RegionSource", "import_regions", "imported_slots", "open_source"]

_READERS: dict[str, Callable[[Path, Corpus], RegionSource]] = {
    "tsv": TsvRegions,
    "scan_npy": ScanRegions,
    "butd_h5": ButdRegions,
}


def open_source(kind: str, path: str | None, corpus: Corpus) -> RegionSource:
    """Open the files of one kind and match them with a corpus.

    kind: tsv, scan_npy or butd_h5; path: the file or folder. Raises WorkbenchError naming every
    fault that can be seen without reading the values.
    """
    if path is None:
        raise WorkbenchError(
            f"regions.path = null, but regions.source = {kind} reads files",
            "set regions.path in params.yaml to the file or folder",
        )
    if not Path(path).exists():
        raise WorkbenchError(
            f"regions.path = {path!r}: no such file or folder", "set regions.path in params.yaml"
        )
    return _READERS[kind](Path(path), corpus)
