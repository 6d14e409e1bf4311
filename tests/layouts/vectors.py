"""Files of vectors of images as people save them, drawn; and whether each is read as meant."""

import json
import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

from pipeline.features.imports import Wanted
from pipeline.features.vector_files import open_source
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import EmbeddingFileConfig
from tests.layouts.judge import REFUSED, WHOLE
from tests.layouts.world import ENDINGS, KINDS, NAMES, Choices

DIM = 5
TYPES = ("float32", "float32", "float16", "float64")
FOLDERS = ("", "images/", "images/{split}/", "{kind}/", "{split}/")
ARRAYS = (
    ("ids", "features"),
    ("image_ids", "embeddings"),
    ("names", "feats"),
    ("filenames", "vectors"),
)


def _number(image_id: str) -> str:
    """The number that an image is called by, its name where it is called otherwise."""
    stem = Path(image_id).stem
    return str(int(stem)) if stem.isdecimal() else stem


# How the rows name the images of the corpus.
WAYS: dict[str, Callable[[str], str]] = {
    "image_id": lambda image_id: image_id,
    "name": lambda image_id: Path(image_id).name,
    "stem": lambda image_id: Path(image_id).stem,
    "path elsewhere": lambda image_id: f"/home/me/{image_id}",
    "path in Windows": lambda image_id: f"C:\\photos\\{image_id}".replace("/", "\\"),
    "another ending": lambda image_id: f"{Path(image_id).stem}.npy",
    "number": _number,
    "small letters": lambda image_id: image_id.lower(),
    "relative path": lambda image_id: f"./{image_id}",
    "address": lambda image_id: f"https://example.org/{image_id}",
    "folder of copies": lambda image_id: f"resized/{Path(image_id).name}",
}


@dataclass
class Vectors(Choices):
    """What is written of some images.

    ids: of the corpus, in its order. expected: (N, D) the vector of each. names, rows: of the file,
    (M,) and (M, D), in its order. are_all: whether every image has a row.
    """

    folder: Path
    ids: list[str] = field(default_factory=list)
    expected: npt.NDArray[Any] = field(default_factory=lambda: np.empty((0, DIM)))
    names: list[str] = field(default_factory=list)
    rows: npt.NDArray[Any] = field(default_factory=lambda: np.empty((0, DIM)))
    are_all: bool = True


def drawn_vectors(draw: random.Random, folder: Path) -> Vectors:
    """Images of a corpus and the rows of a file, not written yet.

    Args:
        draw: What everything is drawn from.
        folder: Where the file will lie.
    """
    drawn = Vectors(draw, folder)
    style = NAMES[drawn.choose("names", list(NAMES))]
    ending = drawn.choose("ending", ENDINGS)
    inside = drawn.choose("folder", FOLDERS)
    for number in range(draw.randint(6, 14)):
        at = inside.format(split=("train", "val", "test")[number % 3], kind=KINDS[number % 3])
        name = style.format(number=number, place=37 * number + 5, noise=draw.getrandbits(32))
        drawn.ids.append(f"{at}{name}{ending}")
    draw.shuffle(drawn.ids)
    generator = np.random.default_rng(draw.getrandbits(32))
    count = len(drawn.ids)
    drawn.expected = generator.normal(size=(count, DIM)).astype(drawn.choose("type", TYPES))

    order = list(range(count))
    if drawn.choose("order", ("the corpus's", "another")) == "another":
        draw.shuffle(order)
    missing = drawn.choose("missing", (0, 0, 0, 2))
    drawn.are_all = missing == 0
    way = WAYS[drawn.choose("way", list(WAYS))]
    at = Path(drawn.ids[0]).parent
    rows = [(way(drawn.ids[number]), drawn.expected[number]) for number in order[missing:]]
    for number in range(drawn.choose("others", (0, 0, 3))):
        other = np.full(DIM, 99, drawn.expected.dtype)
        name = way((at / f"zz other {number}{ending}").as_posix())
        rows.insert(draw.randint(0, len(rows)), (name, other))
    each = drawn.choose("rows of each", (1, 1, 1, 1, 5))  # 5: one for each caption
    drawn.names = [name for name, _ in rows for _ in range(each)]
    drawn.rows = np.stack([row for _, row in rows for _ in range(each)])
    return drawn


def _npz(drawn: Vectors) -> Path:
    ids, features = drawn.choose("arrays", ARRAYS)
    arrays = {ids: np.array(drawn.names), features: drawn.rows}
    if drawn.choose("more arrays", (False, True)):
        arrays["labels"] = np.arange(len(drawn.names))
    np.savez(drawn.folder / "clip.npz", **arrays)
    return drawn.folder / "clip.npz"


def _npy(drawn: Vectors) -> Path:
    path = drawn.folder / "clip.npy"
    rows = drawn.rows
    if drawn.choose("order in memory", ("C", "Fortran")) == "Fortran":
        rows = np.asfortranarray(rows)
    np.save(path, rows)
    _ids_beside(drawn)
    return path


def _ids_beside(drawn: Vectors) -> None:
    form = drawn.choose("ids beside", ("txt", "json", "npy"))
    if form == "txt":
        end = drawn.choose("ends of lines", ("\n", "\r\n"))
        encoding = drawn.choose("encoding", ("utf-8", "utf-8", "utf-8-sig"))
        text = "".join(f"{name}{end}" for name in drawn.names)
        (drawn.folder / "clip.ids.txt").write_bytes(text.encode(encoding))
    elif form == "json":
        (drawn.folder / "clip.ids.json").write_text(json.dumps(drawn.names))
    else:
        np.save(drawn.folder / "clip.ids.npy", np.array(drawn.names))


def _hdf5(drawn: Vectors) -> Path:
    path = drawn.folder / "clip.h5"
    ids, features = drawn.choose("arrays", ARRAYS)
    with h5py.File(path, "w") as file:
        file.create_dataset(ids, data=drawn.names, dtype=h5py.string_dtype())
        file[features] = drawn.rows
        if drawn.choose("more arrays", (False, True)):
            file["boxes"] = np.zeros((len(drawn.names), 2, 4), np.float32)
    return path


def _parquet(drawn: Vectors) -> Path:
    path = drawn.folder / "clip.parquet"
    ids, features = drawn.choose("arrays", ARRAYS)
    columns = {ids: drawn.names, features: list(drawn.rows)}
    if drawn.choose("more arrays", (False, True)):
        columns["caption"] = ["a dog"] * len(drawn.names)
    pq.write_table(pa.table(columns), path, row_group_size=drawn.choose("rows a group", (3, 100)))
    return path


def _safetensors(drawn: Vectors) -> Path:
    path = drawn.folder / "clip.safetensors"
    save_file({drawn.choose("arrays", ARRAYS)[1]: drawn.rows}, path)
    _ids_beside(drawn)
    return path


def _hdf5_of_images(drawn: Vectors) -> Path:
    path = drawn.folder / "clip.h5"
    with h5py.File(path, "w") as file:
        for name, row in zip(drawn.names, drawn.rows, strict=True):
            file[name.replace("://", "/")] = row
    return path


def _folder_of_images(drawn: Vectors) -> Path:
    for name, row in zip(drawn.names, drawn.rows, strict=True):
        path = drawn.folder / "clip" / f"{name.replace('://', '/').lstrip('/')}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, row)
    return drawn.folder / "clip"


ONE_FILE = {
    "npz": _npz,
    "npy": _npy,
    "HDF5": _hdf5,
    "parquet": _parquet,
    "safetensors": _safetensors,
}
FORMS = ONE_FILE | {
    "HDF5 of images": _hdf5_of_images,  # an array for each
    "folder of images": _folder_of_images,
}


def play_vectors(draw: random.Random, folder: Path) -> tuple[str, Vectors]:
    """Write a file of vectors, and match it with the corpus as a stage does.

    Args:
        draw: What everything is drawn from.
        folder: Scratch, which is emptied before.

    Returns:
        WHOLE, REFUSED, or what is wrong with what was read; and the vectors.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    drawn = drawn_vectors(draw, folder)
    forms = FORMS if drawn.chosen["rows of each"] == 1 else ONE_FILE
    path = forms[drawn.choose("form", list(forms))](drawn)
    settings = EmbeddingFileConfig(
        path=str(path), other_ids="skip" if drawn.chosen["others"] else "error"
    )
    wanted = Wanted(pd.DataFrame({"image_id": drawn.ids}), "image_id", "file.other_ids")
    try:
        with redirect_stderr(StringIO()):
            source = open_source(settings, wanted)
            values = np.concatenate(list(source.vectors.blocks()))
    except WorkbenchError as error:
        drawn.chosen["refused"] = str(error)
        return REFUSED, drawn
    return fault_of_vectors(drawn, source.places, values) or WHOLE, drawn


def fault_of_vectors(
    drawn: Vectors, places: npt.NDArray[np.int64], values: npt.NDArray[Any]
) -> str:
    """What is wrong with the vectors that images were given, empty if nothing is.

    Args:
        drawn: What was written.
        places: (M,) the row of the corpus of each row of the file, -1 for none.
        values: (M, D) the vectors.
    """
    given = {place: row for place, row in zip(places.tolist(), values, strict=True) if place >= 0}
    without = [name for number, name in enumerate(drawn.ids) if number not in given]
    if without:
        return f"no vector, and not refused: {', '.join(without)}"
    if not drawn.are_all:
        return "an image without a row has the vector of another"
    wrong = [
        name
        for number, name in enumerate(drawn.ids)
        if not np.array_equal(given[number], drawn.expected[number])
    ]
    return f"the vector of another image: {', '.join(wrong)}" if wrong else ""
