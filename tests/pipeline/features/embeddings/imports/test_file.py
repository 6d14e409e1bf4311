"""Files of vectors in every format: the same rows in the corpus's order, or one plain message."""

import hashlib
import json
import os
import pickle

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from embedding_files import FORMATS, write_ids, write_vectors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.features.arrays import file
from pipeline.features.feature_file import FeatureFile, FeatureWriter
from pipeline.features.imports import Wanted
from pipeline.features.imports.file import import_job
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.section import VECTOR_FILES, EmbeddingFileConfig

IDS = [f"a{number}.jpg" for number in range(10)] + ["b/ü 1.jpg"]
DIM = 6


def vectors_of(ids, dtype="float32"):
    """A vector for each id that depends on nothing else."""
    seeds = [int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) for name in ids]
    rows = [np.random.default_rng(seed).normal(size=DIM) for seed in seeds]
    return np.array(rows).astype(dtype)


def config(path, ids="ids", features="features", other_ids="error"):
    return EmbeddingFileConfig(path=str(path), ids=ids, features=features, other_ids=other_ids)


def images_of(ids):
    return Wanted(pd.DataFrame({"image_id": ids}), "image_id", "image_features.file.other_ids")


def run(path, wanted=IDS, **changes):
    """The file of features that an import writes beside the file; changes: keys of the section."""
    job = import_job(config(path, **changes), images_of(wanted), "c" * 64, {"source": "file"})
    target, work = path.with_name("out.h5"), path.parent / "work"
    with FeatureWriter(work, "f" * 16, wanted, job.datasets, job.attributes) as writer:
        job.fill(writer)
        writer.finish(target)
    return FeatureFile(target)


def refused(path, words, **changes):
    with pytest.raises(WorkbenchError, match=words) as caught:
        run(path, **changes)
    assert str(path.with_suffix("")) in caught.value.message  # or the file of ids beside it
    assert not path.with_name("out.h5").exists()
    return caught.value


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(IDS), rows=st.integers(1, 12))
def test_rows_are_found_by_their_ids_in_any_blocks(tmp_path, ending, dtype, order, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "BLOCK_BYTES", 4 * DIM * rows)
        found = run(write_vectors(tmp_path, ending, order, vectors_of(order, dtype)))
    assert found.ids == IDS
    assert found.dtype() == (np.float16 if dtype == "float16" else np.float32)
    np.testing.assert_array_equal(found.load(), vectors_of(IDS, dtype).astype(found.dtype()))


def test_every_ending_is_tested():
    endings = {f"x{ending}".partition(".")[2] for ending in FORMATS}
    assert endings | {"mat"} == {ending[1:] for ending in VECTOR_FILES}  # .mat: test_source.py


@pytest.mark.parametrize("ending", FORMATS)
def test_what_the_file_says_of_itself(tmp_path, ending):
    path = write_vectors(tmp_path, ending, IDS, vectors_of(IDS))
    said = run(path).attributes
    assert said["weights_sha256"] == sha256_file(path)
    assert said["model"] == f"imported from {path.suffix[1:]}"
    assert said["corpus_sha256"] == "c" * 64
    params = json.loads(said["params"])
    assert (params["source"], params["file"]["features"]) == ("file", "features")
    beside = path.with_name("clip.ids.txt")
    digest = sha256_file(beside) if beside.exists() else None
    assert params["file"].get("ids_sha256") == digest
    assert str(tmp_path).encode() not in (tmp_path / "out.h5").read_bytes()


@pytest.mark.parametrize("ending", [".npy", ".safetensors"])
@pytest.mark.parametrize("beside", [".ids.txt", ".ids.json", ".ids.npy"])
def test_ids_beside_the_file(tmp_path, ending, beside):
    path = write_vectors(tmp_path, ending, IDS, vectors_of(IDS), beside=beside)
    np.testing.assert_array_equal(run(path).load(), vectors_of(IDS))


def test_ids_inside_win_over_a_list_beside_and_a_line_says_so(tmp_path, capsys):
    path = write_vectors(tmp_path, ".npz", IDS, vectors_of(IDS))
    write_ids(path, IDS[::-1], ".ids.txt")
    np.testing.assert_array_equal(run(path).load(), vectors_of(IDS))
    said = f"{path}: ids are those inside it, in ids; {tmp_path / 'clip.ids.txt'} is not read\n"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("ending", FORMATS)
def test_other_names_and_whole_numbers_as_ids(tmp_path, ending):
    ids = [str(number) for number in range(7, 18)]
    path = write_vectors(tmp_path, ending, ids, vectors_of(ids), names=("image/id", "clip/v"))
    named = {"ids": "image/id", "features": "clip/v"}
    np.testing.assert_array_equal(run(path, ids, **named).load(), vectors_of(ids))
    if path.suffix == ".parquet":
        column = pa.array(vectors_of(ids).tolist(), pa.list_(pa.float32()))
        pq.write_table(pa.table({"ids": pa.array([int(i) for i in ids]), "features": column}), path)
        np.testing.assert_array_equal(run(path, ids).load(), vectors_of(ids))
    if path.suffix == ".npz":
        np.savez(path, ids=np.array(ids, np.int64), features=vectors_of(ids))
        np.testing.assert_array_equal(run(path, ids).load(), vectors_of(ids))


@pytest.mark.parametrize("ending", FORMATS)
def test_ids_that_do_not_fit_are_named_all_at_once(tmp_path, ending):
    found = [*IDS[2:], "a4.jpg", "spare 1", "a9.jpg"]
    path = write_vectors(tmp_path, ending, found, vectors_of(found))
    message = refused(path, "ids more than once").message
    assert "ids more than once (2): a4.jpg (row 9), a9.jpg (row 11)" in message
    assert "ids of the corpus without a row (2): a0.jpg, a1.jpg" in message
    assert "ids that are not in the corpus (1): spare 1 (row 10)" in message


def test_rows_of_other_ids_can_be_left_out(tmp_path, capsys):
    found = ["x", *IDS, "y"]
    path = write_vectors(tmp_path, ".npy", found, vectors_of(found))
    np.testing.assert_array_equal(run(path, other_ids="skip").load(), vectors_of(IDS))
    assert "left out 2 rows of ids that are not in the corpus" in capsys.readouterr().err


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named_with_their_row(tmp_path, ending, value):
    vectors = vectors_of(IDS[::-1])
    vectors[8, 3] = vectors[9, 0] = value
    path = write_vectors(tmp_path, ending, IDS[::-1], vectors)
    refused(path, r": features: NaN or infinite values for .*a2\.jpg")


@pytest.mark.parametrize("ending", FORMATS)
def test_integers_are_refused(tmp_path, ending):
    path = write_vectors(tmp_path, ending, IDS, np.ones((len(IDS), DIM), np.int8))
    error = refused(path, "type|values of")
    assert "float32" in error.hint


@pytest.mark.parametrize("ending", [e for e in FORMATS if "parquet" not in e])
@pytest.mark.parametrize("shape", [(11,), (11, 2, 3), (11, 1 << 17)])
def test_what_is_not_one_vector_per_row(tmp_path, ending, shape):
    path = write_vectors(tmp_path, ending, IDS, np.ones(shape, np.float16))
    refused(path, r"shape \(11.*expected are vectors \(N, D\), N at most .* and D at most 65,536")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".h5", ".safetensors"])
def test_another_number_of_ids(tmp_path, ending):
    path = write_vectors(tmp_path, ending, IDS[1:], vectors_of(IDS))
    refused(path, "10 ids for 11 vectors")


def test_ids_beside_that_are_missing_or_there_twice(tmp_path):
    path = write_vectors(tmp_path, ".npy", IDS, vectors_of(IDS))
    write_ids(path, IDS, ".ids.json")
    refused(path, "several lists of ids: .*clip.ids.txt, .*clip.ids.json")
    for ending in (".ids.txt", ".ids.json"):
        (tmp_path / f"clip{ending}").unlink()
    assert "clip.ids.txt, clip.ids.json" in refused(path, "no ids").hint


@pytest.mark.parametrize("ending", [".npz", ".h5", ".parquet", ".safetensors"])
def test_a_name_that_is_not_there(tmp_path, ending):
    path = write_vectors(tmp_path, ending, IDS, vectors_of(IDS))
    error = refused(path, "no array 'clip'; it has .*features", features="clip")
    assert "under `file` in params.yaml" in error.hint


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_pickles_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    traps = np.array([[Trap()]] * len(IDS), dtype=object)
    path = write_vectors(tmp_path, ".npy", IDS, vectors_of(IDS))
    np.save(path, traps, allow_pickle=True)
    refused(path, "pickled objects, which could run code")
    np.savez(tmp_path / "clip.npz", ids=np.array(IDS), features=traps)
    refused(tmp_path / "clip.npz", "pickled objects, which could run code")
    np.savez(tmp_path / "clip.npz", ids=traps[:, 0], features=vectors_of(IDS))
    assert "dtype=str" in refused(tmp_path / "clip.npz", "pickled objects").hint
    path.write_bytes(pickle.dumps(traps))
    assert "save the values in one of .npy" in refused(path, "a pickle, which can run code").hint
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("ending", FORMATS)
def test_files_that_are_cut_off_or_something_else(tmp_path, ending):
    path = write_vectors(tmp_path, ending, IDS, vectors_of(IDS))
    data = path.read_bytes()
    for spoilt in (data[: len(data) // 2], data[:20], b"", b"hello" * 99):
        path.write_bytes(spoilt)
        with pytest.raises(WorkbenchError, match="clip"):
            run(path)
        assert not (tmp_path / "out.h5").exists()


def test_no_damage_of_a_parquet_file_ends_the_process(tmp_path):
    """Some, in the description of row groups, makes pyarrow throw what nobody catches."""
    path = write_vectors(tmp_path, ".parquet", IDS, vectors_of(IDS))
    content, refusals = path.read_bytes(), 0
    size = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - size, len(content) - 8, 3):
        path.write_bytes(content[:place] + bytes((content[place] ^ 16,)) + content[place + 1 :])
        try:
            run(path)
            path.with_name("out.h5").unlink()
        except WorkbenchError:
            refusals += 1
    assert refusals


def test_datasets_that_claim_or_hide_their_size(tmp_path):
    path = tmp_path / "clip.h5"
    for options, words in (
        ({"shape": (11, 9000), "chunks": (11, 9000)}, "'features' is empty"),
        ({"shape": (20_000, 9000), "chunks": (20_000, 9000)}, "empty|cannot be in this file"),
    ):
        with h5py.File(path, "w") as file:
            file["ids"] = np.array([name.encode() for name in IDS])
            file.create_dataset("features", dtype="f4", **options)
        refused(path, words)
    with h5py.File(path, "w") as file:
        file["ids"] = np.array([name.encode() for name in IDS])
        file["features"] = h5py.ExternalLink("/etc/passwd", "x")
    refused(path, "link to elsewhere")


def test_lists_of_different_lengths_and_rows_without_a_list(tmp_path):
    path, rows = tmp_path / "clip.parquet", vectors_of(IDS).tolist()
    for change, words in (
        ({3: [*rows[3], 1.0]}, "row 3: 7 values; row 0 has 6"),
        ({3: None}, "row 3: no value"),
    ):
        changed = [change.get(row, values) for row, values in enumerate(rows)]
        column = pa.array(changed, pa.list_(pa.float32()))
        pq.write_table(pa.table({"ids": IDS, "features": column}), path)
        refused(path, words)
    column = pa.array(rows, pa.list_(pa.float32()))
    pq.write_table(pa.table({"ids": [None, *IDS[1:]], "features": column}), path)
    refused(path, "array ids, row 0: no value")


def test_a_killed_import_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "BLOCK_BYTES", 4 * DIM * 2)
    vectors = vectors_of(IDS)
    path = write_vectors(tmp_path, ".npy", IDS, vectors)
    job = import_job(config(path), images_of(IDS), "c" * 64, {"source": "file"})
    work = tmp_path / "work", "f" * 16, IDS, job.datasets, job.attributes
    with FeatureWriter(*work) as writer:
        writer.write([4, 5], features=vectors[4:6] + 1)  # marked, to see that they are kept
    with FeatureWriter(*work) as writer:
        job.fill(writer)
        writer.finish(tmp_path / "out.h5")
    found = FeatureFile(tmp_path / "out.h5").load()
    np.testing.assert_array_equal(found[4:6], vectors[4:6] + 1)
    np.testing.assert_array_equal(np.delete(found, [4, 5], 0), np.delete(vectors, [4, 5], 0))


def test_vectors_that_were_never_computed_are_said(tmp_path, capsys):
    values = vectors_of(IDS)
    run(write_vectors(tmp_path, ".npz", IDS, values))
    assert "were they computed?" not in capsys.readouterr().err
    values[[2, 5]] = 0
    values[8:] = values[7]
    found = run(write_vectors(tmp_path, ".npz", IDS[::-1], values[::-1]))
    said = capsys.readouterr().err
    assert "clip.npz: 2 of 11 vectors are zeros: a5.jpg, a2.jpg; were they computed?" in said
    assert "clip.npz: 3 of 11 vectors are equal to another one" in said
    assert not found.read([2]).any()


@pytest.mark.parametrize("ending", [".pt", ".pkl", ".json", ".csv"])
def test_the_settings_let_a_file_through_whose_command_opening_says(tmp_path, ending):
    path = tmp_path / f"v{ending}"
    path.write_bytes(pickle.dumps({"a": [1.0]}) if ending == ".pkl" else b"{}")
    if ending == ".pt":
        torch.save({"a": torch.ones(2)}, path)
    assert not list(config(path).path_problems("image_features.source", "file"))
    hint = refused(path, "allowed endings are").hint
    assert "python -c" in hint
    assert list(config(tmp_path / "v.xlsx").path_problems("image_features.source", "file"))
