"""Which published test split the evaluated images and captions are, and whether they are all of it.

Recalls compare only on the same images: of 5,000 images fewer captions find theirs than of 1,000,
and two sets of 5,000 photographs of MS-COCO bear the same name in tables. `certify` says which
split it is. Of Flickr8k and MS-COCO a digest of each image's id is at hand (known_splits.bin, which
docs/tools/known_splits.py makes); of the others the published numbers and the form of the names.
"""

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, counted

DIGESTS = Path(__file__).with_name("known_splits.bin")
# of DIGESTS: with other digests this file differs, and evaluations run again
DIGESTS_SHA256 = "81cf0e2f6c4c95030d2c68cb42ef84ad1040d1f46ea31b9918ae69bf96260e6d"
# by list of ids, its place among the digests: the first and the number behind the last
PLACES = {"flickr8k": (0, 1_000), "mscoco": (1_000, 6_000)}
NONE_KNOWN = "none that is known"
PROTOCOL_FOLDS = re.compile(r"_x([0-9]+)$")
ANY_ENDING = r"(?:\.\w+)?"
MSCOCO_NAME = rf"(?:COCO_(?:train|val)2014_)?0*([0-9]{{1,12}}){ANY_ENDING}"


@dataclass(frozen=True)
class KnownSplit:
    """A test split that papers publish figures of.

    Attributes:
        title: how tables call it.
        images: how many it has.
        captions: how many, all of them first; then what remains with the first five an image.
        form: of the image's name; group 1, if there is one, is the id of which digests are.
        source: where the numbers, and the ids, come from.
        ids: the list of its ids in PLACES, None where they are not at hand.
        folds: that are ranked apart; every fold has its own ids, in the order of the list.
        first: only so many of the list; None: all.
        easier: a split with fewer items of the same images: no recall is larger than there.
    """

    title: str
    images: int
    captions: tuple[int, ...]
    form: str
    source: str
    ids: str | None = None
    folds: int = 1
    first: int | None = None
    easier: str | None = None


KARPATHY = "dataset_coco.json (Karpathy and Li 2015), ids in the package eccv_caption"
SPLITS = {
    "flickr8k": KnownSplit(
        title="Flickr8k",
        images=1_000,
        captions=(5_000,),
        form=rf"([0-9]+)_[0-9a-f]+{ANY_ENDING}",
        source="Flickr_8k.testImages.txt (Hodosh et al. 2013), as in dataset_flickr8k.json",
        ids="flickr8k",
    ),
    "flickr30k": KnownSplit(
        title="Flickr30k, Karpathy",
        images=1_000,
        captions=(5_000,),
        form=rf"[1-9][0-9]{{3,9}}{ANY_ENDING}",
        source="dataset_flickr30k.json (Karpathy and Li 2015)",
    ),
    "mscoco_5k": KnownSplit(
        title="MS-COCO 5K, Karpathy",
        images=5_000,
        captions=(25_010, 25_000),
        form=MSCOCO_NAME,
        source=KARPATHY,
        ids="mscoco",
        easier="mscoco_1k",
    ),
    "mscoco_1k": KnownSplit(
        title="MS-COCO 1K, Karpathy, mean of five folds",
        images=5_000,
        captions=(25_010, 25_000),
        form=MSCOCO_NAME,
        source=KARPATHY,
        ids="mscoco",
        folds=5,
    ),
    "mscoco_first_1k": KnownSplit(
        title="MS-COCO 1K, Karpathy, the first 1,000 images",
        images=1_000,
        captions=(5_000, 5_001, 5_002, 5_003, 5_004, 5_005),
        form=MSCOCO_NAME,
        source=KARPATHY,
        ids="mscoco",
        first=1_000,
    ),
    "cuhk_pedes": KnownSplit(
        title="CUHK-PEDES",
        images=3_074,
        captions=(6_156,),
        form=rf".*(?:CUHK01|CUHK03|Market|test_query|train_query)/[^/]+{ANY_ENDING}",
        source="Li et al. 2017, section 3",
    ),
    "icfg_pedes": KnownSplit(
        title="ICFG-PEDES",
        images=19_848,
        captions=(19_848,),
        form=rf".*[0-9]{{4}}/[0-9]{{4}}_[^/]+{ANY_ENDING}",
        source="Ding et al. 2021, table 1",
    ),
    "rstpreid": KnownSplit(
        title="RSTPReid",
        images=1_000,
        captions=(2_000,),
        form=rf"[0-9]{{4}}_c[0-9]+_[0-9]{{4}}{ANY_ENDING}",
        source="Zhu et al. 2021, section 3",
    ),
}


@dataclass(frozen=True)
class Certificate:
    """What is known of the images and captions that were evaluated.

    Attributes:
        name: of the split in SPLITS, None where none is known.
        images: that were evaluated.
        captions: that were evaluated.
        missing: images of the split that were not evaluated.
        foreign: evaluated images that are not of the split.
        mixed: images that are ranked in another fold than in the split's order.
    """

    name: str | None
    images: int
    captions: int
    missing: int = 0
    foreign: int = 0
    mixed: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether these are the split's images, all of them, with a number of captions it has."""
        if self.name is None or self.missing or self.foreign or self.mixed:
            return False
        return self.captions in SPLITS[self.name].captions

    @property
    def text(self) -> str:
        """ "MS-COCO 5K, Karpathy: 5,000 images, 25,010 captions, complete", or what is missing."""
        if self.name is None:
            return NONE_KNOWN
        split = SPLITS[self.name]
        found = f"{counted(self.images, 'image')}, {counted(self.captions, 'caption')}"
        if split.ids is None:
            return f"{split.title}: {found}; counts and names fit, ids not checked"
        faults = []
        if self.missing:
            are = "is" if self.missing == 1 else "are"
            faults.append(f"{counted(self.missing, 'image')} of {split.images:,} {are} missing")
        if self.foreign:
            are = "is" if self.foreign == 1 else "are"
            faults.append(f"{counted(self.foreign, 'image')} {are} not of it")
        if self.mixed:
            faults.append(f"{counted(self.mixed, 'image')} in another fold than Karpathy's")
        if not faults and self.captions not in split.captions:
            faults.append(f"captions must be {' or '.join(f'{n:,}' for n in split.captions[:2])}")
        return f"{split.title}: {found}, {'; '.join(faults) or 'complete'}"


def certify(image_ids: Sequence[str], captions: int, protocol: str) -> Certificate:
    """Which known test split was evaluated.

    Args:
        image_ids: of the N images, in their order; paths, whose folders and endings do not count.
        captions: how many captions were evaluated.
        protocol: as `protocol.protocol_name` gives: "full", "1k_x5", "first_1k".

    Returns:
        The split with most of the images, if it has more than half of them and they are more than
        half of it, or one whose ids are not at hand and whose numbers and names fit.
    """
    match = PROTOCOL_FOLDS.search(protocol)
    folds = int(match[1]) if match else 1
    best = Certificate(None, len(image_ids), captions)
    for name, split in SPLITS.items():
        if split.folds != folds:
            continue
        found = _checked(name, split, image_ids, captions)
        if found is not None and (best.name is None or found.missing < best.missing):
            best = found
    return best


def _checked(
    name: str, split: KnownSplit, image_ids: Sequence[str], captions: int
) -> Certificate | None:
    """The images as those of one split; None where they are not."""
    form = re.compile(split.form)
    has_folder = "/" in split.form
    names = [image_id.replace("\\", "/") for image_id in image_ids]
    names = [own if has_folder else own.rpartition("/")[2] for own in names]
    matches = [form.fullmatch(own) for own in names]
    if split.ids is None:
        fits = all(matches) and len(names) == split.images and captions in split.captions
        return Certificate(name, len(names), captions) if fits else None
    here = [digest_of(match[1]) if match else -1 for match in matches]
    start, end = PLACES[split.ids]
    of_split = _digests()[start : end if split.first is None else start + split.first]
    known = set(of_split)
    shared = len(known & set(here))
    if shared <= max(len(names), split.images) / 2:
        return None
    size = split.images // split.folds
    fold_of = {digest: number // size for number, digest in enumerate(of_split)}
    mixed = 0
    if len(here) == split.images:
        mixed = sum(fold_of.get(own, row // size) != row // size for row, own in enumerate(here))
    return Certificate(
        name=name,
        images=len(names),
        captions=captions,
        missing=split.images - shared,
        foreign=len(names) - shared,
        mixed=mixed,
    )


def digest_of(image_id: str) -> int:
    """The first four bytes of SHA-256 of an id, as a number: two of 5,000 ids share it once in 340
    such lists, and a foreign id has that of a known one once in 850,000."""
    return int.from_bytes(hashlib.sha256(image_id.encode()).digest()[:4], "big")


@cache
def _digests() -> tuple[int, ...]:
    """All 6,000 digests; WorkbenchError where the file is not the one this code is of."""
    content = DIGESTS.read_bytes() if DIGESTS.is_file() else b""
    if hashlib.sha256(content).hexdigest() != DIGESTS_SHA256:
        raise WorkbenchError(
            f"{DIGESTS}: missing or damaged: it holds no digests of known test splits",
            "bring it back with git checkout, or install the package again",
        )
    return struct.unpack(f">{len(content) // 4}I", content)
