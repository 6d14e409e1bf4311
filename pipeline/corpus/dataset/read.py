"""From the files of a dataset to a corpus that the rest can rely on, whichever reader reads them.

`read_corpus` has a reader read, checks all of it (`checked_corpus`, the one place of all checks),
and adds further pairs of images and captions that fit.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html.entities import html5
from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset import POSITIVES, READERS
from pipeline.corpus.dataset.cells import NOTHING
from pipeline.corpus.dataset.conditions import require_rows
from pipeline.corpus.dataset.no_captions import common_text, what_of_images
from pipeline.corpus.dataset.positives import is_from_corpus, own_pairs, positives_of, read_list
from pipeline.corpus.dataset.processes import ordered_map
from pipeline.corpus.dataset.shards import removed_on_error
from pipeline.corpus.dataset.source import Options, Source
from pipeline.corpus.dataset.unread import with_unread
from pipeline.corpus.images import CheckedImage, check_image
from pipeline.corpus.tables import BOXES, REJECTS, SPLITS, Corpus, write_rejects
from pipeline.corpus.tokens import tokenise
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.process import say, uncollected
from pipeline.runtime.text import Problems, is_inside, is_plain, is_text

_NAMED = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
CHARACTERS = 100  # for each word that a caption may have
SKIP = (
    "mend the files, or set corpus.skip_bad_images: true to leave them out with their captions "
    "(listed in rejects.tsv)"
)


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
    require_rows(dataset, options.corpus.rows)
    name = options.corpus.positives
    listed = read_list(raw, options.corpus)  # a bad list is named before images are decoded
    with removed_on_error(out):
        with uncollected():
            source = with_characters(READERS.load(dataset)(raw, out, options))
            source = with_unread(source, but=(name,))
        for remark in (*source.remarks, *_about_texts(source)):
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


def _about_texts(source: Source) -> tuple[str, ...]:
    """Lines about texts that are no captions, which somebody has named, and about one of many
    images."""
    texts = source.captions["text"].tolist()
    what = what_of_images(texts, source.captions["image_id"].tolist())
    common = (*common_text(texts), *_with_signs(texts))
    return (f"read as captions: {what}, such as {texts[0].strip()[:60]!r}",) if what else common


def _with_signs(texts: Sequence[str]) -> tuple[str, ...]:
    """A line about captions with `\\n`, as databases write the end of a line; none without any."""
    found = [text for text in texts if "\\n" in text]
    if not found:
        return ()
    number = counted(len(found), "caption")
    return (f"{number} with \\n, which stays as it is: {found[0][:60]!r}",)


def with_characters(source: Source) -> Source:
    """The source whose captions have characters where HTML has names for them: `&amp;` is `&`.

    Args:
        source: what a reader read.

    Returns:
        The same source where no caption has such a name; else with a remark that counts them.
    """
    texts = source.captions["text"].tolist()
    plain = [
        _NAMED.sub(lambda match: _character_of(match[0]), text) if "&" in text else text
        for text in texts
    ]
    changed = [text for text, new in zip(texts, plain, strict=True) if text != new]
    if not changed:
        return source
    found = dict.fromkeys(match[0] for text in changed for match in _NAMED.finditer(text))
    names = [name for name in found if _character_of(name) != name]
    remark = (
        f"{counted(len(changed), 'caption')} with HTML's names of characters, read as these: "
        f"{listing(names, 3)}"
    )
    captions = source.captions.assign(text=pd.Series(plain, index=source.captions.index))
    return replace(source, captions=captions, remarks=(*source.remarks, remark))


def _character_of(name: str) -> str:
    """The character that HTML has a name for, such as `&amp;`; the text itself where it is none."""
    if name.startswith("&#"):
        return html.unescape(name)
    return html5.get(name[1:], name)


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

    Returns:
        The corpus with the column `fits` of its captions: sorted ids of the images that each fits
        beside its own, those of before included.
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

    Returns:
        A sorted list of ids of images per caption, in the order of the corpus's captions; empty for
        most.
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

    Returns:
        The source whose captions are those kept, numbered from 0; all its images stay.
    """
    if number is None:
        return source
    kept = source.captions.groupby("image_id", sort=False).cumcount() < number
    dropped = int((~kept).sum())
    if dropped:
        say(f"left out: {counted(dropped, 'caption')} after the first {number:,} of an image")
    return replace(source, captions=source.captions[kept].reset_index(drop=True))


def checked_corpus(source: Source, out: Path, options: Options) -> Corpus:
    """Check ids, files and captions, decode every image once, and order the rows.

    Args:
        source: what a reader found.
        out: the folder of the corpus: where a split has no image left, the list of what was left
            out is written there, because no corpus will be.
        options: corpus.skip_bad_images, limits of images and captions, and worker processes.

    Returns:
        The corpus. With corpus.skip_bad_images, images that cannot be decoded, captions without a
        word and images left without a caption are its rejects.

    Raises:
        WorkbenchError: ids that cannot be used, bad images or captions without
            corpus.skip_bad_images, or a split without an image.
    """
    check_ids(source)
    captions = with_tokens(source.captions)
    files = [(source.root / image_id).as_posix() for image_id in source.images["image_id"]]
    checked = [CheckedImage()] * len(files)
    if source.has_files:
        checked = _decoded(source, files, options)
    else:
        files = [""] * len(files)
    rejects = find_rejects(
        source.images, captions, checked=checked, max_words=options.corpus.max_words
    )
    if options.corpus.skip_bad_images and len(rejects):
        say(_left_out(rejects, len(source.images)))
    if not options.corpus.skip_bad_images:
        problems = Problems(str(source.root))
        cases = (f"{row.image_id} ({row.reason})" for row in rejects.itertuples())
        problems.add("images and captions that cannot be used", cases)
        problems.raise_if_any(SKIP)
    images = pd.DataFrame(
        {
            "image_id": source.images["image_id"],
            "path": files,
            "split": source.images["split"],
            "group": source.images.get("group", source.images["image_id"]),
            "width": [result.width for result in checked],
            "height": [result.height for result in checked],
            "sha256": [result.sha256 for result in checked],
        }
    )
    unusable = rejects["image_id"][rejects["caption_id"] == ""]
    images = images[~images["image_id"].isin(unusable)]
    captions = captions[~captions["caption_id"].isin(rejects["caption_id"])]
    _check_splits(source, out, images=images, rejects=rejects)
    return _assemble(source, images, captions=captions, rejects=rejects)


def check_ids(source: Source) -> None:
    """Raise WorkbenchError for ids that repeat, lead nowhere, or out of the folder."""
    images = source.images
    ids = images["image_id"]
    problems = Problems(str(source.root))
    problems.add("images more than once", ids[ids.duplicated()].unique())
    caption_ids = source.captions["caption_id"]
    problems.add("caption ids more than once", caption_ids[caption_ids.duplicated()].unique())
    orphans = caption_ids[~source.captions["image_id"].isin(set(ids))]
    problems.add("captions of images that are not in the corpus", orphans)
    other = images[~images["split"].isin(SPLITS)]
    cases = (f"{row.image_id} ({row.split!a})" for row in other.itertuples())
    problems.add(f"images of a split other than {', '.join(SPLITS)}", cases)
    halves = [name for name in [*ids, *caption_ids] if not is_text(name)]
    problems.add("ids that are not UTF-8", map(ascii, halves))
    # Links in the user's own folder may lead anywhere: only what a name itself says is refused.
    escapes = (name for name in ids if not is_inside(name))
    problems.add("names that lead out of the image folder", map(ascii, escapes))
    unprintable = (ascii(name) for name in caption_ids if not is_plain(name))
    problems.add("caption ids with control codes", unprintable)
    problems.raise_if_any("mend the annotations")


def with_tokens(captions: pd.DataFrame) -> pd.DataFrame:
    """Captions with stripped text, and with tokens cut from it where the source gave none."""
    texts = [text.strip() for text in captions["text"]]
    word_lists: Iterable[list[str]] = captions.get("tokens", [[]] * len(texts))
    tokens = [words or tokenise(text) for words, text in zip(word_lists, texts, strict=True)]
    return captions.assign(text=texts, tokens=pd.Series(tokens, index=captions.index, dtype=object))


def find_rejects(
    images: pd.DataFrame, captions: pd.DataFrame, checked: list[CheckedImage], max_words: int
) -> pd.DataFrame:
    """What cannot be used.

    Args:
        images: N rows with image_id.
        captions: columns image_id, caption_id, text and tokens.
        checked: of every image, in the order of `images`, whether it can be decoded.
        max_words: corpus.max_words, the most words of a caption.

    Returns:
        A row per fault: image_id, caption_id ("" for the image), reason.
    """
    unusable: dict[str, list[tuple[str, str]]] = {}
    for image, caption, reason in unusable_captions(captions, max_words):
        unusable.setdefault(image, []).append((caption, reason))
    total = captions["image_id"].value_counts().to_dict()
    rows: list[tuple[str, str, str]] = []
    for image_id, result in zip(images["image_id"], checked, strict=True):
        lost = unusable.get(image_id, [])
        if result.reason:
            rows.append((image_id, "", result.reason))
        rows += [(image_id, caption, reason) for caption, reason in lost]
        if not result.reason and total.get(image_id, 0) == len(lost):
            rows.append((image_id, "", "no caption"))
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "reason"], dtype=object)


def unusable_captions(captions: pd.DataFrame, max_words: int) -> list[tuple[str, str, str]]:
    """Captions that cannot be used.

    Args:
        captions: columns image_id, caption_id, text and tokens.
        max_words: corpus.max_words, the most words of a caption.

    Returns:
        Image_id, caption_id and the reason of each, which names the caption.
    """
    rows = captions[["image_id", "caption_id", "text", "tokens"]].itertuples(index=False)
    faults = (
        (str(image), str(caption), _caption_fault(text, words, max_words))
        for image, caption, text, words in rows
    )
    return [(image, own, f"caption {own} {reason}") for image, own, reason in faults if reason]


def _caption_fault(text: str, words: list[str], max_words: int) -> str:
    """Why a caption cannot be used, empty where it can."""
    if not len(words):
        return "without a word"
    if text in NOTHING:
        return f"is {text!r}, which programs write for nothing"
    if len(words) > max_words:
        return f"of {len(words):,} words, allowed are {max_words:,} (corpus.max_words)"
    longest = max_words * CHARACTERS
    size = max(len(text), sum(map(len, words)))
    if size > longest:
        return f"of {size:,} characters, allowed are {longest:,} ({CHARACTERS} x corpus.max_words)"
    return ""


def _decoded(source: Source, files: list[str], options: Options) -> list[CheckedImage]:
    """What decoding each image says; those with a fault of the reader's are not tried."""
    faults = source.images["fault"].tolist() if "fault" in source.images else [""] * len(files)
    intact = [file for file, fault in zip(files, faults, strict=True) if not fault]
    check = partial(check_image, max_pixels=int(options.corpus.max_megapixels * 1e6))
    checked = iter(ordered_map(check, intact, workers=options.workers, title="checking images"))
    return [CheckedImage(reason=fault) if fault else next(checked) for fault in faults]


def _assemble(
    source: Source, images: pd.DataFrame, captions: pd.DataFrame, rejects: pd.DataFrame
) -> Corpus:
    """The tables of what can be used, in the corpus's order."""
    images = _in_order_of("split", images, {split: n for n, split in enumerate(SPLITS)})
    rows = dict(zip(images["image_id"], images.index, strict=True))
    captions = _in_order_of("image_id", captions, rows)
    captions["split"] = captions["image_id"].map(images.set_index("image_id")["split"])
    boxes = source.boxes
    if boxes is None:
        boxes = pd.DataFrame({name: [] for name in BOXES.names})
    boxes = _in_order_of("image_id", boxes, rows)
    return Corpus(images, captions, boxes=boxes, rejects=_listed(rejects))


def _check_splits(source: Source, out: Path, images: pd.DataFrame, rejects: pd.DataFrame) -> None:
    """Raise WorkbenchError for a split without images, with the reason that most were left out
    for; all of them stand in rejects.tsv, which is written."""
    missing = [split for split in SPLITS if split not in set(images["split"])]
    if not missing:
        return
    message = f"{source.root}: no images in split {', '.join(missing)}"
    if rejects.empty:
        raise WorkbenchError(message, "each of train, val and test needs images with captions")
    write_rejects(out, _listed(rejects))
    of_images = rejects[rejects["caption_id"] == ""]
    reasons = of_images["reason"].value_counts()
    first = of_images[of_images["reason"] == reasons.index[0]]["image_id"].iloc[0]
    raise WorkbenchError(
        f"{message}: {len(of_images):,} of {len(source.images):,} images were left out, "
        f"{reasons.iloc[0]:,} of them because of {reasons.index[0]!r}, such as {first}",
        f"{out / REJECTS} lists all; mend the files, or name others in params.yaml",
    )


def _left_out(rejects: pd.DataFrame, number: int) -> str:
    """A line about what cannot be used and is left out."""
    of_images = rejects[rejects["caption_id"] == ""]
    of_captions = counted(len(rejects) - len(of_images), "caption")
    reason, most = next(iter(rejects["reason"].value_counts().items()))
    first = rejects[rejects["reason"] == reason]["image_id"].iloc[0]
    return (
        f"cannot be used: {len(of_images):,} of {number:,} images and {of_captions}; the most, "
        f"{most:,}, because of {reason!r}, such as {first}"
    )


def _listed(rejects: pd.DataFrame) -> pd.DataFrame:
    """Rejects as the corpus's table has them: file and reason."""
    return rejects.rename(columns={"image_id": "file"})[["file", "reason"]]


def _in_order_of(key: str, table: pd.DataFrame, places: Mapping[str, int]) -> pd.DataFrame:
    """The rows whose key has a place, in the order of the places, numbered from 0."""
    order = table[key].map(places).dropna().sort_values(kind="stable").index
    return table.loc[order].reset_index(drop=True)


def divided_photographs(images: pd.DataFrame) -> tuple[str, ...]:
    """Say which equal photographs the files of the dataset put into different splits.

    Args:
        images: columns image_id, split and sha256 of checked images.

    Returns:
        A remark, none where every photograph is in one split.
    """
    images = images[images["sha256"] != ""]  # those without a file are nobody's copy
    splits = images.groupby("sha256")["split"].nunique()
    divided = images[images["sha256"].isin(splits.index[splits > 1])]
    if divided.empty:
        return ()
    training = set(divided["sha256"][divided["split"] == "train"])
    held_out = divided[(divided["split"] != "train") & divided["sha256"].isin(training)]
    numbers = [f"{(divided['split'] == split).sum():,} {split}" for split in SPLITS]
    examples = listing(
        (" = ".join(own["image_id"]) for _, own in divided.groupby("sha256", sort=False)), 3
    )
    return (
        f"equal photographs in different splits, as the files of the dataset say: "
        f"{', '.join(numbers)} ({examples}); {counted(len(held_out), 'image')} of val and test "
        "can be known from training",
    )


def repeated_captions(captions: pd.DataFrame, groups: Mapping[str, str]) -> tuple[str, ...]:
    """Say how many test captions describe several images, which limits what R@1 can be.

    Args:
        captions: columns image_id, split and tokens.
        groups: image_id to its group; images of one group are the same answer.

    Returns:
        A remark, none where no caption of the test split is that of images of two groups.
    """
    test = captions[captions["split"] == "test"]
    if test.empty:
        return ()
    words = test["tokens"].map(" ".join)
    owners = pd.DataFrame({"words": words, "group": test["image_id"].map(groups)})
    different = owners.groupby("words")["group"].nunique()
    several = different[different > 1]
    if several.empty:
        return ()
    repeated = owners[words.isin(several.index)]
    # Of equal captions with g groups of images a model can be right about one group in g at rank 1.
    chances = repeated["words"].map(1.0 / different)
    reachable = 100.0 * (len(owners) - len(repeated) + chances.sum()) / len(owners)
    return (
        f"equal captions: {len(repeated):,} of {len(owners):,} test captions also describe other "
        f"images, as {several.index[0]!r} does; R@1 of text to image can be at most about "
        f"{reachable:.1f}. corpus.positives: equal_captions makes them right answers",
    )
