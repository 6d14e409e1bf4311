"""Equal captions of several images: each of these images is a right answer to all of them.

Short captions repeat ("a dog runs on grass"). A model cannot know which of the images a repeated
caption was written for, so that its own image alone as the right answer limits R@1.
"""

import numpy as np
import pandas as pd

from pipeline.corpus.tables import Corpus
from pipeline.runtime.errors import WorkbenchError

FROM_CORPUS = True
OWN_IDS = True
MOST_PAIRS = 50_000_000  # some 4 GB; beyond, captions do not tell images apart at all


def read(corpus: Corpus) -> pd.DataFrame:
    """All pairs of a caption and an image of its split that has a caption of the same words.

    Args:
        corpus: the tables; images of one group are the same answer.

    Returns:
        Columns image_id, caption_id, grade (1), i2t and t2i (true). A caption's own image, and
        those of its group, are among its pairs.

    Raises:
        WorkbenchError: more than MOST_PAIRS pairs.
    """
    groups = corpus.images.set_index("image_id")["group"]
    captions = pd.DataFrame(
        {
            "caption_id": corpus.captions["caption_id"],
            "split": corpus.captions["split"],
            "words": corpus.captions["tokens"].map(" ".join),
            "group": corpus.captions["image_id"].map(groups),
        }
    )
    described = captions[["split", "words", "group"]].drop_duplicates()
    images = corpus.images[["image_id", "split", "group"]]
    answers = described.merge(images, on=["split", "group"])[["split", "words", "image_id"]]
    keys = ["split", "words"]
    number = int((captions.groupby(keys).size() * answers.groupby(keys).size()).sum())
    if number > MOST_PAIRS:
        raise WorkbenchError(
            f"corpus.positives = equal_captions: {number:,} pairs of captions and images, allowed "
            f"are {MOST_PAIRS:,}",
            "the captions do not tell the images apart; set corpus.positives: none",
        )
    pairs = captions[["caption_id", *keys]].merge(answers, on=keys)
    pairs = pairs.drop_duplicates(["image_id", "caption_id"], ignore_index=True)
    return pairs[["image_id", "caption_id"]].assign(grade=np.float32(1.0), i2t=True, t2i=True)
