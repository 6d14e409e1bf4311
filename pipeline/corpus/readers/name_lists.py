"""Lists of images beside lists of captions, line by line: Multi30K's train_images.txt, train.de."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.annotations import described_source, numbered, one_split_each
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, Folder
from pipeline.corpus.dataset.locate import is_among
from pipeline.corpus.dataset.recognise import Found, annotation_files, few_files, head
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems, read_text

EXPECTED = "a list of images beside one of captions, such as train_images.txt and train.de"
LOOKED_AT = 100  # lines of a list
_IMAGES = re.compile(
    r"(?P<begin>.*?)[._-]?((image|img|file)_?names?|images?|imgs?|files|names)?\.(txt|lst)",
    re.IGNORECASE,
)
# What follows the beginning of a list of captions; a number says which of several of each image.
_TEXT = re.compile(
    r"(\.\d+)?(?P<kind>[._-]?(captions?|caps|sentences|texts?)\.(txt|lst)"
    r"|([._-][\w-]+)*\.([a-z]{2}|tok|txt|lst))",
    re.IGNORECASE,
)
_IMAGE = re.compile(rf"\w\.({'|'.join(own[1:] for own in IMAGE_ENDINGS)})\b", re.IGNORECASE)
_CODE = (".py", ".md", ".js", ".sh")  # two letters that are no language

Pairs = Mapping[str, str]  # files of captions to their files of images


def recognise(folder: Folder) -> list[Found]:
    """Lists of captions of one kind, such as one language, that have lists of images."""
    return [_found(folder, pairs) for pairs in _kinds(folder)]


def _found(folder: Folder, pairs: Pairs) -> Found:
    """Lists that are read together, with some of their images."""
    names = [name for file in dict.fromkeys(pairs.values()) for name in _names(folder, file)]
    return Found(
        files=(*pairs, *dict.fromkeys(pairs.values())),
        names=tuple(names),
        has_splits={"train", "test"} <= set(map(split_in_path, pairs.values())),
    )


def _kinds(folder: Folder) -> list[Pairs]:
    """The pairs of lists of every kind of captions; lists of images that are not there are left
    out where others of their split are."""
    lists = [file for file in few_files(folder, "*.txt", "*.lst") if _names(folder, file)]
    kinds: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for images in lists:
        place, _, name = images.rpartition("/")
        match = _IMAGES.fullmatch(name)
        begin = match["begin"] if match else name
        for captions in folder.others:
            other, _, file = captions.rpartition("/")
            kind = _kind_of(file, begin)
            if kind and captions not in lists and (begin or other == place):
                own = kinds[_without_split_folder(other), kind]
                known = own.get(captions)
                if known is None or _nearness(captions, images) > _nearness(captions, known):
                    own[captions] = images
    whole = (_of_images_here(folder, pairs) for pairs in kinds.values())
    return [pairs for pairs in whole if _are_texts(folder, pairs)]


def _without_split_folder(folder: str) -> str:
    """A folder, or the one above it where it holds the files of one split."""
    above, _, name = folder.rpartition("/")
    return above if split_in_path(name) else folder


def _kind_of(file: str, begin: str) -> str:
    """What distinguishes a list of captions from those of other kinds; empty for no such list."""
    match = _TEXT.fullmatch(file.removeprefix(begin)) if file.startswith(begin) else None
    if match is None or file.endswith(_CODE) or not (begin or match[3]):
        return ""
    return match["kind"]


def _nearness(first: str, second: str) -> tuple[bool, int]:
    """How near two files lie to each other: in one folder, else how much of their path is one."""
    one = first.rpartition("/")[0]
    other = second.rpartition("/")[0]
    return one == other, len(os.path.commonpath(["/" + one, "/" + other]))


def _of_images_here(folder: Folder, pairs: Pairs) -> Pairs:
    """The pairs without lists whose images are not there, where others of their split have some."""
    are_here = {
        images: any(is_among(name, folder.stems) for name in _names(folder, images))
        for images in pairs.values()
    }
    splits = {split_in_path(images) for images, here in are_here.items() if here}
    return {
        captions: images
        for captions, images in pairs.items()
        if are_here[images] or split_in_path(images) not in splits
    }


def _first_lines(folder: Folder, file: str) -> list[str]:
    """The first lines of a file that are not blank, stripped; none of a file of zeros."""
    lines = head(folder, file).strip("\0").split("\n")[:LOOKED_AT]
    return [line.strip() for line in lines if line.strip()]


def _names(folder: Folder, file: str) -> list[str]:
    """The first images of a list; none where its lines are no names of images."""
    lines = _first_lines(folder, file)
    are_names = all(line.lower().endswith(IMAGE_ENDINGS) for line in lines)
    return lines if are_names and not any("," in line or "\t" in line for line in lines) else []


def _are_texts(folder: Folder, files: Iterable[str]) -> bool:
    """Whether files have words on their lines, and not names of images with their captions. What
    cannot be read is left to the reading, which names it, where another file is a text."""
    heads = list(filter(None, (_first_lines(folder, file) for file in files)))
    return bool(heads) and all(
        any(map(str.isalpha, "".join(lines)))
        and 2 * sum(_IMAGE.search(line) is not None for line in lines) < len(lines)
        for lines in heads
    )


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read lists of captions and of images, line by line: image_id is the image's path, caption_id
    `<image_id>#<number>`, the split that in the lists' names.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations may name one of several lists of captions: those of its kind are
            read, as train.de, val.de and test.de.

    Returns:
        The source.

    Raises:
        WorkbenchError: no such lists, several kinds that are equally good, lists of different
            lengths, a line without an image, or an image in two splits.
    """
    folder = list_raw(raw, options)
    pairs = _chosen(folder, options)
    described: list[str] = []
    text: list[str] = []
    named: list[tuple[str, str | None]] = []
    problems = Problems(str(raw))
    lengths = []
    empty = []
    for captions, images in pairs.items():
        texts = _lines(raw / captions)
        names = _lines(raw / images)
        if len(texts) != len(names):
            lengths.append(f"{captions} has {len(texts):,} lines, {images} has {len(names):,}")
            continue
        empty += [f"{images}, line {line}" for line, name in enumerate(names, 1) if not name]
        described += names
        text += texts
        split = split_in_path(images) or split_in_path(captions)
        named += [(name, split) for name in dict.fromkeys(names)]
    problems.add("lists of different lengths", lengths)
    problems.add("lines without an image", dict.fromkeys(empty))
    problems.raise_if_any("line n of both must be of the same image: mend the lists")
    table = {"caption_id": numbered(described), "image_id": described, "text": text}
    shown = listing((f"{captions} with {images}" for captions, images in pairs.items()), 5)
    return described_source(
        folder,
        options,
        splits=one_split_each(raw, named),
        captions=pd.DataFrame(table),
        remarks=[f"captions and images are taken line by line: {shown}"],
        files=[*pairs.keys(), *pairs.values()],
    )


def _chosen(folder: Folder, options: Options) -> Pairs:
    """The pairs of lists that are read; WorkbenchError where there are none or several kinds."""
    kinds = _kinds(folder)
    name = options.corpus.annotations
    named = [pairs for pairs in kinds if name in pairs]
    if named:
        return named[0]
    found = annotation_files(folder, options, recognise=recognise, expected=EXPECTED)
    for pairs in kinds:
        if _found(folder, pairs) == found:
            return pairs
    raise WorkbenchError(
        f"corpus.annotations = {name!r}: no list of captions with a list of images",
        f"expected is {EXPECTED}",
    )


def _lines(path: Path) -> list[str]:
    """All lines of a list, stripped, blank ones, too: their numbers tell what belongs together.
    WorkbenchError where all are blank."""
    lines = read_text(path).split("\n")
    if not any(line.strip().strip("\0") for line in lines):
        raise WorkbenchError(
            f"{path}: nothing but blanks or zeros",
            "copy it again, or move it away with the list that belongs to it",
        )
    return [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]
