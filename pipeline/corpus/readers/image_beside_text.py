"""Photographs with their captions in files of the same name: IMG_1.jpg beside IMG_1.txt, or beside
IMG_1.json, a record that has a caption."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.corpus.dataset.annotations import described_source
from pipeline.corpus.dataset.cells import caption_columns, plain_texts
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import Found, head
from pipeline.corpus.dataset.source import Options, Source, find_in_raw, list_raw
from pipeline.corpus.dataset.split_forms import lists_images
from pipeline.corpus.dataset.split_lists import said_by_folders
from pipeline.corpus.dataset.split_names import Known, split_of_list
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems, read_json, read_text

# Where an image has both, the first is read: tools for training keep tags in `.txt` then.
TEXT_ENDINGS = (".caption", ".txt")
RECORD_ENDING = ".json"  # read where no image has a text
# Flickr30k Entities marks phrases in its sentences: [/EN#1/people A young girl]
_PHRASE = re.compile(r"\[/EN#\d+(?:/\w+)+ ([^\[\]]+)\]")
LONGEST_TEXT = 1 << 20  # bytes of an image's captions
MOST_COPIES = 4  # files of one photograph, such as smaller ones
LOOKED_AT = 20  # texts that must have words: detectors keep their boxes in files of these names


@dataclass
class _Pairs:
    """Which text is whose: images to texts, and what is left without the other."""

    texts: dict[str, str] = field(default_factory=dict)
    images_alone: list[str] = field(default_factory=list)
    texts_alone: list[str] = field(default_factory=list)
    second_texts: list[str] = field(default_factory=list)  # of images that have one already
    in_doubt: dict[str, Sequence[str]] = field(default_factory=dict)  # a text to several images


def recognise(folder: Folder) -> list[Found]:
    """Texts of words beside most of the images of a folder."""
    files = folder.matching(*(f"*{ending}" for ending in (*TEXT_ENDINGS, RECORD_ENDING)))
    if MOST_COPIES * len(files) <= folder.photographs:
        return []
    pairs = _paired(folder)
    texts = {text: image for image, text in pairs.texts.items()}
    texts |= {text: images[0] for text, images in pairs.in_doubt.items()}
    described = {_stem(image) for image in texts.values()}
    alone = {_stem(image) for image in pairs.images_alone} - described  # and no copies of others
    if len(texts) <= len(alone):
        return []
    looked_at = dict(list(texts.items())[:LOOKED_AT])
    if 2 * sum(_has_words(folder, *pair) for pair in looked_at.items()) <= len(looked_at):
        return []
    splits = set(_splits(pairs.texts).values())
    return [Found(files=tuple(texts), has_splits="test" in splits)]


def _stem(file: str) -> str:
    """The name of a file without its folder and its ending."""
    return file.rpartition("/")[2].rpartition(".")[0]


def _has_words(folder: Folder, text: str, image: str) -> bool:
    """Whether the beginning of an image's file has words that are not only the names of fields."""
    beginning = head(folder, text)
    if text.lower().endswith(RECORD_ENDING):
        try:
            captions = _captions_of(json.loads(beginning), image)
        except (ValueError, RecursionError):
            return False
        beginning = " ".join(captions)
    return any(map(str.isalpha, beginning))


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read images that have a text or a record: image_id is the path, a line of the text or a text
    of the record a caption, its id `<image_id>#<number>`. Folders train, val and test are splits.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations may name the folder of the texts, corpus.images that of the
            images; how splits are drawn.

    Returns:
        The source, with remarks about images and texts that are alone.

    Raises:
        WorkbenchError: no image has a text of its name, several could have the same, or texts that
            cannot be read.
    """
    folder = list_raw(raw, options)
    images_in = _folder(raw, options.corpus.images, "corpus.images")
    texts_in = _folder(raw, options.corpus.annotations, "corpus.annotations")
    pairs = _paired(folder, images_in, texts_in)
    if not pairs.texts and not pairs.in_doubt:
        raise WorkbenchError(
            f"{raw}: no image has a text of its name, as IMG_1.jpg and IMG_1.txt",
            "put texts that end in .txt or .caption beside the images, a line for each caption, or "
            'records {"caption": "..."} that end in .json',
        )
    problems = Problems(str(raw))
    several = (f"{text} ({listing(images)})" for text, images in pairs.in_doubt.items())
    problems.add("texts that several images could have", several)
    captions = []
    unreadable = []
    for image, text in pairs.texts.items():
        try:
            lines = _lines(raw / text, image)
        except WorkbenchError as error:
            unreadable.append(error.message.removeprefix(f"{raw}{os.sep}"))
            continue
        name = image.removeprefix(images_in)
        captions += [(f"{name}#{number}", name, line) for number, line in enumerate(lines)]
    problems.add("texts that cannot be read", unreadable)
    problems.raise_if_any("mend or remove these files")
    splits = {image.removeprefix(images_in): split for image, split in _splits(pairs.texts).items()}
    return described_source(
        folder,
        options,
        splits=splits,
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        remarks=(*_said_by_folders(pairs.texts), *_remarks(folder.root, pairs)),
    )


def _folder(raw: Path, name: str | None, key: str) -> str:
    """What paths of files in a folder of `raw` begin with; empty for `raw` itself."""
    if name is None:
        return ""
    find_in_raw(raw, name, key, is_folder=True)
    return name.rstrip("/") + "/"


def _paired(folder: Folder, images_in: str = "", texts_in: str = "") -> _Pairs:
    """The text of every image: the one beside it, else the only one of its name in another folder,
    of several the one with the most folders in common: images/train/1.jpg, texts/train/1.txt."""
    others = set(folder.others)
    images = [path for path in folder if path.startswith(images_in) and path not in others]
    beside: dict[str, list[str]] = defaultdict(list)
    elsewhere: dict[str, list[str]] = defaultdict(list)
    for image in images:
        stem = image.rpartition(".")[0]
        beside[image].append(image)  # IMG_1.jpg.txt
        beside[stem].append(image)
        elsewhere[stem.rpartition("/")[2]].append(image)
    pairs = _Pairs()
    for endings in (TEXT_ENDINGS, (RECORD_ENDING,)):
        if pairs.texts or pairs.in_doubt:
            break
        texts = [
            (text, text[: -len(ending)])
            for ending in endings
            for text in folder.matching(f"*{ending}")
            if text.startswith(texts_in)
        ]
        for text, stem in texts:
            if stem in beside:
                _give(pairs, text, beside[stem])
        unclear = {}
        for text, stem in texts:  # what lies beside an image is its own, whatever lies elsewhere
            if stem not in beside:
                nearest = _nearest(text, elsewhere.get(stem.rpartition("/")[2], []))
                if len(nearest) > 1:
                    unclear[text] = nearest
                else:
                    _give(pairs, text, nearest)
        for text, several in unclear.items():
            if pairs.texts.keys().isdisjoint(several):
                pairs.in_doubt[text] = several
            else:
                pairs.texts_alone.append(text)
    pairs.images_alone = [image for image in images if image not in pairs.texts]
    return pairs


def _nearest(text: str, images: Sequence[str]) -> Sequence[str]:
    """The images with the most folders of the text's path."""
    if len(images) < 2:
        return images
    folders = set(text.split("/")[:-1])
    shared = [len(folders & set(image.split("/")[:-1])) for image in images]
    return [image for image, number in zip(images, shared, strict=True) if number == max(shared)]


def _give(pairs: _Pairs, text: str, images: Sequence[str]) -> None:
    """Note a text for the only image that it can be of."""
    if not images:
        pairs.texts_alone.append(text)
    elif len(images) > 1:
        pairs.in_doubt[text] = images
    elif images[0] in pairs.texts:
        pairs.second_texts.append(text)
    else:
        pairs.texts[images[0]] = text


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


def _lines(path: Path, image: str) -> list[str]:
    """The captions of an image's text or record; one without a word where it has none.
    WorkbenchError for what is neither."""
    if not path.is_file():  # a pipe would block for ever
        raise WorkbenchError(f"{path}: not a regular file")
    if path.stat().st_size > LONGEST_TEXT:
        raise WorkbenchError(f"{path}: more than {LONGEST_TEXT:,} bytes")
    if path.name.lower().endswith(RECORD_ENDING):
        return _captions_of(read_json(path), image) or [""]
    text = _PHRASE.sub(r"\1", read_text(path))
    return [line for line in text.split("\n") if line.strip()] or [text]


def _captions_of(record: Any, image: str) -> list[str]:
    """The captions of an image's record: of the first field with a name of captions that says more
    than the file's name, which Google Photos writes as the title."""
    if not isinstance(record, Mapping):
        return []
    file = image.rpartition("/")[2]
    for keys in caption_columns(tuple(record)):
        cells = [record[key] for key in keys]
        if not all(isinstance(cell, str | list | None) for cell in cells):
            continue
        texts = [text for cell in cells for text in plain_texts(cell)]
        said = [text for text in texts if isinstance(text, str) and text.strip()]
        if said and said != [file]:
            return said
    return []


def _remarks(raw: Path, pairs: _Pairs) -> list[str]:
    """What was left out, counted, with some names; lists that divide the images are not."""
    known = Known(pairs.texts)
    alone = [
        file
        for file in pairs.texts_alone
        if split_of_list(file.rpartition("/")[2]) is None or not lists_images(raw / file, known)
    ]
    kinds = {
        "without a text of its name": ("image", pairs.images_alone),
        "without an image of its name": ("text", alone),
        "of images that have another": ("text", pairs.second_texts),
    }
    return [
        f"left out: {counted(len(files), noun)} {reason}: {listing(files, 3)}"
        for reason, (noun, files) in kinds.items()
        if files
    ]
