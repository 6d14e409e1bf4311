"""Vectors without ids in the order of Karpathy's file: his .mat files have a column for each image
of the dataset.json beside them."""

from pathlib import Path

from pipeline.matching.annotations import annotated_images, annotation_files, folders_near
from pipeline.runtime.errors import WorkbenchError, listing


def karpathy_order(path: Path, shape: tuple[int, ...]) -> tuple[Path, list[str]] | None:
    """The images of the one file of annotations nearby that has as many as a matrix has rows or
    columns.

    Args:
        path: of the matrix.
        shape: (N, D) or (D, N).

    Returns:
        The file of annotations and the names of its N images; None where there is none.

    Raises:
        WorkbenchError: where several files fit that list different images.
    """
    found: dict[Path, list[str]] = {}
    for file in annotation_files(folders_near(path)):
        images = annotated_images(file) or []
        if len(images) in shape:
            found[file] = [image.name for image in images]
    lists = list(found.items())
    if any(names != lists[0][1] for _, names in lists):
        raise WorkbenchError(
            f"{path}: shape {shape} fits the images of {listing(found)}",
            "move all but one of them away",
        )
    return lists[0] if lists else None
