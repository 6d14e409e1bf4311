"""Which files of a folder a reader can read, told by what is in them, and which ones it reads.

A reader offers `recognise(folder) -> list[Found]`. It looks at the beginning of a file alone, so
that a folder with many large files is known in a second; `read` then names every fault.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.corpus.dataset.folder import Folder, depth, stem_of, without_ending
from pipeline.corpus.dataset.locate import has_its_name, is_among
from pipeline.corpus.dataset.same_lines import with_the_same_lines
from pipeline.corpus.dataset.source import Options, find_in_raw
from pipeline.corpus.dataset.splits import split_in_path, without_split
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.first_bytes import explain
from pipeline.runtime.process import say
from pipeline.runtime.text import decode_beginning, read_json, read_text

LOOKED_AT = 1 << 20  # bytes at the beginning of a file
NULLS: tuple[object, ...] = (None, [], [None])  # values of a field that say nothing of its kind
LOOKED_AT_RECORDS = 100  # of a list whose first record has nulls
LONGEST_KEY = 256  # bytes of a key of JSON and of the blanks up to its list
MOST_IN_FOLDER = 100  # annotation files; more are one for each image
MOST_FILES = 400  # annotation files in all
MOST_NAMES = 100  # images of a file that are looked for, to see whether its images are there
PERSON_PATHS = ("file_path", "img_path")  # keys of an image in CUHK-PEDES' form
_PART = re.compile(r"[_-](?:un)?seen(?=[_.-])", re.IGNORECASE)  # of a split
_COUNT = re.compile(r"\d+")  # may number a part
_FIRST_KEY = re.compile(r'\s*\{\s*("(?:[^"\\]|\\.)*")\s*:\s*')
_NEXT_KEY = re.compile(r'\s*,\s*("(?:[^"\\]|\\.)*")\s*:\s*')
_LIST = re.compile(r'(?:^\s*|"(\w+)"\s*:\s*)\[\s*(?=\{)')


@dataclass(frozen=True)
class Found:
    """Files that one reader can read together.

    files: their paths inside the folder. names: some images as the files name them, empty where
    the images are inside the files. has_splits: whether they say, or their names say, which images
    are for test. is_published: whether they have the names that the dataset's authors gave them.
    has_titles: whether the captions are titles, which may be no more than names. is_damaged:
    whether nothing but their names says what they are, so that reading says what is wrong with
    them. needs_images: False for files that are read without photographs. others: files that are
    read in their place where corpus.annotations names them.
    """

    files: tuple[str, ...]
    names: tuple[str, ...] = field(default=(), repr=False)
    has_splits: bool = False
    is_published: bool = False
    is_damaged: bool = False
    needs_images: bool = True
    is_few: bool = False
    has_titles: bool = False
    others: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return listing(self.files, 3)


Recogniser = Callable[[Folder], list[Found]]


def quality(found: Found, stems: Set[str]) -> tuple[bool, int, bool, bool, int, bool, bool, bool]:
    """How good a find is, larger is better: what can be read comes first, then images that are
    there, then files that need no images, then captions of most images, then those that are no
    titles, then what lies further up, then splits, then a published name, then images under their
    own names: MS-COCO's of 2014 are there under other names, too, where those of 2017 are.

    Args:
        found: the find.
        stems: the names of all files there (`Folder.stems`).

    Returns:
        A tuple that sorts finds: readable, 2 for images that are there and 1 where none are needed,
        captions of most images, no titles, minus the depth of its deepest file, splits, published,
        images under their own names.
    """
    are_there = not found.names or any(is_among(name, stems) for name in found.names)
    deepest = max(depth(file.rpartition("/")[0]) for file in found.files)
    are_named = any(has_its_name(name, stems) for name in found.names)
    return (
        not found.is_damaged,
        (2 if are_there else 0) if found.needs_images else 1,
        not found.is_few,
        not found.has_titles,
        -deepest,
        found.has_splits,
        found.is_published,
        are_named,
    )


def annotation_files(
    folder: Folder,
    options: Options,
    recognise: Recogniser,
    expected: str,
    published: Sequence[str] = (),
    joins_parts: bool = False,
) -> Found:
    """The files that a reader reads: those that corpus.annotations names, or the best it knows.

    Args:
        folder: the files of the user's folder.
        options: corpus.annotations, a file or a folder in it, or null.
        recognise: the reader's.
        expected: what the reader can read, for messages.
        published: globs, in lower case, of the names that the dataset's authors gave their files.
        joins_parts: whether the reader reads all files of a folder that is named, whose images
            differ, and checks this for all images.

    Returns:
        One find. A file that is named is taken whatever is in it, and where there is nothing better
        one that has a published name, or is the only one with the ending of these: reading says
        what is wrong with it.

    Raises:
        WorkbenchError: no such file, none that the reader knows, or several that are equally good.
    """
    raw = folder.root
    place = raw
    stems = folder.stems
    name = options.corpus.annotations
    if name is not None:
        place = find_in_raw(raw, name, "corpus.annotations")
        name = name.rstrip("/")
        if place.is_file():
            alone = Folder(raw, {name.rpartition("/")[0]: frozenset([place.name])})
            return next(iter(recognise(alone)), Found((name,)))
        folder = folder.below(name)
    finds = recognise(folder)
    if name is None:
        finds = not_of_others(folder, options.corpus.images, finds)
    if not finds:
        others = few_files(folder, *{f"*{Path(glob).suffix}" for glob in published})
        meant = folder.matching(*published) or (others if len(others) == 1 else [])
        if meant:
            return Found((meant[0],))
        among = f", among {listing(others, 5)}" if others else ""
        raise WorkbenchError(
            f"{place}: no annotation file; looked for {expected}{among}",
            "set raw to the folder that holds it; to see what a folder holds: vse look FOLDER",
        )
    ranks = [quality(find, stems) for find in finds]
    best = [find for find, rank in zip(finds, ranks, strict=True) if rank == max(ranks)]
    if len(best) > 1:
        best.sort(key=lambda find: -len(find.files))  # files of splits before one for all
        same = with_the_same_lines(folder, [find.files for find in best])
        if same:
            files = listing((file for own in same for file in own), 3)
            say(f"not read: {files}, whose lines are those of {best[0]}")
            best = best[:1]
    are_parts = len(best) > 1 and joins_parts and _have_other_images(best)
    if are_parts and name is not None:
        return _together(best)
    if len(best) > 1:
        place_of_all = _shared_folder(best) if are_parts else ""
        all_of_it = f", or {place_of_all} to read all" if place_of_all else ""
        raise WorkbenchError(
            f"{raw}: several annotation files: {listing(best)}",
            f"choose one with corpus.annotations in params.yaml, such as {best[0].files[0]}"
            f"{all_of_it}",
        )
    if best[0].needs_images:  # of arrays and captions their reader says which lacks the other
        check_files_left(folder, best[0].files)
    return best[0]


def _have_other_images(finds: Sequence[Found]) -> bool:
    """Whether finds have images that are known, and no two of them have one in common."""
    images = [set(find.names) for find in finds]
    return all(images) and _are_apart(images)


def _are_apart(images: Sequence[Set[str]]) -> bool:
    """Whether no two sets have an image in common."""
    return sum(map(len, images)) == len(set().union(*images))


def _together(finds: Sequence[Found]) -> Found:
    """Finds whose files are parts of one dataset, as one."""
    return replace(
        finds[0],
        files=tuple(file for find in finds for file in find.files),
        names=tuple(name for find in finds for name in find.names),
    )


def _shared_folder(finds: Sequence[Found]) -> str:
    """The folder that all files of some finds lie in; "" where that is the user's own."""
    places = {file.rpartition("/")[0] for find in finds for file in find.files}
    return next(iter(places)) if len(places) == 1 else ""


def not_of_others(folder: Folder, chosen: str | None, finds: Sequence[Found]) -> list[Found]:
    """Finds without those whose images lie beside them in another folder than the chosen one, where
    others are in it: images of two folders may have the same names.

    Args:
        folder: the files of the user's folder.
        chosen: corpus.images, None for none.
        finds: of one reader or several.

    Returns:
        Those that are left, in their order; all without a chosen folder.
    """
    start = f"{(chosen or '').rstrip('/')}/"
    if chosen is None or not any(file.startswith(start) for one in finds for file in one.files):
        return list(finds)
    return [one for one in finds if not _is_of_others(folder, start, one)]


def _is_of_others(folder: Folder, start: str, found: Found) -> bool:
    """Whether files lie outside a folder, and not above it, and have most of their images beside
    them."""
    places = {file.rpartition("/")[0] for file in found.files}
    if "" in places or any(f"{own}/".startswith(start) for own in places):
        return False
    if any(start.startswith(f"{own}/") for own in places):
        return False
    beside = {without_ending(file) for own in places for file in folder.files[own]}
    number = sum(stem_of(image) in beside for image in found.names)
    return 2 * number > len(found.names)


def check_files_left(folder: Folder, read: Sequence[str]) -> None:
    """Say which files are called like those that are read, but for their split, and are not known.

    Without such a file a split would be drawn from the others, as if it had never been there.

    Args:
        folder: the files of the user's folder.
        read: paths inside it, of the files that are read.

    Raises:
        WorkbenchError: such a file is damaged: empty, or neither text nor JSON as its name says.
    """
    for file in files_left(folder, read):
        fault = _damage(folder, file)
        if fault is not None:
            raise WorkbenchError(
                f"{fault.message}; it belongs to {read[0]}",
                fault.hint or "copy it again, or move it away if it does not belong there",
            )
        say(f"not read: {file}, in which no images with captions are known; {read[0]} has some")


def files_left(folder: Folder, read: Collection[str]) -> list[str]:
    """The files that are called like those that are read, but for their split, and are not read.

    Args:
        folder: the files of the user's folder.
        read: paths inside it, of the files that are read.

    Returns:
        Paths inside the folder; `check_files_left` says them.
    """
    names = {without_split(file) for file in read if split_in_path(file)}
    endings = tuple({Path(file).suffix for file in read})
    candidates = (file for file in folder.others if file.endswith(endings) and file not in read)
    return [file for file in candidates if split_in_path(file) and without_split(file) in names]


def _damage(folder: Folder, file: str) -> WorkbenchError | None:
    """What is wrong with a file of text or JSON as a whole; None for what begins as text, and for
    any JSON."""
    path = folder.root / file
    if not path.is_file():
        return WorkbenchError(f"{path}: a link that leads nowhere")
    problem = explain(path)
    if problem is not None:
        return problem
    try:
        text = head(folder, file) or read_text(path)
        if path.suffix.lower() == ".json" and text.strip():
            read_json(path)
    except WorkbenchError as error:
        return error
    if not text.strip("\0 \r\n\t"):
        return WorkbenchError(f"{path}: nothing but blanks or zeros")
    return None


def few_files(folder: Folder, *patterns: str) -> list[str]:
    """Files of a folder that may be annotations: not one for each image.

    Args:
        folder: the files of the user's folder.
        patterns: globs of file names in lower case.

    Returns:
        The first MOST_IN_FOLDER paths of every folder, shallow ones first, MOST_FILES in all; any
        other file must be named by corpus.annotations.
    """
    numbers: Counter[str] = Counter()
    found = []
    for file in folder.matching(*patterns):
        place = file.rpartition("/")[0]
        numbers[place] += 1
        if numbers[place] <= MOST_IN_FOLDER:
            found.append(file)
    return found[:MOST_FILES]


def files_by_split(files: Iterable[str]) -> list[tuple[str, ...]]:
    """Files that belong together: those of one folder whose names differ in their split alone.

    Args:
        files: paths inside the folder.

    Returns:
        Groups of files, `a_train.json` and `a_test.json` in one; a file whose name says no split,
        or the same as another's, is a group of its own. A split may be in two parts, `dev_seen`
        and `dev_unseen`, as Hateful Memes has them beside `train`.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    alone: list[tuple[str, ...]] = []
    for file in files:
        if split_in_path(file) is None:
            alone.append((file,))
        else:
            groups[_PART.sub("", without_split(file))].append(file)
    for own in groups.values():
        parts = {(split_in_path(file), _part_of(file)) for file in own}
        whole = {split for split, part in parts if part == ""}
        divided = {split for split, part in parts if part != ""}
        if len(parts) == len(own) and not whole & divided:
            alone.append(tuple(own))
        else:
            alone += [(file,) for file in own]
    return alone


def parts_together(
    groups: Iterable[tuple[str, ...]], names: Mapping[str, Collection[str]]
) -> list[tuple[str, ...]]:
    """Groups of files that are numbered parts of one dataset, brought together: `part-00000.csv`
    and `part-00001.csv`, whose names differ in a number that counts from 0 or 1 on, and whose
    images differ.

    Args:
        groups: as `files_by_split` returns them.
        names: the first images of every file.

    Returns:
        The groups. Those whose files have images in common stay apart: they may be the captions of
        other people, or an older state. `check_parts` looks at all images.
    """
    left = list(groups)
    by_name: dict[str, dict[int, tuple[str, ...]]] = defaultdict(dict)
    for own in left:
        file = without_split(own[0]) if split_in_path(own[0]) else own[0]
        for match in _COUNT.finditer(file, file.rfind("/") + 1):
            by_name[f"{file[: match.start()]}#{file[match.end() :]}"][int(match[0])] = own
    for numbered in by_name.values():
        numbers = sorted(numbered)
        parts = [numbered[number] for number in numbers]
        are_counted = numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(numbers) - 1
        if len(parts) < 2 or not are_counted or not all(own in left for own in parts):
            continue
        images = [{name for file in own for name in names[file]} for own in parts]
        if _are_apart(images):
            left = [own for own in left if own not in parts]
            left.append(tuple(file for own in parts for file in own))
    return left


def check_parts(raw: Path, images: Mapping[str, Iterable[str]]) -> None:
    """Refuse an image that several parts of one split have: one of them may be an older state.

    Args:
        raw: the user's folder.
        images: by the file that was read, its images.

    Raises:
        WorkbenchError: names such images and their files.
    """
    first: dict[tuple[str, str | None, str], str] = {}
    repeated: dict[str, tuple[str, str]] = {}
    for file, own in images.items():
        place = file.rpartition("/")[0]
        for image in dict.fromkeys(own):
            other = first.setdefault((place, split_in_path(file), image), file)
            if other != file and not _part_of(file):
                repeated[image] = (other, file)
    if repeated:
        files = next(iter(repeated.values()))
        raise WorkbenchError(
            f"{raw}: {listing(files)} are called like parts of one dataset, and both have captions "
            f"of {listing(repeated)}",
            f"choose one with corpus.annotations in params.yaml, such as {files[0]}, or write all "
            "captions into one file",
        )


def _part_of(file: str) -> str:
    """Which part of its split a file has, by its name: seen or unseen; "" for all of it."""
    match = _PART.search(file)
    return match[0].strip("_-.").lower() if match else ""


@lru_cache(maxsize=16)
def head(folder: Folder, file: str) -> str:
    """The beginning of a file as text, read once for all readers that look at it.

    Args:
        folder: the listed folder.
        file: a path inside it.

    Returns:
        The text of its first LOOKED_AT bytes (`decode_text`); empty where they are none, or where
        the file cannot be read.
    """
    return decode_beginning(next(_blocks(folder.root / file), b"")) or ""


def _blocks(path: Path) -> Iterator[bytes]:
    """A file in blocks of LOOKED_AT bytes; none of a pipe, a broken link or what may not be read:
    a look at a folder stops for none of them."""
    with suppress(OSError):
        if path.is_file():
            with open(path, "rb") as file:
                while block := file.read(LOOKED_AT):
                    yield block


def first_records(folder: Folder, file: str) -> Mapping[str, Mapping[str, Any]]:
    """The first record of each list of records in a JSON file that its beginning shows.

    Args:
        folder: the listed folder.
        file: a JSON file in it, or one with a JSON record on each line.

    Returns:
        By the list's key ("" for a file that is a list, or has a record on each line) its first
        record, a null of it replaced by the value of the next record that has one; empty where the
        file is none of these.
    """
    return {name: without_nulls(rows) for name, rows in first_rows(folder, file).items()}


@lru_cache(maxsize=MOST_FILES)
def first_rows(folder: Folder, file: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The first records of each list of records in a JSON file that its beginning shows.

    Args:
        folder: the listed folder.
        file: a JSON file in it, or one with a JSON record on each line.

    Returns:
        By the list's key, as `first_records` has it, its first records, LOOKED_AT_RECORDS at most.
    """
    text = head(folder, file)
    records: dict[str, Sequence[Mapping[str, Any]]] = {}
    has_lines = "\n" in text.strip() or file.lower().endswith((".jsonl", ".jsonlines", ".ndjson"))
    if text.lstrip().startswith("{") and has_lines:
        record = _decoded(text, text.index("{"))
        rest = text[text.index("{") :].split("\n", 1)  # a caption may have other ends of lines
        if record and _decoded(rest[0], 0) == record:
            return {"": _rows_from(text, text.index("{"))}
    for match in _LIST.finditer(text):
        name = match[1] or ""
        if name not in records:
            rows = _rows_from(text, match.end())
            if rows and rows[0]:
                records[name] = rows
        if name == "" or len(records) > 8:
            break
    return records


def _rows_from(text: str, start: int) -> list[Mapping[str, Any]]:
    """The first records of a list, up to what is no record."""
    rows: list[Mapping[str, Any]] = []
    for value in islice(_records_from(text, start), LOOKED_AT_RECORDS):
        if not isinstance(value, dict):
            break
        rows.append(value)
    return rows


def without_nulls(records: Iterable[object]) -> dict[str, Any]:
    """The first of some records, each null of it replaced by the first value that another has: a
    first caption that is missing says nothing of the others.

    Args:
        records: at least one, the first of them a mapping; the first LOOKED_AT_RECORDS are looked
            at while something is missing.

    Returns:
        The record.
    """
    looked_at = islice(records, LOOKED_AT_RECORDS)
    first: Any = next(looked_at)
    filled: dict[str, Any] = dict(first)
    while missing := [name for name, own in filled.items() if own in NULLS]:
        record = next(looked_at, None)
        if not isinstance(record, Mapping):
            break
        filled |= {name: record.get(name) for name in missing}
    return filled


def _records_from(text: str, start: int) -> Iterator[object]:
    """The values of a list, or of lines, from the place in a text where the first one begins."""
    decoder = json.JSONDecoder()
    with suppress(ValueError, RecursionError):  # the list ends, or the text is cut
        while True:
            value, end = decoder.raw_decode(text, start)
            yield value
            start = text.index("{", end)
            if text[end:start].strip() not in ("", ","):
                break


def _decoded(text: str, start: int) -> Mapping[str, Any]:
    """The JSON object that begins at a place of a text; empty where it is cut or none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@lru_cache(maxsize=MOST_FILES)
def first_pairs(folder: Folder, file: str) -> Sequence[tuple[str, Any]]:
    """The first keys and values of a JSON file that is a mapping.

    Args:
        folder: the listed folder.
        file: a JSON file in it.

    Returns:
        MOST_NAMES pairs at most, those with a null left out, and the nulls of a first record
        replaced as in `first_records`; empty where the file is no mapping, or is cut in its first
        value.
    """
    text = head(folder, file)
    decoder = json.JSONDecoder()
    pairs: list[tuple[str, Any]] = []
    key = _FIRST_KEY.match(text)
    with suppress(ValueError, RecursionError):  # cut, or no JSON
        while key is not None and len(pairs) < MOST_NAMES:
            value, end = decoder.raw_decode(text, key.end())
            if value not in NULLS:
                pairs.append((json.loads(key[1]), value))
            key = _NEXT_KEY.match(text, end)
    if pairs and isinstance(pairs[0][1], dict):
        pairs[0] = (pairs[0][0], without_nulls(record for _, record in pairs))
    return pairs


def are_persons(folder: Folder, file: str) -> bool:
    """Whether a file is a list of images of persons (CUHK-PEDES' form), not of any photographs.

    Persons have several images: some ids are there twice.

    Args:
        folder: the listed folder.
        file: a JSON file in it.

    Returns:
        Whether it is, by its beginning.
    """
    record = first_records(folder, file).get("", {})
    text = head(folder, file)
    if not _is_person(record) or not text.lstrip().startswith("["):
        return False
    ids = re.findall(r'"id"\s*:\s*(\d+)', text)
    return len(set(ids)) < len(ids)


def _is_person(record: Mapping[str, Any]) -> bool:
    """Whether a record is one of an image of CUHK-PEDES' form."""
    has_path = any(isinstance(record.get(key), str) for key in PERSON_PATHS)
    captions = record.get("captions")
    are_texts = isinstance(captions, list) and all(isinstance(text, str) for text in captions)
    return has_path and type(record.get("id")) is int and are_texts


def values_in_head(folder: Folder, file: str, key: str) -> tuple[str, ...]:
    """The first texts that a key has in the beginning of a JSON file, such as names of images, or
    the first ones of its lists.

    Args:
        folder: the listed folder.
        file: a JSON file in it.
        key: of its records.

    Returns:
        MOST_NAMES different texts at most.
    """
    pattern = re.compile(rf'"{re.escape(key)}"\s*:\s*\[?\s*("(?:[^"\\\n]|\\.)*")')
    values: dict[str, None] = {}
    for match in pattern.finditer(head(folder, file)):
        with suppress(ValueError):
            values[json.loads(match[1])] = None
        if len(values) == MOST_NAMES:
            break
    return tuple(values)


def record_under(path: Path, key: str) -> Mapping[str, Any]:
    """The first record of a list that may begin anywhere in a large JSON file.

    Args:
        path: a JSON file.
        key: the list's key. Its first place in the file counts where records follow.

    Returns:
        The record; empty where the file has no such list, or its record is cut or none.
    """
    wanted = re.compile(rb'"%s"\s*:\s*\[\s*(?=\{)' % re.escape(key.encode()))
    blocks = _blocks(path)
    kept = b""
    for block in blocks:
        window = kept + block
        match = wanted.search(window)
        if match is not None:
            following = window[match.end() :] + next(blocks, b"")
            return _decoded(following.decode("utf-8", errors="ignore"), 0)
        kept = window[-LONGEST_KEY:]
    return {}
