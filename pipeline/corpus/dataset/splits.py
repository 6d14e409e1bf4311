"""Splits of images: from lists, from the names of files, or drawn by the seed; groups stay whole.

A copy of a photograph (`IMG_1.jpg`, `IMG_1 (1).jpg`) in training and in test makes the test easier
than it is, and in one split it counts as a wrong answer to its own twin's captions. So copies are
one group: one split, and each the right answer of the other.
"""

import os
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from pipeline.corpus.dataset.cells import SPLIT_COLUMNS
from pipeline.corpus.dataset.folder import with_slashes, without_ending
from pipeline.corpus.dataset.source import Options, find_in_raw
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.text import Problems, decode_beginning, read_json, read_text

_WORDS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_SPLIT_OF = {word: split for split, words in _WORDS.items() for word in words}
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLIT_OF)})(?![a-z])")
SPLIT_WORDS = tuple(_SPLIT_OF)
RESTVAL = "restval"  # Karpathy's third part of MS-COCO: validation images that may train

LINES_LOOKED_AT = 100
BYTES_LOOKED_AT = 1 << 16
TAIL = 4096  # bytes at the end of files of one size that are compared first
_JSON_OF_SPLITS = re.compile(r"(.*[._-])?splits?([._-].*)?\.json", re.IGNORECASE)
_NUMBERED = re.compile(r"train_test_split\.txt", re.IGNORECASE)
_LISTS = {
    split: re.compile(rf"(.*[._-])?({'|'.join(words)})(images)?\.(txt|lst)", re.IGNORECASE)
    for split, words in _WORDS.items()
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


@lru_cache
def split_named(word: str) -> str | None:
    """The split that a word means, such as `Validation` or `dev`; None for any other word."""
    return _SPLIT_OF.get(word.strip().lower())


def as_split(value: object) -> object:
    """A value of a field `split` with any usual word for a split as train, val or test; all other
    values as they are, for the check of the field."""
    return (split_named(value) or value) if isinstance(value, str) else value


def split_field(record: Mapping[str, object]) -> str | None:
    """The field of a record that says its split: `split` always means that, others, such as `set`,
    if they say a word for one.

    Args:
        record: of JSON, the first of its file.

    Returns:
        The field's name; None where there is none.
    """
    for name in SPLIT_COLUMNS:
        value = record.get(name)
        if not isinstance(value, str) or value == "":
            continue
        if name == SPLIT_COLUMNS[0] or split_named(value) is not None or is_rest(value):
            return name
    return None


def is_rest(word: str | None) -> bool:
    """Whether a word means Karpathy's fourth split, RESTVAL; None for no word."""
    return word is not None and word.strip().lower() == RESTVAL


def split_or_rest(word: str | None, restval: str) -> str | None:
    """The split that a word means, RESTVAL among them.

    Args:
        word: as annotations have it, None for none.
        restval: corpus.restval, `train` or `drop`.

    Returns:
        train, val or test; None for any other word.
    """
    if is_rest(word):
        return "train" if restval == "train" else None
    return split_named(word or "")


def check_other_splits(words: Mapping[str, int], place: str) -> tuple[str, ...]:
    """Words for splits that are none of train, val and test: their images are left out.

    Only where train and test are named, too: any other word may be one of these, miswritten.

    Args:
        words: every word that the annotations have for a split, and how many images have it.
        place: the annotations, for the message.

    Returns:
        A line that counts them, none without any.

    Raises:
        WorkbenchError: such words without train or test.
    """
    known = {split_named(word) for word in words}
    others = {
        word: number
        for word, number in words.items()
        if word and split_named(word) is None and not is_rest(word)
    }
    if others and not {"train", "test"} <= known:
        problems = Problems(place)
        problems.add("splits that are none of train, val, test and their like", map(repr, others))
        problems.raise_if_any(
            "mend them, or take them out; beside train and test their images are left out"
        )
    shown = listing(f"{number:,} of {word!r}" for word, number in others.items())
    return (f"images of splits that are none of train, val and test: {shown}",) if others else ()


def with_split_lists(
    raw: Path, beside: str, splits: Mapping[str, str | None], options: Options
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The splits of images where lists divide them: those that corpus.split_files names, else,
    where annotations divide nothing, those that lie beside them.

    Args:
        raw: the user's folder.
        beside: the folder inside it in which lists are looked for before it is.
        splits: for every image, as annotations name it, its split, or None.
        options: corpus.split_files.

    Returns:
        The splits, in the order of `splits`, then images that only lists name; None for an image in
        no list. And a line about the lists that were found, none for lists that somebody named.

    Raises:
        WorkbenchError: lists that are not there, or an image in two of them.
    """
    named = options.corpus.split_files
    lists: Mapping[str, Path] = {}
    if named is not None:
        lists = named_split_lists(find_in_raw(raw, named, "corpus.split_files"))
    elif len(set(splits.values())) < 2:
        places = dict.fromkeys((raw / beside, raw))
        found = (find_split_lists(place, splits) for place in places)
        lists = next(filter(None, found), {})
    if not lists:
        return dict(splits), ()
    listed = listed_splits(lists, list(splits))
    divided: dict[str, str | None] = {image: listed.get(image) for image in splits}
    if named is None and len(set(divided.values())) < 2:
        return dict(splits), ()
    files = ", ".join(dict.fromkeys(path.name for path in lists.values()))
    remarks = () if named is not None else (f"splits: of the lists {files}",)
    return divided | listed, remarks


def find_split_lists(folder: Path, names: Collection[str]) -> dict[str, Path]:
    """The lists of a folder that divide its images, such as `Flickr_8k.trainImages.txt`.

    Args:
        folder: the folder that the lists lie in.
        names: the images; a file that is called like a list and names none of them is none.

    Returns:
        By split the only list of it, or the one file for all splits: JSON such as splits.json that
        has lists under the names of the splits, or CUB's train_test_split.txt; empty without a list
        for training.
    """
    files = _files_called_lists(folder)
    known = {_stem(name) for name in names}
    lists: dict[str, Path] = {}
    for split, paths in files.items():
        own = [path for path in paths if _are_images(_first_entries(path), known)]
        if len(own) == 1:
            lists[split] = own[0]
    if "train" in lists:
        return lists
    for path in (*_files_matching(folder, _JSON_OF_SPLITS), *_files_matching(folder, _NUMBERED)):
        entries = _entries_by_split(path)
        if _are_images([name for own in entries.values() for name in own], known):
            return dict.fromkeys(entries, path) if "train" in entries else {}
    return {}


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
    for split, own in _files_called_lists(folder).items():
        if len(own) == 1:
            lists[split] = own[0]
        elif own or split in required:
            found = ", ".join(path.name for path in own) or "none"
            example = f"Flickr_8k.{'dev' if split == 'val' else split}Images.txt"
            raise WorkbenchError(
                f"{folder}: expected one list of {split} images, such as {split}.txt or {example}; "
                f"found {found}",
                "the folder has one list for each of train, val and test",
            )
    return lists


def is_called_list(name: str) -> bool:
    """Whether a file is called as a list of a split's images, such as `train.txt`.

    Args:
        name: of a file, without its folder.
    """
    return any(pattern.fullmatch(name) for pattern in _LISTS.values())


def _files_called_lists(folder: Path) -> dict[str, list[Path]]:
    """The files of a folder that are called like a list of a split, by split."""
    return {split: _files_matching(folder, pattern) for split, pattern in _LISTS.items()}


def _files_matching(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """The files of a folder whose whole name a pattern matches, in the order of their names."""
    names = sorted(name for name in os.listdir(folder) if pattern.fullmatch(name))
    return [folder / name for name in names if (folder / name).is_file()]


def _first_entries(path: Path) -> list[str]:
    """The first lines of a list that are not blank."""
    with open(path, "rb") as file:
        data = file.read(BYTES_LOOKED_AT)
    text = decode_beginning(data)
    if text is None:  # reading it all says what is wrong with it
        text = data.decode("utf-8", errors="replace")
    lines = text.splitlines()[:LINES_LOOKED_AT]
    return [line.strip() for line in lines if line.strip()]


def _are_images(entries: Collection[str], known: Collection[str]) -> bool:
    """Whether most entries of a list name images, with or without their endings."""
    return sum(_stem(entry) in known for entry in entries) * 2 > len(entries)


def _entries_by_split(path: Path) -> dict[str, list[str]]:
    """The images of each split in a file of all splits; empty for one of another form."""
    return _entries_in_json(path) if path.suffix.lower() == ".json" else _entries_of_numbers(path)


def _entries_of_numbers(path: Path) -> dict[str, list[str]]:
    """The images of each split in CUB's form: lines of an image's number and 1 for training or 0
    for test; lines of a number and a name are in images.txt beside it."""
    names_in = path.with_name("images.txt")
    if not names_in.is_file():
        return {}
    pairs = (line.strip().partition(" ") for line in read_text(names_in).split("\n"))
    names = {number: name.strip() for number, _, name in pairs}
    entries: dict[str, list[str]] = defaultdict(list)
    for line in read_text(path).split("\n"):
        number, _, flag = line.strip().partition(" ")
        if number in names and flag in ("0", "1"):
            entries["train" if flag == "1" else "test"].append(names[number])
    return dict(entries)


def _entries_in_json(path: Path) -> dict[str, list[str]]:
    """The images of each split in a file such as {"train": ["1.jpg", ...], "test": [...]}, or in
    one that maps images to splits; empty for anything else."""
    value = read_json(path)
    entries: dict[str, list[str]] = defaultdict(list)
    for key, own in value.items() if isinstance(value, dict) else ():
        split = split_named(key)
        if split is not None and isinstance(own, list):
            entries[split] += [name for name in own if isinstance(name, str)]
        elif isinstance(own, str) and split_named(own) is not None:
            entries[split_named(own) or ""].append(key)
    return dict(entries)


def _entries(lists: Mapping[str, Path]) -> Mapping[str, list[str]]:
    """The images of each split in the file of each, or in one file for all splits."""
    path = next(iter(lists.values()))
    if path.suffix.lower() == ".json" or _NUMBERED.fullmatch(path.name):
        return _entries_by_split(path)
    return {split: read_text(own).split("\n") for split, own in lists.items()}


def _stem(name: str) -> str:
    """The last part of an image's name without its ending, in lower case, its blanks not as an
    address of the web has them."""
    return without_ending(unquote(with_slashes(name).rpartition("/")[2]))


def listed_splits(lists: Mapping[str, Path], names: Sequence[str]) -> dict[str, str]:
    """The split of each image that lists name; lists may leave endings and folders out.

    Args:
        lists: the file of each split, a name on a line, or one file for all splits.
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
    for split, entries in _entries(lists).items():
        for line in dict.fromkeys(entries):
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


def equal_photographs(root: Path, image_ids: Sequence[str]) -> list[list[str]]:
    """Images whose files have the same bytes.

    Files of one size are compared by their last bytes, and those that are equal there by a digest
    of all, so that a large folder without copies costs little.

    Args:
        root: the folder that the images are paths in.
        image_ids: the images; those without a file are passed over, and empty files.

    Returns:
        The images of every photograph that is there more than once, in the order of `image_ids`.
    """
    groups = [list(image_ids)]
    for look in (_size, _last_bytes, sha256_file):
        groups = [own for images in groups for own in _equal_by(look, f"{root}{os.sep}", images)]
    return groups


def _equal_by(
    look: Callable[[str], object], place: str, image_ids: Sequence[str]
) -> list[list[str]]:
    """The images of which a look at the file says the same, in groups of two and more."""
    found: dict[object, list[str]] = defaultdict(list)
    for image_id in image_ids:
        try:
            found[look(place + image_id)].append(image_id)
        except (OSError, ValueError):
            continue  # the check of all files says what is wrong with it
    return [images for seen, images in found.items() if seen and len(images) > 1]


def _size(path: str) -> int:
    return os.stat(path).st_size


def _last_bytes(path: str) -> bytes:
    """The last bytes of a file: the first ones are often those of the same camera."""
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(-min(TAIL, size), os.SEEK_END)
        return file.read(TAIL)


def in_one_split(
    copies: Sequence[Sequence[str]], named: Mapping[str, str | None]
) -> list[list[str]]:
    """Equal photographs that may be one group: those that the files put into one split.

    Args:
        copies: the images of every photograph that is there more than once.
        named: image_id to the split that the files name, None for one that is drawn later.

    Returns:
        The same images, divided by their split; those left alone are no copies.
    """
    divided: list[list[str]] = []
    for images in copies:
        by_split: dict[str | None, list[str]] = defaultdict(list)
        for image in images:
            by_split[named[image]].append(image)
        divided += [own for own in by_split.values() if len(own) > 1]
    return divided


def joined_groups(
    groups: Mapping[str, str], copies: Sequence[Sequence[str]]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Groups in which equal photographs are together.

    Args:
        groups: image_id to the group that the source gives it; its own id where it gives none.
        copies: the images of every photograph that is there more than once.

    Returns:
        The group of every image: of groups that copies join, the first one's. And a remark that
        counts and names the copies, none without any.
    """
    if not copies:
        return dict(groups), ()
    leader = {group: group for group in groups.values()}

    def first_of(group: str) -> str:
        while leader[group] != group:
            group = leader[group]
        return group

    for images in copies:
        together = sorted({first_of(groups[image]) for image in images})
        for group in together[1:]:
            leader[group] = together[0]
    number = sum(map(len, copies))
    shown = listing((" = ".join(images) for images in copies), 3)
    remark = (
        f"equal photographs under different names: {number:,} images are "
        f"{counted(len(copies), 'photograph')} ({shown}); those of one photograph are one group, "
        "in one split"
    )
    return {image: first_of(group) for image, group in groups.items()}, (remark,)


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
    images: dict[str | None, list[str]] = defaultdict(list)  # by split
    for image, split in named.items():
        images[split].append(image)
    without = images.pop(None, []) if len(images) > 1 else []
    remarks: tuple[str, ...] = ()
    if without:
        shown = f"{counted(len(without), 'image')} in no split ({listing(without, 3)})"
        remarks = (f"left out: {shown}",)
    names = {split for split in images if split is not None}
    drawn: dict[str, str] = {}
    if len(names) <= 1:
        pool = next(iter(images.values()), [])
        drawn = _held_out(pool, ("val", "test"), "train", options, groups)
        alone = f"all images are of split {min(names)}; " if names else ""
        remarks += (f"{alone}splits drawn by seed: {_counted(drawn)}",)
    elif names == {"train", "val"}:
        drawn = _held_out(images["val"], ("val", "test"), "", options, groups)
        left = sum(not split for split in drawn.values())
        remarks += (f"drawn from val by seed: {_counted(drawn)}; left out: {left:,} images",)
    elif names == {"train", "test"}:
        drawn = _held_out(images["train"], ("val",), "train", options, groups)
        remarks += (f"drawn from train by seed: {_counted(drawn)}",)
    elif names != set(SPLITS):
        raise WorkbenchError(
            f"the files name the splits {' and '.join(sorted(names))}, but none to train on",
            "add the training files to raw",
        )
    if without:
        named = {image: split for image, split in named.items() if split is not None}
    splits = {image: drawn.get(image, split) for image, split in named.items()}
    return {image: split for image, split in splits.items() if split}, remarks


def _counted(drawn: Mapping[str, str]) -> str:
    """How many images were drawn for val and test, in words."""
    numbers = Counter(drawn.values())
    return ", ".join(f"{numbers[kind]:,} {kind}" for kind in ("val", "test") if kind in numbers)


def _held_out(
    names: Sequence[str],
    kinds: Sequence[str],
    rest: str,
    options: Options,
    groups: Mapping[str, str] | None,
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
    members: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        members[groups.get(name, name) if groups else name].append(name)
    ranked = list(members.values())
    order = np.random.default_rng([options.seed, 0x5B117]).permutation(len(ranked)).tolist()
    waiting = deque(ranked[place] for place in order)
    splits = dict.fromkeys(names, rest)
    for kind in kinds:
        taken = 0
        while waiting and taken < numbers[kind]:
            group = waiting.popleft()
            splits.update(dict.fromkeys(group, kind))
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
    return splits
