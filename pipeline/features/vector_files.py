"""Where vectors come from: one file with ids, Karpathy's .mat, an array for each image, VSE++'s
folder or clip-retrieval's.

Each opener checks all that shows before values are read, and says which row of the corpus every row
of its vectors is.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.corpus.dataset.cells import IMAGE_COLUMNS, first_of, plain_name
from pipeline.features.arrays.file import Array, ArrayFile, Block, concatenated
from pipeline.features.arrays.formats import SAVE, open_arrays, saving
from pipeline.features.arrays.helpers import check_only_matrix
from pipeline.features.arrays.ids import Ids, file_beside, read_ids
from pipeline.features.arrays.mat import only_matrix, upright
from pipeline.features.arrays.npy import read_npy
from pipeline.features.arrays.per_image import (
    ImageArrays,
    images_of_folder,
    images_of_hdf5,
    is_folder_of_images,
)
from pipeline.features.imports import Wanted
from pipeline.features.matching.agreement import MOST_ARRAYS, check_names_agree
from pipeline.features.matching.annotations import folders_near, karpathy_order
from pipeline.features.matching.clip_retrieval import CAPTIONS, IMAGES, Parts, open_parts
from pipeline.features.matching.images import ImageMatcher
from pipeline.features.matching.precomp import ARRAYS, Place, PrecompFolder, is_precomp
from pipeline.features.matching.repeats import (
    equal_to_previous,
    first_difference,
    first_rows_of_ids,
)
from pipeline.features.matching.rows import corpus_rows
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import say
from pipeline.runtime.section import EmbeddingFileConfig

MAX_DIM = 1 << 16  # width of a vector
MAX_ROWS = 1 << 25  # of a file; more is taken for damage
DEFAULT_NAME = "features"  # the arrays that are read unless others are named
DEFAULT_IDS = "ids"
MAT = ".mat"
NUMBERS_OR_ADDRESSES = ("image_id", "image_url", "url")
# What people call an array of ids, the best first; beside it may be captions or labels.
IDS_OF_IMAGES = (
    *(name for name in IMAGE_COLUMNS if name not in NUMBERS_OR_ADDRESSES),
    *("filenames", "file_names", "paths", "names", "image_id", "image_ids"),
)
IDS_OF_CAPTIONS = ("caption_id", "caption_ids", "sentid", "sentids", "text_id", "text_ids")
NAME_ARRAYS = "name the arrays of ids and vectors under `file` in params.yaml"
NAME_IDS = (
    "name the array that is right as `file.ids` in params.yaml; numbers that count the rows are no "
    "ids"
)
ONLY_MATRIX = (
    "if it is, name it as `file.features` in params.yaml; if not, save vectors (N, D) under a name "
    "of their own and name that"
)
OF_CAPTIONS = (
    "ids are compared letter by letter with caption_id of the corpus; other_ids: skip leaves out "
    "rows that it does not have"
)
FOLDERS = (
    "read are VSE++'s folder with train_ims.npy, dev_ims.npy and test_ims.npy, clip-retrieval's "
    "with img_emb, text_emb and metadata, and for images a folder with X.npy for each X.jpg, "
    "also in folders as the images have them"
)


@dataclass(frozen=True)
class Source:
    """Vectors of floats, and which row of the corpus each is."""

    path: Path
    kind: str  # what the vectors were imported from
    vectors: Array  # (N, D)
    places: npt.NDArray[np.int64]  # (N,) rows of the corpus, -1 for none
    files: list[Path]  # whose digest tells the vectors
    ids: Path | None = None  # a list of ids beside the file
    explained: str | None = None  # digest of the annotations that explained the ids


def open_source(settings: EmbeddingFileConfig, wanted: Wanted) -> Source:
    """The vectors that the settings name, matched with the corpus.

    Args:
        settings: where they lie.
        wanted: images or captions.

    Returns:
        The vectors, whose values are read later.

    Raises:
        WorkbenchError: for all that shows before values are read.
    """
    path = Path(settings.path or "")
    skip = settings.other_ids == "skip"
    parts = open_parts(path, IMAGES if wanted.are_images else CAPTIONS)
    if parts is not None:
        return _of_parts(parts, wanted, skip)
    if path.is_dir() and wanted.are_images and is_precomp(path):
        return _of_precomp(path, wanted, skip)
    if wanted.are_images and is_folder_of_images(path):
        return _of_images(path, images_of_folder(path), wanted, skip)
    if path.is_dir():
        inside = listing(sorted(one.name for one in path.iterdir())) or "nothing"
        raise WorkbenchError(f"{path}: a folder with {inside}", FOLDERS)
    return _of_file(settings, wanted, skip)


def _of_images(path: Path, images: list[ImageArrays], wanted: Wanted, skip: bool) -> Source:
    """Vectors (D,) or (1, D) in arrays of their own for each image."""
    for image in images:
        if not _is_vector(image.features):
            raise WorkbenchError(
                f"{image.features.place}: shape {image.features.shape}; expected is a vector (D,)",
                f"regions are read with regions.source and regions.path: {path}",
            )
    vectors = concatenated(str(path), [_as_row(image.features) for image in images])
    _check(vectors)
    matcher = ImageMatcher(wanted.ids, folders_near(path))
    ids = [image.name for image in images]
    names = matcher.named(ids, str(path))
    hint = matcher.hint(ids, wanted.setting)
    return Source(
        path=path,
        kind="arrays of each image",
        vectors=vectors,
        places=_places(str(path), names, vectors, wanted, skip, hint),
        files=list(dict.fromkeys(image.path for image in images)),
        explained=matcher.source_digest,
    )


def _is_vector(array: Array) -> bool:
    return len(array.shape) == 1 or (len(array.shape) == 2 and array.shape[0] == 1)


def _as_row(array: Array) -> Array:
    """A vector as the one row of a matrix (1, D)."""
    width = array.shape[-1]

    def read(rows: int) -> Iterator[Block]:
        yield np.concatenate(list(array.read(rows))).reshape(1, width)

    return Array(array.place, (1, width), array.dtype, read)


def _of_file(settings: EmbeddingFileConfig, wanted: Wanted, skip: bool) -> Source:
    path = Path(settings.path or "")
    file = open_arrays(path)
    has_many = path.suffix in (".h5", ".hdf5") and file.get(settings.features) is None
    if wanted.are_images and has_many and settings.features == DEFAULT_NAME:
        images = images_of_hdf5(path)
        if all(_is_vector(image.features) for image in images):
            return _of_images(path, images, wanted, skip)
    if path.suffix == MAT:
        matrix = only_matrix(file) or settings.features
        ids_in = settings.ids
        if matrix != settings.features:
            arrays = {name: file.array(name) for name in file.names}
            check_only_matrix(path, matrix, arrays, ONLY_MATRIX)
    else:
        matrix, ids_in = _named_otherwise(file, settings, wanted)
    hint = _hint(file) if file.get(matrix) is None else ""
    vectors = file.array(matrix, hint)
    if path.suffix != MAT:
        _check(vectors)
    ids = read_ids(file, ids_in)
    explained = None
    if ids is None and path.suffix == MAT and wanted.are_images:
        order = _karpathy_order(path, vectors)
        explained = sha256_file(order[0])
        ids = Ids(order[1], None)
    if ids is None:
        raise _no_ids(path, settings.ids)
    where = str(ids.path or path)
    if path.suffix == MAT:
        vectors = upright(vectors, len(ids.names))
    if len(ids.names) != vectors.shape[0]:
        raise WorkbenchError(f"{where}: {len(ids.names):,} ids for {vectors.shape[0]:,} vectors")
    _check(vectors)
    names = ids.names
    hint = OF_CAPTIONS
    if wanted.are_images:
        matcher = ImageMatcher(wanted.ids, folders_near(path))
        names = matcher.named(names, where)
        hint = matcher.hint(ids.names, wanted.setting)
        explained = explained or matcher.source_digest
    if settings.ids == DEFAULT_IDS:  # else somebody has named them
        check_names_agree(file, "" if ids.path else ids_in, names, wanted, NAME_IDS)
    return Source(
        path=path,
        kind=path.suffix.removeprefix("."),
        vectors=vectors,
        places=_places(where, names, vectors, wanted, skip, hint),
        files=[path],
        ids=ids.path,
        explained=explained,
    )


def _named_otherwise(
    file: ArrayFile, settings: EmbeddingFileConfig, wanted: Wanted
) -> tuple[str, str]:
    """The names of the arrays of vectors and of ids: those of the settings or, where nobody has
    named any, the only matrix of floats, and of as many rows an array that is called as ids of
    images or captions are, or the only texts."""
    features = settings.features
    ids = settings.ids
    if len(file.names) > MOST_ARRAYS or list(file.names) == [""]:
        return features, ids
    seen = {name: _seen(file, name) for name in file.names}
    arrays = {name: array for name, array in seen.items() if array is not None}
    remarks = []
    if features == DEFAULT_NAME and features not in seen:
        matrices = [name for name, own in arrays.items() if _is_matrix(own)]
        if len(matrices) == 1:
            features = matrices[0]
            check_only_matrix(file.path, features, arrays, ONLY_MATRIX)
            remarks.append(f"vectors are read from {features}, its only matrix of floats")
    rows = arrays[features].shape[:1] if features in arrays else None
    if ids == DEFAULT_IDS and ids not in seen and file_beside(file.path) is None:
        kinds = {name: own.dtype.kind for name, own in arrays.items() if own.shape == rows}
        texts = [name for name, kind in kinds.items() if kind in "USO"]
        called = {plain_name(name): name for name, kind in kinds.items() if kind in "USOiu"}
        said = first_of(called, IDS_OF_IMAGES if wanted.are_images else IDS_OF_CAPTIONS)
        if said is not None:
            ids = called[said]
            remarks.append(f"ids are read from {ids}")
        elif len(texts) == 1:
            ids = texts[0]
            remarks.append(f"ids are read from {ids}, its only texts")
        else:
            return settings.features, ids  # a matrix without ids may be anything
    for remark in remarks:
        say(f"{file.path}: {remark}")
    return features, ids


def _seen(file: ArrayFile, name: str) -> Array | None:
    """An array of a file, None for one that cannot be read: who asks for it by its name is told
    why."""
    try:
        return file.get(name)
    except WorkbenchError:
        return None


def _is_matrix(array: Array) -> bool:
    return len(array.shape) == 2 and array.dtype.kind == "f" and array.shape[1] > 1


def _hint(file: ArrayFile) -> str:
    """What to do about a file without the array of vectors."""
    key = file.path.suffix.removeprefix(".")
    if key in SAVE and len(file.names) > 2:
        arrays = [_seen(file, name) for name in file.names[:MOST_ARRAYS]]
        if all(array is not None and _is_vector(array) for array in arrays):
            return saving(file.path, key)
    return NAME_ARRAYS


def _places(
    where: str, names: Sequence[str], vectors: Array, wanted: Wanted, skip: bool, hint: str
) -> npt.NDArray[np.int64]:
    """(N,) the row of the corpus of each vector; -1 for others and for repeated rows."""
    firsts = first_rows_of_ids(names, vectors, where)
    once = list(compress(names, firsts))
    places = np.full(len(names), -1, np.int64)
    places[firsts] = corpus_rows(where, once, wanted.ids, skip, hint)
    return places


def _karpathy_order(path: Path, vectors: Array) -> tuple[Path, list[str]]:
    order = karpathy_order(path, vectors.shape)
    if order is None:
        raise WorkbenchError(
            f"{path}: shape {vectors.shape}, no ids, and near it no dataset.json or dataset_*.json "
            "with as many images",
            f"copy Karpathy's dataset.json of these images into {path.parent}, or write "
            f"{path.stem}.ids.txt there: the image_id of each vector, one a line",
        )
    say(f"{path}: its vectors are those of the images of {order[0]}, in its order")
    return order


def _no_ids(path: Path, name: str) -> WorkbenchError:
    if is_precomp(path.parent) and path.name.endswith(ARRAYS):
        return WorkbenchError(
            f"{path}: no ids; it is one array of VSE++'s folder",
            f"name the folder: {path.parent}",
        )
    inside = "" if path.suffix in (".npy", MAT) else f"into an array {name} of the file, or "
    return WorkbenchError(
        f"{path}: no ids",
        f"put them {inside}beside it into one of {path.stem}.ids.txt, {path.stem}.ids.json, "
        f"{path.stem}.ids.npy",
    )


def _of_parts(parts: Parts, wanted: Wanted, skip: bool) -> Source:
    _check(parts.vectors)
    if wanted.are_images:
        matcher = ImageMatcher(wanted.ids)
        names = parts.image_ids(matcher)
        hint = matcher.hint(names, wanted.setting)
    else:
        matcher = ImageMatcher(wanted.table["image_id"].unique().tolist())
        names = parts.caption_ids(matcher, wanted.table)
        hint = f"{wanted.setting} = skip leaves out rows that the corpus does not have"
    if parts.others:
        hint = f"name {parts.path.parent} to read all parts"
    return Source(
        path=parts.path,
        kind="clip-retrieval",
        vectors=parts.vectors,
        places=_places(str(parts.path), names, parts.vectors, wanted, skip, hint),
        files=parts.files,
    )


def _of_precomp(path: Path, wanted: Wanted, skip: bool) -> Source:
    folder = PrecompFolder(path, wanted.table, wanted.captions, skip, wanted.setting)
    found = folder.places(2)
    files = list(dict.fromkeys(place.path for place in found))
    arrays = [read_npy(file).array("") for file in files]
    for file, array in zip(files, arrays, strict=True):
        _check_repeats(file, array, [place for place in found if place.path == file])
    starts = np.cumsum([0, *(array.shape[0] for array in arrays)])
    rows = [starts[files.index(place.path)] + place.rows.start for place in found]
    places = np.full(starts[-1], -1, np.int64)
    places[rows] = np.arange(len(rows))
    vectors = concatenated(str(path), arrays)
    _check(vectors)
    shown = "".join(f"{name}\0{row}\n" for name, row in zip(wanted.ids, rows, strict=True))
    explained = hashlib.sha256(shown.encode()).hexdigest()
    return Source(path, "VSE++'s folder", vectors, places, files, explained=explained)


def _check_repeats(path: Path, array: Array, places: Sequence[Place]) -> None:
    """Raise WorkbenchError where the rows of an image are not all equal."""
    if all(len(place.rows) == 1 for place in places):
        return
    repeats = np.zeros(array.shape[0], bool)
    for place in places:
        repeats[place.rows[1:]] = True
    row = first_difference(equal_to_previous(array), ~repeats)
    if row is not None:
        raise WorkbenchError(
            f"{path}: rows {row - 1:,} and {row:,} (from 0) differ, but should both show one image",
            "the array repeats each image for each of its captions: write one row an image, or "
            "copy the file again",
        )


def _check(vectors: Array) -> None:
    vectors.check_floats()
    shape = vectors.shape
    if len(shape) != 2 or not 0 < shape[0] <= MAX_ROWS or not 0 < shape[1] <= MAX_DIM:
        raise WorkbenchError(
            f"{vectors.place}: shape {shape}; expected are vectors (N, D), N at most "
            f"{MAX_ROWS:,} and D at most {MAX_DIM:,}"
        )
