"""Parts of a test split: its first images, and what a shortlist holds of it."""

from dataclasses import replace

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.blocks import cuts
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes, true_pairs


def first_images(split: SplitScores, count: int) -> SplitScores:
    """The scores of the first `count` images of the corpus and of their captions, as in the
    kNN-margin paper (table 4, lines 3.15 to 3.17), without embeddings; 0: all."""
    if not count:
        return split
    images = len(split.image_ids)
    if count > images:
        raise WorkbenchError(
            f"evaluation.subset = {count}: the test split has {images} images; allowed are 0 for "
            f"all of them and 1 to {images}",
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
        image_embeddings=None,
        caption_embeddings=None,
    )


def shortlist_recall(whole: SplitScores, evaluated: SplitScores, count: int) -> dict[str, float]:
    """How much a shortlist holds: the most that a model which scores nothing else could find.
    Percent of the evaluated image (i2t) and caption (t2i) queries that are in a true pair of a
    shortlist: in `whole`, all scores of the split, each caption's `count` largest are its own."""
    blocks = (whole.matrix[:, columns] for columns in cuts(len(whole.caption_ids), 1024))
    least = np.concatenate([np.partition(block, -count, axis=0)[-count] for block in blocks])
    image, caption = true_pairs(*group_codes(whole.image_groups, whole.caption_groups))
    inside = whole.matrix[image, caption] >= least[caption]
    asked = {
        "i2t": (image, whole.image_ids, evaluated.image_ids),
        "t2i": (caption, whole.caption_ids, evaluated.caption_ids),
    }
    return {
        way: float(100 * np.isin(queries, np.asarray(ids)[numbers[inside]]).mean())
        for way, (numbers, ids, queries) in asked.items()
    }
