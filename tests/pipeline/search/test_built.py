"""Approximate indexes: the same bytes every time, recall as a slow loop counts it, mapped into
memory, and refused where they do not belong."""

import json
import shutil

import numpy as np
import pytest
from commands import refusal

from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.search.built import (
    INDEX_FILE,
    BuiltIndexes,
    build_index,
    measure_recalls,
    open_index,
    write_index,
    write_indexes,
)
from pipeline.search.index import Index, read_index, top_rows
from pipeline.search.params import HNSWConfig, IVFPQConfig, SearchConfig

IMAGES, CAPTIONS, WIDTH = 300, 700, 16
SHA = "a" * 64
CORPUS = {"images_sha256": "b" * 64, "captions_sha256": "c" * 64}
HNSW = HNSWConfig(m=4, ef_construction=20, ef_search=16)
IVF_PQ = IVFPQConfig(lists=20, probes=3, code_bytes=4)


def settings(index="hnsw", hnsw=HNSW, ivf_pq=IVF_PQ):
    return SearchConfig(index=index, models=["vse"], hnsw=hnsw, ivf_pq=ivf_pq)


def vectors(count, seed):
    drawn = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def put_scores(path, seed=0, small=False):
    """A score file of two splits, the second too small for codes where `small`."""
    splits = {}
    for split, images in (("test", IMAGES), ("val", 40 if small else IMAGES)):
        ids = [f"{split}{row}" for row in range(images)]
        captions = 2 * images if small else CAPTIONS
        splits[split] = SplitScores(
            scores=np.zeros((images, captions), np.float32),
            image_ids=ids,
            caption_ids=[f"{split}#{row}" for row in range(captions)],
            caption_image_ids=[ids[row % images] for row in range(captions)],
            image_groups=ids,
            image_embeddings=vectors(images, seed),
            caption_embeddings=vectors(captions, seed + 1),
        )
    write_scores(path, splits, {"model": "vse", "checkpoint_sha256": SHA} | CORPUS)
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    put_scores(folder / "vse.h5")
    for kind in ("hnsw", "ivf_pq"):
        write_indexes(folder / kind, folder / "vse.h5", "vse", settings(kind), seed=3)
    return folder


@pytest.mark.parametrize("kind", ["hnsw", "ivf_pq"])
def test_building_twice_gives_the_same_bytes(world, tmp_path, kind):
    write_indexes(tmp_path, world / "vse.h5", "vse", settings(kind), seed=3)
    made = {path.name: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    assert made == {path.name: path.read_bytes() for path in sorted((world / kind).iterdir())}
    assert set(made) == {INDEX_FILE} | {
        f"{split}_{side}.faiss" for split in ("test", "val") for side in ("image", "caption")
    }
    write_indexes(tmp_path, world / "vse.h5", "vse", settings(kind), seed=4)
    assert (tmp_path / "test_image.faiss").read_bytes() != made["test_image.faiss"]


def by_loop(embeddings, queries, found, top):
    """Recall as it is defined: of every query's `top` nearest by a sort in float64."""
    hits = 0
    for query, rows in zip(queries, found, strict=True):
        exact = sorted(range(len(embeddings)), key=lambda row: -float(embeddings[row] @ query))
        near = sorted((row for row in rows if row >= 0), key=exact.index)
        hits += len(set(exact[:top]) & set(near[:top]))
    return hits / (top * len(queries))


@pytest.mark.parametrize("kind", ["hnsw", "ivf_pq"])
def test_recall_is_what_a_loop_counts(world, kind):
    chosen = settings(kind)
    exact = read_index(world / "vse.h5", "test", "image", SHA)
    path = world / kind / "test_image.faiss"
    near = Index(exact.ids, exact.embeddings, open_index(path, chosen.parameters))
    queries = vectors(70, 9)
    for count in (10, 40):
        found = near.nearest(queries, count)
        expected = [
            by_loop(exact.embeddings.astype(np.float64), queries.astype(np.float64), found, top)
            for top in (1, 10)
        ]
        assert measure_recalls(near, queries, [1, 10], count) == pytest.approx(expected, abs=1e-9)
    assert 0.2 < expected[1] < 1  # neither all nor nothing, which any count would give
    said = json.loads((world / kind / INDEX_FILE).read_text())
    part = next(p for p in said["parts"] if (p["split"], p["kind"]) == ("test", "image"))
    assert (part["queries"], said["shortlist"]) == (CAPTIONS, 100)
    captions = read_index(world / "vse.h5", "test", "caption", SHA).embeddings
    found = near.nearest(captions, 100)
    slow = by_loop(exact.embeddings.astype(np.float64), captions.astype(np.float64), found, 10)
    assert part["recall_at_10"] == pytest.approx(slow, abs=1e-4)


def test_equal_vectors_are_all_as_near():
    """Whichever of them an index brings, none is missed."""
    same = np.repeat(vectors(1, 0), 30, axis=0)
    near = Index([""] * 30, same, lambda queries, count: np.full((len(queries), 10), range(20, 30)))
    assert measure_recalls(near, same[:2], [1, 10]) == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["hnsw", "ivf_pq"])
def test_what_is_found_has_exact_scores_in_the_order_of_ties(world, tmp_path, kind):
    """With a shortlist of everything and all lists probed an index finds what exact search does."""
    rows = vectors(IMAGES, 0)
    rows[200:300] = rows[:100]  # every one of these twice
    every = settings(
        kind,
        HNSWConfig(m=32, ef_construction=300, ef_search=300),
        IVFPQConfig(lists=20, probes=20, code_bytes=4),
    ).parameters
    write_index(build_index(rows, every, 0), tmp_path / "all.faiss")
    exact = Index([str(row) for row in range(IMAGES)], rows)
    near = Index(exact.ids, rows, open_index(tmp_path / "all.faiss", every))
    for query in vectors(20, 5):
        sides = [index.candidates(query, IMAGES) for index in (exact, near)]
        tops = [[found.ids[row] for row in top_rows(scores, 150)] for found, scores in sides]
        assert tops[0] == tops[1]
    query = vectors(1, 6)[0]
    found, scores = near.candidates(query, 30)
    assert len(found.ids) == 30
    np.testing.assert_allclose(scores, [rows[int(name)] @ query for name in found.ids], rtol=1e-5)


def test_sets_that_are_too_small_for_codes_are_searched_exactly(tmp_path):
    scores = put_scores(tmp_path / "vse.h5", small=True)
    chosen = settings("ivf_pq")
    made = write_indexes(tmp_path / "i", scores, "vse", chosen, 0)
    assert made["exact"] == ["val_image", "val_caption"]
    built = BuiltIndexes(tmp_path / "i", scores, "vse", chosen)
    exact = read_index(scores, "val", "image", SHA)
    assert built.attached(exact, "val", "image") is exact
    few = settings("ivf_pq", ivf_pq=IVFPQConfig(lists=900, probes=3, code_bytes=4))
    assert "needs 900 vectors" in refusal(write_indexes, tmp_path / "j", scores, "vse", few, 0)
    odd = settings("ivf_pq", ivf_pq=IVFPQConfig(lists=9, probes=3, code_bytes=5))
    said = refusal(write_indexes, tmp_path / "j", scores, "vse", odd, 0)
    assert "code_bytes = 5: must divide the width of the embeddings, 16" in said
    assert "1, 2, 4, 8, 16" in said
    assert "not scores of cca" in refusal(write_indexes, tmp_path, scores, "cca", chosen, 0)


def other(**changes):
    return settings(hnsw=HNSW.model_copy(update=changes))


@pytest.mark.parametrize(
    ("model", "chosen", "words"),
    [
        ("vse", settings("ivf_pq"), "its index is hnsw, not ivf_pq"),
        ("vse", other(ef_search=17), "'ef_search': 16}, not {'m': 4"),
        ("cca", settings(), "its model is vse, not cca"),
    ],
)
def test_indexes_of_something_else_are_refused(world, model, chosen, words):
    said = refusal(BuiltIndexes, world / "hnsw", world / "vse.h5", model, chosen)
    assert words in said
    assert f"dvc repro build_index@{model}" in said


def test_damaged_files_are_refused(world, tmp_path):
    folder, scores = tmp_path / "i", world / "vse.h5"
    shutil.copytree(world / "hnsw", folder)
    exact = read_index(scores, "test", "image", SHA)
    opening = (folder, scores, "vse", settings())
    file, content = folder / "test_image.faiss", (folder / "test_image.faiss").read_bytes()
    for damaged in (content[:-1], content[:99] + b"\x07" + content[100:], b""):
        file.write_bytes(damaged)
        assert "damaged" in refusal(BuiltIndexes(*opening).attached, exact, "test", "image")
    file.unlink()
    assert "missing" in refusal(BuiltIndexes(*opening).attached, exact, "test", "image")
    said = json.loads((folder / INDEX_FILE).read_text())
    for text in ("", "[]", "[" * 100_000, "\xff", json.dumps(said | {"seed": 9}), " " * (2 << 20)):
        (folder / INDEX_FILE).write_text(text, encoding="latin-1")
        assert "damaged" in refusal(BuiltIndexes, *opening), text[:50]
