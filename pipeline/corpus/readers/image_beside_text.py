"""Photographs with their captions in files of the same name: IMG_1.jpg beside IMG_1.txt, or beside
IMG_1.json or IMG_1.xmp, a record that has a caption (image_records.py)."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.corpus.dataset.annotations import described_source
from pipeline.corpus.dataset.asked import check_questions, doubted
from pipeline.corpus.dataset.beside import BESIDE, RECORD_ENDINGS, TEXT_ENDINGS, Pairs, pairs_of
from pipeline.corpus.dataset.cells import passed_over
from pipeline.corpus.dataset.conversations import CONVERSATIONS
from pipeline.corpus.dataset.folder import Folder, without_ending
from pipeline.corpus.dataset.image_records import Records
from pipeline.corpus.dataset.recognise import Found, head
from pipeline.corpus.dataset.source import Options, Source, find_in_raw, list_raw
from pipeline.corpus.dataset.split_forms import lists_images
from pipeline.corpus.dataset.split_lists import said_by_folders
from pipeline.corpus.dataset.split_names import Known, split_of_list
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.corpus.dataset.text_lines import captions_of_texts, has_words
from pipeline.corpus.dataset.xmp import XMP_ENDING, read_xmp
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems, is_text, read_json, read_text

# Flickr30k Entities marks phrases in its sentences: [/EN#1/people A young girl]
_PHRASE = re.compile(r"\[/EN#\d+(?:/\w+)+ ([^\[\]]+)\]")
# Folders of texts about images that are no captions.
_NO_CAPTIONS = re.compile(
    r"(?:^|[_\W])(?:tags?|attributes?|prompts?|labels?|keywords?|class(?:es)?|questions?|titles?|ocr"
    r"|boxes|negatives?|meta(?:data)?)(?:$|[_\W])",
    re.IGNORECASE,
)
# Folders of texts that others stand for.
_EARLIER = re.compile(
    r"(?:^|[_\W])(?:old(?:er)?|backups?|bak|outdated|deprecated|unused)(?:$|[_\W\d])", re.IGNORECASE
)
# What is said of places that are no folders with a name.
_PLACES = {BESIDE: "the folders of the images", "": "the folder itself"}
_CAPTIONS = re.compile(r"caption|description|sentence", re.IGNORECASE)
HAS_ROWS = True  # records, of which corpus.rows keeps some
MOST_COPIES = 4  # files of one photograph, such as smaller ones
LONGEST_TEXT = 1 << 20  # bytes of an image's captions
FEWEST_TAGS = 3  # of an image, with commas between them
WORDS_OF_TAG = 3  # that it has at most
FEW = 0.1  # of the images: so many may have another text elsewhere, such as an older one
LOOKED_AT = 20  # texts that must have words: detectors keep their boxes in files of these names
RECORDS_LOOKED_AT = 100  # from all parts of a folder: few photographs may have a caption


class _Sight(NamedTuple):
    """How many texts or records were looked at, how many of them have a caption, and whether they
    say splits."""

    number: int
    described: int
    have_splits: bool = False


class _Described(NamedTuple):
    """The captions of every image, in words of its text, and its split; lines for the user."""

    captions: Mapping[str, Sequence[str]]
    splits: Mapping[str, str | None]
    remarks: Sequence[str] = ()


def recognise(folder: Folder) -> list[Found]:
    """Texts of words beside the images of a folder, or records of which some have captions: few
    photographs of an album may have one. Or both, each beside some. Where most images have none,
    most texts must be called like an image."""
    files = folder.matching(*(f"*{ending}" for ending in (*TEXT_ENDINGS, *RECORD_ENDINGS)))
    if MOST_COPIES * len(files) <= folder.photographs and not _are_called_so(folder, files):
        return []  # the images of a large folder are not paired for nothing
    pairs, left = _read_and_left(folder)
    are_of_most = pairs.are_of_most()
    if not are_of_most:
        others = left.images.values() if _sight(folder, left).described else ()
        if not pairs.are_of_most(others) and len(pairs.images) <= len(pairs.texts_alone):
            return []
    sight = _sight(folder, pairs)
    is_few = 2 * sight.described <= sight.number
    if sight.described == 0 or (is_few and pairs.noun == "text"):
        return []
    splits = _splits(pairs.texts)
    return [
        Found(
            files=tuple(pairs.images),
            has_splits=sight.have_splits or "test" in splits.values(),
            is_few=is_few or not are_of_most,
            others=(*pairs.second_texts, *pairs.passed),
        )
    ]


def _are_called_so(folder: Folder, files: Sequence[str]) -> bool:
    """Whether most of some files are called like images."""
    stems = [file.rpartition("/")[2].rpartition(".")[0] for file in files]
    return 2 * sum(without_ending(stem) in folder.image_stems for stem in stems) > len(files)


def _sight(folder: Folder, pairs: Pairs) -> _Sight:
    """What the beginnings of some texts or records say."""
    images = pairs.images
    if pairs.noun == "text":
        looked_at = [head(folder, text) for text in [*images][:LOOKED_AT]]
        return _Sight(number=len(looked_at), described=_with_words(looked_at))
    records = Records()
    step = max(1, -(-len(images) // RECORDS_LOOKED_AT))
    for text in [*images][::step]:
        records.add(images[text], _first_value(folder, text))
    fields = records.caption_fields().fields
    captions = [" ".join(records.captions(image, fields)) for image in records.cells]
    return _Sight(
        number=len(captions),
        described=_with_words(captions),
        have_splits=records.split_fields() != [],
    )


def _first_value(folder: Folder, file: str) -> Any:
    """What the beginning of a record's file says; None for what is damaged, which reading names."""
    with suppress(WorkbenchError, ValueError, RecursionError):
        if file.lower().endswith(XMP_ENDING):
            _check_file(folder.root / file)
            return read_xmp(folder.root / file)
        return json.loads(head(folder, file))
    return None


def _record(path: Path) -> Any:
    """A record, of either kind."""
    return read_xmp(path) if path.name.lower().endswith(XMP_ENDING) else read_json(path)


def _with_words(texts: Iterable[str]) -> int:
    """How many texts may hold captions."""
    return sum(map(has_words, texts))


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read images that have a text or a record: image_id is the path, a line of the text, the whole
    text or a text of the record a caption, its id `<image_id>#<number>`. Splits are those that the
    records say, else folders train, val and test.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations may name the folder of the texts, corpus.images that of the
            images, corpus.caption_field the field of the records, corpus.rows which records count;
            corpus.text_lines, what lines are; how splits are drawn.

    Returns:
        The source, with remarks about images and texts that are alone, and fields that are not
        read.

    Raises:
        WorkbenchError: no image has a text of its name, several could have the same, texts that
            cannot be read, lines that may be captions or parts of one, or records without a
            caption.
    """
    folder = list_raw(raw, options)
    images_in = _folder(raw, options.corpus.images, "corpus.images")
    texts_in = _folder(raw, options.corpus.annotations, "corpus.annotations")
    pairs, left = _read_and_left(folder, images_in, texts_in, options.corpus.caption_field)
    _check_rivals(raw, pairs)
    if not pairs.texts and not pairs.in_doubt:
        raise WorkbenchError(
            f"{raw}: no image has a text of its name, as IMG_1.jpg and IMG_1.txt",
            "put texts that end in .txt or .caption beside the images, a line for each caption, or "
            'records {"caption": "..."} that end in .json, or sidecars that end in .xmp',
        )
    if pairs.noun == "text":
        if options.corpus.rows is not None:
            raise WorkbenchError(
                f"{raw}: corpus.rows = {options.corpus.rows!r}: texts beside images have no fields",
                "set corpus.rows: null",
            )
        described = _of_texts(raw, pairs, options.corpus.text_lines)
    else:
        described = _of_records(raw, pairs, options.corpus)
    splits = described.splits
    folders: tuple[str, ...] = ()
    if set(splits.values()) <= {None}:
        texts = {image: pairs.texts[image] for image in splits}
        splits = _splits(texts)
        folders = _said_by_folders(texts)
    captions = []
    for image, lines in described.captions.items():
        name = image.removeprefix(images_in)
        captions += [(f"{name}#{number}", name, line) for number, line in enumerate(lines)]
    return described_source(
        folder,
        options,
        splits={image.removeprefix(images_in): split for image, split in splits.items()},
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        remarks=(*described.remarks, *folders, *_remarks(folder.root, pairs, left)),
        read=[
            *(*pairs.images, *pairs.texts_alone, *pairs.second_texts),
            *(*pairs.passed, *left.images),
        ],
    )


def _folder(raw: Path, name: str | None, key: str) -> str:
    """What paths of files in a folder of `raw` begin with; empty for `raw` itself."""
    if name is None:
        return ""
    find_in_raw(raw, name, key, is_folder=True)
    return name.rstrip("/") + "/"


def _read_and_left(
    folder: Folder, images_in: str = "", texts_in: str = "", caption_field: str | None = None
) -> tuple[Pairs, Pairs]:
    """The texts or the records, whichever are read, and the others: those with captions where the
    others have none; else texts where most images have one; else what more images have."""
    texts, records = _meant_pairs(folder, images_in, texts_in)
    if not texts.images or not records.images:
        return (texts, records) if texts.images else (records, texts)
    if caption_field is not None:
        return records, texts
    are_texts = _sight(folder, texts).described > 0
    if are_texts == (_sight(folder, records).described > 0):
        are_texts = texts.are_of_most() or len(texts.images) >= len(records.images)
    return (texts, records) if are_texts else (records, texts)


def _meant_pairs(folder: Folder, images_in: str, texts_in: str) -> tuple[Pairs, Pairs]:
    """The texts and the records of images, without the texts of folders that hold no captions, or
    earlier ones, by their names, or tags, where images have another text elsewhere."""
    but: list[str] = []
    while True:
        texts, records = pairs_of(folder, images_in, texts_in, but)
        not_meant = {
            place
            for (read, other), files in texts.rivals().items()
            for place in _not_meant(folder, texts, read, other, files)
        }
        if not not_meant:
            return texts, records
        but += sorted(not_meant)


def _not_meant(
    folder: Folder, pairs: Pairs, read: str, other: str, files: Sequence[str]
) -> list[str]:
    """Of two folders with texts of the same images the one that has no captions; none where both
    may have some, or neither."""
    looked_at = {
        read: [pairs.texts[pairs.second_texts[file]] for file in files[:LOOKED_AT]],
        other: files[:LOOKED_AT],
    }
    found = [
        place
        for place, own in looked_at.items()
        if _is_called_otherwise(place, own[0]) or _are_tags([head(folder, file) for file in own])
    ]
    return found if len(found) == 1 else []


def _is_called_otherwise(place: str, text: str) -> bool:
    """Whether the name of a folder, or of one inside it that has a text, says that its texts are no
    captions, or earlier ones."""
    if place in _PLACES:
        return False
    above = place.rpartition("/")[0]
    name = text.removeprefix(above).rpartition("/")[0]
    if _EARLIER.search(name) is not None:
        return True
    return _NO_CAPTIONS.search(name) is not None and _CAPTIONS.search(name) is None


def _are_tags(texts: Sequence[str]) -> bool:
    """Whether most texts are tags: a few words each, with commas between them."""
    tags = [text.strip().split(",") for text in texts]
    are_short = [
        len(own) >= FEWEST_TAGS and all(len(tag.split()) <= WORDS_OF_TAG for tag in own)
        for own in tags
    ]
    return 2 * sum(are_short) > len(texts)


def _check_rivals(raw: Path, pairs: Pairs) -> None:
    """Raise WorkbenchError where many images have other texts in another folder: nothing says which
    of them are meant."""
    for (read, other), files in pairs.rivals().items():
        own = {file: pairs.texts[pairs.second_texts[file]] for file in files}
        differing = [file for file in files if _bytes_of(raw / file) != _bytes_of(raw / own[file])]
        if len(differing) <= max(1, FEW * len(pairs.texts)):
            continue
        places = [_PLACES.get(place, place) for place in (read, other)]
        named = " or ".join(place for place in (read, other) if place not in _PLACES)
        raise WorkbenchError(
            f"{raw}: {counted(len(differing), 'image')} have different texts in {places[0]} and in "
            f"{places[1]}, such as {own[differing[0]]} and {differing[0]}",
            f"set corpus.annotations in params.yaml to {named}, or move the others away",
        )


def _bytes_of(path: Path) -> bytes:
    """What a text of an image holds, without blanks around it."""
    _check_file(path)
    return path.read_bytes().strip()


def _splits(texts: dict[str, str]) -> dict[str, str | None]:
    """The split of every image by its folder or its text's; None for all where the folders do not
    name one for training and another: `train` may then be what the images show."""
    named = {
        image: split_in_path(image.rpartition("/")[0]) or split_in_path(text.rpartition("/")[0])
        for image, text in texts.items()
    }
    splits = set(named.values()) - {None}
    return named if "train" in splits and len(splits) > 1 else dict.fromkeys(named)


def _said_by_folders(texts: dict[str, str]) -> tuple[str, ...]:
    """A line about the folders of images or of their texts that are taken for splits."""
    if set(_splits(texts).values()) == {None}:
        return ()
    images = [image.rpartition("/")[0] for image in texts]
    own = [text.rpartition("/")[0] for text in texts.values()]
    return said_by_folders(images) or said_by_folders(own)


def _of_texts(raw: Path, pairs: Pairs, text_lines: str | None) -> _Described:
    """What the texts of images say."""
    texts = dict(_loaded(raw, pairs, _text))
    captions = captions_of_texts(str(raw), texts, pairs.texts, text_lines)
    return _Described(captions.of_images, dict.fromkeys(texts), captions.remarks)


def _of_records(raw: Path, pairs: Pairs, config: CorpusConfig) -> _Described:
    """What the records of images say; images whose record has no caption are left out."""
    records = Records(config)
    for image, value in _loaded(raw, pairs, _record):
        records.add(image, value)
    fields, doubt = records.caption_fields()
    if doubt:
        raise doubted(str(raw), doubt)
    if not fields:
        named = config.caption_field
        missing = "a caption" if named is None else f"a text in {named!r}, corpus.caption_field"
        shown = listing(records.names, 8) or "none"
        raise WorkbenchError(
            f"{raw}: no record of an image has {missing}; their fields are {shown}",
            "name the field that has them by corpus.caption_field in params.yaml, or write "
            '{"caption": "..."} into the records',
        )
    if fields[0] in CONVERSATIONS and config.caption_field is None:
        check_questions(str(raw), [cells.get(fields[0]) for cells in records.cells.values()])
    read_ones = (*fields, *records.split_fields())
    counting = records.count(str(raw), fields=fields, read=read_ones)
    captions = {image: records.captions(image, fields) for image in records.cells}
    captions = {image: texts for image, texts in captions.items() if texts}
    problems = Problems(str(raw))
    halves = [image for image, texts in captions.items() if not all(map(is_text, texts))]
    problems.add("images with halves of characters in a caption", halves)
    problems.raise_if_any("mend or remove their records")
    splits = records.splits([*captions], config.restval, str(raw))
    unread = [name for name in records.names if name not in (*fields, *splits.fields)]
    remarks = [*passed_over(unread), *counting, *splits.remarks]
    number = len(records.cells)
    silent = number - len(captions)
    if silent:
        remarks.append(
            f"no caption in the field {listing(fields)}: {silent:,} of {number:,} records"
        )
    return _Described(captions, splits.of_images, remarks)


def _loaded(raw: Path, pairs: Pairs, load: Callable[[Path], Any]) -> Iterator[tuple[str, Any]]:
    """Every image with what its text or record holds; WorkbenchError, in the end, with all that
    cannot be read or could be of several images."""
    unreadable = []
    for image, text in pairs.texts.items():
        path = raw / text
        try:
            _check_file(path)
            value = load(path)
        except WorkbenchError as error:
            unreadable.append(error.message.removeprefix(f"{raw}{os.sep}"))
        else:
            yield image, value
    problems = Problems(str(raw))
    several = (f"{text} ({listing(images)})" for text, images in pairs.in_doubt.items())
    problems.add(f"{pairs.noun}s that several images could have", several)
    problems.add(f"{pairs.noun}s that cannot be read", unreadable)
    problems.raise_if_any("mend or remove these files")


def _check_file(path: Path) -> None:
    """Raise WorkbenchError for what is no file, or too large for captions of one image."""
    if not path.is_file():  # a pipe would block for ever
        raise WorkbenchError(f"{path}: not a regular file")
    if path.stat().st_size > LONGEST_TEXT:
        raise WorkbenchError(f"{path}: more than {LONGEST_TEXT:,} bytes")


def _text(path: Path) -> str:
    """A text without marks of phrases."""
    return _PHRASE.sub(r"\1", read_text(path))


def _remarks(raw: Path, pairs: Pairs, left: Pairs) -> list[str]:
    """What was left out, counted, with some names, but for images. JSON that is of no image may be
    anything where texts are read."""
    kinds = [
        (pairs.noun, "without an image of its name", _without_lists(raw, pairs, pairs.texts_alone)),
        (pairs.noun, "of images that have another", [*pairs.second_texts]),
        (pairs.noun, "in folders of tags, of other texts or of earlier ones", pairs.passed),
        (left.noun, f"beside images, for {pairs.noun}s are read", [*left.images]),
    ]
    if left.noun == "text":
        alone = _without_lists(raw, pairs, left.texts_alone)
        kinds.append((left.noun, "without an image of its name", alone))
    return [
        f"left out: {counted(len(files), noun)} {reason}: {listing(files, 3)}"
        for noun, reason, files in kinds
        if files
    ]


def _without_lists(raw: Path, pairs: Pairs, files: Sequence[str]) -> list[str]:
    """Files that are no lists that divide the images."""
    known = Known(pairs.texts)
    return [
        file
        for file in files
        if split_of_list(file.rpartition("/")[2]) is None or not lists_images(raw / file, known)
    ]
