"""What readers of shards share: which files there are, which split each is of, and the tables."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pipeline.dataset.extracted import ExtractedImages
from pipeline.dataset.params import CorpusConfig
from pipeline.dataset.source import Options, Source, find_in_raw, require_folder
from pipeline.dataset.splits import settled_splits, split_in_path
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import Progress
from pipeline.runtime.text import Problems

CAPTION_FIELDS = ("caption", "captions", "text", "texts", "sentences")


class Shard(NamedTuple):
    path: Path
    name: str  # its path inside raw without the ending
    split: str | None  # that its name tells


@dataclass
class Gathered:
    """What has been read of the shards so far, in their order; the images' bytes are on disk."""

    images: dict[str, str | None] = field(default_factory=dict)  # image_id to split
    faults: dict[str, str] = field(default_factory=dict)  # image_id to why it cannot be used
    captions: list[tuple[str, str, str]] = field(default_factory=list)  # caption_id, image_id, text
    others: Counter[str] = field(default_factory=Counter)  # members that were not read, by ending


ReadShard = Callable[[Shard, ExtractedImages, Gathered, CorpusConfig], None]


def read_shards(
    raw: Path, out: Path, options: Options, ending: str, read_shard: ReadShard
) -> Source:
    """Read shards one after the other; their images go to out/images. read_shard adds a shard to
    what was gathered, and raises WorkbenchError where it is damaged."""
    shards = find_shards(raw, options.corpus.annotations, ending)
    folder = ExtractedImages(out, options.corpus.max_megapixels)
    gathered, problems = Gathered(), Problems(str(raw))
    damaged = []
    with Progress("reading shards", len(shards), "shards") as progress:
        for shard in shards:
            try:
                read_shard(shard, folder, gathered, options.corpus)
            except WorkbenchError as error:
                damaged.append(f"{shard.path.relative_to(raw).as_posix()} ({error.message})")
            progress.update()
    problems.add("shards that cannot be read", damaged)
    problems.raise_if_any("mend these shards, or download them again")
    if not gathered.images:
        raise WorkbenchError(f"{raw}: no images in {len(shards):,} shards")
    splits, remarks = settled_splits(gathered.images, options)
    folder.remove(image for image in gathered.images if image not in splits)
    kinds = listing(f"{number:,} {kind}" for kind, number in sorted(gathered.others.items()))
    left_out = (f"left out, members of other kinds: {kinds}",) if kinds else ()
    rows = [(image, split, gathered.faults.get(image, "")) for image, split in splits.items()]
    kept = [caption for caption in gathered.captions if caption[1] in splits]
    return Source(
        root=folder.root,
        images=pd.DataFrame(rows, columns=["image_id", "split", "fault"]),
        captions=pd.DataFrame(kept, columns=["caption_id", "image_id", "text"]),
        remarks=(*left_out, *remarks),
    )


def find_shards(raw: Path, name: str | None, ending: str) -> list[Shard]:
    """The shards in `raw`, or in the shard or folder `name` there, at any depth; WorkbenchError
    when there are none, or when only some of them name a split."""
    require_folder(raw)
    source = raw if name is None else find_in_raw(raw, name, "corpus.annotations")
    paths = [source] if source.is_file() else source.rglob(f"*{ending}")
    names = {
        path.relative_to(raw).as_posix().removesuffix(ending): path
        for path in paths
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(raw).parts)
    }
    shards = [Shard(names[n], n, split_in_path(n)) for n in sorted(names)]
    if not shards:
        raise WorkbenchError(
            f"{source}: no file {ending} in it", "set raw to the folder that holds the shards"
        )
    nameless = [shard.name for shard in shards if shard.split is None]
    if len(nameless) not in (0, len(shards)):
        problems = Problems(str(raw))
        problems.add("shards that name no split beside others that do", nameless)
        problems.raise_if_any("begin their names with train-, val- or test-")
    return shards
