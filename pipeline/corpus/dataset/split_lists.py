"""Lists that divide the images of a folder, where its annotations do not: which files these are,
and the split of every image by them. split_forms.py reads one file.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
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
    Images,
    Known,
    list_stem,
    split_of_list,
    without_zeros,
)
from pipeline.corpus.dataset.split_unread import unread_folders, unread_splits
from pipeline.corpus.dataset.split_values import DATA_ENDINGS, first_lists, is_of_image
from pipeline.corpus.dataset.splits import (
    SPLIT_WORDS_OF,
    check_other_splits,
    split_in_path,
    split_named,
    split_or_rest,
    splits_in_path,
)
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems

NEARLY_ALL = 0.9  # images with captions that records called like lists of splits must have
MOST_TABLES = 100  # of a folder; more are texts beside images
_TABLES = re.compile(r".*\.(csv|tsv|txt)", re.IGNORECASE)
_LINES = re.compile(r".*\.(txt|lst|list)", re.IGNORECASE)
_RECORDS = re.compile(r".*\.(json|jsonl|jsonlines|ndjson)", re.IGNORECASE)
# A file for all splits.
_FOR_ALL = re.compile(
    rf"{FOR_ALL.pattern}\.(json|jsonl|jsonlines|ndjson|ya?ml|txt|lst|list)", re.IGNORECASE
)

# A word for a split in the name of a list, with or without letters around it.
_AROUND = re.compile(r"(.*?)(train|valid|val|dev|test)(.*)", re.IGNORECASE)

_OF_OTHERS = (".md", *DATA_ENDINGS)  # of files that may be lists, and anything else


class SplitLists(NamedTuple):
    """Files that divide images. images: by split, in the words of the files."""

    files: Sequence[Path]
    images: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return ", ".join(path.name for path in self.files)


class Divided(NamedTuple):
    """Images that lists divide. splits: of every image, None for one in no list; remarks: lines
    about the lists; files: the lists that were read, as paths inside the user's folder."""

    splits: dict[str, str | None]
    remarks: tuple[str, ...]
    files: tuple[str, ...] = ()


def with_split_lists(
    folder: Folder, files: Sequence[str], splits: Mapping[str, str | None], options: Options
) -> Divided:
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
        lists that were found, about those that say other splits than the annotations, and about
        images of other splits.

    Raises:
        WorkbenchError: lists that are not there, several of one split, several that say different
            splits, or an image in two.
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
        lists, of_others = _found_in(folder, files, known, splits)
        listed_in = lists or SplitLists((), {})
        read = {*(folder.root / file for file in files), *listed_in.files}
        flags, of_flags = _flags_in(read, known)
        read |= {path for own in of_others for path in own.files}
        unread = (
            *of_flags,
            *_of_other_tasks(folder, of_others, splits),
            *_other_lists(folder, splits, known, lists),
            *unread_splits(folder, known, listed_in.images, read),
        )
    else:
        unread = _said_by_others(folder, files, splits)
    if lists is None:
        return Divided(dict(splits), unread)
    words = listed_splits(lists, list(splits))
    others = check_other_splits(Counter(words.values()), str(lists))
    listed = {image: split_or_rest(word, options.corpus.restval) for image, word in words.items()}
    divided = {image: listed.get(image) for image in splits}
    has_train = "train" in divided.values()
    if not has_train:
        divided = {image: split or "train" for image, split in divided.items()}
    own = tuple(path.relative_to(folder.root).as_posix() for path in lists.files)
    if named is not None:
        return Divided(divided | listed, others, own)
    if len(set(divided.values())) < 2:
        return Divided(dict(splits), unread)
    elsewhere = _check_agreement(folder, files, lists, splits)
    rest = "" if has_train else "; images that they lack are for training"
    foreign = len(listed.keys() - divided.keys())
    without = (f"of the images of the lists {foreign:,} have no captions",) if foreign else ()
    line = f"splits: of the lists {lists}{flags}{rest}"
    return Divided(divided, (line, *without, *elsewhere, *unread, *others), own)


def _check_agreement(
    folder: Folder, files: Sequence[str], lists: SplitLists, names: Collection[str]
) -> tuple[str, ...]:
    """A line about lists in folders of other lists that divide images in another way than those
    that are read; WorkbenchError for such lists in the same folder, of which any may be meant."""
    own = _splits_of(lists, names)
    places = {path.parent for path in lists.files}
    other = [
        sources
        for sources in _all_lists(folder, files, Known(names))
        if set(sources.files) != set(lists.files) and _differences(sources, own, names)
    ]
    beside = [sources for sources in other if sources.files[0].parent in places]
    if beside:
        raise WorkbenchError(
            f"{lists.files[0].parent}: files divide the images in different ways: "
            f"{listing((str(sources) for sources in (lists, *beside)), 3)}",
            "name the right one by corpus.split_files in params.yaml, or move the others away",
        )
    return _differ(folder, other, own, names)


def _said_by_others(
    folder: Folder, files: Sequence[str], splits: Mapping[str, str | None]
) -> tuple[str, ...]:
    """A line about lists that say other splits than the annotations, which come first."""
    return _differ(folder, _all_lists(folder, files, Known(splits)), splits, list(splits))


def _differ(
    folder: Folder,
    others: Iterable[SplitLists],
    splits: Mapping[str, str | None],
    names: Collection[str],
) -> tuple[str, ...]:
    """A line about lists that divide images in another way, none without any."""
    differing = []
    for sources in others:
        number = _differences(sources, splits, names)
        files = listing(path.relative_to(folder.root).as_posix() for path in sources.files)
        if number:
            differing.append(f"{files} (other splits for {counted(number, 'image')})")
    if not differing:
        return ()
    way_out = "corpus.split_files in params.yaml takes them, a file or a folder of lists"
    return (f"not taken for splits: {listing(differing, 3)}; {way_out}",)


def _differences(
    lists: SplitLists, splits: Mapping[str, str | None], names: Collection[str]
) -> int:
    """How many images lists put into another split than the one that they are in."""
    said = _splits_of(lists, names)
    return sum(
        splits.get(name) is not None and split is not None and splits[name] != split
        for name, split in said.items()
    )


def _splits_of(lists: SplitLists, names: Collection[str]) -> dict[str, str | None]:
    """The split of every image that lists say; empty for lists that contradict themselves."""
    with suppress(WorkbenchError):
        words = listed_splits(lists, list(names))
        return {name: split_or_rest(word, "train") for name, word in words.items()}
    return {}


def _all_lists(folder: Folder, files: Sequence[str], known: Known) -> list[SplitLists]:
    """Everything in a folder that divides the images: lists of a split each, files for all splits,
    and tables; none of them an annotation. What cannot be read is passed over."""
    found: list[SplitLists] = []
    for place in _texts_in(folder):
        with suppress(WorkbenchError, OSError):
            lists = _find_lists(folder, place, known, files)
            found += [lists] if lists is not None else []
        for path in _matching(folder, place, _FOR_ALL, NUMBERED):
            with suppress(WorkbenchError, OSError):
                images = _of_all_splits(path, known)
                found += [SplitLists((path,), images)] if images else []
        with suppress(WorkbenchError, OSError):
            found += _tables(folder, place, known)
    read = {folder.root / file for file in files}
    different: dict[Sequence[Path], SplitLists] = {}
    for own in found:
        if read.isdisjoint(own.files):
            different.setdefault(tuple(own.files), own)
    return list(different.values())


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


def with_splits_in_names(
    splits: Mapping[str, str | None],
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The splits of images where their own names say them, as `train_001.jpg` does.

    Args:
        splits: of every image, None for those of none.

    Returns:
        The splits, and a line about them. They stay where some name says no split or several, where
        none says train or all do, and where the names are MS-COCO's: its parts of 2014 are
        none of the splits that are used with captions, which the line says.
    """
    words = {image: splits_in_path(image.rpartition("/")[2]) for image in splits}
    named = {image: own[0] for image, own in words.items() if len(own) == 1}
    found = set(named.values())
    if len(named) < len(splits) or len(found) < 2 or "train" not in found:
        return dict(splits), ()
    image = next(iter(named))
    name = image.rpartition("/")[2]
    if any(own.rpartition("/")[2].startswith("COCO_") for own in named):
        line = f"not taken for splits: the parts of MS-COCO in the names of images, such as {name}"
        return dict(splits), (line,)
    return dict(named), (f"splits: of the names of the images, such as {name}",)


def said_otherwise_by_folders(
    folder: Folder, root: Path, splits: Mapping[str, str | None]
) -> tuple[str, ...]:
    """A line about folders called train, val and test that say other splits than lists do.

    Args:
        folder: the files of the user's folder.
        root: the folder that the images are paths in.
        splits: of every image, by lists.

    Returns:
        The line, none where folders say the same or nothing.
    """
    said, _ = with_folder_splits(folder, root, dict.fromkeys(splits))
    number = sum(
        split is not None and said[image] is not None and said[image] != split
        for image, split in splits.items()
    )
    if not number:
        return ()
    return (f"the folders of {counted(number, 'image')} say other splits than these lists",)


def told_otherwise_by_folders(splits: Mapping[str, str | None]) -> tuple[str, ...]:
    """A line about images in folders called by splits that annotations put into others.

    Args:
        splits: of every image, by its path, as the annotations say.

    Returns:
        The line; none where the folders say the same, or name fewer than two splits. Those of
        MS-COCO's years, `val2014`, are no splits of Karpathy's.
    """
    said = {image: _split_of_folders(image) for image in splits}
    if "train" not in said.values() or len({*said.values()} - {None}) < 2:
        return ()
    number = sum(
        split is not None and said[image] not in (None, split) for image, split in splits.items()
    )
    if not number:
        return ()
    return (
        f"the folders of {counted(number, 'image')} say other splits than the annotations, which "
        "are taken",
    )


def _split_of_folders(image: str) -> str | None:
    """The split that the last folder of an image's path is called by; None for none."""
    named = (split_named(part) for part in reversed(image.split("/")[:-1]))
    return next(filter(None, named), None)


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


def _found_in(
    folder: Folder, files: Sequence[str], known: Known, names: Collection[str]
) -> tuple[SplitLists | None, list[SplitLists]]:
    """The lists of a folder that divide images, none of them the annotations: the nearest, or the
    only ones. And the annotations of other tasks that are called like lists."""
    beside = files[0].rpartition("/")[0] if files else ""
    places = sorted(_texts_in(folder), key=lambda place: (place != beside, depth(place), place))
    near = ("", beside)
    found: dict[str, SplitLists] = {}
    foreign: list[SplitLists] = []
    for place in places:
        lists = _find_lists(folder, place, known, files) or _find_table(folder, place, known)
        if lists is None:
            _check_no_part(folder, place, known, files)
        elif place != beside and _is_of_other_task(lists, names):
            foreign.append(lists)
        elif place in near and all(map(_is_nothing_else, lists.files)):
            return lists, foreign
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
    return next(iter(found.values()), None), foreign


def _is_of_other_task(lists: SplitLists, names: Collection[str]) -> bool:
    """Whether lists are records with images for training, and images with captions are in none of
    them: questions or boxes have images of their own."""
    are_records = any(map(_has_records, lists.files))
    if not are_records or "train" not in lists.images:
        return False
    said = _splits_of(lists, names)
    return sum(name in said for name in names) < NEARLY_ALL * len(names)


def _has_records(path: Path) -> bool:
    """Whether a file is JSON with lists of records, not of names."""
    if not _RECORDS.fullmatch(path.name):
        return False
    entries = [entry for own in first_lists(path, beginning_of(path)) for entry in own]
    return any(isinstance(entry, dict) for entry in entries)


def _of_other_tasks(
    folder: Folder, foreign: Sequence[SplitLists], names: Collection[str]
) -> tuple[str, ...]:
    """A line about annotations of other tasks that are called like lists of splits, none without
    any."""
    files = [path.relative_to(folder.root) for lists in foreign for path in lists.files]
    if not files:
        return ()
    said = {name for lists in foreign for name in _splits_of(lists, names)}
    number = sum(name in said for name in names)
    return (
        f"not taken for splits: {listing(files, 3)}, records of {number:,} of the "
        f"{counted(len(names), 'image')} with captions; if they divide these, put them beside the "
        "captions",
    )


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
            entries = _entries(path, known)
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
    line = f"not read: lists of a part of the images, not called like train.txt ({shown})"
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
        images = _of_all_splits(path, known)
        if images:
            return SplitLists([path], images)
    by_split = by_split or _lists_alike(folder, place, known, but)
    return _read_lists(by_split, known) if by_split else None


def _lists_alike(folder: Folder, place: str, known: Known, but: Sequence[str]) -> dict[str, Path]:
    """Lists whose names differ in a word for a split alone, whatever stands around it, such as
    `flickr8ktrain.txt` or `train_screens.txt`; empty unless there is one for training and another,
    all their entries are images that are known, and none has an image of another."""
    groups: dict[tuple[str, str], dict[str, Path]] = defaultdict(dict)
    few = len(_texts_in(folder).get(place, ())) <= MOST_TABLES  # more are texts beside images
    for path in _matching(folder, place, _LINES) if few else ():
        match = _AROUND.fullmatch(path.name)
        split = split_named(match[2]) if match else None
        if match and split is not None and joined(place, path.name) not in but:
            groups[match[1], match[3]][split] = path
    several = [own for own in groups.values() if "train" in own and len(own) > 1]
    if len(several) != 1:
        return {}
    entries = [_entries(path, known) for path in several[0].values()]
    stems = [{list_stem(entry) for entry in own} for own in entries]
    are_names = all(own and all(entry in known for entry in own) for own in entries)
    is_apart = len(set().union(*stems)) == sum(map(len, stems))
    return several[0] if are_names and is_apart else {}


def _entries(path: Path, known: Known) -> list[str]:
    """The lines in the beginning of a list that are neither blank nor comments."""
    lines = [line.strip() for line in beginning_of(path).split("\n")]
    return [line for line in lines if line and not known.is_comment(line)]


def _of_all_splits(path: Path, known: Known) -> Images:
    """The images of each split in a file that is called like one for all splits; empty for any text
    or settings that are called so."""
    is_data = _RECORDS.fullmatch(path.name) or NUMBERED.fullmatch(path.name)
    if not is_data and not mentions_images(path, known):
        return {}
    images = images_in_file(path, known)
    return images if known.are_in(images) else {}


def _plain(paths: list[Path], split: str) -> list[Path]:
    """Of several lists of a split the one that is called so and nothing else; all if none is."""
    plain = [path for path in paths if path.stem.lower() in SPLIT_WORDS_OF[split]]
    return plain if len(plain) == 1 else paths


def _find_table(folder: Folder, place: str, known: Known) -> SplitLists | None:
    """The table of a folder that divides its images, with a column of them and one of splits."""
    found = _tables(folder, place, known)
    if any(lists.images != found[0].images for lists in found[1:]):
        raise WorkbenchError(
            f"{folder.root / place}: several tables with splits of the images: "
            f"{listing(str(lists) for lists in found)}",
            "name the right one by corpus.split_files in params.yaml, or move the others away",
        )
    return next(iter(found), None)


def _tables(folder: Folder, place: str, known: Known) -> list[SplitLists]:
    """The tables and lists of records of a folder that have images and their splits."""
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
    return found


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
    _check_no_rows(lists, set(numbered))
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


def _check_no_rows(lists: SplitLists, numbers: Set[str]) -> None:
    """Raise WorkbenchError for lists of numbers from 0 on where images are called by numbers from 1
    on: they count rows, and as names each would be that of the image before.

    Args:
        lists: files that divide images.
        numbers: what the images are called, numbers without zeros in front.
    """
    entries = {without_zeros(line.strip()) for own in lists.images.values() for line in own}
    is_shifted = "0" in entries - numbers and all(
        entry.isdecimal() and str(int(entry) + 1) in numbers for entry in entries
    )
    if is_shifted:
        raise WorkbenchError(
            f"{lists.files[0]}: numbers from 0 on, and no image is called 0, but each is one less "
            "than the name of an image: they may count rows",
            "write the names of the images in their place, or move the lists away",
        )


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
