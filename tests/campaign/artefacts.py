"""Small files of every kind that the workbench writes: how each is made, and read as stages do."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pipeline.corpus.tables import Corpus, load_captions, load_images
from pipeline.corpus.vocabulary import Vocabulary, content_digest
from pipeline.report.curve_files import read_curve
from pipeline.scores.file import SplitScores, read_scores, write_scores
from pipeline.storage.features import FeatureFile, FeatureWriter, write_features
from pipeline.storage.weights import read_weights, write_weights
from pipeline.training.curve import curve_tsv
from pipeline.training.resume import ResumeFile

NAMES = [f"picture{number}.jpg" for number in range(20)]


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    name: str
    # makes it, and what belongs to it, in a folder; the same bytes every time
    write: Callable[[Path], None]
    read: Callable[[Path], Any]


def values(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "features": generator.normal(size=(20, 30)).astype(np.float16),
        "counts": np.arange(20),
    }


def write_rows(folder: Path, first: int, last: int) -> None:
    """Some rows of a feature file in the making."""
    with opened_writer(folder) as writer:
        rows = np.arange(first, last)
        writer.write(rows, **{name: array[rows] for name, array in values().items()})


def finish_rows(folder: Path) -> bytes:
    """The finished file, whatever rows are missing being written."""
    with opened_writer(folder) as writer:
        rows = writer.missing
        if rows.size:
            writer.write(rows, **{name: array[rows] for name, array in values().items()})
        writer.finish(folder / "finished.h5")
    return (folder / "finished.h5").read_bytes()


def opened_writer(folder: Path) -> FeatureWriter:
    kinds = {name: (array.shape[1:], array.dtype) for name, array in values().items()}
    return FeatureWriter(folder / "work", "key", NAMES, kinds, {"model": "m"})


def _write_features(folder: Path) -> None:
    write_features(folder / "f.h5", NAMES, values(), {"model": "m"})


def _features(folder: Path) -> Any:
    file = FeatureFile(folder / "f.h5")
    return file.ids, file.attributes, *(file.load(name).tolist() for name in values())


def _write_scores(folder: Path) -> None:
    numbers = np.random.default_rng(1).normal(size=(20, 40)).astype(np.float32)
    captions = [str(number) for number in range(40)]
    split = SplitScores(numbers, NAMES, captions, [NAMES[n // 2] for n in range(40)], NAMES)
    write_scores(folder / "vse.h5", {"test": split}, {"model": "vse"})


def _scores(folder: Path) -> Any:
    found = read_scores(folder / "vse.h5", "test")
    return found.scores.tolist(), list(found.image_ids), list(found.caption_image_ids)


def _write_weights(folder: Path) -> None:
    torch.manual_seed(0)
    write_weights(folder / "w.safetensors", {"w": torch.randn(20, 9)}, {"schema_version": 1})


def _weights(folder: Path) -> Any:
    entry, found, _ = read_weights(folder / "w.safetensors", "checkpoint", 1)
    return entry, {name: value.tolist() for name, value in found.items()}


def _write_corpus(folder: Path) -> None:
    images = pd.DataFrame({"image_id": NAMES, "path": NAMES, "split": "train", "group": NAMES,
                           "width": 8, "height": 8, "sha256": "0" * 64})  # fmt: skip
    captions = pd.DataFrame({"caption_id": NAMES, "image_id": NAMES, "split": "train"})
    captions = captions.assign(text="a red dog", tokens=[["a", "red", "dog"]] * 20)
    none = pd.DataFrame(columns=["image_id", "x1", "y1", "x2", "y2", "object", "attributes"])
    Corpus(images, captions, none, pd.DataFrame(columns=["file", "reason"])).write(folder)


def _write_vocabulary(folder: Path) -> None:
    words = {word: 3 for word in ("<pad>", "<unk>", "a", "red", "dog", "sleeps")}
    content = {"schema_version": 1, "sentence_markers": False, "tokens": words}
    sealed = content | {"sha256": content_digest(content)}
    (folder / "vocabulary.json").write_text(json.dumps(sealed, indent=2))


def _write_curve(folder: Path) -> None:
    rows = [{"epoch": n, "loss": 9.0 / n, "val_rsum": 100.5 * n} for n in range(1, 9)]
    (folder / "c.tsv").write_text(curve_tsv(rows))


def _write_state(folder: Path) -> None:
    torch.manual_seed(0)
    ResumeFile(folder, "key").save({"w": torch.randn(5, 5), "step": 3})


def _state(folder: Path) -> Any:
    found = ResumeFile(folder, "key").load()
    return found and {name: np.asarray(value).tolist() for name, value in found.items()}


def _vocabulary(folder: Path) -> Any:
    found = Vocabulary.load(folder)
    return found.tokens, found.counts


KINDS = (
    Kind("f.h5", _write_features, _features),
    Kind("vse.h5", _write_scores, _scores),
    Kind("w.safetensors", _write_weights, _weights),
    Kind("images.parquet", _write_corpus, lambda at: load_images(at / "images.parquet").to_dict()),
    Kind("captions.parquet", _write_corpus,
         lambda at: load_captions(at / "captions.parquet").to_dict()),
    Kind("vocabulary.json", _write_vocabulary, _vocabulary),
    Kind("c.tsv", _write_curve, lambda at: read_curve(at / "c.tsv")),
    Kind("state.pt", _write_state, _state),
    Kind("work/key.h5", lambda at: write_rows(at, 0, 12), finish_rows),
    Kind("work/key.mask", lambda at: write_rows(at, 0, 12), finish_rows),
)  # fmt: skip
