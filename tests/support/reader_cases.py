"""What the tests of readers share: options, small images, and reading a folder to the end."""

from pathlib import Path

from PIL import Image

from pipeline.readers.params import CorpusConfig, ShapesConfig
from pipeline.readers.read import read_corpus
from pipeline.readers.source import Options

CORPUS = {
    "annotations": None,
    "images": None,
    "restval": "train",
    "split_files": None,
    "val_images": 1,
    "test_images": 1,
    "skip_bad_images": False,
    "max_megapixels": 1.0,
}
SHAPES = {
    "seed": 0,
    "train": 6,
    "val": 3,
    "test": 3,
    "image_size": 64,
    "captions_per_image": 3,
    "near_duplicates": 0.5,
    "objects": None,
    "clutter": 0,
    "relations": "pairs",
    "synonyms": False,
    "misspelt": 0.0,
}


def options(seed=0, workers=1, **changed):
    """Options with single keys changed, whichever section they are of."""
    corpus = CORPUS | {key: value for key, value in changed.items() if key in CORPUS}
    shapes = SHAPES | {"seed": seed}
    shapes |= {key: value for key, value in changed.items() if key in SHAPES}
    assert changed.keys() <= CORPUS.keys() | SHAPES.keys()
    return Options(seed, CorpusConfig(**corpus), ShapesConfig(**shapes), workers)


def save_images(folder: Path, *names: str) -> None:
    for n, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + n, 6), (n, 100, 200)).save(path)


def read_all(dataset, raw, seed=0, **changed):
    """The checked corpus of a folder; rendered files go beside it."""
    return read_corpus(dataset, raw, raw.parent / "out", options(seed, **changed))
