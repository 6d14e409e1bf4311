"""What the files of a folder hold, through the readers of this version, in a form that JSON keeps.

The folder is a small run: its files lie where `dvc repro` puts them.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.corpus.tables import load_captions, load_images
from pipeline.corpus.vocabulary import Vocabulary, load_word_vectors
from pipeline.evaluation.comparison import read_metrics
from pipeline.evaluation.rank_file import read_findings, read_query_ranks, read_ranks
from pipeline.evaluation.score_file import read_scores
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.feature_file import FeatureFile
from pipeline.report.curve_files import read_curve
from pipeline.runtime.yaml_text import read_yaml
from pipeline.search.built import BuiltIndexes
from pipeline.search.index import read_index
from stages.params import load_params
from tests.support.clone import ROOT
from vse_workbench import Embedder

MODEL = "vse"
TEXT = "a large red square"
CHECKPOINT = Path(f"data/checkpoints/{MODEL}.safetensors")
SCORES = Path(f"data/scores/{MODEL}.h5")
RANKS = Path(f"data/ranks/{MODEL}.h5")


def seen(values: Any) -> Any:
    """An array as its type, shape, digest and first numbers; all else as JSON has it."""
    if isinstance(values, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
        return [values.dtype.str, list(values.shape), digest, values.ravel()[:4].tolist()]
    if isinstance(values, Mapping):
        return {str(name): seen(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [seen(value) for value in values]
    return values


def features(path: str) -> Any:
    file = FeatureFile(Path(path))
    arrays = {name: file.load(name) for name in sorted(file.layouts) if name != "ids"}
    return {"ids": file.ids, "arrays": arrays, "attributes": dict(file.attributes)}


def corpus() -> Any:
    images = load_images(Path("data/corpus/images.parquet")).to_dict("list")
    captions = load_captions(Path("data/corpus/captions.parquet")).to_dict("list")
    captions["tokens"] = [list(words) for words in captions["tokens"]]
    return {"images": images, "captions": captions}


def vocabulary() -> Any:
    folder = Path("data/vocabulary")
    read = Vocabulary.load(folder)
    vectors = load_word_vectors(folder)
    return {"tokens": read.tokens, "words": read.encode(TEXT.split()), "vectors": vectors}


def checkpoint() -> Any:
    read = read_checkpoint(CHECKPOINT, MODEL)
    weights = {name: value.numpy() for name, value in sorted(read.weights.items())}
    return {"weights": weights, "epoch": read.description.epoch, "sha256": read.sha256}


def scores() -> Any:
    read = read_scores(SCORES, "test")
    return {"scores": np.asarray(read.scores), "captions": list(read.caption_ids)}


def ranks() -> Any:
    record = read_ranks(RANKS)
    queries = read_query_ranks(RANKS, "naive")
    ids = {"images": record.image_ids, "captions": record.caption_ids}
    best = {"i2t": queries.i2t.measured.ranks, "t2i": queries.t2i.measured.ranks}
    return {**ids, **best, "hubs": read_findings(RANKS).hubs}


def index() -> Any:
    weights = read_checkpoint(CHECKPOINT, MODEL).sha256
    exact = read_index(SCORES, "test", "image", weights)
    indexes = BuiltIndexes(Path("data/indexes") / MODEL, SCORES, MODEL, load_params().search)
    near = indexes.attached(exact, "test", "image")
    assert near.nearest is not None
    return near.nearest(exact.embeddings, 2)


def export() -> Any:
    """Rounded, since another processor may add in another order."""
    return np.round(Embedder("exported").captions([TEXT]).astype(float), 4).tolist()


READERS: dict[str, Callable[[], Any]] = {
    "corpus": corpus,
    "features": lambda: features("data/features/image.h5"),
    "regions": lambda: features("data/features/regions.h5"),
    "sentences": lambda: features("data/features/sentences.h5"),
    "vocabulary": vocabulary,
    "checkpoint": checkpoint,
    "scores": scores,
    "ranks": ranks,
    "metrics": lambda: read_metrics(Path(f"metrics/{MODEL}.json")),
    "curve": lambda: vars(read_curve(Path(f"data/curves/{MODEL}.tsv"))),
    "index": index,
    "export": export,
    "params.yaml": lambda: load_params().model_dump(mode="json"),
    "dvc.lock": lambda: read_yaml(Path("dvc.lock")),
}


def laid_out(source: Path, folder: Path) -> None:
    """Copy the files of a version into a new folder, beside the built-in dataset that they name."""
    shutil.copytree(source, folder)
    (folder / "data/raw").mkdir()
    (folder / "data/raw/shapes").symlink_to(ROOT / "data/raw/shapes")


def read(kind: str, folder: Path) -> Any:
    """What the file of a kind holds; WorkbenchError where this version refuses it."""
    with chdir(folder):
        return seen(READERS[kind]())
