"""Stages whose corpus has some other images or captions than before: the bytes of a full run, from
rows of the earlier run, for the networks and encodings that the recipes name."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from c4_cases import small
from click import Command
from clone import ROOT
from commands import fail, succeed
from corpora import SHARDS, change_params, write_corpus
from other_images import NO_ROW_IS_KEPT, ROWS_ARE_KEPT, with_others
from PIL import Image
from region_cases import world
from text_networks import write_text_network
from tiny_inputs import write_params, write_vocabulary

from models.detector.file import describe, write_detector
from models.detector.fpn import build_detector
from models.detector.weights import load_detector
from pipeline.features.kept_rows import INDEX
from stages import encode_sentences, extract_image_features, extract_region_features

IMAGES = ["--images", "corpus/images.parquet", "--detector", "detector.safetensors"]
OF_IMAGES = [*IMAGES, "--network", "network.safetensors"]
OF_CAPTIONS = ["--captions", "corpus/captions.parquet", "--vocabulary", "vocabulary"]
OF_CAPTIONS += ["--encoder", "encoder.h5"]
WORDS = ["a", "red", "dog", "dogs", "cat", "sat", "blue", "ball", "runs", "two", "men", "bowl"]

PLAIN = {"weights": "random", "batch_size": 4, "workers": 0, "size": 64, "pool": "mean"}
SMALL = {"model": "resnet18", "layers": ["layer1", "layer2"], "pool": "mean_max"}
OF_RECIPES = [
    {"model": "resnet50", "layers": ["pool5"]},
    # random weights of 50 blocks exceed float16 behind the first stages
    {"model": "resnet152", "layers": ["layer1"], "views": "ten_crop"},
    {"model": "vgg19", "layers": ["fc7"], "size": 224},
    {"model": "timm/tf_efficientnet_lite0", "layers": ["features"]},
    {
        "model": "timm/vit_base_patch32_clip_quickgelu_224.openai",
        "layers": ["joint"],
        "size": 224,
    },
]


@pytest.fixture
def images(tmp_path: Path, monkeypatch) -> pd.DataFrame:
    """The images of a corpus in the current folder, with a detector's file and params.yaml."""
    monkeypatch.chdir(tmp_path)
    table = world(Path("pictures"))
    write_corpus(Path("corpus"), table)
    torch.manual_seed(3)
    sizes = {"layers": 2, "channels": 4, "hidden": 6, "anchors": ((16.0,), (26.0,))}
    detector = build_detector("fpn_resnet18", ["square"], [], **sizes).eval()
    write_detector("detector.safetensors", detector, describe(detector, "random", {}, {}, {}))
    write_params(tmp_path, runtime=ROWS_ARE_KEPT)
    change_params(
        tmp_path, image_features=PLAIN | SMALL, regions={"boxes": 3, "batch_size": 4, "workers": 0}
    )
    return table


def compared(command: Command, options: list[str]) -> str:
    """What a run with rows of an earlier one says, whose file must be that of a run without."""
    said = succeed(command, Path(), *options, "--output", "kept.h5")
    change_params(Path(), runtime=NO_ROW_IS_KEPT)
    succeed(command, Path(), *options, "--output", "full.h5")
    change_params(Path(), runtime=ROWS_ARE_KEPT)
    assert Path("kept.h5").read_bytes() == Path("full.h5").read_bytes()
    return said


def compare_images(images: pd.DataFrame, command: Command, options: list[str]) -> str:
    succeed(command, Path(), *options, "--output", "kept.h5")
    write_corpus(Path("corpus"), with_others(images))
    said = compared(command, options)
    assert "are not used" not in said
    return said


def test_image_features(images: pd.DataFrame) -> None:
    said = compare_images(images, extract_image_features.main, OF_IMAGES)
    assert "reused 9 of 11 rows of an earlier run" in said


@pytest.mark.slow
@pytest.mark.parametrize("settings", OF_RECIPES, ids=lambda settings: settings["model"])
def test_image_features_of_the_recipes(images: pd.DataFrame, settings: dict[str, object]) -> None:
    change_params(Path(), image_features=settings)
    said = compare_images(images, extract_image_features.main, OF_IMAGES)
    assert "reused 9 of 11 rows of an earlier run" in said


def test_another_network_s_rows_are_not_used(images: pd.DataFrame) -> None:
    succeed(extract_image_features.main, Path(), *OF_IMAGES, "--output", "kept.h5")
    change_params(Path(), image_features={"layers": ["layer2", "layer1"]})
    assert "reused" not in compared(extract_image_features.main, OF_IMAGES)
    assert len(list(Path("data/.work/rows").glob(f"*{INDEX}"))) == 2


def test_an_image_that_changes_after_the_corpus_was_read(images: pd.DataFrame) -> None:
    """The table has the digest of the picture before: its row is not asked for another."""
    succeed(extract_image_features.main, Path(), *OF_IMAGES, "--output", "kept.h5")
    table = with_others(images)
    write_corpus(Path("corpus"), table)
    shutil.copy(images.loc[3, "path"], "pictures/new.png")
    options = [*OF_IMAGES, "--output", "other.h5"]
    assert "new.png" in fail(extract_image_features.main, Path(), *options)
    assert not Path("other.h5").exists()


def test_regions_of_a_pyramid(images: pd.DataFrame) -> None:
    """Images of one size in a batch pass together: their number may not change."""
    images = images.assign(width=40, height=24)
    for path in images["path"]:
        Image.open(path).resize((40, 24)).save(path)
    images["sha256"] = [hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in images["path"]]
    write_corpus(Path("corpus"), images)
    said = compare_images(images, extract_region_features.main, IMAGES)
    # 11 images are batches of 4, 4 and 3, where the 12 were three of 4
    assert "reused 6 of 11 rows of an earlier run" in said


def test_regions_of_images_of_many_sizes(images: pd.DataFrame) -> None:
    assert "reused" in compare_images(images, extract_region_features.main, IMAGES)


def test_regions_of_a_detector_of_other_sizes(images: pd.DataFrame) -> None:
    """Its weights are the same: fewer proposals leave the regions of some images as they were."""
    options = [*IMAGES, "--output", "kept.h5"]
    succeed(extract_region_features.main, Path(), *options)
    detector, description = load_detector(Path("detector.safetensors"))
    sizes = description.sizes | {"proposal_iou": 0.4}
    description = description.model_copy(update={"sizes": sizes})
    write_detector("detector.safetensors", detector, description)
    assert "reused" not in compared(extract_region_features.main, IMAGES)


def test_regions_of_a_bottom_up_detector(images: pd.DataFrame) -> None:
    detector = small()
    write_detector("detector.safetensors", detector, describe(detector, "random", {}, {}, {}))
    said = compare_images(images, extract_region_features.main, IMAGES)
    assert "reused 9 of 11 rows of an earlier run" in said


def test_regions_of_a_grid(images: pd.DataFrame) -> None:
    network = {"model": "timm/test_resnet", "weights": "random", "layers": None, "size": 96}
    change_params(Path(), regions={"source": "grid", "grid": [2, 3], "network": network})
    said = compare_images(images, extract_region_features.main, IMAGES)
    assert "reused 9 of 11 rows of an earlier run" in said


@pytest.mark.slow
def test_shards_take_rows_too(images: pd.DataFrame, run_process) -> None:
    """The rows of a run without shards, and those that shards have made."""
    shards = {"extraction": SHARDS["extraction"] | ROWS_ARE_KEPT["extraction"]}
    options = [*OF_IMAGES, "--output"]
    run_process("extract_image_features", *options, "first.h5", cwd=Path())
    change_params(Path(), runtime=shards)
    write_corpus(Path("corpus"), with_others(images))
    done = subprocess.run(
        [sys.executable, "-m", "heard_stage", "extract_image_features", *options, "sharded.h5"],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/support'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("rows of an earlier run") == 3, done.stderr
    change_params(Path(), runtime={"extraction": {"workers": 1, "shard": None}})
    again = run_process("extract_image_features", *options, "again.h5", cwd=Path())
    assert "reused 11 of 11 rows" in again.stderr
    change_params(Path(), runtime=NO_ROW_IS_KEPT)
    run_process("extract_image_features", *options, "full.h5", cwd=Path())
    for name in ("sharded.h5", "again.h5"):
        assert Path(name).read_bytes() == Path("full.h5").read_bytes()


def write_captions(texts: list[list[str]]) -> None:
    """Captions, whose first 30 are the training captions."""
    rows = []
    for number, words in enumerate(texts):
        split = "train" if number < 30 else "test"
        rows.append((f"c{number}", f"i{number}", split, " ".join(words), words))
    write_corpus(Path("corpus"), [], rows)


@pytest.mark.parametrize(
    ("encoding", "pca", "reused"),
    [
        ("mean_vector", "none", 599),
        ("mean_vector", 3, 256),
        ("tfidf", "none", 599),
        ("fisher", "none", 599),
        ("fisher", 5, 256),
        ("transformer", None, 0),
    ],
)
def test_sentences(tmp_path: Path, monkeypatch, encoding: str, pca: object, reused: int) -> None:
    """Of 601 test captions one is removed, one changed, and one added behind: an encoder of rows
    makes two, one of blocks those of 256 (of a network 2,048) that have any."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    texts = [[str(w) for w in random.choice(WORDS, random.integers(1, 9))] for _ in range(601)]
    texts = [[*words, f"x{number}"] for number, words in enumerate(texts)]  # all different
    write_vocabulary(tmp_path, WORDS)
    settings: dict[str, object] = {} if pca is None else {"pca": pca}
    if encoding == "transformer":
        pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")
        write_text_network(Path("tiny"), WORDS)
        settings = {"model": "tiny"}
    if encoding == "tfidf":
        settings |= {"lemmatiser": "none", "stop_words": "none"}
    write_params(tmp_path, runtime=ROWS_ARE_KEPT, sentences__encoding=encoding)
    change_params(tmp_path, **{f"sentences__{encoding}": settings})
    write_captions(texts)
    succeed(encode_sentences.main, Path(), *OF_CAPTIONS, "--output", "kept.h5")
    others = [*texts[:300], ["red", "ball", "x"], *texts[301:500], *texts[501:], ["blue", "x"]]
    write_captions(others)
    said = compared(encode_sentences.main, OF_CAPTIONS)
    assert (f"reused {reused} of 601 rows of an earlier run" in said) == bool(reused)
    assert "are not used" not in said
