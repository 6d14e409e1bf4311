"""Matrices and ids in every format, in blocks, and what is refused."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from clip_retrieval_files import write_parts
from commands import refusal
from embedding_files import FORMATS, write_vectors

from pipeline.evaluation.matrix_file import open_matrix
from pipeline.features.arrays import file
from pipeline.runtime.errors import WorkbenchError

VALUES = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
IDS = ["a.jpg", "b c.jpg", "é", *"defg"]


def put(path: Path, values=VALUES, ids=None):
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        np.savez_compressed(path, features=values, **({} if ids is None else {"ids": ids}))
    return path


def whole(matrix):
    starts, blocks = zip(*matrix.blocks(), strict=True)
    assert list(starts) == [0, *np.cumsum([len(block) for block in blocks])[:-1]]
    assert all(block.dtype == np.float32 for block in blocks)
    return np.concatenate(blocks)


@pytest.mark.parametrize("ending", FORMATS)
def test_the_only_matrix_is_read_whatever_its_name(tmp_path, ending):
    path = write_vectors(tmp_path, ending, IDS, VALUES, names=("caption_ids", "clip"))
    matrix = open_matrix(path, ("image_ids", "caption_ids"))
    inside = path.suffix not in (".npy", ".safetensors")  # the others have them in clip.ids.txt
    assert matrix.ids == ({"caption_ids": IDS} if inside else {})
    np.testing.assert_array_equal(whole(matrix), VALUES)


@pytest.mark.parametrize("name", ["filenames", "image_id", "keys"])
def test_ids_of_embeddings_may_have_another_name(tmp_path, capsys, name):
    """Otherwise their rows would be taken in the order of the corpus, without a word."""
    np.savez(tmp_path / "my.npz", features=VALUES, **{name: np.array(IDS)})
    assert open_matrix(tmp_path / "my.npz", ("ids",)).ids == {"ids": IDS}
    assert f"ids are read from {name}" in capsys.readouterr().err
    np.savez(tmp_path / "my.npz", features=VALUES, ids=np.array(IDS), **{name: np.array(IDS[::-1])})
    assert open_matrix(tmp_path / "my.npz", ("ids",)).ids == {"ids": IDS}


def test_numbers_that_are_called_ids_are_ids(tmp_path):
    np.savez(tmp_path / "my.npz", features=VALUES, image_id=np.arange(7), label=np.arange(7))
    assert open_matrix(tmp_path / "my.npz", ("ids",)).ids == {"ids": list(map(str, range(7)))}


def test_lists_of_which_nobody_knows_what_they_name_are_refused(tmp_path):
    np.savez(tmp_path / "my.npz", features=VALUES, one=np.array(IDS), two=np.array(IDS))
    said = refusal(open_matrix, tmp_path / "my.npz", ("ids",))
    assert "which may be ids: one, two; ids are read from ids" in said
    both = ("image_ids", "caption_ids")
    np.savez(tmp_path / "my.npz", scores=VALUES, rows=np.array(IDS), note=np.array(["x"]))
    said = refusal(open_matrix, tmp_path / "my.npz", both)
    assert "which may be ids: rows; ids are read from image_ids and caption_ids" in said
    np.savez(tmp_path / "my.npz", scores=VALUES, image_ids=np.array(IDS), words=np.array(["a"] * 3))
    assert "which may be ids: words" in refusal(open_matrix, tmp_path / "my.npz", both)
    np.savez(tmp_path / "my.npz", scores=VALUES, note=np.array(["x", "y"]), label=np.arange(7))
    assert open_matrix(tmp_path / "my.npz", both).ids == {}


def test_of_several_matrices_features_is_meant(tmp_path):
    np.savez(tmp_path / "my.npz", boxes=VALUES + 1, features=VALUES)
    np.testing.assert_array_equal(whole(open_matrix(tmp_path / "my.npz", ("ids",))), VALUES)


SCORES = ("image_ids", "caption_ids")
VECTORS = ("ids",)


@pytest.mark.parametrize(
    ("names", "arrays", "words"),
    [
        (("ids",), {"features": np.ones((7, 2, 3)), "proj": VALUES}, "1 matrices; expected is on"),
        (("ids",), {"mask": VALUES}, "mask (7, 3) is its only matrix, and is called as what goes"),
        (SCORES, {"sims": VALUES, "features": VALUES}, "2 matrices; expected is one; it has sims"),
        (
            SCORES,
            {"similarity": np.ones((7, 7, 5)), "offset": VALUES},
            "beside similarity (7, 7, 5)",
        ),
    ],
)
def test_a_matrix_beside_what_may_be_meant_is_refused(tmp_path, names, arrays, words):
    np.savez(tmp_path / "my.npz", **arrays)
    assert words in refusal(open_matrix, tmp_path / "my.npz", names)


def test_of_several_matrices_scores_is_meant(tmp_path):
    np.savez(tmp_path / "my.npz", labels=VALUES + 1, scores=VALUES, temperature=np.ones((1, 1)))
    np.testing.assert_array_equal(whole(open_matrix(tmp_path / "my.npz", SCORES)), VALUES)


@pytest.mark.parametrize("names", [SCORES, VECTORS])
def test_an_axis_of_one_is_told_how_it_goes(tmp_path, names):
    np.save(tmp_path / "my.npy", np.ones((7, 1, 3), np.float32))
    assert "by array.reshape(7, 3)" in refusal(open_matrix, tmp_path / "my.npy", names)


def test_arrays_of_three_axes_are_told_what_they_may_be(tmp_path):
    np.save(tmp_path / "my.npy", np.ones((7, 5, 3), np.float32))
    assert "folds are not read" in refusal(open_matrix, tmp_path / "my.npy", SCORES)
    said = refusal(open_matrix, tmp_path / "my.npy", VECTORS)
    assert "the values of one vector, save it by array.reshape(-1, 3)" in said


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int32, np.uint8, ">f4"])
def test_types_become_float32(tmp_path, kind):
    values = np.abs(10 * VALUES).astype(kind)
    found = whole(open_matrix(put(tmp_path / "my.npy", values), ()))
    np.testing.assert_array_equal(found, values.astype(np.float32))


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("block", [1, 24, 1 << 20])
def test_fortran_order_is_read_as_numpy_reads_it(tmp_path, monkeypatch, ending, block):
    monkeypatch.setattr(file, "BLOCK_BYTES", block)
    path = put(tmp_path / f"my.{ending}", np.asfortranarray(VALUES))
    np.testing.assert_array_equal(whole(open_matrix(path, ())), VALUES)


def test_an_archive_in_fortran_order_is_turned_within_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.features.arrays.npy.MOST_IN_MEMORY", 80)
    refused(put(tmp_path / "my.npz", np.asfortranarray(VALUES)), "too large to turn in memory")


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_no_numbers_are_placed(tmp_path, monkeypatch, ending, bad):
    monkeypatch.setattr(file, "BLOCK_BYTES", 24)
    values = VALUES.astype(np.float64)  # which holds more than float32
    values[5, 1] = bad
    said = refusal(whole, open_matrix(put(tmp_path / f"my.{ending}", values), ()))
    assert said.startswith(f"{tmp_path}/my.{ending}: {bad} in row 5, column 1 (from 0);")


def refused(path, words, names=("ids",)):
    with pytest.raises(WorkbenchError, match=words) as found:
        whole(open_matrix(path, names))
    assert str(path) in str(found.value)


def test_other_shapes_and_types_are_refused(tmp_path):
    refused(put(tmp_path / "a.npy", VALUES[0]), r"0 matrices; expected is one; it has \(3,\)")
    refused(put(tmp_path / "b.npy", VALUES[:0]), "none of them 0")
    refused(put(tmp_path / "c.npy", VALUES > 0), "values of type bool; expected are numbers")
    refused(put(tmp_path / "d.npy", VALUES.astype(complex)), "values of type complex64|complex128")
    refused(tmp_path / "e.csv", "allowed endings are .npy, .npz, .h5")
    refused(tmp_path / "f.npy", "no such file")
    np.savez(tmp_path / "g.npz", one=VALUES, two=VALUES)
    refused(tmp_path / "g.npz", r"2 matrices; expected is one; it has one \(7, 3\)")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (VALUES > 0, "values of type bool; expected are numbers"),
        (VALUES[:, 0], r"shape \(7,\); expected are rows"),
        (VALUES[:, :0], "none of them 0"),
    ],
)
def test_other_shapes_and_types_are_refused_in_parts_of_clip_retrieval(tmp_path, values, message):
    write_parts(tmp_path, IDS, values)
    with pytest.raises(WorkbenchError, match=message):
        open_matrix(tmp_path, (), "img_emb")


def test_what_is_no_list_of_ids_is_refused(tmp_path):
    refused(put(tmp_path / "b.npz", ids=np.ones(7)), "ids .N,., texts in UTF-8 or whole numbers")
    refused(put(tmp_path / "c.npz", ids=np.array([b"\xff"] * 7)), "texts in UTF-8")


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path):
    np.savez(tmp_path / "my.npz", features=np.ones((50, 30), np.float32))
    data = bytearray((tmp_path / "my.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "my.npz").write_bytes(data)
    refused(tmp_path / "my.npz", "damaged, or of another format: Bad CRC-32")


def test_a_member_that_unpacks_to_more_than_it_promises(tmp_path):
    np.save(tmp_path / "small.npy", VALUES)
    with zipfile.ZipFile(tmp_path / "my.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", (tmp_path / "small.npy").read_bytes() + b"\0" * (1 << 24))
    refused(tmp_path / "my.npz", r"its header promises shape \(7, 3\)")


def test_a_member_that_unpacks_to_less_than_it_promises(tmp_path):
    """Its checksum is right and its sizes lie: no more is to be had, however often it is asked."""
    stored = io.BytesIO()
    np.save(stored, np.ones((50, 4), np.float32))
    promised = len(stored.getvalue())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", stored.getvalue()[:-160])
        directory = archive.fp.tell()
    data = bytearray(packed.getvalue())
    for place in (22, directory + 24):  # sizes in the member's header and in the directory
        data[place : place + 4] = promised.to_bytes(4, "little")
    (tmp_path / "my.npz").write_bytes(data)
    refused(tmp_path / "my.npz", "cut off at row 40")
