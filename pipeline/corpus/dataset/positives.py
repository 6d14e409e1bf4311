"""Extended positives of a corpus: pairs of image and caption that fit, collected together or not.

The list is the truth of what it judges: an image or a caption without a pair in it is no query, and
a pair of the corpus's own that it leaves out counts as false, as the benchmarks have it.
"""

import csv
import re
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from pipeline.corpus.dataset import POSITIVES
from pipeline.corpus.dataset.source import find_in_raw
from pipeline.corpus.params import CorpusConfig
from pipeline.corpus.tables import RELEVANCE, Corpus
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.process import say
from pipeline.runtime.text import Problems, read_text

KEY = "corpus.positives_path"
PAIR = ["image_id", "caption_id"]
# Lists name images and captions by MS-COCO's numbers. A caption's id is its number with every
# reader of MS-COCO; an image's id ends in its number: val2014/COCO_val2014_000000391895.jpg.
NUMBER = re.compile(r"[0-9]{1,18}$")  # of 64 bits


def read_list(raw: Path, config: CorpusConfig) -> pd.DataFrame | None:
    """The pairs of the list that corpus.positives names.

    Args:
        raw: the user's folder.
        config: corpus.positives, corpus.positives_path and corpus.positives_threshold.

    Returns:
        Columns grade, i2t, t2i, and image_id and caption_id or, in published lists, image and
        caption: MS-COCO's numbers. None for none, and for pairs that are made of the corpus itself.

    Raises:
        WorkbenchError: a list that is not there, or cannot be read.
    """
    path = config.positives_path
    if config.positives == "none" or is_from_corpus(config.positives):
        return None
    chosen = POSITIVES.imported(config.positives)
    source = chosen.installed() if path is None else find_in_raw(raw, path, KEY)
    pairs: pd.DataFrame = chosen.read(source, config.positives_threshold)
    return pairs


def is_from_corpus(name: str) -> bool:
    """Whether the pairs that corpus.positives names are made of the corpus itself."""
    return name != "none" and bool(POSITIVES.constant(name, "FROM_CORPUS", False))


def positives_of(corpus: Corpus, listed: pd.DataFrame, name: str) -> pd.DataFrame:
    """The pairs of a list as the corpus has them. Published lists cover images that a corpus need
    not have: these pairs are left out, and counted. A list of one's own must fit.

    Args:
        corpus: the tables.
        listed: what `read_list` returns, or a list that is made of the corpus.
        name: corpus.positives.

    Returns:
        The columns of RELEVANCE, rows in the order of the corpus's images and captions.

    Raises:
        WorkbenchError: ids that the corpus lacks, in a list of one's own; a published list that is
            of another dataset.
    """
    own_ids = POSITIVES.constant(name, "OWN_IDS", False)
    if own_ids:
        pairs = listed
        _check_known(pairs, corpus)
    else:
        pairs = with_ids(listed, corpus)
        if len(pairs) < len(listed):
            left_out = counted(len(listed) - len(pairs), "pair")
            say(f"positives {name}: left out {left_out} not in the corpus")
    absent = _absent(pairs, corpus)
    if not own_ids:
        _check_coco(name, pairs, absent)
    images, captions = (
        pairs.loc[pairs[way], query].nunique() for way, query in zip(absent, PAIR, strict=True)
    )
    say(
        f"positives {name}: {len(pairs):,} pairs, {images:,} image queries and {captions:,} "
        "caption queries; not in the list, hence false: "
        + ", ".join(f"{count:,} own pairs {way}" for way, (count, _) in absent.items())
    )
    rows = {
        column: pairs[column].map(pd.Series(table.index, index=table[column]))
        for column, table in zip(PAIR, (corpus.images, corpus.captions), strict=True)
    }
    order = pd.DataFrame(rows).sort_values(PAIR).index
    return pairs.loc[order, RELEVANCE.names].reset_index(drop=True)


def own_pairs(corpus: Corpus, further: pd.DataFrame) -> pd.DataFrame:
    """All pairs of a caption and an image that it is of, where it may be of several.

    Args:
        corpus: the tables; images of one group are the same answer.
        further: columns caption_id and image_id of images beside the captions' own; those that the
            corpus lacks, or has in another split than the caption, are passed over.

    Returns:
        Columns image_id, caption_id, grade (1), i2t and t2i (true).
    """
    images = corpus.images[["image_id", "split", "group"]]
    captions = corpus.captions[["caption_id", "image_id", "split"]]
    more = further[PAIR].merge(captions[["caption_id", "split"]], on="caption_id")
    pairs = pd.concat([captions, more], ignore_index=True)
    pairs = pairs.merge(images, on=["image_id", "split"])[["caption_id", "split", "group"]]
    pairs = pairs.drop_duplicates().merge(images, on=["split", "group"])
    return pairs[PAIR].assign(grade=np.float32(1.0), i2t=True, t2i=True)


def with_ids(listed: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """The pairs of a published list whose image and caption the corpus has, with their ids.

    Args:
        listed: columns image and caption: MS-COCO's numbers.
        corpus: the tables; the names of its images end in these numbers.

    Returns:
        The rows of `listed` that are kept, numbered from 0, with the further columns image_id and
        caption_id of the corpus.

    Raises:
        WorkbenchError: several images of the corpus have a listed number.
    """
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
    match = NUMBER.search(PurePosixPath(image_id).stem)
    return int(match[0]) if match else -1


def _check_known(pairs: pd.DataFrame, corpus: Corpus) -> None:
    problems = Problems(KEY)
    for column, table in zip(PAIR, (corpus.images, corpus.captions), strict=True):
        ids = pairs[column][~pairs[column].isin(table[column])]
        problems.add(f"{column} that the corpus lacks", ids.unique())
    problems.raise_if_any("ids are those of data/corpus/images.parquet and captions.parquet")


def _absent(pairs: pd.DataFrame, corpus: Corpus) -> dict[str, tuple[int, int]]:
    """By direction: own pairs of judged queries that are not listed, and all of them."""
    counts = {}
    for way, query in zip(("i2t", "t2i"), PAIR, strict=True):
        listed = pd.MultiIndex.from_frame(pairs.loc[pairs[way], PAIR])
        judged = corpus.captions[corpus.captions[query].isin(listed.get_level_values(query))]
        is_listed = pd.MultiIndex.from_frame(judged[PAIR]).isin(listed)
        counts[way] = int((~is_listed).sum()), len(is_listed)
    return counts


def _check_coco(name: str, pairs: pd.DataFrame, absent: dict[str, tuple[int, int]]) -> None:
    """Raise WorkbenchError unless most of the corpus's own pairs are listed."""
    missing, total = (sum(numbers) for numbers in zip(*absent.values(), strict=True))
    if pairs.empty or 2 * missing > total:
        raise WorkbenchError(
            f"corpus.positives = {name}: a list of MS-COCO's test images; of this corpus it has "
            f"{len(pairs):,} pairs, and {total - missing:,} of {total:,} captions with their image",
            "read MS-COCO with dataset: karpathy_json, or set corpus.positives: none",
        )


def read_csv(path: Path, expected: str) -> pd.DataFrame:
    """All fields as text, rows numbered as lines of the file where no field has a line end.

    Args:
        path: the file.
        expected: what should be in it, the hint of the error.

    Returns:
        A column of texts for each name in the first line.

    Raises:
        WorkbenchError: no CSV, columns of one name, or rows of another width.
    """
    try:
        header, *rows = [*csv.reader(read_text(path).splitlines())] or [[]]
    except csv.Error as error:
        raise WorkbenchError(f"{path}: not a CSV file: {error}", expected) from None
    lines = range(2, len(rows) + 2)
    problems = Problems(str(path))
    problems.add("columns more than once", sorted({n for n in header if header.count(n) > 1}))
    ragged = (line for line, row in zip(lines, rows, strict=True) if len(row) != len(header))
    problems.add("lines of another number of fields", ragged)
    problems.raise_if_any(expected)
    return pd.DataFrame(rows, index=lines, columns=header, dtype=object)
