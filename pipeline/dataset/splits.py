"""Splits of images: from lists, from the names of files, or drawn by the seed."""

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems, read_text

_WORDS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev")}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words} | {"test": "test"}
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLIT_OF)})(?![a-z])")
SPLIT_WORDS = tuple(_SPLIT_OF)

LINES_LOOKED_AT = 100
_LISTS = {
    split: re.compile(rf"(.*[._-])?({names})(images)?\.(txt|lst)", re.IGNORECASE)
    for split, names in zip(SPLITS, ("train", "val|dev|valid", "test"), strict=True)
}


def split_in_path(path: str) -> str | None:
    """The split that a path names, or None: words between anything but letters count, as in
    `train-00000-of-00005` and `val2017`, the last one before others."""
    words = _WORD.findall(path.lower())
    return _SPLIT_OF[words[-1]] if words else None


def without_split(path: str) -> str:
    """A path without the last word that names a split: equal for the files of one dataset."""
    matches = list(_WORD.finditer(path.lower()))
    if not matches:
        return path
    return path[: matches[-1].start()] + path[matches[-1].end() :]


def find_split_lists(folder: Path, names: Collection[str]) -> dict[str, Path]:
    """The lists of a folder that divide its images, such as `Flickr_8k.trainImages.txt`.

    Args:
        folder: the folder that the lists lie in.
        names: the images; a file that is called like a list and names none of them is none.

    Returns:
        By split the only list of it; empty without a list for training.
    """
    known = {_stem(name) for name in names}
    lists: dict[str, Path] = {}
    for split, pattern in _LISTS.items():
        files = [path for path in sorted(folder.iterdir()) if pattern.fullmatch(path.name)]
        own = [path for path in files if path.is_file() and _names_images(path, known)]
        if len(own) == 1:
            lists[split] = own[0]
    return lists if "train" in lists else {}


def _names_images(path: Path, known: Collection[str]) -> bool:
    """Whether the first lines of a file name images, with or without their endings."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in islice(file, LINES_LOOKED_AT)]
    entries = [line for line in lines if line]
    return bool(entries) and sum(_stem(entry) in known for entry in entries) * 2 > len(entries)


def _stem(name: str) -> str:
    """The last part of an image's name without its ending."""
    file = name.rpartition("/")[2]
    return file.rpartition(".")[0] or file


def listed_splits(lists: Mapping[str, Path], names: Sequence[str]) -> dict[str, str]:
    """The split of each image that lists name; lists may leave endings and folders out.

    Args:
        lists: the file of each split, a name on a line.
        names: the images.

    Returns:
        A split for every entry of the lists: for the image that it means, or under its own text
        where it means none.

    Raises:
        WorkbenchError: an image in lists of two splits.
    """
    known = set(names)
    counts = Counter(map(_stem, names))
    stems = {_stem(name): name for name in names if counts[_stem(name)] == 1}
    splits: dict[str, str] = {}
    twice: list[str] = []
    for split, path in lists.items():
        for line in dict.fromkeys(read_text(path).split("\n")):
            entry = line.strip()
            image = entry if entry in known else stems.get(_stem(entry), entry)
            if image in splits and splits[image] != split:
                twice.append(image)
            if image:
                splits[image] = split
    problems = Problems(str(next(iter(lists.values())).parent))
    problems.add("images in more than one list", dict.fromkeys(twice))
    problems.raise_if_any("an image that is trained on must not be tested on: mend the lists")
    return splits


def named_split_lists(
    folder: Path, required: Collection[str] = ("train", "test")
) -> dict[str, Path]:
    """The lists of a folder that somebody has named, one for each split.

    Args:
        folder: a folder with lists such as `train.txt`, `val.txt` (or dev) and `test.txt`.
        required: the splits that must have a list. Without one for val, val is drawn from train.

    Returns:
        The file of each split that has one.

    Raises:
        WorkbenchError: no list for a required split, or several for one.
    """
    lists: dict[str, Path] = {}
    for split, pattern in _LISTS.items():
        files = [path for path in sorted(folder.iterdir()) if pattern.fullmatch(path.name)]
        own = [path for path in files if path.is_file()]
        if not own and split not in required:
            continue
        if len(own) != 1:
            found = ", ".join(path.name for path in own) or "none"
            example = f"Flickr_8k.{'dev' if split == 'val' else split}Images.txt"
            raise WorkbenchError(
                f"{folder}: expected one list of {split} images, such as {split}.txt or {example}; "
                f"found {found}",
                "the folder has one list for each of train, val and test",
            )
        lists[split] = own[0]
    return lists


def split_named(word: str) -> str | None:
    """The split that a word means, such as `Validation` or `dev`; None for any other word."""
    return _SPLIT_OF.get(word.strip().lower())


def as_split(value: object) -> object:
    """A value of a field `split` with any usual word for a split as train, val or test; all other
    values as they are, for the check of the field."""
    return (split_named(value) or value) if isinstance(value, str) else value


def settled_splits(
    named: Mapping[str, str | None],
    options: Options,
    groups: Mapping[str, str] | None = None,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Train, val and test from the splits that the files name.

    A split that the files give is kept. All three are taken as they are. Train and val alone:
    corpus.val_images and corpus.test_images are drawn from val, whose rest is left out. Train and
    test alone: corpus.val_images are drawn from train. One alone, or none: all three are drawn.

    Args:
        named: image_id to its split, or to None where the files say none. Images without a split
            beside images with one are left out.
        options: the seed, and how many images are drawn.
        groups: image_id to its group, for images that must not be divided: those of a person, or
            equal photographs. Images that are not in it are groups of their own.

    Returns:
        The split of every image that is kept, in the order of `named`, and remarks about what was
        drawn and left out.

    Raises:
        WorkbenchError: too few images to draw from, or none to train on.
    """
    names = {split for split in named.values() if split is not None}
    remarks: tuple[str, ...] = ()
    if names and None in named.values():
        without = [image for image, split in named.items() if split is None]
        shown = f"{counted(len(without), 'image')} in no split ({listing(without, 3)})"
        remarks = (f"left out: {shown}",)
        named = {image: split for image, split in named.items() if split is not None}
    if names == set(SPLITS):
        return {image: str(split) for image, split in named.items()}, remarks
    if len(names) <= 1:
        drawn = _held_out(list(named), ("val", "test"), "train", options, groups)
        alone = f"all images are of split {min(names)}; " if names else ""
        return drawn, (*remarks, f"{alone}splits drawn by seed: {_counted(drawn.values())}")
    if names == {"train", "val"}:
        pool = [image for image, split in named.items() if split == "val"]
        drawn = _held_out(pool, ("val", "test"), "", options, groups)
        left = sum(not split for split in drawn.values())
        remark = f"drawn from val by seed: {_counted(drawn.values())}; left out: {left:,} images"
    elif names == {"train", "test"}:
        pool = [image for image, split in named.items() if split == "train"]
        drawn = _held_out(pool, ("val",), "train", options, groups)
        remark = f"drawn from train by seed: {_counted(drawn.values())}"
    else:
        raise WorkbenchError(
            f"the files name the splits {' and '.join(sorted(names))}, but none to train on",
            "add the training files to raw",
        )
    splits = {image: drawn.get(image, str(split)) for image, split in named.items()}
    return {image: split for image, split in splits.items() if split}, (*remarks, remark)


def _counted(splits: Iterable[str]) -> str:
    names = list(splits)
    return ", ".join(f"{names.count(kind):,} {kind}" for kind in ("val", "test") if kind in names)


def _held_out(
    names: Sequence[str],
    kinds: Sequence[str],
    rest: str,
    options: Options,
    groups: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Draw splits by the seed, over the sorted names: the order in the files does not matter.

    Args:
        names: the images to draw from.
        kinds: the splits that are drawn, one after the other; a share gives at least one image.
        rest: the split of the images that are not drawn.
        options: the seed, and how many images a split has.
        groups: as in `settled_splits`; a group that is drawn comes whole, so that a split can have
            more images than were asked for.

    Returns:
        A split for each image.
    """
    asked = {kind: getattr(options.corpus, f"{kind}_images") for kind in kinds}
    numbers = {
        kind: max(1, round(value * len(names))) if isinstance(value, float) else value
        for kind, value in asked.items()
    }
    members: dict[str, list[str]] = {}
    for name in sorted(names):
        members.setdefault(groups.get(name, name) if groups else name, []).append(name)
    ranked = list(members.values())
    order = np.random.default_rng([options.seed, 0x5B117]).permutation(len(ranked)).tolist()
    waiting = deque(ranked[place] for place in order)
    splits: dict[str, str] = {}
    for kind in kinds:
        taken = 0
        while waiting and taken < numbers[kind]:
            group = waiting.popleft()
            splits |= dict.fromkeys(group, kind)
            taken += len(group)
        if taken < numbers[kind]:
            break
    if (rest and not waiting) or len(names) < sum(numbers.values()):
        wanted = " and ".join(f"corpus.{kind}_images = {value}" for kind, value in asked.items())
        together = f" in {counted(len(ranked), 'group')}" if len(ranked) < len(names) else ""
        raise WorkbenchError(
            f"{wanted}, but raw has {counted(len(names), 'image')}{together} to draw them from"
            + (" and to train on" if rest else ""),
            "make them smaller in params.yaml",
        )
    return {name: splits.get(name, rest) for name in names}
