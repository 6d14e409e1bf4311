"""Captions that the dataset itself gives to several images: each of these is a right answer."""

import pandas as pd

from pipeline.corpus.tables import Corpus
from pipeline.runtime.errors import WorkbenchError

FROM_CORPUS = True
OWN_IDS = True


def read(corpus: Corpus) -> pd.DataFrame:
    """All pairs of a caption and an image that it is of, as the dataset's files say; WorkbenchError
    for a dataset whose captions are of one image each."""
    if corpus.relevance is None:
        raise WorkbenchError(
            "corpus.positives = several_images: every caption of this dataset is of one image",
            "set corpus.positives: none",
        )
    return corpus.relevance
