"""WebDataset's tar files: the members of a sample share their name up to the first dot.

Members are read from a stream and held against the file's real size: tarfile ends at a damaged
header as at a proper end, so the end mark is looked for.
"""

import gzip
import io
import json
import os
import re
import shlex
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    COMMON_CAPTION_COLUMNS,
    TEXT_FIELDS,
    Text,
    first_of,
    lines_of,
    listed_texts,
    texts_of,
)
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, Folder
from pipeline.corpus.dataset.recognise import Found
from pipeline.corpus.dataset.shards import (
    DAMAGED,
    Caption,
    Gathered,
    Shard,
    Sight,
    find_shards,
    found_shards,
    read_shards,
    require_splits,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import without_split
from pipeline.corpus.dataset.text_lines import captions_of_lines, said_of_lines
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems, is_text

COMPRESSED = (".tar.gz", ".tgz")
# Of several images of a sample the first kinds are meant: masks and depths are often of the second.
USUAL = ("jpg", "jpeg", "png", "webp")
IMAGES = (*USUAL, *(ending[1:] for ending in IMAGE_ENDINGS if ending[1:] not in USUAL))
TEXTS = ("txt", "text", "caption", "json")  # the first that a sample has is read
PICKLES = ("pickle", "pkl", "pyd", "pt", "pth")
LONGEST_TEXT = 1 << 20  # bytes of a sample's captions
TEXTS_SEEN = 1000  # texts of samples, to see what their lines are
LOOKED_AT = 200  # members of a tar file, to see whether they are samples
UNPACKED = 1 << 23  # bytes of a compressed one that are unpacked for this
# Key and ending as WebDataset cuts them; a name that begins with a dot, as macOS writes, has none.
_FIRST_DOT = re.compile(r"(?P<key>(?:.*/|)[^./][^./]*)\.(?P<ending>[^/]*)", re.DOTALL)
_LAST_DOT = re.compile(r"(?P<key>(?:.*/|)[^./][^/]*)\.(?P<ending>[^./]*)", re.DOTALL)


# What tarfile raises for headers that are damaged in one way or another.
UNREADABLE = (
    tarfile.TarError,
    ValueError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    OSError,
)


class _Member(NamedTuple):
    """A regular file in a tar file: its name, and where its bytes are."""

    name: str
    start: int
    size: int


_Samples = dict[str, dict[str, _Member]]  # by key and ending


class _Unclear(Exception):
    """Why it cannot be told which member of a sample is meant."""


def recognise(folder: Folder) -> list[Found]:
    """The tar files of folders in which one of the first has images and texts; damaged ones where
    there are no others."""
    return found_shards(folder, (".tar", *COMPRESSED), _sight)


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the tar files below raw: image_id is `<shard>/<member>`, because keys need not differ
    between shards, caption_id `<image_id>#<number>`. Captions are the lines of .txt, or what
    corpus.text_lines says, else the text or texts in .json.

    Args:
        raw: the user's folder.
        out: the folder of the corpus, for the images.
        options: corpus.annotations, a file or a folder; corpus.image_field and
            corpus.caption_field, other endings; corpus.text_lines; how splits are drawn.

    Returns:
        The source.

    Raises:
        WorkbenchError: no such file, compressed ones, damaged ones, members that cannot be read or
            may not be (links, pickles), or samples of which it is not clear what is meant.
    """
    _refuse_compressed(raw, options)
    shards = find_shards(raw, options, ".tar")
    require_splits(raw, shards)
    said = _said_of_lines(raw, shards, options.corpus)
    read_shard = partial(_read_shard, config=options.corpus)
    source = read_shards(raw, out, options, shards=shards, kind="tar", read_shard=read_shard)
    return replace(source, remarks=(*said, *source.remarks))


def _said_of_lines(raw: Path, shards: Sequence[Shard], config: CorpusConfig) -> list[str]:
    """What the lines of texts are taken for, by the first texts, before images are written;
    WorkbenchError where they may be captions or parts of one."""
    texts: dict[str, str] = {}
    for shard in shards if config.text_lines is None else ():
        with suppress(OSError, DamagedTar), open(shard.path, "rb") as stream:
            for name, text in islice(_texts_in(stream, config), TEXTS_SEEN - len(texts)):
                texts[f"{shard.name}/{name}"] = text
    lines = {name: lines_of(text) for name, text in texts.items() if not listed_texts(text)}
    return said_of_lines(str(raw), lines, texts, {name: name for name in texts})


def _texts_in(stream: BinaryIO, config: CorpusConfig) -> Iterator[tuple[str, str]]:
    """The texts of samples with their names, but for JSON and what cannot be read."""
    for sample in _grouped(_members(stream, Problems("its members")), config).values():
        with suppress(_Unclear, ValueError):
            member = sample.get(_text(sample, config) or "")
            if member and not member.name.lower().endswith(".json") and member.size < LONGEST_TEXT:
                stream.seek(member.start)
                yield member.name, stream.read(member.size).decode("utf-8-sig")


def _refuse_compressed(raw: Path, options: Options) -> None:
    """Raise WorkbenchError for compressed tar files with samples, which would be left out."""
    name = options.corpus.annotations
    files = list_raw(raw, options).matching(*(f"*{ending}" for ending in COMPRESSED))
    named = [file for file in files if name is None or file == name or file.startswith(f"{name}/")]
    own = [file for file in named if _sight(raw / file) is Sight.SHARD]
    tars = {without_split(file) for file in list_raw(raw, options).matching("*.tar")}
    damaged = [file for file in named if _is_damaged(raw / file, file, tars)]
    if damaged:
        raise WorkbenchError(
            f"{raw}: compressed tar files that cannot be unpacked: {listing(damaged, 3)}",
            "download them again and unpack them, or move them away",
        )
    if own:
        raise WorkbenchError(
            f"{raw}: compressed tar files are not read: {listing(own, 3)}",
            f"unpack them: gunzip {shlex.quote(str(raw / own[0]))}",
        )


def _is_damaged(path: Path, file: str, tars: Set[str]) -> bool:
    """Whether a compressed tar file that is called like one of the others cannot be unpacked.

    Args:
        path: the file.
        file: its path inside raw.
        tars: those of the uncompressed ones, without the words that name a split.
    """
    bare = without_split(file.lower()).removesuffix(".gz").replace(".tgz", ".tar")
    if bare not in tars:
        return False
    try:
        with gzip.open(path) as unpacked:
            return not unpacked.read(1)
    except (OSError, EOFError, zlib.error):
        return True


def _sight(path: Path) -> Sight:
    """What a look at the first members of a file says: samples have images and texts."""
    endings: set[str] = set()
    is_packed = path.name.lower().endswith(COMPRESSED)
    try:
        with open(path, "rb") as stream:
            whole: BinaryIO = stream
            if is_packed:
                with gzip.open(stream) as unpacked:
                    whole = io.BytesIO(unpacked.read(UNPACKED))
            for member in islice(read_members(whole), LOOKED_AT):
                match = _FIRST_DOT.fullmatch(member.name)
                endings.add(match["ending"].lower().rpartition(".")[2] if match else "")
    except DamagedTar:
        if not endings:
            return Sight.OTHER if is_packed else Sight.DAMAGED
    except (OSError, EOFError, ValueError):
        return Sight.OTHER
    are_samples = not endings.isdisjoint(IMAGES) and not endings.isdisjoint(TEXTS)
    return Sight.SHARD if are_samples else Sight.OTHER


def _read_shard(shard: Shard, gathered: Gathered, config: CorpusConfig) -> None:
    """Write the images of a shard and note its captions; WorkbenchError for all that is wrong."""
    problems = Problems("its members")
    with open(shard.path, "rb") as stream:
        try:
            members = _members(stream, problems)
        except DamagedTar as error:
            raise WorkbenchError(f"cut short or damaged: {error}") from None
        samples = _grouped(members, config)
        unclear: list[str] = []
        unreadable: list[str] = []
        for key, sample in samples.items():
            try:
                image = _image(sample, config)
                text = _text(sample, config)
                texts = _captions(stream, sample.get(text or ""), config)
            except _Unclear as error:
                unclear.append(f"{f'{shard.name}/{key}'!a}: {error}")
                continue
            except (ValueError, RecursionError) as error:
                unreadable.append(f"{key!a}: {error}")
                continue
            member = sample.get(image or "")
            if member is not None or texts:
                image_id = f"{shard.name}/{key}"
                if member is None:
                    gathered.add_image(image_id, shard.split, None)
                else:
                    image_id = f"{shard.name}/{member.name}"
                    stream.seek(member.start)
                    gathered.add_image(image_id, shard.split, stream, member.size)
                gathered.captions += [Caption(image_id, one.text, one.tokens) for one in texts]
            read_ones = (image, text, *TEXTS)
            gathered.others.update(ascii(one) for one in sample if one not in read_ones)
    problems.add("captions that cannot be read", unreadable)
    problems.add("samples with several images or texts", unclear)
    problems.raise_if_any(
        "name the endings that are meant with corpus.image_field and corpus.caption_field"
        if unclear
        else DAMAGED
    )
    if not samples:
        gathered.remarks.append(f"{shard.path.name}: no images and no texts in it")
    without = sum(_FIRST_DOT.fullmatch(member.name) is None for member in members)
    if without:
        gathered.others["names without an ending"] += without


def _members(stream: BinaryIO, problems: Problems) -> list[_Member]:
    """The files of a shard that may be read, in their order; all others are problems."""
    faults: dict[str, list[str]] = defaultdict(list)
    members: dict[str, _Member] = {}
    for info in read_members(stream):
        if info.isdir():
            continue
        name = info.name.removeprefix("./")
        fault = _fault(info, name)
        if name in members:
            fault = fault or "names more than once"
        if fault:
            faults[fault].append(ascii(info.name))
        members[name] = _Member(name, info.offset_data, info.size)
    for fault, names in faults.items():
        problems.add(fault, names)
    return list(members.values())


def _fault(info: tarfile.TarInfo, name: str) -> str:
    """Why a member is refused, empty when it is not."""
    if not info.isreg():
        return "links and devices"
    if not is_text(name):
        return "names that are not UTF-8"
    if name.lower().rpartition(".")[2] in PICKLES:
        return "pickles, which can run code and are not read"
    return ""


def _grouped(members: Sequence[_Member], config: CorpusConfig) -> _Samples:
    """The samples of a shard. Names with dots of their own, `photo.1.jpg` and `photo.1.txt`, would
    be one sample: where the last dot gives every image a text, and the first does not, it counts.
    """
    samples = _by_key(members, _FIRST_DOT)
    if config.image_field is None and any(len(_images(own)) > 1 for own in samples.values()):
        other = _by_key(members, _LAST_DOT)
        if all(len(_images(own)) == 1 and _plain(own, TEXTS) for own in other.values()):
            return other
    return samples


def _by_key(members: Sequence[_Member], pattern: re.Pattern[str]) -> _Samples:
    """Members by the key and the ending, in lower case, that a pattern cuts their names into."""
    samples: _Samples = defaultdict(dict)
    for member in members:
        match = pattern.fullmatch(member.name)
        if match:
            sample = samples[match["key"]]
            ending = match["ending"]
            is_new = ending.lower() not in sample
            sample[ending.lower() if is_new else ending] = member
    return samples


def _image(sample: dict[str, _Member], config: CorpusConfig) -> str | None:
    """The ending of a sample's image, None for none; _Unclear for several."""
    if config.image_field is not None:
        named = config.image_field.lower()
        return named if named in sample else None
    return _one_of(_images(sample), "images", "image_field")


def _images(sample: dict[str, _Member]) -> list[str]:
    """The endings of a sample that could be its image: usual ones before others, and `input.jpg`
    only where there is no other."""
    return (
        _plain(sample, USUAL)
        or _plain(sample, IMAGES)
        or [ending for ending in sample if ending.rpartition(".")[2] in IMAGES]
    )


def _plain(sample: dict[str, _Member], endings: Sequence[str]) -> list[str]:
    """Those of some endings that a sample has."""
    return [ending for ending in endings if ending in sample]


def _text(sample: dict[str, _Member], config: CorpusConfig) -> str | None:
    """The ending of a sample's captions, None for none; _Unclear for several."""
    named = config.caption_field
    if named is not None and named.lower() in sample:
        return named.lower()
    if named is not None and named.lower().rpartition(".")[2] in TEXTS:
        return None
    wanted = TEXTS if named is None else ("json",)  # where the field is a key
    if _plain(sample, wanted):
        return _plain(sample, wanted)[0]
    longer = [ending for ending in sample if ending.rpartition(".")[2] in wanted]
    texts = [ending for ending in longer if not ending.endswith(".json")]
    return _one_of(texts or longer, "texts", "caption_field")


def _one_of(endings: Sequence[str], what: str, setting: str) -> str | None:
    """The only one of some endings, None where there is none; _Unclear for several."""
    if len(endings) > 1:
        raise _Unclear(
            f"{len(endings)} {what}, {listing(endings)}; set corpus.{setting} to one of them"
        )
    return endings[0] if endings else None


def _captions(stream: BinaryIO, member: _Member | None, config: CorpusConfig) -> list[Text]:
    """The captions in a member, none in None; ValueError for what cannot be read."""
    if member is None:
        return []
    if member.size > LONGEST_TEXT:
        raise ValueError(f"a text of more than {LONGEST_TEXT:,} bytes")
    stream.seek(member.start)
    text = stream.read(member.size).decode("utf-8-sig")
    if not member.name.lower().endswith(".json"):
        own = listed_texts(text) or captions_of_lines(lines_of(text), config.text_lines)
        return [Text(caption) for caption in own]
    field = config.caption_field
    value: Any = json.loads(text)
    names: tuple[str, ...] = CAPTION_COLUMNS
    if field is not None and not member.name.lower().endswith(f".{field.lower()}"):
        names = (field,)  # a key, not an ending
    key = first_of(value, names) if isinstance(value, dict) else None
    if key is None:
        shown = " or ".join(names[: len(COMMON_CAPTION_COLUMNS)])
        raise ValueError(f"no {shown} in the .json; set corpus.caption_field")
    cells = value[key] if isinstance(value[key], list) else [value[key]]
    records = [cell for cell in cells if isinstance(cell, dict) and first_of(cell, TEXT_FIELDS)]
    if len(records) + sum(map(is_text, cells)) < len(cells):
        raise ValueError(f"{key} in the .json is neither text nor a list of texts")
    texts = texts_of(cells)
    if not all(is_text(one.text) for one in texts):
        raise ValueError(f"{key} in the .json has halves of characters")
    return texts


class DamagedTar(Exception):
    """Where and why a tar file cannot be read on."""


def read_members(stream: BinaryIO) -> Iterator[tarfile.TarInfo]:
    """The members of an uncompressed tar file (ustar, GNU or pax) until its end mark; the stream
    may be moved between two. Names have surrogates for bytes that are not UTF-8. DamagedTar for an
    unreadable header, a sparse member, one cut short, no end mark."""
    length = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
            while info := archive.next():
                archive.members = []  # type: ignore[attr-defined]  # it would keep them all
                if info.issparse() or any(key.startswith("GNU.sparse") for key in info.pax_headers):
                    raise ValueError(f"member at byte {info.offset:,}: sparse, which is not read")
                if info.size < 0 or (info.isreg() and info.offset_data + info.size > length):
                    raise ValueError(f"member at byte {info.offset:,}: cut short")
                yield info
            end = archive.offset
    except UNREADABLE as error:
        raise DamagedTar(str(error) or type(error).__name__) from None
    stream.seek(end)
    mark = stream.read(tarfile.BLOCKSIZE)
    if len(mark) < tarfile.BLOCKSIZE or any(mark):
        raise DamagedTar(f"no header and no end mark at byte {end:,}")
