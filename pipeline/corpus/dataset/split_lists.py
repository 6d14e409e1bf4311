"""Lists that divide the images of a folder, where its annotations do not: which files these are,
and the split of every image by them. split_forms.py reads one file.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from pipeline.corpus.dataset.folder import (
    Folder,
    composed,
    depth,
    joined,
    with_slashes,
    without_ending,
)
from pipeline.corpus.dataset.recognise import first_records
from pipeline.corpus.dataset.source import Options, find_in_raw
from pipeline.corpus.dataset.split_forms import (
    NUMBERED,
    beginning_of,
    flags_in_table,
    images_in_file,
    images_in_list,
    images_in_table,
    lists_images,
    mentions_images,
)
from pipeline.corpus.dataset.split_names import (
    FOR_ALL,
    LIST_ENDINGS,
    Known,
    list_stem,
    split_of_list,
    without_zeros,
)
from pipeline.corpus.dataset.split_unread import unread_folders, unread_splits
from pipeline.corpus.dataset.split_values import DATA_ENDINGS, is_of_image
from pipeline.corpus.dataset.splits import (
    SPLIT_WORDS_OF,
    check_other_splits,
    split_in_path,
    split_or_rest,
)
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems

MOST_TABLES = 100  # of a folder; more are texts beside images
_TABLES = re.compile(r".*\.(csv|tsv|txt)", re.IGNORECASE)
_LINES = re.compile(r".*\.(txt|lst|list)", re.IGNORECASE)
_RECORDS = re.compile(r".*\.(json|jsonl|jsonlines|ndjson)", re.IGNORECASE)
# A file for all splits.
_FOR_ALL = re.compile(
    rf"{FOR_ALL.pattern}\.(json|jsonl|jsonlines|ndjson|ya?ml|txt|lst|list)", re.IGNORECASE
)

_OF_OTHERS = (".md", *DATA_ENDINGS)  # of files that may be lists, and anything else


class SplitLists(NamedTuple):
    """Files that divide images. images: by split, in the words of the files."""

    files: Sequence[Path]
    images: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return ", ".join(path.name for path in self.files)


def with_split_lists(
    folder: Folder, files: Sequence[str], splits: Mapping[str, str | None], options: Options
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The splits of images where lists divide them: those that corpus.split_files names, else,
    where annotations divide nothing, those of the user's folder.

    Args:
        folder: the files of the user's folder.
        files: the annotations, as paths inside it; lists that lie beside the first come first, then
            those further up, then any others.
        splits: for every image, as annotations name it, its split, or None.
        options: corpus.split_files, corpus.restval.

    Returns:
        The splits, in the order of `splits`, then images that only named lists have; None for an
        image in no list. Without a list for training its images are all others. And lines about
        lists that were found, and about images of other splits.

    Raises:
        WorkbenchError: lists that are not there, several of one split, or an image in two.
    """
    named = options.corpus.split_files
    lists = None
    unread: tuple[str, ...] = ()
    flags = ""
    if named is not None:
        path = find_in_raw(folder.root, named, "corpus.split_files")
        lists = named_split_lists(path, splits)
    elif len(set(splits.values())) < 2:
        known = Known(splits)
        lists = _found_in(folder, files, known)
        listed_in = lists or SplitLists((), {})
        read = {*(folder.root / file for file in files), *listed_in.files}
        flags, of_flags = _flags_in(read, known)
        unread = (
            *of_flags,
            *_other_lists(folder, splits, known, lists),
            *unread_splits(folder, known, listed_in.images, read),
        )
    if lists is None:
        return dict(splits), unread
    words = listed_splits(lists, list(splits))
    others = check_other_splits(Counter(words.values()), str(lists))
    listed = {image: split_or_rest(word, options.corpus.restval) for image, word in words.items()}
    divided = {image: listed.get(image) for image in splits}
    has_train = "train" in divided.values()
    if not has_train:
        divided = {image: split or "train" for image, split in divided.items()}
    if named is not None:
        return divided | listed, others
    if len(set(divided.values())) < 2:
        return dict(splits), unread
    rest = "" if has_train else "; images that they lack are for training"
    foreign = len(listed.keys() - divided.keys())
    without = (f"of the images of the lists {foreign:,} have no captions",) if foreign else ()
    return divided, (f"splits: of the lists {lists}{flags}{rest}", *without, *unread, *others)


def with_folder_splits(
    folder: Folder, root: Path, splits: Mapping[str, str | None]
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The splits of images where folders called train, val and test divide them: those that the
    images lie in, else those with a file of the same name, such as a link or a label.

    Args:
        folder: the files of the user's folder.
        root: the folder that the images are paths in, the user's or one inside it.
        splits: of every image, None for those of none.

    Returns:
        The splits, and a line about them. They stay where such folders are of one split alone, or
        have fewer than half of the images: `train` may show trains. Without a folder for training
        its images are all others.
    """
    named = {place: split_in_path(place) for place in folder.files}
    by_file: dict[str, set[str]] = defaultdict(set)
    for place, split in named.items():
        for file in folder.files[place] if split is not None else ():
            by_file[_without_any_ending(file)].add(split or "")
    inside = os.path.relpath(root, folder.root)
    divided: dict[str, str | None] = {}
    for image in splits:
        path, _, file = joined(inside, image).rpartition("/")
        same = by_file.get(_without_any_ending(file), set())
        divided[image] = split_in_path(path) or (next(iter(same)) if len(same) == 1 else None)
    numbers = Counter(divided.values())
    found = numbers.keys() - {None}
    shown = listing(sorted(place for place, split in named.items() if split in found), 3)
    if len(found) < 2 or numbers[None] * 2 > len(divided):
        number = len(divided) - numbers[None]
        line = f"not taken for splits: {shown}, with {number:,} of {len(divided):,} images"
        if number == 0:
            return dict(splits), unread_folders(folder)
        return dict(splits), ((line,) if number < len(divided) else ())
    if "train" not in found:
        divided = {image: split or "train" for image, split in divided.items()}
    return divided, (f"splits: of the folders {shown}",)


def said_by_folders(places: Iterable[str]) -> tuple[str, ...]:
    """A line about folders whose names are taken for splits.

    Args:
        places: the folders of the annotations that are read, and say no split themselves.

    Returns:
        The line, none where they name fewer than two splits.
    """
    named = sorted({place for place in places if split_in_path(place)})
    if len({split_in_path(place) for place in named}) < 2:
        return ()
    return (f"splits: of the folders {listing(named, 3)}",)


def _without_any_ending(file: str) -> str:
    """The name of a file that others beside it share, such as an image's label."""
    name = composed(file).lower()
    return name.rpartition(".")[0] or name


def _found_in(folder: Folder, files: Sequence[str], known: Known) -> SplitLists | None:
    """The lists of a folder that divide images, none of them the annotations: the nearest, or the
    only ones."""
    beside = files[0].rpartition("/")[0] if files else ""
    places = sorted(_texts_in(folder), key=lambda place: (place != beside, depth(place), place))
    near = ("", beside)
    found: dict[str, SplitLists] = {}
    for place in places:
        lists = _find_lists(folder, place, known, files) or _find_table(folder, place, known)
        if lists is None:
            _check_no_part(folder, place, known, files)
        elif place in near and all(map(_is_nothing_else, lists.files)):
            return lists
        else:
            found[place] = lists
    only = {place: own for place, own in found.items() if all(map(_is_nothing_else, own.files))}
    found = only or found
    if len(found) > 1 and next(iter(found)) not in near:
        shown = listing(lists.files[0].relative_to(folder.root) for lists in found.values())
        raise WorkbenchError(
            f"{folder.root}: several folders have lists of splits: {shown}",
            "name one of these folders by corpus.split_files in params.yaml",
        )
    return next(iter(found.values()), None)


def _flags_in(files: Collection[Path], known: Known) -> tuple[str, tuple[str, ...]]:
    """What is said of columns of flags in the tables that are read: of those that divide the
    images, and a line about those that are called so and do not."""
    taken: dict[str, None] = {}
    left: dict[str, None] = {}
    for path in sorted(files):
        if _TABLES.fullmatch(path.name):
            flags, others = flags_in_table(path, known)
            taken |= dict.fromkeys(flags)
            left |= dict.fromkeys(f"{name} in {path.name}" for name in others)
    divide = f", column {listing(taken)}" if taken else ""
    line = f"not taken for splits: column {listing(left)}, which may say something else"
    return divide, ((line,) if left else ())


def _is_nothing_else(path: Path) -> bool:
    """Whether a list is no more than that, and comes before others: JSON with a list under a key,
    or with records on lines, may be there for other things, such as boxes, as may a page."""
    if split_of_list(path.name) is None or not path.name.lower().endswith(_OF_OTHERS):
        return True
    return beginning_of(path).lstrip().startswith("[")


def _other_lists(
    folder: Folder, names: Collection[str], known: Known, lists: SplitLists | None
) -> tuple[str, ...]:
    """A line about lists of a part of the images that say no split; WorkbenchError for one beside
    others, with images of none of them, where none of these is for training, or none for test."""
    listed = Known(name for own in lists.images.values() for name in own) if lists else Known(())
    found = []
    for place, files in _texts_in(folder).items():
        for path in _matching(folder, place, _LINES) if len(files) <= MOST_TABLES else ():
            entries = beginning_of(path).split("\n")
            entries = [line.strip() for line in entries if line.strip()]
            is_part = 0 < len(set(entries)) < len(names) and all(line in known for line in entries)
            is_read = split_of_list(path.name) is not None or (lists and path in lists.files)
            if not is_part or is_read or path.stem in known:  # a caption may be a word
                continue
            if lists and lists.files[0].parent == path.parent:
                if any(line in listed for line in entries):
                    continue
                if not {"train", "test"} <= lists.images.keys():
                    raise WorkbenchError(
                        f"{path}: a list of other images than {lists}, and no name of a split",
                        "call it train.txt, val.txt or test.txt, or move it away",
                    )
            found.append(path)
    shown = listing((path.relative_to(folder.root) for path in found), 3)
    line = f"not read, for they say no split: lists of a part of the images ({shown})"
    return (line,) if found else ()


def _check_no_part(folder: Folder, place: str, known: Known, files: Sequence[str]) -> None:
    """Raise WorkbenchError for lists of which few entries are images that are known: they may be
    those of more images than have captions, or of other ones."""
    tables = _matching(folder, place, _TABLES)
    called = _called_lists(folder, place, files)
    lists = [path for path in called if lists_images(path, known, few=True)]
    if len(tables) <= MOST_TABLES:
        lists += [path for path in tables if len(images_in_table(path, known, few=True)) > 1]
    if lists:
        raise WorkbenchError(
            f"{lists[0]}: of the first images that it lists, fewer than half have captions",
            "if it divides these images, name it, or its folder, by corpus.split_files in "
            "params.yaml; else move it away",
        )


def find_split_lists(folder: Folder, place: str, names: Collection[str]) -> SplitLists | None:
    """The lists of a folder that divide its images, such as `Flickr_8k.trainImages.txt`.

    Args:
        folder: the files of the user's folder.
        place: the folder inside it that the lists lie in.
        names: the images; a file that is called like a list and names none of them is none.

    Returns:
        The only list of each split or, without one for training, a file for all splits: JSON such
        as splits.json, or CUB's train_test_split.txt; else the lists that there are. None for none.

    Raises:
        WorkbenchError: several lists of one split.
    """
    return _find_lists(folder, place, Known(names))


def _find_lists(
    folder: Folder, place: str, known: Known, but: Sequence[str] = ()
) -> SplitLists | None:
    """The lists of a folder that divide images, but for some files."""
    called = _called_lists(folder, place, but)
    by_split: dict[str, Path] = {}
    for split in SPLITS:
        own = [path for path in called if split_of_list(path.name) == split]
        paths = [path for path in own if lists_images(path, known)]
        if len(paths) > 1:
            paths = _plain([*filter(_is_nothing_else, paths)] or paths, split)
        if len(paths) > 1 and len({frozenset(images_in_list(path, known)) for path in paths}) > 1:
            raise WorkbenchError(
                f"{folder.root / place}: several lists of {split} images: "
                f"{listing(path.name for path in paths)}",
                "move those that are meant into a folder of their own, and name it by "
                "corpus.split_files in params.yaml",
            )
        if paths:
            by_split[split] = paths[0]
    for path in () if "train" in by_split else _matching(folder, place, _FOR_ALL, NUMBERED):
        is_data = _RECORDS.fullmatch(path.name) or NUMBERED.fullmatch(path.name)
        if not is_data and not mentions_images(path, known):
            continue  # any text or settings that are called so
        images = images_in_file(path, known)
        if known.are_in(images):
            return SplitLists([path], images)
    return _read_lists(by_split, known) if by_split else None


def _plain(paths: list[Path], split: str) -> list[Path]:
    """Of several lists of a split the one that is called so and nothing else; all if none is."""
    plain = [path for path in paths if path.stem.lower() in SPLIT_WORDS_OF[split]]
    return plain if len(plain) == 1 else paths


def _find_table(folder: Folder, place: str, known: Known) -> SplitLists | None:
    """The table of a folder that divides its images, with a column of them and one of splits."""
    paths = _matching(folder, place, _TABLES, _RECORDS)
    found: list[SplitLists] = []
    for path in paths if len(paths) <= MOST_TABLES else ():
        if not _RECORDS.fullmatch(path.name):
            images = images_in_table(path, known)
        elif is_of_image(first_records(folder, joined(place, path.name)).get("", {}), known):
            images = images_in_file(path, known)
        else:
            continue
        if len(images) > 1 and any(name in known for own in images.values() for name in own):
            found.append(SplitLists([path], images))
    if any(lists.images != found[0].images for lists in found[1:]):
        raise WorkbenchError(
            f"{folder.root / place}: several tables with splits of the images: "
            f"{listing(str(lists) for lists in found)}",
            "name the right one by corpus.split_files in params.yaml, or move the others away",
        )
    return next(iter(found), None)


def named_split_lists(
    path: Path, names: Collection[str], required: Collection[str] = ("train", "test")
) -> SplitLists:
    """The lists that somebody has named.

    Args:
        path: a folder with lists such as `train.txt`, `val.txt` (or dev) and `test.txt`, or a file
            for all splits.
        names: the images.
        required: the splits that must have a list in a folder. Without one for val, val is drawn
            from train.

    Returns:
        The lists.

    Raises:
        WorkbenchError: no list for a required split, or several for one; a file that says no
            splits.
    """
    known = Known(names)
    if path.is_file():
        images = images_in_file(path, known)
        if not known.are_in(images):
            images = images_in_table(path, known)
        if not images:
            raise WorkbenchError(
                f"{path}: no splits of images; looked for a table with a column of images and one "
                'of train, val and test, or JSON such as {"train": ["1.jpg"], "test": ["2.jpg"]}',
                "name such a file, or a folder with train.txt, val.txt and test.txt",
            )
        return SplitLists([path], images)
    folder = Folder(path, {"": frozenset(own.name for own in path.iterdir())})
    lists: dict[str, Path] = {}
    for split in SPLITS:
        own = [path for path in _called_lists(folder, "") if split_of_list(path.name) == split]
        if len(own) > 1:
            own = _plain([*filter(_is_nothing_else, own)] or own, split)
        if len(own) == 1:
            lists[split] = own[0]
        elif own or split in required:
            found = ", ".join(path.name for path in own) or "none"
            example = f"Flickr_8k.{'dev' if split == 'val' else split}Images.txt"
            raise WorkbenchError(
                f"{path}: expected one list of {split} images, such as {split}.txt or {example}; "
                f"found {found}",
                "the folder has one list for each of train, val and test",
            )
    return _read_lists(lists, known)


def listed_splits(lists: SplitLists, names: Sequence[str]) -> dict[str, str]:
    """The split of each image that lists name; lists may leave endings and folders out.

    Args:
        lists: files that divide images.
        names: the images.

    Returns:
        A split, in the word of the lists, for every entry of them: for the image that it means, or
        under its own text where it means none.

    Raises:
        WorkbenchError: an image in two splits, or an entry that could be several images.
    """
    known = set(names)
    tails = Counter(tail for name in names for tail in _tails(name))
    images = {tail: name for name in names for tail in _tails(name) if tails[tail] == 1}
    numbers = Counter(without_zeros(list_stem(name)) for name in names)
    numbered = {without_zeros(list_stem(name)): name for name in names}
    splits: dict[str, str] = {}
    twice: list[str] = []
    several: list[str] = []
    for split, entries in lists.images.items():
        for line in dict.fromkeys(entries):
            entry = line.strip()
            meant = (images[tail] for tail in _tails(entry) if tail in images)
            image = entry if entry in known else next(meant, entry)
            number = without_zeros(list_stem(entry))
            if image not in known and tails[list_stem(entry)] == 0 and numbers[number] == 1:
                image = numbered[number]
            if image not in known and numbers[number] > 1:
                several.append(entry)
            if image in splits and splits[image] != split:
                twice.append(image)
            if image:
                splits[image] = split
    problems = Problems(str(lists.files[0].parent))
    problems.add("images in more than one list", dict.fromkeys(twice))
    problems.add("entries that could be several images", dict.fromkeys(several))
    problems.raise_if_any(
        "an image that is trained on must not be tested on: mend the lists, and name images of one "
        "name with their folders"
    )
    return splits


@lru_cache(maxsize=16)
def _texts_in(folder: Folder) -> dict[str, list[str]]:
    """The names of files that may be lists, in the order of their names, by the folder that they
    lie in: folders of images alone are many."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in folder.others:
        place, _, name = file.rpartition("/")
        has_ending = name.lower().endswith(LIST_ENDINGS)
        if has_ending or split_of_list(name) is not None:
            found[place].append(name)
    return dict(found)


def _called_lists(folder: Folder, place: str, but: Sequence[str] = ()) -> list[Path]:
    """The files of a folder that are called like lists of a split's images, but for some."""
    names = [name for name in _texts_in(folder).get(place, ()) if split_of_list(name)]
    names = [name for name in names if joined(place, name) not in but]
    paths = [folder.root / place / name for name in names]
    return [path for path in paths if path.is_file()]


def _matching(folder: Folder, place: str, *patterns: re.Pattern[str]) -> list[Path]:
    """The files of a folder whose whole names match one of some patterns, those of the first
    pattern first, each in the order of their names."""
    names = _texts_in(folder).get(place, ())
    found = [name for pattern in patterns for name in names if pattern.fullmatch(name)]
    paths = [folder.root / place / name for name in dict.fromkeys(found)]
    return [path for path in paths if path.is_file()]


def _read_lists(lists: Mapping[str, Path], known: Known) -> SplitLists:
    """A list for each split."""
    images = {split: images_in_list(path, known) for split, path in lists.items()}
    return SplitLists(list(lists.values()), images)


def _tails(name: str) -> list[str]:
    """The last parts of an image's path, as `list_stem` has the last one, the longest first."""
    parts = without_ending(unquote(with_slashes(name))).split("/")
    return ["/".join(parts[place:]) for place in range(len(parts))]
