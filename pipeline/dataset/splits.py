"""Splits of images: from lists, from the names of files, or drawn by the seed."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.text import Problems, read_text

_WORDS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev")}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words} | {"test": "test"}
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLIT_OF)})(?![a-z])")

_LISTS = {
    split: re.compile(rf"(.*[._-])?({names})(images)?\.(txt|lst)", re.IGNORECASE)
    for split, names in zip(SPLITS, ("train", "val|dev|valid", "test"), strict=True)
}


def split_in_path(path: str) -> str | None:
    """The split that a path names, or None: words between anything but letters count, as in
    `train-00000-of-00005` and `val2017`, the last one before others."""
    words = _WORD.findall(path.lower())
    return _SPLIT_OF[words[-1]] if words else None


def listed_splits(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The split of each image that a folder's lists name; lists may leave the endings out."""
    known = set(names)
    counts = Counter(name.rpartition(".")[0] for name in names)
    stems = {stem: name for name in names if counts[stem := name.rpartition(".")[0]] == 1}
    splits: dict[str, str] = {}
    twice: list[str] = []
    for split in SPLITS:
        for entry in dict.fromkeys(read_text(_split_list(folder, split)).split("\n")):
            listed = entry.strip()
            image = listed if listed in known else stems.get(listed, listed)
            if image in splits and splits[image] != split:
                twice.append(image)
            if image:
                splits[image] = split
    problems = Problems(str(folder))
    problems.add("images in more than one list", dict.fromkeys(twice))
    problems.raise_if_any("an image that is trained on must not be tested on: mend the lists")
    return splits


def _split_list(folder: Path, split: str) -> Path:
    lists = sorted(p for p in folder.glob("*") if _LISTS[split].fullmatch(p.name) and p.is_file())
    if len(lists) == 1:
        return lists[0]
    names = ", ".join(path.name for path in lists) or "none"
    raise WorkbenchError(
        f"{folder}: expected one list of {split} images, such as {split}.txt or "
        f"Flickr_8k.{'dev' if split == 'val' else split}Images.txt; found {names}",
        "the folder has one list for each of train, val and test",
    )


def seeded_splits(names: Sequence[str], options: Options) -> dict[str, str]:
    """A split for each image, drawn over the sorted names: the file's order does not matter."""
    return _held_out(names, ("val", "test"), "train", options)


def settled_splits(
    named: Mapping[str, str | None], options: Options
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Train, val and test from the splits that files name: image_id to a split, or to None for all.
    Returns the split of every image that is kept, and remarks about what was drawn and left out.

    All three are taken as they are. Train and val alone: corpus.val_images and corpus.test_images
    are drawn from val, whose rest is left out. Train and test alone: corpus.val_images are drawn
    from train. One alone, or none named: all three are drawn.
    """
    names = {str(split) for split in named.values()}
    if names == set(SPLITS):
        return {image: str(split) for image, split in named.items()}, ()
    if len(names) == 1:
        splits = seeded_splits(list(named), options)
        return splits, (f"splits drawn by seed: {_counted(splits.values())}",)
    if names == {"train", "val"}:
        pool = [image for image, split in named.items() if split == "val"]
        drawn = _held_out(pool, ("val", "test"), "", options)
        left = sum(not split for split in drawn.values())
        remark = f"drawn from val by seed: {_counted(drawn.values())}; left out: {left:,} images"
    elif names == {"train", "test"}:
        pool = [image for image, split in named.items() if split == "train"]
        drawn = _held_out(pool, ("val",), "train", options)
        remark = f"drawn from train by seed: {_counted(drawn.values())}"
    else:
        raise WorkbenchError(
            f"the files name the splits {' and '.join(sorted(names))}, but none to train on",
            "add the training files to raw",
        )
    splits = {image: drawn.get(image, str(split)) for image, split in named.items()}
    return {image: split for image, split in splits.items() if split}, (remark,)


def _counted(splits: Iterable[str]) -> str:
    names = list(splits)
    return ", ".join(f"{names.count(kind):,} {kind}" for kind in ("val", "test") if kind in names)


def _held_out(
    names: Sequence[str], kinds: Sequence[str], rest: str, options: Options
) -> dict[str, str]:
    """A split for each image, drawn by seed, else `rest`; a share gives at least one."""
    asked = {kind: getattr(options.corpus, f"{kind}_images") for kind in kinds}
    drawn = []
    for kind, value in asked.items():
        share = isinstance(value, float)
        drawn += [kind] * (max(1, round(value * len(names))) if share else value)
    if len(names) < len(drawn) + bool(rest):
        numbers = " and ".join(f"corpus.{kind}_images = {value}" for kind, value in asked.items())
        raise WorkbenchError(
            f"{numbers}, but raw has {counted(len(names), 'image')} to draw them from"
            + (" and to train on" if rest else ""),
            "make them smaller in params.yaml",
        )
    drawn += [rest] * (len(names) - len(drawn))
    order = np.random.default_rng([options.seed, 0x5B117]).permutation(len(names))
    ranked = sorted(names)
    splits = {ranked[n]: kind for n, kind in zip(order, drawn, strict=True)}
    return {name: splits[name] for name in names}
