"""MATLAB's files: the same matrix from scipy's, from HDF5's, and what is no matrix of numbers."""

from contextlib import suppress

import h5py
import numpy as np
import pytest
from commands import refusal
from scipy.io import savemat

from pipeline.features.arrays.formats import open_arrays
from pipeline.features.arrays.mat import only_matrix, turned, upright
from pipeline.runtime.errors import WorkbenchError

VALUES = np.random.default_rng(0).standard_normal((4, 7))


def whole(array):
    return np.concatenate(list(array.blocks()))


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_matrix_is_read_by_rows_and_turned(tmp_path, monkeypatch, version, dtype, compressed):
    monkeypatch.setattr("pipeline.features.arrays.file.BLOCK_BYTES", 32)
    values = VALUES.astype(dtype)
    options = {"do_compression": compressed} if version == "5" else {}
    savemat(tmp_path / "v.mat", {"feats": values, "count": 7.0}, format=version, **options)
    file = open_arrays(tmp_path / "v.mat")
    assert only_matrix(file) == "feats"
    array = file.array("feats")
    assert array.shape == (4, 7)
    assert array.dtype == (dtype if version == "5" else "f8")  # 4 has one class for both
    np.testing.assert_array_equal(whole(array), values)
    np.testing.assert_array_equal(whole(turned(array)), values.T)


def test_whole_numbers_keep_the_class_of_their_variable(tmp_path):
    savemat(tmp_path / "v.mat", {"feats": np.arange(6.0).reshape(2, 3)})
    array = open_arrays(tmp_path / "v.mat").array("feats")
    assert array.dtype == whole(array).dtype == np.float64


def test_version_7_3_is_hdf5(tmp_path):
    with h5py.File(tmp_path / "v.mat", "w", userblock_size=512) as file:
        file["feats"] = VALUES.T  # MATLAB stores columns first
    array = open_arrays(tmp_path / "v.mat").array("feats")
    np.testing.assert_array_equal(whole(array), VALUES.T)


def test_the_side_of_as_many_as_there_are_ids(tmp_path):
    savemat(tmp_path / "v.mat", {"feats": VALUES, "square": VALUES[:, :4]})
    file = open_arrays(tmp_path / "v.mat")
    assert only_matrix(file) is None
    array = file.array("feats")
    assert upright(array, 4) is array
    np.testing.assert_array_equal(whole(upright(array, 7)), VALUES.T)
    with pytest.raises(WorkbenchError, match="4 rows and as many columns"):
        upright(file.array("square"), 4)


def test_cells_structures_and_texts_are_no_matrices(tmp_path):
    cells = np.array([[1, "a"]], object)
    savemat(tmp_path / "v.mat", {"cells": cells, "struct": {"a": 1}, "text": "abc"})
    assert "no array 'cells'" in refusal(open_arrays(tmp_path / "v.mat").array, "cells")


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_damage_is_a_plain_error_or_other_values(tmp_path, place):
    savemat(tmp_path / "v.mat", {"feats": VALUES.astype("f4")})
    data = bytearray((tmp_path / "v.mat").read_bytes())
    data[place % len(data)] ^= 0x55
    (tmp_path / "v.mat").write_bytes(data)
    with suppress(WorkbenchError):
        file = open_arrays(tmp_path / "v.mat")
        for name in file.names:
            whole(file.array(name))


def test_a_file_that_is_cut_off_is_named(tmp_path):
    savemat(tmp_path / "v.mat", {"feats": VALUES})
    (tmp_path / "v.mat").write_bytes((tmp_path / "v.mat").read_bytes()[:200])
    with pytest.raises(WorkbenchError, match=r"v\.mat: damaged, or of another format"):
        open_arrays(tmp_path / "v.mat")
