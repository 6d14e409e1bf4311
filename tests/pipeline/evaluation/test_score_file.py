"""Score files: what goes in comes out, the same bytes each time, and damage is noticed."""

import dataclasses

import h5py
import numpy as np
import pytest

from pipeline.evaluation.score_file import SplitScores, read_scores, write_scores
from pipeline.features.groups import write_groups
from pipeline.runtime.errors import WorkbenchError

TEXTS = ("image_ids", "caption_ids", "caption_image_ids", "image_groups")


def a_split(**changes):
    random = np.random.default_rng(3)
    split = SplitScores(
        scores=random.standard_normal((3, 5)).astype(np.float32),
        image_ids=["été.jpg", "b", "c"],
        caption_ids=["1", "2", "3", "4", "5"],
        caption_image_ids=["b", "été.jpg", "b", "c", "c"],
        image_groups=["ann", "bob", "ann"],
        image_embeddings=random.standard_normal((3, 2)).astype(np.float32),
        caption_embeddings=random.standard_normal((5, 2)).astype(np.float32),
    )
    return dataclasses.replace(split, **changes)


def write(path, split=None, attributes=None):
    write_scores(path, {"test": split or a_split()}, attributes or {"model": "vse"})
    return path


@pytest.mark.parametrize("vectors", [True, False])
def test_round_trip(tmp_path, vectors):
    split = a_split() if vectors else a_split(image_embeddings=None, caption_embeddings=None)
    found = read_scores(write(tmp_path / "s.h5", split), "test")
    for name in TEXTS:
        assert getattr(found, name) == getattr(split, name)
    for name in ("scores", "image_embeddings", "caption_embeddings"):
        np.testing.assert_array_equal(getattr(found, name), getattr(split, name))
        assert not vectors or getattr(found, name).dtype == np.float32


def test_arrays_and_transposed_scores_are_written_as_lists_and_rows_are(tmp_path):
    split = a_split()
    other = a_split(
        scores=np.asfortranarray(split.scores), **{n: np.array(getattr(split, n)) for n in TEXTS}
    )
    first, second = write(tmp_path / "1.h5", split), write(tmp_path / "2.h5", other)
    assert first.read_bytes() == second.read_bytes()


def test_bytes_do_not_depend_on_order_of_splits_or_attributes(tmp_path):
    splits = {"val": a_split(), "test": a_split(scores=np.zeros((3, 5), np.float32))}
    write_scores(tmp_path / "1.h5", splits, {"model": "vse", "seed": 1})
    write_scores(tmp_path / "2.h5", dict(reversed(splits.items())), {"seed": 1, "model": "vse"})
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()
    np.testing.assert_array_equal(read_scores(tmp_path / "1.h5", "test").scores, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros((3, 4), np.float32)}, r"\(3, 4\).*3 images and 5 captions"),
        ({"scores": np.zeros((3, 5))}, "type float64"),
        ({"image_ids": [], "image_groups": []}, "no ids"),
        ({"scores": np.full((3, 5), np.nan, np.float32)}, "score nan of image 0"),
        ({"image_ids": ["b", "b", "c"]}, "more than once: b"),
        ({"caption_ids": ["1", "2", "", "4", "5"]}, "empty"),
        ({"caption_image_ids": ["b", "x", "b", "c", "y"]}, "not there: x, y"),
        ({"caption_image_ids": ["b"]}, "1 caption_image_ids where 5"),
        ({"image_groups": ["ann", "bob"]}, "2 image_groups where 3"),
        ({"image_groups": ["ann", "bob", "cid"], "caption_image_ids": ["b"] * 5}, "ann, cid"),
        ({"image_embeddings": None}, "both or neither"),
        ({"image_embeddings": np.zeros((3, 4), np.float32)}, "caption_embeddings of shape"),
        ({"image_embeddings": np.zeros(3, np.float32)}, "image_embeddings of shape"),
        ({"caption_embeddings": np.full((5, 2), np.inf, np.float32)}, "in caption_embeddings"),
    ],
)
def test_what_does_not_fit_together_is_not_written(tmp_path, changes, message):
    with pytest.raises(WorkbenchError, match=rf"split test: .*{message}"):
        write(tmp_path / "s.h5", a_split(**changes))
    assert not list(tmp_path.iterdir())


LISTS = {name: getattr(a_split(), name) for name in TEXTS}
NAN = np.full((3, 5), np.nan, np.float32)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"val": {"scores": NAN}}, "no group 'test'; it has val"),
        ({"test": {"scores": NAN}}, "split test holds scores; a score file has"),
        ({"test": {"scores": NAN, **LISTS}}, "split test: score nan"),
    ],
)
def test_other_content_with_valid_digests_is_named(tmp_path, groups, message):
    write_groups(tmp_path / "s.h5", groups, {})
    with pytest.raises(WorkbenchError, match=rf"s\.h5.*{message}"):
        read_scores(tmp_path / "s.h5", "test")


def test_a_feature_file_is_no_score_file(tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"] = np.zeros((2, 2))
    with pytest.raises(WorkbenchError, match=r"f\.h5: 'features' is not a group"):
        read_scores(tmp_path / "f.h5", "test")
