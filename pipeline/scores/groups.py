"""Which image and caption belong together: an image with its captions, or all of one person."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from pipeline.runtime.errors import WorkbenchError, listing

Groups = npt.ArrayLike


def group_codes(image_groups: Groups, caption_groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Number the groups 0, 1, ... in order of appearance: (N,) and (M,) int64. Raises
    WorkbenchError for groups of different types, and for queries without a true item, by name."""
    images, captions = np.asarray(image_groups), np.asarray(caption_groups)
    if images.ndim != 1 or captions.ndim != 1 or not len(images) or not len(captions):
        raise WorkbenchError(
            f"groups of shape {images.shape} and {captions.shape}: expected at least one image "
            "and one caption, one group each"
        )
    kinds = {"i" if array.dtype.kind in "iu" else "s" for array in (images, captions)}
    if len(kinds) != 1 or images.dtype.kind in "fcb" or captions.dtype.kind in "fcb":
        raise WorkbenchError(
            f"groups of type {images.dtype} and {captions.dtype}: expected integers or strings, "
            "the same for images and captions"
        )
    codes, names = pd.factorize(np.concatenate([images.astype(object), captions.astype(object)]))
    if (codes < 0).any():
        raise WorkbenchError(f"{(codes < 0).sum()} images or captions have no group")
    image_codes, caption_codes = codes[: len(images)], codes[len(images) :]
    lonely = [
        f"{what} of group {listing(names[missing], 5)}"
        for what, missing in (
            ("images without a caption: those", np.setdiff1d(image_codes, caption_codes)),
            ("captions without an image: those", np.setdiff1d(caption_codes, image_codes)),
        )
        if len(missing)
    ]
    if lonely:
        raise WorkbenchError(
            "queries without any true item: " + "; ".join(lonely),
            "a rank needs at least one true item; drop these queries or mend the groups",
        )
    return image_codes.astype(np.int64), caption_codes.astype(np.int64)


def true_pairs(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Image and caption numbers (P,) of all pairs of equal groups (N,) and (M,), by image and then
    caption, without an N x M mask."""
    order = np.argsort(captions, kind="stable")
    counts = np.bincount(captions, minlength=int(images.max()) + 1)
    starts = (np.cumsum(counts) - counts)[images]
    counts = counts[images]
    image = np.repeat(np.arange(len(images)), counts)
    offsets = np.arange(len(image)) - np.repeat(np.cumsum(counts) - counts, counts)
    return image, order[np.repeat(starts, counts) + offsets]
