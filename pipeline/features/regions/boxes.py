"""What a file of regions says of itself: whether it has boxes, and the names of classes."""

import json

from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import WorkbenchError


def has_boxes(file: FeatureFile) -> bool:
    """Whether the regions of a file have boxes; features imported from SCAN's .npy have none."""
    return bool(file.attributes.get("has_boxes", 1))


def require_boxes(file: FeatureFile, setting: str) -> None:
    """Refuse regions without boxes.

    Args:
        file: Of regions.
        setting: Of params.yaml, that needs the boxes; the message names it.

    Raises:
        WorkbenchError: The regions have none.
    """
    if not has_boxes(file):
        raise WorkbenchError(
            f"{setting} needs the boxes of the regions; {file.path} has none: it was imported from "
            f"{file.attributes.get('model', 'a file without boxes')}",
            f"switch {setting} off, or use another regions.source",
        )


def names_of(file: FeatureFile, kind: str) -> list[str]:
    """Names of the classes in a file of regions.

    Args:
        file: Of regions.
        kind: object_names or attribute_names.

    Returns:
        The names in the order of their numbers; none where the file has none.
    """
    names: list[str] = json.loads(str(file.attributes.get(kind, "[]")))
    return names
