"""Rows that repeat the one before, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.features.arrays.npy import read_npy
from pipeline.features.matching.repeats import (
    columns_equal_to_previous,
    equal_to_previous,
    first_difference,
    firsts_of,
    runs_of,
)


@pytest.mark.parametrize("block", [1, 16, 1 << 20])
def test_equal_rows_and_columns(tmp_path, monkeypatch, block):
    monkeypatch.setattr("pipeline.features.arrays.file.BLOCK_BYTES", block)
    random = np.random.default_rng(0)
    values = np.repeat(random.standard_normal((5, 3)), [1, 3, 1, 2, 2], 0).astype(np.float16)
    values = np.repeat(values, [2, 1, 1], 1)
    values[3] = values[2] + np.float16(1e-3)
    np.save(tmp_path / "a.npy", values)
    array = read_npy(tmp_path / "a.npy").array("")
    rows = [r > 0 and bool((values[r] == values[r - 1]).all()) for r in range(9)]
    assert equal_to_previous(array).tolist() == rows
    assert columns_equal_to_previous(array).tolist() == [False, True, False, False]


@given(st.lists(st.integers(1, 4), min_size=1))
def test_runs_and_their_first_rows(counts):
    names = [name for name, count in enumerate(counts) for _ in range(count)]
    firsts = firsts_of(counts)
    assert runs_of([str(name) for name in names]) == counts
    assert np.flatnonzero(firsts).tolist() == [names.index(n) for n in range(len(counts))]
    assert first_difference(~firsts, firsts) is None
    assert first_difference(np.zeros_like(firsts), firsts) == next(
        (row for row, name in enumerate(names) if names.index(name) != row), None
    )
