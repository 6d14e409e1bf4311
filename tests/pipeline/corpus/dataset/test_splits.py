import numpy as np
import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import options

from pipeline.corpus.dataset.splits import (
    check_other_splits,
    settled_splits,
    split_in_path,
    split_named,
    without_split,
)
from pipeline.runtime.errors import WorkbenchError


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("train-00000-of-00005", "train"),
        ("data/validation-00000-of-00001", "val"),
        ("default/train/0000", "train"),
        ("dev/0", "val"),
        ("flickr30k_TEST.00001", "test"),
        ("val2017", "val"),
        ("train/test-0", "test"),
        ("trained/latest-0", None),
        ("contest-1", None),
    ],
)
def test_the_split_that_a_path_names(path, split):
    assert split_in_path(path) == split


def named(**numbers):
    return {
        f"{split}{n}": None if split == "none" else split
        for split, number in numbers.items()
        for n in range(number)
    }


def counts(settled):
    splits = list(settled[0].values())
    return {split: splits.count(split) for split in ("train", "val", "test")}


def test_three_named_splits_are_taken_as_they_are():
    given_splits = named(train=2, val=1, test=4)
    assert settled_splits(given_splits, options()) == (given_splits, ())


def test_both_held_out_splits_come_from_val_and_its_rest_is_left_out():
    settled = settled_splits(named(train=3, val=9), options(val_images=2, test_images=3))
    assert counts(settled) == {"train": 3, "val": 2, "test": 3}
    origins = {image[:3] for image, split in settled[0].items() if split != "train"}
    assert origins == {"val"}
    assert settled[1] == ("drawn from val by seed: 2 val, 3 test; left out: 4 images",)


def test_val_comes_from_train_where_only_test_is_named():
    settled = settled_splits(named(train=5, test=2), options(val_images=2))
    assert counts(settled) == {"train": 3, "val": 2, "test": 2}
    assert {settled[0][f"test{n}"] for n in range(2)} == {"test"}


def test_shares_count_the_images_they_are_drawn_from():
    alone = settled_splits(named(none=20), options(val_images=0.1, test_images=0.25))
    assert counts(alone) == {"train": 13, "val": 2, "test": 5}
    assert alone[1] == ("splits drawn by seed: 2 val, 5 test",)
    held_out = settled_splits(named(train=50, val=10), options(val_images=0.3, test_images=4))
    assert counts(held_out) == {"train": 50, "val": 3, "test": 4}
    one_each = settled_splits(named(none=3), options(val_images=0.01, test_images=0.01))
    assert counts(one_each) == {"train": 1, "val": 1, "test": 1}
    with pytest.raises(WorkbenchError, match=r"val_images = 0\.5 and .*test_images = 0\.5, but"):
        settled_splits(named(none=8), options(val_images=0.5, test_images=0.5))


@pytest.mark.parametrize("kind", ["train", "val", "test", "none"])
def test_one_kind_alone_is_drawn_from_as_a_whole(kind):
    images = named(**{kind: 6})
    settled = settled_splits(images, options(val_images=2, test_images=1))
    assert counts(settled) == {"train": 3, "val": 2, "test": 1}
    kinds = ["val", "val", "test", "train", "train", "train"]
    order = np.random.default_rng([0, 0x5B117]).permutation(6)
    ranked = sorted(images)
    assert settled[0] == {ranked[n]: split for n, split in zip(order, kinds, strict=True)}
    said = "" if kind == "none" else f"all images are of split {kind}; "
    assert settled[1] == (f"{said}splits drawn by seed: 2 val, 1 test",)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"train": 3, "val": 1}, "val_images = 1 and corpus.test_images = 1, but raw has 1"),
        ({"train": 1, "test": 1}, "corpus.val_images = 1, but raw has 1 image to"),
        ({"train": 2}, "but raw has 2 images to draw them from and to train on"),
        ({"val": 5, "test": 5}, "name the splits test and val, but none to train on"),
    ],
)
def test_too_few_images_are_refused(numbers, message):
    with pytest.raises(WorkbenchError, match=message):
        settled_splits(named(**numbers), options())


@given(st.permutations(range(12)), st.integers(0, 3), st.booleans())
def test_the_order_of_the_images_is_no_matter(order, seed, both):
    images = named(train=6, val=6) if both else named(none=12)
    keys = list(images)
    shuffled = {keys[n]: images[keys[n]] for n in order}
    chosen = options(seed, val_images=2, test_images=3)
    assert settled_splits(shuffled, chosen)[0] == settled_splits(images, chosen)[0]


@given(st.lists(st.integers(0, 7), min_size=12, max_size=30), st.integers(0, 3))
def test_groups_are_drawn_whole(numbers, seed):
    groups = {f"{place}.jpg": str(number) for place, number in enumerate(numbers)}
    chosen = options(seed, val_images=2, test_images=2)
    try:
        splits, _ = settled_splits(dict.fromkeys(groups), chosen, groups)
    except WorkbenchError:
        assert len(set(numbers)) < 5 or max(map(numbers.count, numbers)) > 2
        return
    assert all(len({splits[i] for i in groups if groups[i] == g}) == 1 for g in groups.values())
    assert {"train", "val", "test"} == set(splits.values())


def test_images_without_a_split_beside_others_are_left_out_and_named():
    splits, remarks = settled_splits(named(train=1, val=1, test=1, none=2), options())
    assert list(splits) == ["train0", "val0", "test0"]
    assert remarks == ("left out: 2 images in no split (none0, none1)",)


@pytest.mark.parametrize(
    ("word", "split"),
    [("Train", "train"), ("validation", "val"), (" dev ", "val"), ("TEST", "test"), ("x", None)],
)
def test_words_for_splits(word, split):
    assert split_named(word) == split


def test_other_splits_are_left_out_beside_train_and_test_alone():
    """DOCCI has qual_dev and qual_test; a word in the place of train or test may be one of them."""
    words = {"Train": 5, "test": 2, "qual_dev": 3, "": 1, "restval": 4}
    assert check_other_splits(words, "x.json") == (
        "images of splits that are none of train, val and test: 3 of 'qual_dev'",
    )
    assert check_other_splits({"train": 5, "": 1, "restval": 2}, "x.json") == ()
    message = refusal(check_other_splits, {"train": 5, "tets": 2}, "x.json")
    assert "x.json: splits that are none of train, val, test and their like (1): 'tets'" in message


def test_files_that_differ_in_their_split_alone():
    names = ["a/f30k_train.json", "a/f30k_val.json", "a/coco_val.json"]
    assert [without_split(name) for name in names] == ["a/f30k_.json"] * 2 + ["a/coco_.json"]
