"""A corpus by numbers, and the score files of other programs' files in a folder."""

import pandas as pd
from corpora import CAPTIONS, IMAGES

from pipeline.evaluation.external import Pairs, write_external
from pipeline.evaluation.params import ExternalConfig
from pipeline.evaluation.score_file import read_scores
from pipeline.features.groups import GroupFile

SIZES = {"train": 5, "val": 3, "test": 4}


def a_corpus(sizes=SIZES, per_image=2):
    images = [
        [f"{split}{n}.jpg", f"{split}{n}.jpg", split, f"{split}{n}.jpg", 8, 8, "0" * 64]
        for split, count in sizes.items()
        for n in range(count)
    ]
    captions = [
        [f"{image[0]}#{n}", image[0], image[2], "a dog", ["dog"]]
        for image in images
        for n in range(per_image)
    ]
    return Pairs(pd.DataFrame(images, columns=IMAGES), pd.DataFrame(captions, columns=CAPTIONS))


def written(folder, corpus=None, **settings):
    """The scores by split that an item of `external` in a folder gives."""
    corpus = a_corpus() if corpus is None else corpus
    config = ExternalConfig.model_validate({"folder": str(folder), **settings})
    write_external(folder / "out.h5", config.files, config.similarity, corpus)
    splits = GroupFile(folder / "out.h5").layouts
    return {split: read_scores(folder / "out.h5", split) for split in splits}
