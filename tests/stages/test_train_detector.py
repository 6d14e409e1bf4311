"""The stage that makes the detector: trained, random or from a file, and plain about mistakes."""

import shutil

import numpy as np
import pytest
from commands import invoke
from corpora import change_params, write_corpus
from PIL import Image
from pretended_cuda import on_pretended_gpu

from models.detector.file import read_detector
from pipeline.runtime.files import sha256_file
from stages.train_detector import main

OUTPUTS = ["--output", "detector.safetensors", "--curve", "detector.tsv"]
TABLES = ["--images", "corpus/images.parquet", "--boxes", "corpus/boxes.parquet"]
SMALL = {
    "weights": "train",
    "channels": 8,
    "hidden": 8,
    "anchors": [[12.0], [20.0]],
    "ratios": [1.0],
    "proposals": 10,
    "training": {"epochs": 2, "images_per_epoch": 6, "batch_size": 3, "warmup": 2},
}


def write_squares(folder, with_boxes=True):
    generator, rows, boxes = np.random.default_rng(0), [], []
    for split, count in (("train", 8), ("val", 3)):
        for number in range(count):
            name, shade = f"{split}{number}", number % 2
            pixels = np.full((40, 40, 3), 200, np.uint8)
            x, y = generator.integers(0, 25, 2).tolist()
            pixels[y : y + 14, x : x + 14] = [(250, 0, 0), (0, 0, 250)][shade]
            path = folder / f"{name}.png"
            Image.fromarray(pixels).save(path)
            rows.append((name, path.name, split, name, 40, 40, sha256_file(path)))
            boxes.append((name, x, y, x + 14, y + 14, "square", [("red", "blue")[shade]]))
    write_corpus(folder / "corpus", rows, boxes=boxes if with_boxes else [])


def change(folder, **changes):
    change_params(folder, detector=changes)


@pytest.fixture
def folder(tmp_path):
    write_squares(tmp_path)
    change(tmp_path, **SMALL)
    return tmp_path


def test_trained_twice_it_is_the_same_file(folder):
    assert invoke(main, folder, *TABLES, *OUTPUTS)[0] == 0
    first = (folder / "detector.safetensors").read_bytes()
    description, _ = read_detector(folder / "detector.safetensors")
    assert description.origin == "trained"
    assert description.object_names == ("square",)
    assert description.attribute_names == ("blue", "red")
    assert description.validation.keys() == {"recall", "map", "attributes"}
    curve = (folder / "detector.tsv").read_text().splitlines()
    assert len(curve) == 3
    assert "loss_attributes" in curve[0]
    assert str(folder).encode() not in first
    assert not list((folder / "data/.work").glob("*"))
    shutil.copy(folder / "detector.safetensors", folder / "mine.safetensors")
    with on_pretended_gpu(folder):
        assert invoke(main, folder, *TABLES, *OUTPUTS)[0] == 0
    assert (folder / "detector.safetensors").read_bytes() == first

    change(folder, weights="mine.safetensors")  # taken up as a file of our own
    assert invoke(main, folder, *TABLES, *OUTPUTS)[0] == 0
    taken, _ = read_detector(folder / "detector.safetensors")
    assert (taken.origin, taken.validation) == ("file", description.validation)


def test_random_weights_are_fixed_and_need_no_boxes(folder):
    change(folder, weights="random")
    contents = []
    for seed, with_boxes in ((0, True), (1, True), (1, False)):
        write_squares(folder, with_boxes)
        change_params(folder, seed=seed)
        assert invoke(main, folder, *TABLES, *OUTPUTS)[0] == 0
        contents.append((folder / "detector.safetensors").read_bytes())
        names = read_detector(folder / "detector.safetensors")[0].object_names
        assert names == (("square",) if with_boxes else ("object",))
    assert contents[0] == contents[1] != contents[2]
