"""Inspection: statistics and neighbours equal numpy's, and files of both kinds are shown."""

import json
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.report import inspection
from pipeline.report.inspection import (
    attribute_lines,
    describe_row,
    neighbours,
    statistics,
    summary,
    verify_file,
)
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import FeatureFile, write_features
from pipeline.storage.groups import write_groups

IDS = [f"id{number}" for number in range(30)]


def values() -> np.ndarray:
    features = np.random.default_rng(0).normal(2, 3, size=(30, 4, 5)).astype(np.float16)
    features[[4, 9]] = 0
    return features


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "features.h5"
    attributes = {"model": "m", "params": json.dumps({"size": 128, "layers": ["a", "b"]})}
    counts = np.arange(30, dtype=np.int64)
    write_features(path, IDS, {"features": values(), "counts": counts}, attributes)
    return path


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    path = tmp_path / "scores.h5"
    groups = {
        split: {"scores": np.eye(3, 4, dtype=np.float32), "image_ids": ["x", "y\x1b[2J", "z"]}
        for split in ("test", "val")
    }
    write_groups(path, groups, {"model": "vse"})
    return path


@given(st.integers(1, 200))
@settings(max_examples=15)
def test_statistics_in_blocks_equal_numpy_s(tmp_path_factory, block: int) -> None:
    path = tmp_path_factory.getbasetemp() / "statistics.h5"
    if not path.exists():
        write_features(path, IDS, {"features": values()}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "BLOCK_VALUES", block)
        found = statistics(path, FeatureFile(path).layouts["features"])
    *numbers, not_finite, zero_rows = astuple(found)
    wide = values().astype(np.float64)
    np.testing.assert_allclose(
        numbers, (wide.min(), wide.max(), wide.mean(), wide.std()), rtol=1e-12
    )
    assert (not_finite, zero_rows) == (0, 2)


def test_values_that_are_not_finite_are_counted_apart(tmp_path: Path) -> None:
    path = tmp_path / "nan.h5"  # the writer of groups takes them, unlike that of features
    array = np.array([[1, np.nan], [np.inf, 3], [0, 0]], dtype=np.float32)
    write_groups(path, {"val": {"scores": array, "nothing": array * np.nan}}, {})
    layouts = inspection.datasets_of(inspection.open_file(path))
    found = statistics(path, layouts["val/scores"])
    assert (found.minimum, found.maximum, found.mean) == (0, 3, 1)
    assert (found.not_finite, found.zero_rows) == (2, 1)
    assert statistics(path, layouts["val/nothing"]).not_finite == 6
    assert any("nan" in line for line in summary(path))


def test_neighbours_equal_a_sort_of_all_cosines(features: Path, monkeypatch) -> None:
    monkeypatch.setattr(inspection, "BLOCK_VALUES", 130)
    flat = values().reshape(30, -1).astype(np.float64)
    lengths = np.maximum(np.linalg.norm(flat, axis=1), 1e-30)
    cosines = flat @ flat[7] / (lengths * lengths[7])
    expected = [place for place in np.argsort(-cosines, kind="stable") if place != 7][:10]
    found = neighbours(features, "id7")
    assert [name for name, _ in found] == [IDS[place] for place in expected]
    np.testing.assert_allclose([cosine for _, cosine in found], cosines[expected], atol=1e-6)


def test_what_has_no_vectors_or_ids_is_refused(features: Path, scores: Path) -> None:
    with pytest.raises(WorkbenchError, match="counts has no vectors"):
        neighbours(features, "id1", dataset="counts")
    with pytest.raises(WorkbenchError, match="no row for nope"):
        neighbours(features, "nope")
    with pytest.raises(WorkbenchError, match="no ids of its own"):
        list(describe_row(scores, "x"))


def test_the_summary_of_a_feature_file(features: Path) -> None:
    text = "\n".join(summary(features))
    size = features.stat().st_size
    for part in (f"30 ids, {size:,} bytes", "(30, 4, 5)", "float16", "contiguous", "id0, id1, id2"):
        assert part in text
    assert "  params:\n    size: 128\n    layers:\n    - a\n    - b\n" in text
    assert FeatureFile(features).sha256 not in text.split("values")[1]


def test_the_summary_of_a_score_file(scores: Path) -> None:
    text = "\n".join(summary(scores))
    assert "val/image_ids: x" in text
    assert "\x1b" not in text
    assert verify_file(scores) == 4


def test_attributes_that_only_look_like_json_are_shown_as_they_are() -> None:
    deep = "[" * 100_000
    assert attribute_lines({"a": "{broken", "n": 3}) == "a: '{broken'\nn: 3\n"
    assert deep in attribute_lines({"a": deep})


def test_neighbours_of_a_zero_row_and_in_a_file_of_one(features: Path, tmp_path: Path) -> None:
    assert {cosine for _, cosine in neighbours(features, "id4", count=50)} == {0.0}
    assert len(neighbours(features, "id4", count=50)) == 29
    write_features(tmp_path / "one.h5", ["a"], {"features": np.ones((1, 3))}, {})
    assert neighbours(tmp_path / "one.h5", "a") == []
