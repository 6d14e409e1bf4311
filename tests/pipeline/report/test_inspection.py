"""Inspection: statistics and neighbours equal numpy's, and files of both kinds are shown."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.groups import write_groups
from pipeline.report import inspection
from pipeline.report.inspection import (
    attribute_lines,
    describe_row,
    nearest_ids,
    statistics,
    summary_lines,
)

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


@given(st.integers(1, 200))
@settings(max_examples=15)
def test_statistics_in_blocks_equal_numpy_s(tmp_path_factory, block: int) -> None:
    path = tmp_path_factory.getbasetemp() / "statistics.h5"
    if not path.exists():
        write_features(path, IDS, {"features": values()}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "BLOCK_VALUES", block)
        found = statistics(path, FeatureFile(path).layouts["features"])
    *numbers, not_finite, zero_rows = found.values()
    wide = values().astype(np.float64)
    expected = wide.min(), wide.max(), wide.mean(), wide.std()
    np.testing.assert_allclose(numbers, expected, rtol=1e-12)
    assert (not_finite, zero_rows) == (0, 2)


def test_a_file_of_groups_and_values_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "nan.h5"  # the writer of groups takes them, unlike that of features
    array = np.array([[1, np.nan], [np.inf, 3], [0, 0]], dtype=np.float32)
    ids = ["x", "y\x1b[2J", "z"]
    write_groups(path, {"val": {"scores": array, "nothing": array * np.nan, "ids": ids}}, {})
    layouts = inspection.datasets_of(inspection.open_file(path))
    found = statistics(path, layouts["val/scores"])
    assert (found["minimum"], found["maximum"], found["mean"]) == (0, 3, 1)
    assert (found["not_finite"], found["zero_rows"]) == (2, 1)
    assert statistics(path, layouts["val/nothing"])["not_finite"] == 6
    text = "\n".join(summary_lines(path))
    assert "nan" in text
    assert "val/ids: x" in text
    assert "\x1b" not in text
    assert "no ids of its own" in refusal(list, describe_row(path, "x"))


def test_neighbours_equal_a_sort_of_all_cosines(features: Path, monkeypatch) -> None:
    monkeypatch.setattr(inspection, "BLOCK_VALUES", 130)
    flat = values().reshape(30, -1).astype(np.float64)
    lengths = np.maximum(np.linalg.norm(flat, axis=1), 1e-30)
    cosines = flat @ flat[7] / (lengths * lengths[7])
    expected = [place for place in np.argsort(-cosines, kind="stable") if place != 7][:10]
    found = nearest_ids(features, "id7")
    assert [name for name, _ in found] == [IDS[place] for place in expected]
    np.testing.assert_allclose([cosine for _, cosine in found], cosines[expected], atol=1e-6)


def test_the_summary_of_a_feature_file(features: Path) -> None:
    text = "\n".join(summary_lines(features))
    size = features.stat().st_size
    for part in (f"30 ids, {size:,} bytes", "(30, 4, 5)", "float16", "contiguous", "id0, id1, id2"):
        assert part in text
    assert "  params:\n    size: 128\n    layers:\n    - a\n    - b\n" in text
    deep = "[" * 100_000  # it only looks like JSON
    assert deep in attribute_lines({"a": deep, "b": "{broken"})


def test_neighbours_of_a_zero_row_and_in_a_file_of_one(features: Path, tmp_path: Path) -> None:
    found = nearest_ids(features, "id4", count=50)
    assert [cosine for _, cosine in found] == [0.0] * 29
    write_features(tmp_path / "one.h5", ["a"], {"features": np.ones((1, 3))}, {})
    assert nearest_ids(tmp_path / "one.h5", "a") == []
