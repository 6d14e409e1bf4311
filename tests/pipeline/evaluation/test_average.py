"""Averages of score files against numpy on whole matrices, and what may not be averaged."""

import tracemalloc
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ranking_cases import split_of

from pipeline.evaluation import combination as average
from pipeline.evaluation.combination import write_average
from pipeline.evaluation.score_file import SplitScores, read_scores, write_scores
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file

FINITE = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)


def put(folder, attributes=None, **scores):
    """A score file of each matrix, as test split, its negative as validation split."""
    for name, matrix in scores.items():
        split = matrix if isinstance(matrix, SplitScores) else split_of(matrix)
        splits = {"test": split, "val": replace(split, scores=-split.scores)}
        write_scores(folder / f"{name}.h5", splits, {"model": name, **(attributes or {})})
    return {name: folder / f"{name}.h5" for name in scores}


def averaged(members, weights=None, normalise=False):
    output = next(iter(members.values())).parent / "averaged.h5"
    write_average(output, members, weights, normalise)
    return {split: read_scores(output, split).scores for split in ("test", "val")}


def expected(matrices, weights, normalise):
    """In float64, on whole matrices."""
    wide = [np.float64(matrix) for matrix in matrices]
    if normalise:
        wide = [(matrix - matrix.mean()) / matrix.std() for matrix in wide]
    return np.average(wide, axis=0, weights=weights)


@st.composite
def cases(draw):
    images = draw(st.integers(1, 4))
    shape = (images, draw(st.integers(images, 7)))
    count = draw(st.integers(2, 4))
    matrices = [draw(arrays(np.float32, shape, elements=FINITE)) for _ in range(count)]
    digests = {matrix.tobytes() for matrix in matrices}
    weights = draw(st.none() | st.lists(st.floats(0.01, 100), min_size=count, max_size=count))
    return (matrices if len(digests) == count else None), weights, draw(st.integers(1, 30))


@given(cases())
def test_an_average_is_numpy_s_in_float64(case):
    matrices, weights, block = case
    if matrices is None:
        return
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(average, "BLOCK", block)  # tiles of every height
        names = [f"m{n}" for n in range(len(matrices))]
        found = averaged(put(Path(folder), **dict(zip(names, matrices, strict=True))), weights)
    wanted = expected(matrices, weights, normalise=False)
    largest = max(np.abs(matrix).max() for matrix in matrices)
    np.testing.assert_allclose(found["test"], wanted, rtol=2**-23, atol=1e-14 * largest + 1e-44)
    np.testing.assert_array_equal(found["val"], -found["test"])


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("weights", [None, [2, 1, 0.5]])
def test_scores_are_normalised_over_the_whole_matrix(tmp_path, monkeypatch, block, weights):
    """Members of very different scales; in float32 the mean of the third would be lost."""
    random = np.random.default_rng(5)
    matrices = [
        random.standard_normal((40, 90)) * scale + shift
        for scale, shift in ((1, 0), (1000, -5000), (0.01, 1000))
    ]
    matrices = [matrix.astype(np.float32) for matrix in matrices]
    monkeypatch.setattr(average, "BLOCK", block)
    members = put(tmp_path, a=matrices[0], b=matrices[1], c=matrices[2])
    found = averaged(members, weights, normalise=True)
    wanted = expected(matrices, weights, normalise=True)
    np.testing.assert_allclose(found["test"], wanted, rtol=2**-22, atol=1e-9)


def test_the_file_says_what_it_is_made_of_and_has_the_same_bytes_again(tmp_path):
    random = np.random.default_rng(0)
    scan = replace(
        split_of(random.standard_normal((3, 5))),
        image_embeddings=np.ones((3, 2), np.float32),
        caption_embeddings=np.ones((5, 2), np.float32),
    )
    members = put(tmp_path, scan=scan) | put(
        tmp_path, {"shortlist": 2}, dp_rnn=random.standard_normal((3, 5))
    )
    output = tmp_path / "new" / "mine.h5"
    sizes = write_average(output, members, [2, 1], normalise=True)
    assert sizes == {"test": (3, 5), "val": (3, 5)}
    attributes = GroupFile(output).attributes
    assert attributes == {
        "model": "mine",
        "members": "scan, dp_rnn",
        "members_sha256": ", ".join(sha256_file(path) for path in members.values()),
        "weights": "2.0, 1.0",
        "normalise": "z",
        "shortlist": 2,
        "schema_version": 1,
    }
    split = read_scores(output, "test")
    assert split.image_embeddings is split.caption_embeddings is None
    for name in ("image_ids", "caption_ids", "caption_image_ids", "image_groups"):
        assert getattr(split, name) == getattr(scan, name)
    before = output.read_bytes()
    write_average(output, members, [2, 1], normalise=True)
    assert output.read_bytes() == before
    assert sorted(path.name for path in output.parent.iterdir()) == ["mine.h5"]
    write_average(output, members, None, normalise=False)
    plain = GroupFile(output).attributes
    assert (plain["weights"], plain["normalise"]) == ("1.0, 1.0", "none")


def test_memory_does_not_grow_with_matrices_or_members(tmp_path):
    """Matrices of 24 MB; blocks of both sides, their sum and what is read of them take less."""
    random = np.random.default_rng(0)
    matrices = {name: random.standard_normal((2000, 3000), np.float32) for name in "abcd"}
    members = put(tmp_path, **matrices)
    size = matrices["a"].nbytes
    tracemalloc.start()
    write_average(tmp_path / "averaged.h5", members, None, normalise=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * size  # of 8 matrices that are read and 2 that are written


SCORES = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
SPLIT = split_of(SCORES)
OTHERS = [
    (split_of(SCORES, prefix="x"), "number 1 is '0.jpg' and 'x0.jpg' in image_ids"),
    (split_of(SCORES[:2]), "3 and 2 entries in image_ids"),
    (replace(SPLIT, caption_ids=list("01734")), "number 1 is 'c0' and '0' in caption_ids"),
    (replace(SPLIT, image_groups=list("pqr")), "number 1 is '0.jpg' and 'p' in image_groups"),
]


@pytest.mark.parametrize(("split", "words"), OTHERS)
def test_scores_of_another_corpus_are_refused(tmp_path, split, words):
    members = put(tmp_path, a=SCORES + 1, b=split)
    assert f"a.h5 and {tmp_path}/b.h5, split test: {words}" in refusal(averaged, members)
    assert not (tmp_path / "averaged.h5").exists()


@pytest.mark.parametrize("table", ["images", "captions"])
def test_another_world_of_the_same_ids_is_refused(tmp_path, table):
    """Where a file does not say its corpus, only ids can be compared."""
    said = {"images_sha256": "i" * 64, "captions_sha256": "c" * 64}
    members = put(tmp_path, said, a=SCORES, b=SCORES + 1) | put(tmp_path, other=SCORES + 2)
    averaged(members)
    assert GroupFile(tmp_path / "averaged.h5").attributes.items() >= said.items()
    put(tmp_path, said | {f"{table}_sha256": "d" * 64}, b=SCORES + 1)
    words = rf"a.h5 and .*b.h5 were scored on other {table} of equal ids"
    with pytest.raises(WorkbenchError, match=words):
        averaged(members)


def test_scores_without_deviation_cannot_be_normalised(tmp_path):
    members = put(tmp_path, a=SCORES, flat=np.full((3, 5), 0.1))
    with pytest.raises(WorkbenchError, match=r"flat.h5, split test: all scores are 0.1: ") as found:
        averaged(members, normalise=True)
    assert "normalise: none" in found.value.hint
    np.testing.assert_allclose(averaged(members)["test"], (SCORES + np.float32(0.1)) / 2, rtol=1e-5)


def test_other_splits_and_one_file_under_two_names_are_refused(tmp_path):
    members = put(tmp_path, {"note": "a"}, a=SCORES) | put(tmp_path, {"note": "b"}, b=SCORES)
    with pytest.raises(WorkbenchError, match=r"a.h5 and .*b.h5 hold the same scores"):
        averaged(members)
    write_scores(tmp_path / "b.h5", {"test": split_of(SCORES + 1)}, {"model": "b"})
    with pytest.raises(WorkbenchError, match=r"has the splits test, val, .*b.h5 has test"):
        averaged(members)


def test_a_flipped_bit_of_a_member_is_noticed(tmp_path):
    members = put(tmp_path, a=SCORES, b=SCORES + 1)
    content = bytearray(members["b"].read_bytes())
    content[content.index((SCORES + 1).tobytes())] ^= 1
    members["b"].write_bytes(content)
    with pytest.raises(WorkbenchError, match=r"b.h5: .*do not match their sha256"):
        averaged(members)
