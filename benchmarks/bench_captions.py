"""Reading the captions of a folder, against a plain script with pandas, json or pyarrow.

The script reads the same files with the library's own call, looks whether every image is there,
numbers the captions and draws splits; where images are inside the files, it writes them. It finds
no layout, no equal photographs and no fault of a file.
"""

import io
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tarfile import TarFile, TarInfo
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import Row, new_folder, paired_ratio, size
from pipeline.corpus.dataset import READERS
from pipeline.corpus.dataset.source import Options
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.process import uncollected
from stages.params import load_params

IMAGES = size(20_000, 20)
EACH = 5
RUNS = size(5, 1)
WORDS = (
    "a",
    "red",
    "kite",
    "dog",
    "runs",
    "over",
    "the",
    "green",
    "hill",
    "two",
    "children",
    "near",
)

_runs = count()  # images out of shards go to a new folder each time
Captions = dict[str, list[str]]  # image to its captions
Table = pd.DataFrame  # columns image and text


class Layout(NamedTuple):
    """A layout of folders: how it is written, and how a plain script reads its captions."""

    name: str
    write: Callable[[Path, Captions], None]
    read: Callable[[Path], Table]


def rows() -> Iterator[Row]:
    generator = random.Random(0)
    captions = {f"{number:06}.jpg": _texts(generator) for number in range(IMAGES)}
    options = Options(
        0,
        CorpusConfig(val_images=0.05, test_images=0.05),
        load_params().shapes,  # which no layout here asks for
    )
    for layout in LAYOUTS:
        with new_folder() as folder:
            raw = folder / "raw"
            raw.mkdir()
            layout.write(raw, captions)
            pair = paired_ratio(
                partial(_auto, raw, folder, options),
                partial(_script, raw, layout.read),
                runs=RUNS,
            )
            yield Row(
                f"`dataset: auto`, {EACH * IMAGES:,} captions of {IMAGES:,} images, {layout.name}",
                pair.of("a plain script"),
                "< 2x",
                pair.processor,
            )


def _auto(raw: Path, folder: Path, options: Options) -> None:
    with uncollected():
        source = READERS.load("auto")(raw, folder / f"out{next(_runs)}", options)
    if len(source.captions) != EACH * IMAGES:
        raise ValueError(f"{len(source.captions)} captions were read")


def _script(raw: Path, read: Callable[[Path], Table]) -> None:
    captions = read(raw)
    images = captions["image"].unique()
    root = raw / "images"
    if root.is_dir():
        missing = [name for name in images if not os.path.isfile(f"{root}/{name}")]
        if missing:
            raise ValueError(f"images that are not there: {missing[:3]}")
    places = captions.groupby("image", sort=False).cumcount()
    captions["caption_id"] = captions["image"] + "#" + places.astype(str)
    order = sorted(images)
    random.Random(0).shuffle(order)
    splits = dict.fromkeys(order, "train") | dict.fromkeys(order[: IMAGES // 20], "val")
    table = pd.DataFrame({"image": images, "split": [splits[image] for image in images]})
    if len(table) != IMAGES or len(captions) != EACH * IMAGES:
        raise ValueError("the script has read something else")


def _texts(generator: random.Random) -> list[str]:
    lengths = [generator.randint(6, 16) for _ in range(EACH)]
    return [" ".join(generator.choices(WORDS, k=length)).capitalize() + "." for length in lengths]


def _image(name: str) -> bytes:
    """A file of 3 to 6 kB that no other equals; only the checks that come later decode it."""
    generator = random.Random(name)
    return generator.randbytes(generator.randint(3_000, 6_000))


def _write_images(raw: Path, captions: Captions) -> None:
    """Files of 20 to 200 kB, with holes: some 2,000 of them are as large as another."""
    generator = random.Random(1)
    (raw / "images").mkdir()
    for name in captions:
        with (raw / "images" / name).open("wb") as file:
            file.seek(generator.randint(20_000, 200_000))
            file.write(generator.randbytes(4_096))


def _pairs(captions: Captions) -> Iterator[tuple[str, str]]:
    for image, texts in captions.items():
        for text in texts:
            yield image, text


def _write_table(name: str, quotes: bool, raw: Path, captions: Captions) -> None:
    _write_images(raw, captions)
    table = pd.DataFrame(_pairs(captions), columns=["image", "caption"])
    if quotes:
        table["caption"] = table["caption"].str.replace(" ", ", ", n=1)
    table.to_csv(raw / name, index=False)


def _read_table(name: str, raw: Path) -> Table:
    return pd.read_csv(raw / name).rename(columns={"caption": "text"})


def _write_token(raw: Path, captions: Captions) -> None:
    _write_images(raw, captions)
    with (raw / "Flickr8k.token.txt").open("w") as file:
        for image, texts in captions.items():
            file.writelines(f"{image}#{place}\t{text}\n" for place, text in enumerate(texts))


def _read_token(raw: Path) -> Table:
    table = pd.read_csv(
        raw / "Flickr8k.token.txt", sep="\t", header=None, names=["image", "text"], quoting=3
    )
    return table.assign(image=table["image"].str.rsplit("#", n=1).str[0])


def _write_json(
    name: str, make: Callable[[Captions], object], raw: Path, captions: Captions
) -> None:
    _write_images(raw, captions)
    (raw / name).write_text(json.dumps(make(captions)))


def _read_json(name: str, cut: Callable[[Any], list[tuple[str, str]]], raw: Path) -> Table:
    with (raw / name).open() as file:
        value = json.load(file)
    return pd.DataFrame(cut(value), columns=["image", "text"])


def _karpathy(captions: Captions) -> object:
    return {
        "dataset": "mine",
        "images": [
            {
                "filename": image,
                "imgid": number,
                "split": "test" if number % 20 == 0 else "val" if number % 20 == 1 else "train",
                "sentids": [EACH * number + place for place in range(EACH)],
                "sentences": [
                    {
                        "raw": text,
                        "tokens": text.lower().rstrip(".").split(),
                        "imgid": number,
                        "sentid": EACH * number + place,
                    }
                    for place, text in enumerate(texts)
                ],
            }
            for number, (image, texts) in enumerate(captions.items())
        ],
    }


def _coco(captions: Captions) -> object:
    names = list(captions)
    return {
        "images": [{"id": number, "file_name": name} for number, name in enumerate(names)],
        "annotations": [
            {"id": EACH * number + place, "image_id": number, "caption": text}
            for number, name in enumerate(names)
            for place, text in enumerate(captions[name])
        ],
    }


def _of_coco(value: Any) -> list[tuple[str, str]]:
    names = {image["id"]: image["file_name"] for image in value["images"]}
    return [(names[own["image_id"]], own["caption"]) for own in value["annotations"]]


def _write_beside(raw: Path, captions: Captions) -> None:
    _write_images(raw, captions)
    for image, texts in captions.items():
        (raw / "images" / image).with_suffix(".txt").write_text("\n".join(texts))


def _read_beside(raw: Path) -> Table:
    files = sorted((raw / "images").glob("*.txt"))
    found = [
        (path.with_suffix(".jpg").name, text)
        for path in files
        for text in path.read_text().splitlines()
    ]
    return pd.DataFrame(found, columns=["image", "text"])


def _write_lists(raw: Path, captions: Captions) -> None:
    _write_images(raw, captions)
    pairs = list(_pairs(captions))
    (raw / "train_images.txt").write_text("\n".join(image for image, _ in pairs))
    (raw / "train.en").write_text("\n".join(text for _, text in pairs))


def _read_lists(raw: Path) -> Table:
    images = (raw / "train_images.txt").read_text().split("\n")
    return pd.DataFrame({"image": images, "text": (raw / "train.en").read_text().split("\n")})


def _write_parquet(raw: Path, captions: Captions) -> None:
    rows = [
        {"image": {"bytes": _image(image), "path": image}, "caption": texts}
        for image, texts in captions.items()
    ]
    pq.write_table(pa.Table.from_pylist(rows), raw / "train-00000-of-00001.parquet")


def _read_parquet(raw: Path) -> Table:
    rows = pq.read_table(raw / "train-00000-of-00001.parquet").to_pylist()
    images = ((row["image"]["path"], row["image"]["bytes"]) for row in rows)
    _write_files(raw.parent / f"script{next(_runs)}", images)
    pairs = [(row["image"]["path"], text) for row in rows for text in row["caption"]]
    return pd.DataFrame(pairs, columns=["image", "text"])


def _write_tar(raw: Path, captions: Captions) -> None:
    with TarFile.open(raw / "00000.tar", "w") as archive:
        for image, texts in captions.items():
            members = {image: _image(image), f"{image[:-4]}.txt": "\n".join(texts).encode()}
            for name, data in members.items():
                header = TarInfo(name)
                header.size = len(data)
                archive.addfile(header, io.BytesIO(data))


def _read_tar(raw: Path) -> Table:
    pairs = []
    images = raw.parent / f"script{next(_runs)}"
    with TarFile.open(raw / "00000.tar") as archive:
        members = ((own.name, archive.extractfile(own).read()) for own in archive)
        for name, data in members:
            if name.endswith(".txt"):
                pairs += [(f"{name[:-4]}.jpg", text) for text in data.decode().split("\n")]
            else:
                _write_files(images, [(name, data)])
    return pd.DataFrame(pairs, columns=["image", "text"])


def _write_files(folder: Path, images: Iterable[tuple[str, bytes]]) -> None:
    folder.mkdir(exist_ok=True)
    for name, data in images:
        (folder / name).write_bytes(data)


def _table(name: str, file: str, quotes: bool = False) -> Layout:
    return Layout(name, partial(_write_table, file, quotes), partial(_read_table, file))


def _json(
    name: str,
    file: str,
    make: Callable[[Captions], object],
    cut: Callable[[Any], list[tuple[str, str]]],
) -> Layout:
    return Layout(name, partial(_write_json, file, make), partial(_read_json, file, cut))


LAYOUTS = (
    _table("a table, pandas", "captions.txt"),
    _table("a table with quotes, pandas", "captions.csv", quotes=True),
    Layout("Flickr8k.token.txt, pandas", _write_token, _read_token),
    _table("metadata.csv in the folder of images, pandas", "images/metadata.csv"),
    _json(
        "Karpathy's JSON, json",
        "dataset_mine.json",
        _karpathy,
        lambda value: [
            (image["filename"], own["raw"])
            for image in value["images"]
            for own in image["sentences"]
        ],
    ),
    _json("MS-COCO's JSON, json", "captions_train2017.json", _coco, _of_coco),
    _json(
        "JSON, a record for each image, json",
        "mine.json",
        lambda captions: [{"image": own, "caption": texts} for own, texts in captions.items()],
        lambda value: [(own["image"], text) for own in value for text in own["caption"]],
    ),
    _json(
        "JSON, a record for each caption, json",
        "mine.json",
        lambda captions: [{"image": own, "caption": text} for own, text in _pairs(captions)],
        lambda value: [(own["image"], own["caption"]) for own in value],
    ),
    Layout("a list of images and one of captions", _write_lists, _read_lists),
    Layout("a text beside each image", _write_beside, _read_beside),
    Layout("parquet with images, pyarrow", _write_parquet, _read_parquet),
    Layout("a tar with images, tarfile", _write_tar, _read_tar),
)
