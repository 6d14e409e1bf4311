"""Batches of labelled images: what they hold, their order, and annotations that cannot be right."""

import numpy as np
import pytest
import torch
from corpora import write_corpus
from PIL import Image

from models.detector.data import DetectionBatches, Labels, read_labelled_images, read_labels
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file

GOOD = [
    ("train0", 1, 2, 11, 12, "star", ["red", "large"]),
    ("train0", -0.5, 0, 6, 24.4, "circle", []),
    ("train1", 3, 3, 9, 9, "circle", ["red"]),
    ("val0", 3, 3, 9, 9, "tower", ["red"]),
    ("val0", 3, 3, 9, 9, "star", ["blue", "large"]),
]


def write(folder, boxes, images=(("train", 4), ("val", 2))):
    generator, rows = np.random.default_rng(0), []
    for split, count in images:
        for number in range(count):
            name = f"{split}{number}"
            path = folder / f"{name}.png"
            Image.fromarray(generator.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(path)
            rows.append((name, str(path), split, name, 32, 24, sha256_file(path)))
    write_corpus(folder, rows, boxes=boxes)
    return folder / "images.parquet", folder / "boxes.parquet"


def test_images_with_their_objects(tmp_path):
    tables = write(tmp_path, GOOD)
    labels = read_labels(*tables)
    assert labels == Labels(("circle", "star"), ("large", "red"))
    data = read_labelled_images(*tables, "train", labels)
    assert len(data) == 2  # the other training images show nothing
    batch = data.batch([0])
    expected = np.array(Image.open(tmp_path / "train0.png"))
    np.testing.assert_array_equal(batch.images[0].permute(1, 2, 0), expected)
    (truth,) = batch.truths
    assert truth.boxes.tolist() == [[1, 2, 11, 12], [0, 0, 6, 24]]  # clipped to the image
    assert truth.labels.tolist() == [2, 1]
    assert truth.attributes.tolist() == [[1, 1], [0, 0]]
    (unseen,) = read_labelled_images(*tables, "val", labels).truths
    assert unseen.labels.tolist() == [2]  # no training box names a tower, nor blue
    assert unseen.attributes.tolist() == [[1, 0]]


@pytest.mark.parametrize("budget", [0, 5 * 24 * 32 * 3, 2**30])
def test_an_epoch_is_a_permutation_that_can_be_taken_up_anywhere(tmp_path, budget):
    boxes = [(f"train{i}", 0, 0, i + 1, 5, "star", []) for i in range(11)]
    tables = write(tmp_path, boxes, [("train", 11)])
    data = read_labelled_images(*tables, "train", read_labels(*tables))
    data.budget = budget
    batches = DetectionBatches(data, 3, seed=4)
    widths = [[t.boxes[0, 2].item() for t in b.truths] for b in batches.epoch(2)]
    assert [len(batch) for batch in widths] == [3, 3, 3, 2]
    assert sorted(width for batch in widths for width in batch) == list(range(1, 12))
    assert batches.steps == 4
    resumed = list(batches.epoch(2, first=2))
    assert [[t.boxes[0, 2].item() for t in b.truths] for b in resumed] == widths[2:]
    again = [batch.images for batch in batches.epoch(2)]
    for batch, images in zip(resumed, again[2:], strict=True):
        assert all(torch.equal(one, two) for one, two in zip(batch.images, images, strict=True))
    other = [[t.boxes[0, 2].item() for t in b.truths] for b in batches.epoch(3)]
    assert other != widths
    assert data._bytes <= budget


def test_fewer_images_per_epoch_and_single_images(tmp_path):
    boxes = [(f"train{i}", 0, 0, 5, 5, "star", []) for i in range(5)]
    tables = write(tmp_path, boxes, [("train", 5)])
    data = read_labelled_images(*tables, "train", read_labels(*tables))
    assert [len(b.images) for b in DetectionBatches(data, 2, 0).epoch(0)] == [2, 2]
    few = DetectionBatches(data, 2, 0, images_per_epoch=3)
    assert [len(b.images) for b in few.epoch(0)] == [2]
    with pytest.raises(WorkbenchError, match="at least 2"):
        DetectionBatches(data, 2, 0, images_per_epoch=1)


def test_a_corpus_without_boxes_names_the_way_out(tmp_path):
    tables = write(tmp_path, [])
    with pytest.raises(WorkbenchError, match=r"boxes\.parquet: no boxes.*\n.*detector\.weights"):
        read_labels(*tables)
    only_val = write(tmp_path, GOOD[3:])
    with pytest.raises(WorkbenchError, match="no boxes of training images"):
        read_labels(*only_val)


def test_wrong_boxes_are_all_named(tmp_path):
    wrong = [
        *GOOD,
        ("train2", 0, 0, 40, 10, "star", []),
        ("train2", 5, 5, 5, 9, "star", []),
        ("nobody", 5, 5, 8, 9, "star", []),
        ("train3", float("nan"), 5, 8, 9, "star", []),
    ]
    tables = write(tmp_path, wrong)
    with pytest.raises(WorkbenchError) as caught:
        read_labelled_images(*tables, "train", Labels(("star",), ()))
    text = str(caught.value)
    assert "2 boxes outside their image: row 5, image train2: 0 0 40 10, row 8" in text
    assert "1 boxes empty: row 6" in text
    assert "1 boxes of images that are not in the corpus: row 7, image nobody" in text


def test_an_image_that_has_changed_is_named(tmp_path):
    tables = write(tmp_path, GOOD)
    Image.new("RGB", (32, 24), "white").save(tmp_path / "train0.png")
    data = read_labelled_images(*tables, "train", read_labels(*tables))
    with pytest.raises(WorkbenchError, match=r"train0\.png: changed since the corpus was prepared"):
        data.batch([0])
