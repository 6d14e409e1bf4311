"""A file of regions for single images: opened without loading what is not asked for."""

from pathlib import Path

from pipeline.errors import WorkbenchError
from pipeline.feature_store import FeatureFile
from pipeline.region_rows import ROWS


def open_rows(path: Path) -> FeatureFile:
    """The file; WorkbenchError when it holds no regions, or none that fit each other."""
    file = FeatureFile(path)
    if not set(ROWS) <= set(file.layouts) or file.shape("boxes")[1:] != (*file.shape()[1:2], 4):
        raise WorkbenchError(f"{path}: not a file of regions", "see stages.extract_region_features")
    return file
