"""From the files of a dataset to a corpus that is checked, whichever reader reads them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pipeline.corpus.tables import Corpus
from pipeline.dataset import POSITIVES, READERS
from pipeline.dataset.checks import checked_corpus, divided_photographs, repeated_captions
from pipeline.dataset.positives import is_from_corpus, own_pairs, positives_of, read_list
from pipeline.dataset.shards import removed_on_error
from pipeline.dataset.source import Options, Source
from pipeline.runtime.errors import counted
from pipeline.runtime.process import say, uncollected


def read_corpus(dataset: str, raw: Path, out: Path, options: Options) -> Corpus:
    """Read a dataset by a reader and check all of it.

    Args:
        dataset: the reader's name.
        raw: the user's folder.
        out: the folder of the corpus, for rendered images and those out of shards.
        options: of the reader and of the checks.

    Returns:
        The checked corpus, with extended positives where corpus.positives names some.

    Raises:
        WorkbenchError: anything in `raw` that cannot be used.
    """
    name = options.corpus.positives
    listed = read_list(raw, options.corpus)  # a bad list is named before images are decoded
    with removed_on_error(out):
        with uncollected():
            source: Source = READERS.load(dataset)(raw, out, options)
        for remark in source.remarks:
            say(remark)
        corpus = checked_corpus(first_captions(source, options.corpus.max_captions), out, options)
        if source.positives is not None:
            corpus = with_further_images(corpus, source.positives, name)
        groups = dict(zip(corpus.images["image_id"], corpus.images["group"], strict=True))
        for remark in divided_photographs(corpus.images):
            say(remark)
        if is_from_corpus(name):
            listed = POSITIVES.load(name)(corpus)
        elif listed is None:
            for remark in repeated_captions(corpus.captions, groups):
                say(remark)
        if listed is None:
            return replace(corpus, relevance=None)
        pairs = positives_of(corpus, listed, name)
        if options.corpus.mask_positives:
            corpus = without_negatives(corpus, pairs)
        return replace(corpus, relevance=pairs)


def with_further_images(corpus: Corpus, further: pd.DataFrame, name: str) -> Corpus:
    """The corpus of a dataset whose captions may be of several images.

    Args:
        corpus: each caption with one image of its own.
        further: columns caption_id and image_id of the other images, some perhaps left out.
        name: corpus.positives.

    Returns:
        The corpus with all pairs as its relevance, none of them negatives in training.
    """
    pairs = own_pairs(corpus, further)
    known = further["caption_id"].isin(pairs["caption_id"])
    number = further["caption_id"][known & further["image_id"].isin(pairs["image_id"])].nunique()
    if not number:
        return corpus
    way_out = "corpus.positives: several_images makes them right answers of the evaluation, too"
    say(
        f"{counted(number, 'caption')} of several images: none of these images is a negative in "
        f"training{'' if name == 'several_images' else f'; {way_out}'}"
    )
    captions = corpus.captions.assign(fits=training_pairs(corpus, pairs))
    return replace(corpus, captions=captions, relevance=pairs)


def without_negatives(corpus: Corpus, pairs: pd.DataFrame) -> Corpus:
    """The corpus whose captions also fit the training images that they are paired with.

    Args:
        corpus: the tables, whose captions may have a column `fits` already.
        pairs: columns image_id and caption_id of what fits.
    """
    listed = training_pairs(corpus, pairs)
    total = sum(map(len, listed))
    say(f"no negatives in training: {total:,} pairs of corpus.positives beside the corpus's own")
    before: Iterable[list[str]] = corpus.captions.get("fits", [[]] * len(listed))
    united = [sorted({*own, *further}) for own, further in zip(before, listed, strict=True)]
    fits = pd.Series(united, index=corpus.captions.index, dtype=object)
    return replace(corpus, captions=corpus.captions.assign(fits=fits))


def training_pairs(corpus: Corpus, pairs: pd.DataFrame) -> "pd.Series[list[str]]":
    """For every caption, the training images that it fits beside its own, sorted.

    Args:
        corpus: the tables.
        pairs: columns image_id and caption_id of what fits.
    """
    owner = dict(zip(corpus.captions["caption_id"], corpus.captions["image_id"], strict=True))
    training = corpus.images["image_id"][corpus.images["split"] == "train"]
    kept = pairs[pairs["image_id"].isin(training)]
    kept = kept[kept["image_id"] != kept["caption_id"].map(owner)]
    fitting = {name: sorted(set(own)) for name, own in kept.groupby("caption_id")["image_id"]}
    return corpus.captions["caption_id"].map(lambda name: fitting.get(name, []))


def first_captions(source: Source, number: int | None) -> Source:
    """The source with the first captions of each image.

    Args:
        source: what a reader read.
        number: of captions that an image keeps; None for all.
    """
    if number is None:
        return source
    kept = source.captions.groupby("image_id", sort=False).cumcount() < number
    dropped = int((~kept).sum())
    if dropped:
        say(f"left out: {counted(dropped, 'caption')} after the first {number:,} of an image")
    return replace(source, captions=source.captions[kept].reset_index(drop=True))
