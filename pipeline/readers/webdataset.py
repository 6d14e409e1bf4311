"""WebDataset's tar files: the members of a sample share their name up to the first dot."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tarfile import TarInfo
from typing import Any, BinaryIO

from pipeline.dataset.extracted import ExtractedImages
from pipeline.dataset.params import CorpusConfig
from pipeline.dataset.shards import CAPTION_FIELDS, Gathered, Shard, read_shards
from pipeline.dataset.source import Options, Source
from pipeline.dataset.tar import DamagedTar, read_members
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems, is_text

SIGNS = ("**/*.tar",)
IMAGES = ("jpg", "jpeg", "png", "webp")
TEXTS = ("txt", "json")
PICKLES = ("pickle", "pkl", "pyd", "pt", "pth")
LONGEST_TEXT = 1 << 20  # bytes of a sample's captions
# Key and ending as WebDataset cuts them; a name that begins with a dot, as macOS writes, has none.
_NAME = re.compile(r"(?P<key>(?:.*/|)[^./][^./]*)\.(?P<ending>[^/]*)", re.DOTALL)


@dataclass
class _Sample:
    images: dict[str, str] = field(default_factory=dict)  # image_id to what is wrong with it
    texts: dict[str, bytes] = field(default_factory=dict)  # its .txt and .json, by ending


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the tar files below raw: image_id is `<shard>/<member>`, because keys need not differ
    between shards, caption_id `<image_id>#<number>`. Captions are the lines of .txt, else the text
    or texts in .json under corpus.caption_field."""
    return read_shards(raw, out, options, ".tar", _read_shard)


def _read_shard(
    shard: Shard, folder: ExtractedImages, gathered: Gathered, config: CorpusConfig
) -> None:
    """Write the images of a shard and note its captions; WorkbenchError for all that is wrong."""
    problems = Problems("its members")
    with open(shard.path, "rb") as stream:
        try:
            samples, others = _read_samples(stream, shard, folder, problems, config)
        except DamagedTar as error:
            raise WorkbenchError(f"cut short or damaged: {error}") from None
    faults: list[str] = []
    for key, sample in samples.items():
        texts: list[str] = []
        try:
            texts = _captions(sample.texts, config.caption_field)
        except (ValueError, RecursionError) as error:
            faults.append(f"{key!a}: {error}")
        name, images = f"{shard.name}/{key}", sample.images
        if len(images) > 1:
            faults.append(f"{name!a}: {len(images)} images; set corpus.image_field")
        elif texts or images:
            image_id, fault = next(iter(images.items()), (name, "no image in the shard"))
            gathered.images[image_id] = shard.split
            gathered.faults[image_id] = fault
            gathered.captions += [(f"{image_id}#{n}", image_id, t) for n, t in enumerate(texts)]
    problems.add("captions and images in doubt", faults)
    problems.raise_if_any()
    gathered.others += others


def _read_samples(
    stream: BinaryIO,
    shard: Shard,
    folder: ExtractedImages,
    problems: Problems,
    config: CorpusConfig,
) -> tuple[dict[str, _Sample], Counter[str]]:
    """The samples by their keys, and how many members there are of each ending that is not read."""
    samples: dict[str, _Sample] = defaultdict(_Sample)
    kinds: dict[str, list[str]] = defaultdict(list)
    seen: set[str] = set()
    others: Counter[str] = Counter()
    images = IMAGES if config.image_field is None else (config.image_field.lower(),)
    for member in read_members(stream):
        if member.isdir():
            continue
        name = member.name.removeprefix("./")
        match = _NAME.fullmatch(name)
        ending = match["ending"].lower() if match else ""
        stream.seek(member.offset_data)
        if fault := _fault(member, name, ending, seen):
            kinds[fault].append(ascii(member.name))
        elif match and ending in images:
            image_id = f"{shard.name}/{name}"
            samples[match["key"]].images[image_id] = folder.write(image_id, member.size, stream)
        elif match and ending in TEXTS:
            samples[match["key"]].texts[ending] = stream.read(member.size)
        else:
            others[ascii(ending or name)] += 1
        seen.add(name)
    for kind, names in kinds.items():
        problems.add(kind, names)
    return samples, others


def _fault(member: TarInfo, name: str, ending: str, seen: set[str]) -> str:
    """Why a member is refused, empty when it is not."""
    if not member.isreg():
        return "links and devices"
    if not is_text(name):
        return "names that are not UTF-8"
    if name in seen:
        return "names more than once"
    if ending.rpartition(".")[2] in PICKLES:
        return "pickles, which can run code and are not read"
    if ending in TEXTS and member.size > LONGEST_TEXT:
        return f"texts of more than {LONGEST_TEXT:,} bytes"
    return ""


def _captions(texts: dict[str, bytes], name: str | None) -> list[str]:
    """The captions of a sample; ValueError for what cannot be read."""
    if "txt" in texts and name is None:
        text = texts["txt"].decode("utf-8-sig")
        return [line for line in text.split("\n") if line.strip()] or [text]
    if "json" not in texts:
        return []
    value: Any = json.loads(texts["json"].decode("utf-8-sig"))
    names = CAPTION_FIELDS if name is None else (name,)
    key = next((key for key in names if isinstance(value, dict) and key in value), None)
    if key is None:
        raise ValueError(f"no {' or '.join(names)} in the .json; set corpus.caption_field")
    captions = value[key] if isinstance(value[key], list) else [value[key]]
    if not all(map(is_text, captions)):
        raise ValueError(f"{key} in the .json is neither text nor a list of texts")
    return list(captions)
