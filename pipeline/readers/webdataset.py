"""WebDataset's tar files: the members of a sample share their name up to the first dot."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.dataset.extracted import ExtractedImages
from pipeline.dataset.params import CorpusConfig
from pipeline.dataset.shards import CAPTION_FIELDS, Gathered, Shard, read_shards
from pipeline.dataset.source import Options, Source
from pipeline.dataset.tar import DamagedTar, Member, read_members
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
class Sample:
    """What a shard holds of one key.

    Attributes:
        images: image_id of each, and what is wrong with it.
        texts: contents of its .txt and .json by ending.
    """

    images: dict[str, str] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the tar files below raw, member after member.

    image_id is `<shard>/<member>`, because keys need not differ between shards, and caption_id
    `<image_id>#<number>`. Captions are the lines of .txt, else the text or texts in .json under
    corpus.caption_field.

    Args:
        raw: folder of the shards.
        out: folder that gets the images.
        options: which shards and endings to take, and the numbers of held-out images.

    Raises:
        WorkbenchError: shards that are damaged, cut short or hold what no dataset needs.
    """
    return read_shards(raw, out, options, ".tar", read_shard)


def read_shard(
    shard: Shard, folder: ExtractedImages, gathered: Gathered, config: CorpusConfig
) -> None:
    """Write the images of a shard and note its captions.

    Args:
        shard: to read.
        folder: that gets the images.
        gathered: that gets ids, captions and faults.
        config: the names of what to take.

    Raises:
        WorkbenchError: all that is wrong with its members.
    """
    problems = Problems("its members")
    samples: dict[str, Sample] = {}
    with open(shard.path, "rb") as stream:
        try:
            others = _read_members(stream, shard, folder, samples, problems, config)
        except DamagedTar as error:
            raise WorkbenchError(f"cut short or damaged: {error}") from None
    faults: list[str] = []
    for key, sample in samples.items():
        texts = _captions(key, sample.texts, config.caption_field, faults)
        image_id, fault = _image(f"{shard.name}/{key}", sample, texts, faults)
        if image_id:
            gathered.images[image_id] = shard.split
            gathered.faults[image_id] = fault
            gathered.captions += [(f"{image_id}#{n}", image_id, t) for n, t in enumerate(texts)]
    problems.add("captions and images in doubt", faults)
    problems.raise_if_any()
    gathered.others += others


def _read_members(
    stream: BinaryIO,
    shard: Shard,
    folder: ExtractedImages,
    samples: dict[str, Sample],
    problems: Problems,
    config: CorpusConfig,
) -> Counter[str]:
    """Sort the members into samples; returns how many there are of each ending that is not read."""
    kinds: dict[str, list[str]] = {}
    seen: set[str] = set()
    others: Counter[str] = Counter()
    images = IMAGES if config.image_field is None else (config.image_field.lower(),)
    for member in read_members(stream):
        if member.kind == "folder":
            continue
        name = member.name.removeprefix("./")
        match = _NAME.fullmatch(name)
        ending = match["ending"].lower() if match else ""
        if fault := _fault(member, name, ending, seen):
            kinds.setdefault(fault, []).append(ascii(member.name))
        elif match and ending in images:
            stream.seek(member.offset)
            image_id = f"{shard.name}/{name}"
            sample = samples.setdefault(match["key"], Sample())
            sample.images[image_id] = folder.write(image_id, member.size, stream)
        elif match and ending in TEXTS:
            stream.seek(member.offset)
            samples.setdefault(match["key"], Sample()).texts[ending] = stream.read(member.size)
        else:
            others[ascii(ending or name)] += 1
        seen.add(name)
    for kind, names in kinds.items():
        problems.add(kind, names)
    return others


def _fault(member: Member, name: str, ending: str, seen: set[str]) -> str:
    """Why a member is refused, empty when it is not."""
    if member.kind != "file":
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


def _image(
    missing: str, sample: Sample, texts: Sequence[str], faults: list[str]
) -> tuple[str, str]:
    """image_id of a sample and what is wrong with it; captions alone are of a missing image."""
    if len(sample.images) > 1:
        faults.append(f"{missing!a}: {len(sample.images)} images; set corpus.image_field")
        return "", ""
    if not sample.images:
        return (missing, "no image in the shard") if texts else ("", "")
    return next(iter(sample.images.items()))


def _captions(key: str, texts: dict[str, bytes], name: str | None, faults: list[str]) -> list[str]:
    """The captions of a sample; what cannot be read goes to `faults`."""
    try:
        if "txt" in texts and name is None:
            text = texts["txt"].decode("utf-8-sig")
            return [line for line in text.split("\n") if line.strip()] or [text]
        if "json" in texts:
            return _of_json(json.loads(texts["json"].decode("utf-8-sig")), name)
    except (ValueError, RecursionError) as error:
        faults.append(f"{key!a}: {error}")
    return []


def _of_json(value: Any, name: str | None) -> list[str]:
    """The text or texts under a key; ValueError for anything else that stands there."""
    names = CAPTION_FIELDS if name is None else (name,)
    found = next((key for key in names if isinstance(value, dict) and key in value), None)
    if found is None:
        raise ValueError(f"no {' or '.join(names)} in the .json; set corpus.caption_field")
    texts = value[found] if isinstance(value[found], list) else [value[found]]
    if not all(map(is_text, texts)):
        raise ValueError(f"{found} in the .json is neither text nor a list of texts")
    return list(texts)
