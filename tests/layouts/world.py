"""A small world that is written into a folder: images, their captions and their splits."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

Option = TypeVar("Option")

WORDS = ("a", "the", "dog", "cat", "two", "children", "red", "boat", "runs", "under", "grass", "on")
# Captions with what separates fields, quotes them, or begins a comment elsewhere.
PHRASES = (
    *(
        "{}.",
        "{} .",
        "{}, {}.",
        'He says "{}".',
        "{}; {}",
        "{} | {}",
        "{}: {}",
        "{} \u2013 {}",
        "{}!",
    ),
    *("#{} on it", "{} 's dog", "2 {}", "{} (left)", "{} & {}", "[{}]", "“{}” {}", "{} été"),
    *("- {}", "= {}", "{} 50%", "{}\\{}", "'{}'"),
)
# How files are called, by the number of the image.
NAMES = {
    "number": "{place}",
    "zeros": "{place:012d}",
    "MS-COCO's": "COCO_val2014_{place:012d}",
    "Flickr's": "{place}_{noise:010x}",
    "camera's": "IMG_{number:04d}",
    "capitals": "DSC{number:05d}",
    "blanks": "my photo {number}",
    "dots": "v1.0.{number}",
    "comma": "a,b {number}",
    "accent": "café {number}",
    "hash": "pic#{number}",
    "a split's": "train_{number}",
    "brackets": "shot ({number})",
    "Chinese": "图片{number}",
    "percent": "a+b%20{number}",
    "noise": "{noise:08x}-{number:04x}",
}
ENDINGS = (".jpg", ".jpg", ".jpg", ".png", ".JPG", ".jpeg", ".webp")
# What the splits are called, in the order train, (val,) test.
SPLITS = (
    ("train", "val", "test"),
    ("training", "validation", "testing"),
    ("train", "dev", "test"),
    ("Train", "Val", "Test"),
    ("train", "valid", "test"),
    ("TRAIN", "VAL", "TEST"),
    ("train", "validation", "test"),
    ("train", "test"),
)
# The folder of an image below the user's.
FOLDERS = (
    *("", "images/", "images/", "Images/", "data/imgs/", "flickr30k-images/"),
    *("{split}/", "images/{split}/", "{split}/images/", "{kind}/", "images/{shard:02d}/"),
)
KINDS = ("dogs", "cats", "birds")


@dataclass
class Drawn:
    """An image: its number, its file's name, its folder with a slash at the end, what its split is
    called, and its captions."""

    number: int
    name: str
    folder: str
    split: str
    captions: list[str]

    @property
    def path(self) -> str:
        """The path of its file inside the user's folder."""
        return f"{self.folder}{self.name}"

    @property
    def stem(self) -> str:
        """The name of its file without the ending."""
        return self.name.rpartition(".")[0]


@dataclass
class Choices:
    """What is drawn, by the name of the choice."""

    draw: random.Random
    chosen: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def choose(self, name: str, options: Sequence[Option]) -> Option:
        """One of some options, and the same one if it is asked for again."""
        if name not in self.chosen:
            self.chosen[name] = self.draw.choice(options)
        option: Option = self.chosen[name]
        return option


@dataclass
class Layout(Choices):
    """A world and where it is written.

    says_splits: whether files of annotations say which image is in which split. are_divided:
    whether folders of images do. are_inside: whether the images are in the files of captions.
    """

    raw: Path
    images: list[Drawn] = field(default_factory=list)
    splits: Sequence[str] = ()
    says_splits: bool = False
    are_divided: bool = False
    are_inside: bool = False

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file below the user's folder; a text as the layout encodes texts."""
        path = self.raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            encoding = self.choose("encoding", ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16"))
            content = content.encode(encoding)
        path.write_bytes(content)

    def groups(self, are_split: bool) -> dict[str, list[Drawn]]:
        """The images by what their splits are called; all of them under "" where they are not
        divided."""
        if not are_split:
            return {"": self.images}
        groups: dict[str, list[Drawn]] = {}
        for image in self.images:
            groups.setdefault(image.split, []).append(image)
        return groups


def picture(number: int) -> bytes:
    """An image whose bytes tell its number."""
    stream = BytesIO()
    Image.new("RGB", (8, 8), (number % 256, number // 256, 77)).save(stream, "PNG")
    return stream.getvalue()


def drawn_layout(draw: random.Random, raw: Path) -> Layout:
    """A layout whose images and captions are drawn, and not written yet.

    Args:
        draw: What everything is drawn from.
        raw: The user's folder.
    """
    layout = Layout(draw, raw)
    layout.splits = layout.choose("splits", SPLITS)
    names = NAMES[layout.choose("names", list(NAMES))]
    ending = layout.choose("ending", ENDINGS)
    folder = layout.choose("folder", FOLDERS)
    layout.are_divided = "{split}" in folder
    each = layout.choose("captions of each", (1, 1, 2, 5, 0))  # 0: of each another number
    phrases = layout.choose("phrases", (("{}",), PHRASES))
    begins_anew = "{split}" in folder and layout.choose("numbers of each split", (False, True))
    numbers: Counter[str] = Counter()  # of images so far, by split
    for number in range(draw.randint(7, 14)):
        # two of each split, and more for training
        split = layout.splits[number % len(layout.splits)]
        if number >= 2 * len(layout.splits):
            split = layout.splits[0]
        own = numbers[split] if begins_anew else number
        numbers[split] += 1
        noise = own if begins_anew else draw.getrandbits(32)
        name = names.format(number=own, place=37 * own + 5, noise=noise)
        image = Drawn(
            number=number,
            name=name + ending,
            folder=folder.format(split=split, kind=KINDS[number % 3], shard=number % 4),
            split=split,
            captions=_captions(draw, each or draw.randint(1, 4), phrases),
        )
        layout.images.append(image)
    if draw.random() < 0.5:
        draw.shuffle(layout.images)
    return layout


def _captions(draw: random.Random, count: int, phrases: Sequence[str]) -> list[str]:
    """Different captions of an image."""
    captions: dict[str, None] = {}
    while len(captions) < count:
        phrase = draw.choice(phrases)
        words = [
            " ".join(draw.choices(WORDS, k=draw.randint(2, 6))) for _ in range(phrase.count("{}"))
        ]
        captions[phrase.format(*words)] = None
    return list(captions)
