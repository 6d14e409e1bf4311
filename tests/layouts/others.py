"""What lies beside images and captions in people's folders, and is neither."""

import json
from collections.abc import Callable

from tests.layouts.world import Layout, picture


def _each(
    content: Callable[[int], bytes], folder: str, ending: str = ""
) -> Callable[[Layout], None]:
    """Writes a file of each image's name into a folder."""

    def write(layout: Layout) -> None:
        for image in layout.images:
            name = f"{image.stem}{ending}" if ending else image.name
            layout.write(f"{folder}/{name}", content(image.number))

    return write


def _lines(file: str, line: str) -> Callable[[Layout], None]:
    """Writes a file with a line for each image."""

    def write(layout: Layout) -> None:
        lines = (line.format(image=image, number=image.number) for image in layout.images)
        layout.write(file, "".join(lines).encode())

    return write


def _file(file: str, content: bytes) -> Callable[[Layout], None]:
    return lambda layout: layout.write(file, content)


def _scores(layout: Layout) -> None:
    rows = [{"image": image.name, "score": 0.5} for image in layout.images]
    layout.write("stats.json", json.dumps(rows).encode())


OTHERS: dict[str, Callable[[Layout], None]] = {
    "page": _file("README.md", b"# My data\n\nImages | captions\n--|--\n"),
    "licence": _file("LICENSE.txt", b"The images are licensed, as is,\nwithout warranty.\n"),
    "packages": _file("requirements.txt", b"numpy==1.0\ntorch>=2\n"),
    "program": _file("load.py", b"print('image,caption')\n"),
    "settings": _file("data.yaml", b"train: images/train\n"),
    "configuration": _file("config.json", b'{"model": "x", "images": [{"a": 1}]}'),
    "classes": _file("classes.txt", b"1 dog\n2 cat\n3 bird\n"),
    "nothing": _file("notes.txt", b""),
    "paper": _file("paper.pdf", b"%PDF-1.4"),
    "of a system": _file("Thumbs.db", b"\0" * 10),
    "digests": _lines("md5sums.txt", "{number:032x}  {image.path}\n"),
    "addresses": _lines("urls.txt", "https://example.org/{image.name}\n"),
    "labels": _lines("class_labels.csv", "{image.name},{number}\n"),
    "scores": _scores,
    "thumbnails": _each(lambda number: picture(900 + number), "@eaDir"),
    "masks": _each(lambda number: picture(900 + number), "masks", ".gif"),
    "smaller ones": _each(lambda number: picture(800 + number), "resized_224"),
    "boxes": _each(lambda number: b"<annotation/>", "xml", ".xml"),
}
OFTEN = 0.1  # how often each is there


def add_others(layout: Layout) -> None:
    """Write some of these."""
    there = [name for name in OTHERS if layout.draw.random() < OFTEN]
    layout.chosen["others"] = there
    for name in there:
        OTHERS[name](layout)
