"""Files that the stages of a run leave, each read as the stage behind it does."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from models.backbone.file import read_network
from models.detector.file import read_detector
from models.dual_path.classes import read_pseudo_classes
from pipeline.attention.pairs import read_attention
from pipeline.comparison.phrases import read_rows
from pipeline.comparison.results import read_results
from pipeline.corpus.images import open_rgb
from pipeline.corpus.loading import ImageFiles
from pipeline.corpus.tables import load_boxes, load_captions, load_images, load_relevance
from pipeline.corpus.vocabulary import load_word_vectors
from pipeline.evaluation.file import read_query_ranks
from pipeline.phrases.tables import load_phrases
from pipeline.report.attention_section import attention_figures
from pipeline.report.curve_files import read_curve
from pipeline.report.shelf import Shelf
from pipeline.scores.file import read_scores
from pipeline.sentences.encoder import read_encoder
from pipeline.storage.checkpoint import read_checkpoint
from pipeline.storage.features import FeatureFile
from pipeline.storage.groups import GroupFile
from tests.campaign.world import Files, World

Read = Callable[[Path], Any]
PICTURE = "data/corpus/images/train_00000.jpg"
BESIDE = {  # what is read with a file
    "metrics/": ("data/ranks/{stem}.h5", "data/phrase_ranks/{stem}.h5"),
    "data/ranks/": ("metrics/{stem}.json",),
    "data/phrase_ranks/": ("metrics/{stem}.json",),
    "data/phrases/": ("data/phrases/",),
    "data/vocabulary/": ("data/vocabulary/",),
    "data/attention/": ("data/scores/{stem}.h5", "data/corpus/"),
    PICTURE: ("data/corpus/images.parquet",),
}


def artefacts(world: World) -> dict[str, tuple[Files, Read]]:
    """The files of a finished run that some stage reads: with those beside each, and how."""
    files, found = world.everything(), {}
    for name in files:
        read = reader(name)
        if read is None:
            continue
        wanted = (name, *(
            path.format(stem=Path(name).stem)
            for start, beside in BESIDE.items() if name.startswith(start) for path in beside
        ))  # fmt: skip
        others = {own: content for own, content in files.items() if own.startswith(wanted)}
        found[name] = others, read
    return found


def reader(name: str) -> Read | None:
    """What reads a file, None for what no stage reads."""
    path, stem = Path(name), Path(name).stem
    folder = str(path.parent)
    if name == PICTURE:
        return _picture
    if folder == "metrics" or folder in ("data/ranks", "data/phrase_ranks"):
        return lambda at: _figures(at, stem)
    if folder == "data/checkpoints" and stem in ("detector", "image_network"):
        function = read_detector if stem == "detector" else read_network
        return lambda at: told(function(at / path))
    if folder == "data/checkpoints":
        return lambda at: told(read_checkpoint(at / path, stem))
    if folder == "data/curves" and stem != "detector":  # which no page draws
        return lambda at: told(read_curve(at / path))
    if folder == "data/scores":
        return lambda at: [told(read_scores(at / path, split)) for split in _splits(at / path)]
    if folder == "data/attention":
        return lambda at: _attention(at, stem)
    if folder == "data/phrases":
        return lambda at: told(load_phrases(at / folder))
    if name == "data/vocabulary/vectors.h5":
        return lambda at: told(load_word_vectors(at / folder))
    if name == "data/features/sentence_encoder.h5":
        return lambda at: told(read_encoder(at / path))
    if name == "data/features/pseudo_classes.h5":
        return lambda at: told(read_pseudo_classes(at / path))
    if folder == "data/features":
        return lambda at: _features(at / path)
    tables = {"images": load_images, "captions": load_captions, "boxes": load_boxes,
              "relevance": load_relevance}  # fmt: skip
    if folder == "data/corpus" and path.suffix == ".parquet":
        return lambda at: tables[stem](at / path).to_dict()
    return None


def told(value: Any, depth: int = 0) -> Any:
    """A value in a form that can be compared: digests of arrays, members of objects."""
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [told(item, depth + 1) for item in value]
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return value.shape, value.dtype.str, content
    if hasattr(value, "to_dict"):
        return told(value.to_dict(), depth)
    if isinstance(value, torch.nn.Module):
        return told(value.state_dict(), depth)
    if isinstance(value, dict):
        return {str(key): told(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [told(item, depth + 1) for item in value]
    if hasattr(value, "__dict__") and depth < 9:
        return {key: told(item, depth + 1) for key, item in vars(value).items()}
    return repr(value)


def _figures(at: Path, stem: str) -> Any:
    metrics = at / f"metrics/{stem}.json"
    if stem.startswith("phrase_"):
        ranks = at / f"data/phrase_ranks/{stem}.h5"
        return told([read_rows([metrics], [ranks]), _features(ranks)])
    ranks = at / f"data/ranks/{stem}.h5"
    return told([read_results([metrics], [ranks]), read_query_ranks(ranks, "naive")])


def _features(path: Path) -> Any:
    file = FeatureFile(path)
    with h5py.File(path) as opened:
        names = sorted(set(opened) - {"ids"})
    return file.ids, file.attributes, [told(file.load(name)) for name in names]


def _picture(at: Path) -> Any:
    images = load_images(at / "data/corpus/images.parquet")
    images["path"] = [str(at / path) for path in images["path"]]
    return told(np.asarray(ImageFiles(images, None).open(0))), open_rgb(at / PICTURE).size


def _attention(at: Path, stem: str) -> Any:
    path, tables = at / f"data/attention/{stem}.h5", at / "data/corpus"
    images = load_images(tables / "images.parquet")
    images["path"] = [str(at / name) for name in images["path"]]
    shelf = Shelf(images, load_captions(tables / "captions.parquet"))
    weights = str(GroupFile(at / f"data/scores/{stem}.h5").attributes["checkpoint_sha256"])
    attention_figures(path, weights, shelf)
    return told(read_attention(path))


def _splits(path: Path) -> list[str]:
    return sorted(GroupFile(path).layouts)
