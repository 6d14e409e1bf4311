"""Crops for training from pixels: the right ones, the same for any number of threads."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import images_table
from PIL import Image
from scipy.stats import chisquare

from models.backbone.image_cnn import PixelRows
from models.backbone.preprocessing import preprocessing_of
from pipeline.corpus.images import open_rgb
from pipeline.runtime.errors import WorkbenchError

SIZES = [(40, 30), (30, 40), (20, 20), (24, 61), (16, 16)]
RULES = replace(preprocessing_of("resnet18", None, "center"), resize=20, crop=12)


@pytest.fixture
def images(tmp_path):
    rng, rows = np.random.default_rng(0), []
    for number, (width, height) in enumerate(SIZES):
        path = tmp_path / f"{number}.{'jpg' if number % 2 else 'png'}"
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append((f"i{number}", str(path), "train", f"i{number}", width, height, digest))
    return images_table(rows)


IDS = ["i4", "i0", "i3", "i2", "i1"]


def test_centre_crops_are_those_of_feature_extraction(images):
    source = PixelRows(images, IDS, RULES)
    rows = np.array([2, 0, 2, 1])
    paths = images.set_index("image_id")["path"]
    expected = [RULES.crops(open_rgb(paths[IDS[row]]))[0] for row in rows]
    for _ in range(2):  # from the files, then from memory
        found = source(rows)
        assert found.dtype == torch.uint8
        np.testing.assert_array_equal(found.numpy(), np.stack(expected))


def places(image, crops):
    """(top, left, mirrored) of every crop within an image (H, W, 3), by trying all."""
    side = crops.shape[-1]
    known = {}
    for top in range(image.shape[0] - side + 1):
        for left in range(image.shape[1] - side + 1):
            cut = image[top : top + side, left : left + side].transpose(2, 0, 1)
            known[cut.tobytes()] = (top, left, False)
            known[np.ascontiguousarray(cut[..., ::-1]).tobytes()] = (top, left, True)
    return [known[crop.tobytes()] for crop in crops.numpy()]


@pytest.mark.parametrize("flip", [True, False])
def test_training_crops_are_equally_likely_everywhere(images, flip):
    """i3 becomes 20 x 50: 9 x 39 corners, and twice as many crops with mirror images."""
    source = PixelRows(images, IDS, RULES, flip=flip)
    found = places(
        source.resized(np.array([2]))[0],
        source.augmented(np.full(4000, 2), np.random.default_rng(0)),
    )
    top, left, mirrored = np.array(found).T
    for values, count in ((top, 39), (left, 9), (mirrored, 2)):
        counts = np.bincount(values, minlength=count)
        if values is mirrored and not flip:
            assert counts.tolist() == [4000, 0]
        else:
            assert len(counts) == count
            assert chisquare(counts).pvalue > 0.01


def test_rows_do_not_depend_on_threads_memory_or_company(images):
    rows = np.random.default_rng(1).integers(0, 5, 40)
    sources = [
        PixelRows(images, IDS, RULES, workers=workers, budget=budget)
        for workers, budget in ((0, 0), (3, 0), (3, 3000), (2, 1 << 20))
    ]
    for seed in range(3):
        crops = [source.augmented(rows, np.random.default_rng(seed)) for source in sources]
        for other in crops[1:]:
            np.testing.assert_array_equal(crops[0].numpy(), other.numpy())


def test_what_is_kept_is_not_decoded_again_and_stays_in_the_budget(images):
    rows = np.arange(5)
    source = PixelRows(images, IDS, RULES, workers=2, budget=1 << 20)
    small = PixelRows(images, IDS, RULES, budget=3000)
    first = source(rows), small(rows)
    assert sum(image.nbytes for image in small.kept.values()) <= 3000
    assert small.kept
    for path in images["path"]:
        open(path, "wb").close()
    np.testing.assert_array_equal(source(rows).numpy(), first[0].numpy())
    with pytest.raises(WorkbenchError, match="empty file"):
        small(rows)


def test_all_bad_images_of_a_batch_are_named(images):
    paths = images.set_index("image_id")["path"]
    with open(paths["i1"], "ab") as file:
        file.write(b"more")
    with open(paths["i2"], "wb") as file:
        file.write(b"text")
    source = PixelRows(images, IDS, RULES, workers=2)
    message = r"2\.png: not an image .*, .*1\.jpg: changed since the corpus was prepared"
    with pytest.raises(WorkbenchError, match=message):
        source.augmented(np.arange(5), np.random.default_rng(0))


def test_large_files_are_refused_before_decoding(images):
    with pytest.raises(WorkbenchError, match="40 x 30 pixels, allowed are"):
        PixelRows(images, IDS, RULES, max_pixels=1000)(np.array([1]))


def test_tables_that_do_not_fit(images):
    with pytest.raises(WorkbenchError, match="1 images are not in the table: odd"):
        PixelRows(images, ["i0", "odd"], RULES)
    images.loc[1, "width"] = 3000
    with pytest.raises(WorkbenchError, match=r"more than 50 times as long as wide: .*1\.jpg"):
        PixelRows(images, IDS, RULES)


def test_squashed_and_bgr_crops_are_those_of_the_square(images):
    """i3 of 24 x 61 pixels as the whole of it, its channels in Caffe's order."""
    published = preprocessing_of("resnet18", None, "center", "squash", "caffe")
    rules = replace(published, resize=20, crop=12)
    source = PixelRows(images, IDS, rules)
    path = images.set_index("image_id")["path"]["i3"]
    square = np.asarray(open_rgb(path).resize((20, 20), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(source.resized(np.array([2]))[0], square)
    bgr = square[..., [2, 1, 0]]
    np.testing.assert_array_equal(source(np.array([2]))[0], bgr[4:16, 4:16].transpose(2, 0, 1))
    found = places(bgr, source.augmented(np.full(2000, 2), np.random.default_rng(0)))
    assert len(set(found)) == 9 * 9 * 2
