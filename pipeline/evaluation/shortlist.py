"""How much a shortlist holds: the most that a model which scores nothing else could find."""

import numpy as np

from pipeline.scores.blocks import cuts
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import TruePairs, group_codes


def shortlist_recall(whole: SplitScores, evaluated: SplitScores, count: int) -> dict[str, float]:
    """Percent of the evaluated image (i2t) and caption (t2i) queries that are in a true pair of a
    shortlist: in `whole`, all scores of the split, each caption's `count` largest are its own."""
    blocks = (whole.matrix[:, some] for some in cuts(len(whole.caption_ids), 1024))
    least = np.concatenate([np.partition(block, -count, axis=0)[-count] for block in blocks])
    images, captions = group_codes(whole.image_groups, whole.caption_groups)
    image, caption = TruePairs(images, captions).of(slice(0, len(images)))
    inside = whole.matrix[image, caption] >= least[caption]
    asked = {
        "i2t": (image, whole.image_ids, evaluated.image_ids),
        "t2i": (caption, whole.caption_ids, evaluated.caption_ids),
    }
    return {
        way: float(100 * np.isin(queries, np.asarray(ids)[own[inside]]).mean())
        for way, (own, ids, queries) in asked.items()
    }
