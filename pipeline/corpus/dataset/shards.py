"""What readers of shards share: which files there are, their images on disk, and the tables.

A shard is a file that holds images and their captions. `find_shards` lists them; `read_shards` has
a reader add one after the other to a `Gathered`, which writes every image once, as it was, into the
folder of the corpus, and makes the source of all.
"""

import hashlib
import os
import re
import shlex
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pandas as pd

from pipeline.corpus.dataset.annotations import numbered
from pipeline.corpus.dataset.folder import Folder, list_folder
from pipeline.corpus.dataset.locate import is_among, locate_images
from pipeline.corpus.dataset.missing_shards import missing_shards
from pipeline.corpus.dataset.recognise import Found
from pipeline.corpus.dataset.source import Options, Source, find_in_raw, list_raw
from pipeline.corpus.dataset.splits import (
    check_other_splits,
    in_one_split,
    joined_groups,
    settled_splits,
    split_in_path,
)
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.first_bytes import STAND_INS, kind_of, way_out
from pipeline.runtime.process import Progress, say
from pipeline.runtime.text import Problems, is_inside, is_plain, is_text

FOLDER = "images"  # in the folder of the corpus
CHUNK = 1 << 20  # bytes copied at a time
# a shard that is called by the language of its captions, by those in which images are described
_OF_LANGUAGE = re.compile(
    r"(?P<language>ar|bg|bn|ca|cs|da|de|el|en|es|et|fa|fi|fil|fr|he|hi|hr|hu|id|it|iw|ja|jp|jv|ka|kk"
    r"|ko|lt|lv|mi|ms|nb|nl|no|pl|pt|quz|ro|ru|sk|sl|sr|sv|sw|ta|te|th|tl|tr|uk|ur|vi|zh)"
    r"(?:-\d{5}-of-\d{5})?"
)
# The most that an image of a size in pixels can need: four channels of 16 bits, and its metadata.
BYTES_PER_PIXEL = 8
METADATA = 1 << 20
LOOKED_AT = 10  # files of a folder, to see what they are
DAMAGED = "mend these shards, or download them again"
NO_IMAGE = "no image in the shard"


class Shard(NamedTuple):
    """A file of samples. name: its path inside raw without the ending; split: the one that this
    path names, None for none."""

    path: Path
    name: str
    split: str | None


class Caption(NamedTuple):
    """A caption of an image; its words and its id where the shard gives them."""

    image_id: str
    text: str
    tokens: tuple[str, ...] = ()
    own_id: str = ""


class ExtractedImages:
    """The folder `images` in the corpus, which must be new: nothing is written over.

    Args:
        out: the folder of the corpus.
        max_megapixels: corpus.max_megapixels; it bounds an image's bytes before any is copied.
        keep: whether images are written; False: they are read and compared alone.

    Raises:
        WorkbenchError: the folder is there already.
    """

    def __init__(self, out: Path, max_megapixels: float, keep: bool = True) -> None:
        self.root = out / FOLDER
        self.max_bytes = int(max_megapixels * 1e6) * BYTES_PER_PIXEL + METADATA
        self.keep = keep
        self._digests: dict[str, bytes] = {}  # SHA-256 of every image that is not empty
        self._folders: set[Path] = set()  # those that are there
        if not keep:
            return
        try:
            self.root.mkdir(parents=True)
        except FileExistsError:
            raise WorkbenchError(
                f"{self.root}: is there already", "remove it, or run: dvc repro prepare_corpus"
            ) from None

    def write(self, image_id: str, size: int, stream: BinaryIO, digest: bytes | None = None) -> str:
        """Copy an image from a stream to its file.

        Args:
            image_id: the file's path inside the folder. A name that leads out of it is not
                written: the check of all ids refuses it.
            size: how many bytes of the stream are the image.
            stream: where they are.
            digest: their SHA-256 where it is known already.

        Returns:
            What is wrong with the image, "" for nothing.
        """
        if not is_inside(image_id) or not is_text(image_id):
            return "a name that leads out of the image folder"
        if size > self.max_bytes:
            return f"{size:,} bytes, allowed are {self.max_bytes:,} for corpus.max_megapixels"
        if digest is None or self.keep:
            hashed = hashlib.sha256()
            try:
                with self._target(image_id) as write:
                    for start in range(0, size, CHUNK):
                        chunk = stream.read(min(CHUNK, size - start))
                        write(chunk)
                        if digest is None:
                            hashed.update(chunk)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                return "its file would lie where another image's does"
            digest = digest or hashed.digest()
        if size:
            self._digests[image_id] = digest
        return ""

    @contextmanager
    def _target(self, image_id: str) -> Iterator[Callable[[bytes], object]]:
        """What takes an image's bytes: its new file, or nothing where none is kept."""
        if not self.keep:
            yield len
            return
        path = self.root / image_id
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        with open(path, "xb") as target:
            yield target.write

    def copies(self) -> list[list[str]]:
        """The images of every photograph that was written more than once, byte for byte."""
        images: dict[bytes, list[str]] = defaultdict(list)
        for image_id, digest in self._digests.items():
            images[digest].append(image_id)
        return [own for own in images.values() if len(own) > 1]

    def rename(self, image_id: str, new: str) -> None:
        """Give an image another id.

        Args:
            image_id: the id that it has.
            new: one in the same folder that is no image's yet.
        """
        if image_id in self._digests:
            self._digests[new] = self._digests.pop(image_id)
        if self.keep and is_inside(image_id) and (self.root / image_id).is_file():
            (self.root / image_id).rename(self.root / new)

    def remove(self, image_ids: Iterable[str]) -> None:
        """Remove the files of images that the corpus leaves out."""
        for image_id in image_ids:
            self._digests.pop(image_id, None)
            if self.keep and is_inside(image_id):
                (self.root / image_id).unlink(missing_ok=True)


@contextmanager
def removed_on_error(out: Path) -> Iterator[None]:
    """Remove a new folder of images when an exception ends the reading."""
    root = out / FOLDER
    existed = root.exists()
    try:
        yield
    except BaseException:
        if not existed:
            shutil.rmtree(root, ignore_errors=True)  # the error that is under way says more
        raise


@dataclass
class Gathered:
    """What has been read of the shards so far, in their order.

    folder: the images' bytes, on disk. images: the split of every image. faults: why an image
    cannot be used. captions: in their order. paths: of images without bytes, the files that the
    shards name. renamed: images that get another id because others have their name. others: members
    that were not read, by ending. words: for splits, as rows have them; of those that mean none the
    images. remarks: lines for the user.
    """

    folder: ExtractedImages
    images: dict[str, str | None] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    captions: list[Caption] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    words: dict[str, set[str]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add_image(
        self,
        image_id: str,
        split: str | None,
        stream: BinaryIO | None,
        size: int = 0,
        digest: bytes | None = None,
    ) -> None:
        """Note an image, and write its bytes.

        Args:
            image_id: the file's path inside the folder.
            split: the one that the files name, None for none.
            stream: where its bytes are; None where the shard has none of it.
            size: how many bytes of the stream are the image.
            digest: their SHA-256 where it is known already.
        """
        self.images[image_id] = split
        fault = NO_IMAGE
        if stream is not None:
            fault = self.folder.write(image_id, size, stream, digest)
        if fault:
            self.faults[image_id] = fault

    def rename(self) -> None:
        """Give images whose names repeat their other ids, everywhere."""
        renamed = self.renamed
        if not renamed:
            return
        for image, new in renamed.items():
            self.folder.rename(image, new)
        self.images = {renamed.get(image, image): own for image, own in self.images.items()}
        self.faults = {renamed.get(image, image): own for image, own in self.faults.items()}
        self.paths = {renamed.get(image, image): own for image, own in self.paths.items()}
        self.captions = [
            caption._replace(image_id=renamed.get(caption.image_id, caption.image_id))
            for caption in self.captions
        ]
        shown = listing((f"{old} is {new}" for old, new in renamed.items()), 2)
        self.remarks.append(
            f"different images with one name: {counted(len(renamed), 'name')}; a part of the "
            f"digest tells their images apart: {shown}"
        )

    def bring_files(self, raw: Path, options: Options) -> None:
        """Copy the images that shards name by a path alone, where they lie below the user's folder.

        Args:
            raw: the user's folder.
            options: corpus.images.

        Raises:
            WorkbenchError: several folders hold them, or two paths lead to one file.
        """
        if not self.paths:
            return
        below = list_raw(raw, options)
        wanted = {image: path for image, path in self.paths.items() if is_among(path, below.stems)}
        for image, path in self.paths.items():
            self.faults[image] = f"{NO_IMAGE}, and no file of its name below raw: {path!a}"
        if not wanted:
            return
        located = locate_images(below, options.corpus.images, list(dict.fromkeys(wanted.values())))
        for image, path in wanted.items():
            file = located.root / located.path(path)
            if file.is_file():
                with open(file, "rb") as stream:
                    self.faults[image] = self.folder.write(image, file.stat().st_size, stream)
        self.remarks += located.remarks


ReadShard = Callable[[Shard, Gathered], None]


def read_shards(
    raw: Path,
    out: Path,
    options: Options,
    shards: Sequence[Shard],
    kind: str,
    read_shard: ReadShard,
) -> Source:
    """Read shards one after the other; their images go to out/images.

    Args:
        raw: the user's folder.
        out: the folder of the corpus.
        options: of all readers; with `look` no image is written.
        shards: those of `find_shards`.
        kind: of their files, a key of `first_bytes`; empty for text.
        read_shard: adds a shard to what was gathered, and raises WorkbenchError where it cannot.

    Returns:
        The source, with equal photographs of one split in one group.

    Raises:
        WorkbenchError: shards that cannot be read, all of them named; no image or no caption in
            any of them; splits that cannot be drawn.
    """
    folder = ExtractedImages(out, options.corpus.max_megapixels, keep=not options.look)
    gathered = Gathered(folder)
    _read_all(raw, shards, kind, lambda shard: read_shard(shard, gathered))
    kinds = listing(f"{number:,} {kind}" for kind, number in sorted(gathered.others.items()))
    others = f"; other members: {kinds}" if kinds else ""
    if not gathered.images:
        raise WorkbenchError(
            f"{raw}: no images in {len(shards):,} shards{others}",
            "name the ending or column of the images with corpus.image_field" if kinds else "",
        )
    if not gathered.captions:
        raise WorkbenchError(
            f"{raw}: no captions in {len(shards):,} shards with "
            f"{counted(len(gathered.images), 'image')}{others}",
            "name the ending, key or column of the captions with corpus.caption_field",
        )
    words = {word: len(own) for word, own in gathered.words.items()}
    other_splits = check_other_splits(words, listing((shard.name for shard in shards), 3))
    gathered.rename()
    gathered.bring_files(raw, options)
    if kinds:
        gathered.remarks.append(f"left out, members of other kinds: {kinds}")
    missing = missing_shards(
        list_raw(raw, options),
        names=[shard.name for shard in shards],
        ending=shards[0].path.suffix,
        are_chosen=options.corpus.annotations is not None,
    )
    copies = in_one_split(folder.copies(), gathered.images)
    groups, equal = joined_groups({image: image for image in gathered.images}, copies)
    splits, drawn = settled_splits(gathered.images, options, groups)
    folder.remove(image for image in gathered.images if image not in splits)
    images = pd.DataFrame(
        {
            "image_id": list(splits),
            "split": list(splits.values()),
            "group": [groups[image] for image in splits],
            "fault": [gathered.faults.get(image, "") for image in splits],
        }
    )
    return Source(
        root=folder.root,
        images=images,
        captions=caption_table([one for one in gathered.captions if one.image_id in splits]),
        remarks=(*missing, *gathered.remarks, *other_splits, *equal, *drawn),
        folder=list_raw(raw, options),
        files=tuple(shard.path.relative_to(raw).as_posix() for shard in shards),
    )


def _read_all(
    raw: Path, shards: Sequence[Shard], kind: str, read_shard: Callable[[Shard], None]
) -> None:
    """Read all shards; WorkbenchError with those that cannot be read."""
    damaged: dict[str, list[str]] = {}  # by what is wrong
    hints: dict[str, None] = {}
    with Progress("reading shards", len(shards), "shards") as progress:
        for shard in shards:
            try:
                require_content(shard.path)
                read_shard(shard)
            except WorkbenchError as fault:
                is_there = shard.path.exists()
                error = (_misplaced(shard.path, kind) if is_there else None) or fault
                name = shard.path.relative_to(raw).as_posix()
                damaged.setdefault(error.message, []).append(name)
                hints[error.hint or DAMAGED] = None
            progress.update()
    problems = Problems(str(raw))
    if len(damaged) == 1 and len(next(iter(damaged.values()))) > 1:
        message, names = damaged.popitem()
        problems.add(f"shards that cannot be read, {message}", names)
    cases = (f"{name} ({message})" for message, names in damaged.items() for name in names)
    problems.add("shards that cannot be read", cases)
    problems.raise_if_any("; or ".join(hints))


def caption_table(captions: Sequence[Caption]) -> pd.DataFrame:
    """The table of captions: by their own ids where each has another one, else numbered by image.

    Args:
        captions: in their order; one that repeats another's own id, image and text is left out.

    Returns:
        Columns caption_id, image_id, text and, where a caption has any, tokens.
    """
    have_ids = all(caption.own_id and is_plain(caption.own_id) for caption in captions)
    unique = list(dict.fromkeys(captions)) if have_ids else []
    ids = [caption.own_id for caption in unique]
    if have_ids and len(set(ids)) == len(ids):
        captions = unique
    else:
        ids = numbered(caption.image_id for caption in captions)
    table = pd.DataFrame(
        {
            "caption_id": ids,
            "image_id": [caption.image_id for caption in captions],
            "text": [caption.text for caption in captions],
        }
    )
    if any(caption.tokens for caption in captions):
        table["tokens"] = [list(caption.tokens) for caption in captions]
    return table


def require_content(path: Path) -> None:
    """Raise WorkbenchError for a file that lies in the place of another one, or leads nowhere."""
    if not path.exists():
        raise WorkbenchError(
            "a link to a file that is not there", "download the files that are missing"
        )
    kind = kind_of(path)
    if kind is not None and kind.key in STAND_INS:
        raise WorkbenchError(kind.title, way_out(kind, path))


def is_pointer(path: Path) -> bool:
    """Whether a file is a pointer of git-lfs: it is then what its name says, but not there yet."""
    try:
        kind = kind_of(path)
    except OSError:
        return False
    return kind is not None and kind.key == "lfs"


def _misplaced(path: Path, expected: str) -> WorkbenchError | None:
    """The error for a file that is of another kind than its name says; None for all others."""
    kind = kind_of(path)
    if kind is None or kind.key == expected:
        return None
    if kind.key == "gzip":
        name = shlex.quote(str(path))
        return WorkbenchError(kind.title, f"unpack it: mv {name} {name}.gz && gunzip {name}.gz")
    return WorkbenchError(kind.title, way_out(kind, path))


def find_shards(raw: Path, options: Options, ending: str) -> list[Shard]:
    """The shards of a folder, at any depth, hidden ones passed over.

    Args:
        raw: the user's folder.
        options: corpus.annotations, a shard or a folder inside `raw`; None for all of it.
        ending: of the files' names, such as `.tar`.

    Returns:
        The shards in the order of their names.

    Raises:
        WorkbenchError: there are none.
    """
    folder = list_raw(raw, options)
    source = raw
    files = folder.matching(f"*{ending}")
    if options.corpus.annotations is not None:
        source = find_in_raw(raw, options.corpus.annotations, "corpus.annotations")
        inside = source.relative_to(raw).as_posix()
        files = [inside]
        if not source.is_file():
            files = [f"{inside}/{file}" for file in list_folder(source).matching(f"*{ending}")]
    if not files:
        raise WorkbenchError(
            f"{source}: no file {ending} in it", "set raw to the folder that holds the shards"
        )
    names = {file[: -len(ending)] if file.endswith(ending) else file: file for file in files}
    shards = [Shard(raw / names[own], own, split_in_path(own)) for own in sorted(names)]
    return _without_links_to_others(shards)


def check_one_configuration(raw: Path, names: Sequence[str]) -> None:
    """Refuse files of one name in several folders: `full/train-00000` and `mini/train-00000` are
    two configurations of a dataset, which may have the same images, or captions in two languages.
    Folders of splits, and numbered ones, hold parts of one.

    Args:
        raw: the user's folder.
        names: of the shards, as `Shard` has them.

    Raises:
        WorkbenchError: names such folders.
    """
    places: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for name in names:
        place, _, file = name.rpartition("/")
        if not any(map(str.isdigit, place.rpartition("/")[2])):
            places[file, split_in_path(name)].append(place)
    several = next((own for own in places.values() if len(own) > 1), [])
    if several:
        raise WorkbenchError(
            f"{raw}: files of one name in several folders, as of several configurations of a "
            f"dataset: {listing(several)}",
            f"choose one with corpus.annotations in params.yaml, such as {several[0]}",
        )


def check_one_language(raw: Path, paths: Sequence[Path]) -> None:
    """Refuse files that are called by languages, as de-00000-of-00001.parquet beside en-...: they
    have the same images, with captions in other languages.

    Args:
        raw: the user's folder.
        paths: of the shards.

    Raises:
        WorkbenchError: names such files.
    """
    matches = [_OF_LANGUAGE.fullmatch(path.stem) for path in paths]
    languages = {match["language"] for match in matches if match is not None}
    if len(languages) > 1 and all(matches):
        names = [path.relative_to(raw).as_posix() for path in paths]
        raise WorkbenchError(
            f"{raw}: files called by languages, as of several configurations of a dataset: "
            f"{listing(names, 6)}",
            f"choose one with corpus.annotations in params.yaml, such as {names[0]}",
        )


def _without_links_to_others(shards: Sequence[Shard]) -> list[Shard]:
    """Shards, each file once in a split: two snapshots in Hugging Face's cache link to one file."""
    first: dict[tuple[str, str | None], Shard] = {}
    again: list[str] = []
    for shard in shards:
        # links that lead nowhere stay: reading names them
        file = os.path.realpath(shard.path) if shard.path.exists() else shard.name
        if (file, shard.split) in first:
            again.append(shard.name)
        first.setdefault((file, shard.split), shard)
    if again:
        say(f"read once, being links to others: {listing(again, 3)}")
    return list(first.values())


def require_splits(raw: Path, shards: Sequence[Shard]) -> None:
    """Refuse shards of which only some name a split.

    Args:
        raw: the user's folder, for the message.
        shards: all that are read.

    Raises:
        WorkbenchError: the names of those without a split.
    """
    nameless = [shard.name for shard in shards if shard.split is None]
    if len(nameless) not in (0, len(shards)):
        problems = Problems(str(raw))
        problems.add("shards that name no split beside others that do", nameless)
        problems.raise_if_any("begin their names with train-, val- or test-")


class Sight(Enum):
    """What a look at a file says: of another kind, of this kind by its name alone, a shard, or a
    shard whose rows say their split."""

    OTHER = 0
    DAMAGED = 1
    SHARD = 2
    SHARD_WITH_SPLITS = 3


def found_shards(
    folder: Folder, endings: Sequence[str], look: Callable[[Path], Sight]
) -> list[Found]:
    """The shards of a folder, told by a look at the first files of every folder in it.

    Args:
        folder: the user's.
        endings: of the files' names, in lower case.
        look: what a file is; it raises nothing.

    Returns:
        One find: the files of all folders in which one of the first is a shard, or stands for one;
        or else of those in which one is damaged. Empty for neither.
    """
    shards: list[str] = []
    damaged: list[str] = []
    has_splits = False
    for ending in endings:
        places: dict[str, list[str]] = {}
        for file in folder.matching(f"*{ending}"):
            places.setdefault(file.rpartition("/")[0], []).append(file)
        for files in places.values():
            seen = {
                Sight.SHARD if is_pointer(folder.root / file) else look(folder.root / file)
                for file in files[:LOOKED_AT]
            }
            has_splits = has_splits or Sight.SHARD_WITH_SPLITS in seen
            if Sight.SHARD in seen or Sight.SHARD_WITH_SPLITS in seen:
                shards += files
            elif Sight.DAMAGED in seen:
                damaged += files
    if shards:
        has_splits = has_splits or any(map(split_in_path, shards))
        return [Found(tuple(shards), has_splits=has_splits)]
    return [Found(tuple(damaged), is_damaged=True)] if damaged else []
