"""Splits of images: from words, from the names of files, or drawn by the seed; groups stay whole.
What lists say is in split_lists.py.

A copy of a photograph (`IMG_1.jpg`, `IMG_1 (1).jpg`) in training and in test makes the test easier
than it is, and in one split it counts as a wrong answer to its own twin's captions. So copies are
one group: one split, and each the right answer of the other.
"""

import os
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from pipeline.corpus.dataset.cells import SPLIT_COLUMNS, plain_name
from pipeline.corpus.dataset.source import Options
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.text import Problems

SPLIT_WORDS_OF = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "validate", "dev"),
    "test": ("test", "testing"),
}
_SPLIT_OF = {word: split for split, words in SPLIT_WORDS_OF.items() for word in words}
# Words that are splits where all of a column are: of Kaggle, of other languages, cut ones.
_SPLIT_BESIDE_OTHERS = {
    "train": (
        *("trn", "tr", "entrenamiento", "entrainement", "entra\u00eenement", "apprentissage"),
        *("addestramento", "treino", "treinamento", "\u8bad\u7ec3", "\u8bad\u7ec3\u96c6"),
    ),
    "val": (
        *("vl", "va", "publictest", "validaci\u00f3n", "validacion", "validierung", "validazione"),
        *("valida\u00e7\u00e3o", "validacao", "\u9a8c\u8bc1", "\u9a8c\u8bc1\u96c6"),
    ),
    "test": (
        *("tst", "te", "privatetest", "prueba", "pruebas", "testen", "teste", "essai", "prova"),
        *("\u6d4b\u8bd5", "\u6d4b\u8bd5\u96c6"),
    ),
}
_BESIDE_OTHERS = {word: split for split, words in _SPLIT_BESIDE_OTHERS.items() for word in words}
SHORTEST_BESIDE = 3  # letters: tr and te are languages, too, where a column is not called a split
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_SPLIT_OF)})(?![a-z])")
_FLAG = re.compile(r"(?:(?:is|in|for)_)?([a-z]+)")
SPLIT_WORDS = tuple(_SPLIT_OF)
_TRUE = frozenset({"true", "yes", "1", "1.0", "t", "y"})
_FALSE = frozenset({"false", "no", "0", "0.0", "f", "n", ""})
RESTVAL = "restval"  # Karpathy's third part of MS-COCO: validation images that may train

HALF = 0.5  # of the images: those for training are more, all others fewer
NEARLY_ALL = 0.95  # of the images: a flag that as many have says something else

TAIL = 4096  # bytes at the end of files of one size that are compared first


def split_in_path(path: str) -> str | None:
    """The split that a path names, or None: words between anything but letters count, as in
    `train-00000-of-00005` and `val2017`, the last one before others."""
    words = splits_in_path(path)
    return words[-1] if words else None


def splits_in_path(path: str) -> list[str]:
    """The splits that a path names, each once, in the order of their last words."""
    words = [_SPLIT_OF[word] for word in _WORD.findall(path.lower())]
    return [word for place, word in enumerate(words) if word not in words[place + 1 :]]


def without_split(path: str) -> str:
    """A path without the last word that names a split: equal for the files of one dataset. Without
    all such words where they name one, as in `test/_annotations.test.jsonl`."""
    matches = list(_WORD.finditer(path.lower()))
    if len(splits_in_path(path)) > 1:
        matches = matches[-1:]
    for match in reversed(matches):
        path = path[: match.start()] + path[match.end() :]
    return path


@lru_cache
def split_named(word: str) -> str | None:
    """The split that a word means, such as `Validation` or `dev`; None for any other word."""
    return _SPLIT_OF.get(word.strip().lower())


def split_words(words: Iterable[str], is_called: bool = True) -> dict[str, str]:
    """What the words of a column mean that are splits beside each other alone, such as `TRN` and
    `TST`, `PublicTest`, `entrenamiento`.

    Args:
        words: of one column or field, all of them.
        is_called: whether the column is called as one of splits.

    Returns:
        By words that are none of the usual ones, their splits; empty where a word is no split, or
        none is for training.
    """
    filled = {word for word in words if word and not is_rest(word)}
    found: dict[str, str] = {}
    for word in filled:
        plain = word.strip().lower()
        if split_named(word) is None:
            if plain not in _BESIDE_OTHERS or (not is_called and len(plain) < SHORTEST_BESIDE):
                return {}
            found[word] = _BESIDE_OTHERS[plain]
    splits = {found.get(word) or split_named(word) for word in filled}
    return found if "train" in splits and len(splits) > 1 else {}


def split_of_flag(name: str) -> str | None:
    """The split that a column of yes and no is about, such as `test` of `is_test`.

    Args:
        name: of the column, as `plain_name` has it.

    Returns:
        The split; None for any other name.
    """
    match = _FLAG.fullmatch(name)
    return split_named(match[1]) if match else None


def are_flags(cells: Iterable[str]) -> bool:
    """Whether cells say yes and no, both of them.

    Args:
        cells: of one column.
    """
    words = {cell.lower() for cell in cells}
    return words <= _TRUE | _FALSE and not words.isdisjoint(_TRUE) and not words.isdisjoint(_FALSE)


def flags_of_splits(columns: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], list[str]]:
    """The columns of flags that divide images, of those that are called so.

    `valid` may say that a row is good, and `train` that a photograph shows one. So a column alone
    counts only where its name says more (`is_test`), or where no other column has flags and it has
    as many as its split may have: `valid` and `test` of fewer than half of the images, `train` of
    half and not of nearly all. Several count where no image has two, else those whose names say
    more.

    Args:
        columns: by name, as the file writes it, the cells of every column.

    Returns:
        By the names of columns their splits, none where two are of one split; and the names of
        those that are called so and not taken.
    """
    flags = {name: cells for name, cells in columns.items() if are_flags(cells)}
    splits = {name: split_of_flag(plain_name(name)) for name in columns}
    named = [name for name, split in splits.items() if split is not None]
    called = {name: split for name, split in splits.items() if split is not None and name in flags}
    if len(set(called.values())) < len(called):
        return {}, named
    taken = {name: split for name, split in called.items() if _says_more(plain_name(name))}
    if len(called) > 1:
        rows = zip(*(map(is_flagged, flags[name]) for name in called), strict=True)
        taken = called if all(sum(row) < 2 for row in rows) else taken
    elif len(flags) == 1 and not taken:
        taken = {name: split for name, split in called.items() if _may_be(split, flags[name])}
    return taken, [name for name in named if name not in taken]


def _says_more(name: str) -> bool:
    """Whether a column of flags can only be of a split, by its name: not `valid` or `is_valid`."""
    return "_" in name and not name.endswith("valid")


def _may_be(split: str, flags: Sequence[str]) -> bool:
    """Whether as many images have a flag as may be in its split."""
    share = sum(map(is_flagged, flags)) / len(flags)
    return HALF <= share <= NEARLY_ALL if split == "train" else share < HALF


def is_flagged(cell: str) -> bool:
    """Whether a cell of a column of flags says yes."""
    return cell.lower() in _TRUE


def split_without_flag(splits: Collection[str]) -> str:
    """The split of an image that no flag is set for.

    Args:
        splits: those that have a column of flags.

    Returns:
        train; where that has flags, too, test if no other split has some, else "" for no split.
    """
    if "train" not in splits:
        return "train"
    return "test" if len(splits) == 1 else ""


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
    unusable: Collection[str] = (),
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
        unusable: images without a file or a caption, which are left out later: none of them is
            drawn, so that no split is made of them.

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
        drawn = _held_out_of(pool, unusable, ("val", "test"), "train", options, groups)
        alone = f"all images are of split {min(names)}; " if names else ""
        remarks += (f"{alone}splits drawn by seed: {_counted(drawn)}",)
    elif names == {"train", "val"}:
        drawn = _held_out_of(images["val"], unusable, ("val", "test"), "", options, groups)
        left = sum(not split for split in drawn.values())
        remarks += (f"drawn from val by seed: {_counted(drawn)}; left out: {left:,} images",)
    elif names == {"train", "test"}:
        drawn = _held_out_of(images["train"], unusable, ("val",), "train", options, groups)
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


def _held_out_of(
    names: Sequence[str],
    unusable: Collection[str],
    kinds: Sequence[str],
    rest: str,
    options: Options,
    groups: Mapping[str, str] | None,
) -> dict[str, str]:
    """Draw splits of images that can be used; all others are among the rest. Where too few can be
    used, of all of them, so that the check of all images names what is wrong."""
    usable = [name for name in names if name not in unusable]
    if len(usable) == len(names):
        return _held_out(names, kinds, rest, options, groups)
    try:
        return dict.fromkeys(names, rest) | _held_out(usable, kinds, rest, options, groups)
    except WorkbenchError:
        return _held_out(names, kinds, rest, options, groups)


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
