"""Evaluation from embeddings is that of the matrix of their products, bit for bit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from relevance_cases import relevance_from

from pipeline.evaluation.combination import write_average
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.criterion import Criterion, largest
from pipeline.evaluation.figures import measure
from pipeline.evaluation.findings import collect_findings, occurrences
from pipeline.evaluation.protocol import evaluate, first_images
from pipeline.evaluation.rank_file import write_ranks
from pipeline.evaluation.ranks import retrieval_ranks
from pipeline.evaluation.score_file import SplitScores, read_scores, write_scores
from pipeline.evaluation.scores import Products
from pipeline.runtime.errors import WorkbenchError

SOFT = [name for name in CRITERIA if not CRITERIA.constant(name, "WHOLE_MATRIX")]
MADE = [Criterion(name, beta=5.0, k=3, iterations=4) for name in SOFT]
IMAGES, WIDTH = 52, 100
DIRECTIONS = ("i2t", "t2i")


@pytest.fixture
def small(monkeypatch):
    """Tiles of 17 images and 34 captions: of 52 and 103 one is left over."""
    monkeypatch.setattr("pipeline.evaluation.scores.BLOCK", (17, 34))


def embedded(shuffled=False):
    """Images, some of them equal, with one to three captions each, some of these equal as well."""
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(IMAGES), np.resize((1, 3, 2), IMAGES))
    owner = random.permutation(owner) if shuffled else owner
    images = random.standard_normal((IMAGES, WIDTH)).astype(np.float32)
    images[[3, 20, 51]] = images[9]  # in three tiles, the last of one row
    captions = (images[owner] + random.standard_normal((len(owner), WIDTH))).astype(np.float32)
    captions[[1, 30, 60, len(owner) - 1]] = captions[17]
    ids = [f"{n}.jpg" for n in range(IMAGES)]
    return SplitScores(
        scores=Products(images, captions),
        image_ids=ids,
        caption_ids=[f"c{n}" for n in range(len(owner))],
        caption_image_ids=[ids[n] for n in owner],
        image_groups=[str(n // 2) for n in range(IMAGES)],
        image_embeddings=images,
        caption_embeddings=captions,
    )


def graded(split):
    """Extended positives: own pairs and others, in some of the rows alone."""
    random = np.random.default_rng(1)
    shape = len(split.image_ids), len(split.caption_ids)
    own = np.equal.outer(np.array(split.image_groups), split.caption_groups)
    grades = np.where(random.random(shape) < 0.04, 2.5, own.astype(float))
    grades[::3] = 0
    return relevance_from(grades)


def same(found, expected):
    """Equal in every bit, whatever they are made of."""
    assert pickle.dumps(as_plain(found)) == pickle.dumps(as_plain(expected))


def as_plain(value):
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {name: as_plain(one) for name, one in value.items()}
    return (value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


@pytest.mark.parametrize(
    ("folds", "subset", "shuffled"),
    [(1, 0, False), (1, 0, True), (2, 0, True), (13, 0, False), (1, 32, True)],
)
def test_everything_equals_the_matrix(small, folds, subset, shuffled):
    whole = embedded(shuffled)
    held = replace(whole, scores=whole.matrix)
    parts = [first_images(split, subset) for split in (whole, held)]
    assert isinstance(parts[0].scores, Products)
    assert isinstance(parts[1].scores, np.ndarray)
    found, expected = (
        evaluate(split, folds, 4, 0.9, 0, MADE, len(whole.image_ids), graded(parts[0]))
        for split in parts
    )
    same(found, expected)
    assert list(found.metrics) == SOFT
    hubs = [[occurrences(split.scores, way) for way in DIRECTIONS] for split in parts]
    same(dict(enumerate(hubs[0])), dict(enumerate(hubs[1])))
    same(*(collect_findings(split, found, MADE, {}) for split in parts))


def test_the_matrix_has_the_products_and_the_lines_are_its_lines(small):
    split = embedded()
    matrix = split.matrix
    exact = split.image_embeddings.astype(float) @ split.caption_embeddings.T.astype(float)
    np.testing.assert_allclose(matrix, exact, rtol=1e-5, atol=1e-5)
    for number in (0, 16, 17, 50, 51):
        np.testing.assert_array_equal(split.scores.line(0, number), matrix[number])
        np.testing.assert_array_equal(split.scores.line(1, number), matrix[:, number])
    assert np.abs(matrix).max() <= split.scores.bound() < 3 * np.abs(matrix).max()


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kept", [0, 1500])
def test_ranks_do_not_depend_on_the_tiles_that_are_kept(small, monkeypatch, shuffled, kept):
    monkeypatch.setattr("pipeline.evaluation.scores.CACHED_SCORES", kept)
    split = embedded(shuffled)
    groups = split.image_groups, split.caption_groups
    found, expected = (measure(scores, *groups) for scores in (split.scores, split.matrix))
    same(found, expected)


def test_no_tile_is_multiplied_twice(small, monkeypatch):
    """Captions of an image in two tiles, an image's group in two runs of images."""
    monkeypatch.setattr("pipeline.evaluation.scores.CACHED_SCORES", 3000)  # of 5,356
    made, multiply = [], torch.mm
    monkeypatch.setattr(
        torch, "mm", lambda *sides, out: made.append(1) or multiply(*sides, out=out)
    )
    split = embedded()
    retrieval_ranks(split.scores, split.image_groups, split.caption_groups)
    assert len(made) == len(split.scores.rows()) * len(split.scores.columns()) == 16


@pytest.mark.parametrize("width", [1, 7, 64, 300])
@pytest.mark.parametrize("left", [1, 3, 200])
def test_equal_embeddings_tie_wherever_they_lie(width, left):
    """Of all tiles, the last ones of other sizes, in which kernels round otherwise."""
    random = np.random.default_rng(width)
    image, caption = random.standard_normal((2, 1, width)).astype(np.float32)
    products = Products(image.repeat(512 + left, 0), caption.repeat(512 + left, 0), (256, 256))
    matrix = products.matrix()
    assert (matrix == matrix[0, 0]).all()


@pytest.mark.parametrize("shape", [(40, 700), (700, 40), (33, 5)])
@pytest.mark.parametrize("k", [1, 3])
def test_the_largest_are_those_of_sorting(shape, k):
    lines = np.random.default_rng(k).integers(0, 90, shape).astype(np.float32)
    np.testing.assert_array_equal(largest(lines, k), -np.sort(-lines, axis=1)[:, :k])


def test_any_number_of_workers_gives_the_same_bytes(small, tmp_path):
    write_scores(tmp_path / "vse.h5", {"test": embedded()}, {"model": "vse"})
    for workers in (1, 2, 3):
        split = first_images(read_scores(tmp_path / "vse.h5", "test"), 44)
        found = replace(split, scores=split.scores.spread_over(workers, threads=1))
        evaluation = evaluate(found, 2, 4, 0.9, 0, MADE, IMAGES, graded(split))
        findings = collect_findings(found, evaluation, MADE, {"model": "vse"})
        path = tmp_path / str(workers) / "vse.h5"
        write_ranks(path, split, evaluation, 0.9, findings=findings)
    written = {path.read_bytes() for path in tmp_path.glob("*/vse.h5")}
    assert len(written) == 1


def test_a_file_of_embeddings_is_read_and_says_what_it_cannot_do(tmp_path):
    split, path = embedded(), tmp_path / "vse.h5"
    write_scores(path, {"test": split}, {"model": "vse"})
    found = read_scores(path, "test")
    assert isinstance(found.image_embeddings, np.memmap)
    np.testing.assert_array_equal(found.matrix, split.matrix)
    message = "embeddings were kept instead of scores; .* needs the scores(.|\n)*keep: scores"
    with pytest.raises(WorkbenchError, match=message):
        read_scores(path, "test", needed_by="a run")
    write_scores(tmp_path / "cca.h5", {"test": replace(split, scores=split.matrix)}, {})
    members = {name: tmp_path / f"{name}.h5" for name in ("cca", "vse")}
    with pytest.raises(WorkbenchError, match=message):
        write_average(tmp_path / "mean.h5", members, None, False)
    with pytest.raises(WorkbenchError, match="hungarian assigns all pairs at once"):
        evaluate(found, 1, 0, 0.9, 0, [Criterion("hungarian")])


def test_products_beyond_the_range_are_named(small):
    split = embedded()
    split.image_embeddings[31] *= np.float32(1e38)
    for name in ("naive", "csls"):
        with pytest.raises(WorkbenchError, match="of image 31 and caption"):
            evaluate(split, 1, 0, 0.9, 0, [Criterion(name, k=3)])
