"""The first images of a test split, as in the kNN-margin paper (table 4, lines 3.15 to 3.17)."""

from dataclasses import replace

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import SplitScores


def first_images(split: SplitScores, count: int) -> SplitScores:
    """The scores of the first `count` images of the corpus and of their captions; 0: all."""
    if not count:
        return split
    there = len(split.image_ids)
    if count > there:
        raise WorkbenchError(
            f"evaluation.subset = {count}: the test split has {there} images; allowed are 0 for "
            f"all of them and 1 to {there}",
            "set evaluation.subset in params.yaml",
        )
    groups = np.asarray(split.image_groups)
    divided = np.intersect1d(groups[:count], groups[count:])
    if len(divided):
        raise WorkbenchError(
            f"evaluation.subset = {count}: would divide the images of {len(divided)} persons",
            "set evaluation.subset to 0 in params.yaml",
        )
    captions = np.flatnonzero(np.isin(split.caption_groups, groups[:count]))

    images, texts = split.image_embeddings, split.caption_embeddings
    scores = split.scores
    if isinstance(scores, np.ndarray):
        scores = scores[:count, captions]
    else:
        scores = scores.selected(np.arange(count), captions)
    return replace(
        split,
        scores=scores,
        image_ids=list(split.image_ids[:count]),
        caption_ids=np.asarray(split.caption_ids)[captions].tolist(),
        caption_image_ids=np.asarray(split.caption_image_ids)[captions].tolist(),
        image_groups=groups[:count].tolist(),
        image_embeddings=None if images is None else images[:count],
        caption_embeddings=None if texts is None else texts[captions],
    )
