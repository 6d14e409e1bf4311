"""Which known test split was evaluated: real ids of MS-COCO's, and what can be wrong with them."""

import json
import random
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from commands import refusal
from corpora import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.evaluation import known_splits
from pipeline.evaluation.known_splits import (
    DIGESTS,
    NONE_KNOWN,
    PLACES,
    SPLITS,
    certify,
    digest_of,
)

FLICKR8K = ROOT.parent / "shared/flickr8k/dataset_flickr8k.json"
# the first lines of Flickr_8k.testImages.txt
TEST_IMAGES = ["3385593926", "2677656448", "311146855", "1258913059", "241347760", "2654514044"]


@cache
def coco_names():
    """Names of the 5,000 test images in Karpathy's order, which the package eccv_caption has."""
    package = find_spec("eccv_caption")
    if package is None:
        pytest.skip("needs the package eccv_caption")
    folder = Path(package.origin).parent / "data"
    owners = json.loads((folder / "original_caption_to_image.json").read_text())
    captions = np.load(folder / "coco_test_ids.npy")
    numbers = dict.fromkeys(owners[str(caption)][0] for caption in captions)
    return tuple(f"val2014/COCO_val2014_{number:012d}.jpg" for number in numbers)


@pytest.fixture
def coco():
    return [*coco_names()]


def test_a_whole_split_is_named_and_complete(coco):
    whole = certify(coco, 25_010, "full")
    assert whole.text == "MS-COCO 5K, Karpathy: 5,000 images, 25,010 captions, complete"
    assert (whole.name, whole.is_complete) == ("mscoco_5k", True)
    folds = certify(coco, 25_000, "1k_x5")
    assert folds.text.startswith("MS-COCO 1K, Karpathy, mean of five folds: 5,000 images, 25,000")
    assert folds.is_complete
    first = certify(coco[:1000], 5_000, "first_1k")
    assert (first.name, first.is_complete) == ("mscoco_first_1k", True)


def test_names_are_known_in_any_spelling(coco):
    numbers = [str(int(name[-16:-4])) for name in coco]
    for spelled in (numbers, [f"{int(n):012d}.png" for n in numbers], [f"a\\b\\{n}" for n in coco]):
        assert certify(spelled, 25_010, "full").is_complete


def test_what_is_missing_foreign_or_in_another_fold_is_said(coco):
    def text(names, captions=25_010, protocol="full"):
        certificate = certify(names, captions, protocol)
        assert not certificate.is_complete
        return certificate.text.partition("captions, ")[2]

    assert text(coco[3:]) == "3 images of 5,000 are missing"
    assert text(coco[1:]) == "1 image of 5,000 is missing"
    assert text([*coco[2:], "x1", "x2"]) == "2 images of 5,000 are missing; 2 images are not of it"
    assert text(coco, 24_999) == "captions must be 25,010 or 25,000"
    exchanged = [coco[1000], *coco[1:1000], coco[0], *coco[1001:]]
    assert text(exchanged, protocol="1k_x5") == "2 images in another fold than Karpathy's"
    assert certify(exchanged, 25_010, "full").is_complete


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2_400), st.integers(0, 2_400), st.integers(0, 99))
def test_counts_of_missing_and_foreign_images_are_those_of_sets(missing, foreign, seed):
    names = [*coco_names()]
    random.Random(seed).shuffle(names)
    names = names[missing:] + [f"mine{n}.jpg" for n in range(foreign)]
    random.Random(seed).shuffle(names)
    found = certify(names, 25_010, "full")
    assert (found.missing, found.foreign) == (missing, foreign)
    assert found.is_complete is (missing == foreign == 0)


@pytest.mark.parametrize(
    ("names", "captions", "protocol"),
    [
        ([f"im{n}.jpg" for n in range(12)], 30, "full"),
        ([f"{n:012d}.jpg" for n in range(1, 1001)], 5_000, "full"),
        ([f"{n}.jpg" for n in range(10**9, 10**9 + 1000)], 4_999, "full"),
        ([f"{n}.jpg" for n in range(10**9, 10**9 + 1000)], 5_000, "200_x5"),
        ([], 0, "full"),
    ],
)
def test_images_of_no_known_split(names, captions, protocol):
    certificate = certify(names, captions, protocol)
    assert certificate.text == NONE_KNOWN
    assert not certificate.is_complete


def test_of_less_than_half_of_a_split_nothing_is_said(coco):
    assert certify(coco[1200:3600], 12_000, "full").name is None


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("flickr30k", "{}.jpg"),
        ("cuhk_pedes", "imgs/CUHK01/{:07d}.png"),
        ("icfg_pedes", "test/0001/0001_{:03d}_05_0303morning.jpg"),
        ("rstpreid", "{0:04d}_c1_{0:04d}.jpg"),
    ],
)
def test_where_no_ids_are_at_hand_numbers_and_names_decide_and_that_is_said(name, image):
    split = SPLITS[name]
    names = [image.format(1000 + n) for n in range(split.images)]
    certificate = certify(names, split.captions[0], "full")
    assert certificate.name == name
    assert certificate.text.endswith("; counts and names fit, ids not checked")
    assert certify(names, split.captions[0] - 1, "full").name is None
    assert certify(names[1:], split.captions[0], "full").name is None


def test_digests_of_flickr8k_are_those_of_its_published_list():
    start, end = PLACES["flickr8k"]
    digests = known_splits._digests()[start:end]
    assert len(set(digests)) == 1_000
    assert [*digests[:6]] == [digest_of(image) for image in TEST_IMAGES]


@pytest.mark.skipif(not FLICKR8K.exists(), reason="needs ../shared/flickr8k")
def test_a_split_of_ones_own_of_flickr8k_is_none_that_is_known():
    """Its 7,000 images are those that are not for testing, in another split."""
    images = json.loads(FLICKR8K.read_text())["images"]
    assert len(images) == 7_000
    start, end = PLACES["flickr8k"]
    digests = {digest_of(image["filename"].partition("_")[0]) for image in images}
    assert not digests & set(known_splits._digests()[start:end])
    tested = [image["filename"] for image in images if image["split"] == "test"]
    assert certify(tested, 5 * len(tested), "full").text == NONE_KNOWN


def test_a_damaged_file_of_digests_is_refused(tmp_path, monkeypatch, coco):
    damaged = tmp_path / DIGESTS.name
    damaged.write_bytes(DIGESTS.read_bytes()[:-1] + b"x")
    monkeypatch.setattr(known_splits, "DIGESTS", damaged)
    known_splits._digests.cache_clear()
    assert "missing or damaged" in refusal(certify, coco, 25_010, "full")
    known_splits._digests.cache_clear()
