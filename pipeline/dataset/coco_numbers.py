"""From MS-COCO's numbers to the ids of a corpus.

Lists name images and captions by MS-COCO's numbers. A caption's id is its number with every reader
of MS-COCO; an image's id is a path that ends in its number: val2014/COCO_val2014_000000391895.jpg.
"""

import re
from pathlib import PurePosixPath

import pandas as pd

from pipeline.corpus.tables import Corpus
from pipeline.runtime.text import Problems

_NUMBER = re.compile(r"[0-9]{1,18}$")  # of 64 bits


def with_ids(listed: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """The pairs (columns image and caption: numbers) whose image and caption the corpus has, with
    their ids; WorkbenchError where several images of the corpus have a listed number."""
    images = pd.Series(
        corpus.images["image_id"].to_numpy(), corpus.images["image_id"].map(number_of)
    )
    twice = images[images.index.duplicated(keep=False) & images.index.isin(listed["image"])]
    problems = Problems("corpus.positives")
    problems.add("images whose names end in one number", twice)
    problems.raise_if_any("read one year of MS-COCO at a time")
    images = images[~images.index.duplicated()]
    known = set(corpus.captions["caption_id"])
    captions = listed["caption"].astype(str)
    pairs = listed.assign(image_id=listed["image"].map(images), caption_id=captions)
    return pairs[pairs["image_id"].notna() & captions.isin(known)].reset_index(drop=True)


def number_of(image_id: str) -> int:
    """The number that the file's name ends in; -1 for none."""
    match = _NUMBER.search(PurePosixPath(image_id).stem)
    return int(match[0]) if match else -1
