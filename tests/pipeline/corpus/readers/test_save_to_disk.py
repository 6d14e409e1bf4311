"""Folders of Hugging Face's save_to_disk: a folder of arrow files for each split."""

import json

import pyarrow as pa
import pytest
from commands import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import (
    files_of,
    image_bytes,
    options,
    read_all,
    save_images,
    texts_of,
    write_arrow,
)

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.rows import find_columns, read_rows
from pipeline.corpus.readers import save_to_disk
from pipeline.corpus.readers.save_to_disk import FORMAT
from pipeline.features.arrays.stream import read_batches
from pipeline.runtime.errors import WorkbenchError

JPG = [image_bytes(n) for n in range(8)]
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SCHEMA = pa.schema({"image": IMAGE, "caption": pa.list_(pa.string())})
SPLITS = {"train": [0, 1, 2], "validation": [3], "test": [4, 5]}


def row(number, *captions, data=True, path=None):
    image = {"bytes": JPG[number] if data else None, "path": path or f"{number}.jpg"}
    return {"image": image, "caption": list(captions or [f"Caption {number}.", "A dog."])}


def save(folder, rows, schema=SCHEMA, **how):
    """What `Dataset.save_to_disk` writes."""
    name = "data-00000-of-00001.arrow"
    write_arrow(folder / name, rows, schema, **how)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    (folder / "dataset_info.json").write_text('{"features": {"image": {"_type": "Image"}}}')


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    for split, numbers in SPLITS.items():
        save(raw / split, [row(n) for n in numbers])
    (raw / "dataset_dict.json").write_text(json.dumps({"splits": list(SPLITS)}))
    return raw


def test_every_split_is_read(raw):
    corpus = read_all("save_to_disk", raw)
    ids = [f"train/{n}.jpg" for n in range(3)] + ["val/3.jpg", "test/4.jpg", "test/5.jpg"]
    assert files_of(corpus) == dict(zip(ids, JPG, strict=False))
    assert texts_of(corpus)["train/1.jpg"] == ["Caption 1.", "A dog."]


def test_one_split_alone_is_read_and_divided(raw):
    corpus = read_all("save_to_disk", raw / "train")
    assert sorted(corpus.images["split"]) == ["test", "train", "val"]
    assert set(corpus.images["image_id"]) == {"0.jpg", "1.jpg", "2.jpg"}


def test_the_file_format_is_read_as_well(raw):
    save(raw / "test", [row(n) for n in SPLITS["test"]], file=True)
    assert len(read_all("save_to_disk", raw).images) == 6


def test_it_is_known_by_its_images(raw):
    (found,) = save_to_disk.recognise(list_folder(raw))
    assert (len(found.files), found.has_splits) == (3, True)
    for split in SPLITS:
        save(raw / split, [{"text": "no image"}], None)
    assert save_to_disk.recognise(list_folder(raw)) == []


def test_files_that_the_state_does_not_name_are_passed_over(raw, capsys):
    """`datasets` keeps results of map and filter beside the data."""
    write_arrow(raw / "train" / "cache-0123.arrow", [row(7)], SCHEMA)
    assert len(read_all("save_to_disk", raw).images) == 6
    said = capsys.readouterr().err
    assert "no part of a saved dataset: 1 arrow file: train/cache-0123.arrow" in said


def test_a_file_that_the_state_names_and_rows_by_an_index_are_refused(raw):
    state = {"_data_files": [{"filename": "data-00001-of-00002.arrow"}]}
    (raw / "test" / "state.json").write_text(json.dumps(state))
    assert "files that are not there: data-00001-of" in refusal(read_all, "save_to_disk", raw)
    state = {"_indices_data_files": [{"filename": "indices.arrow"}]}
    (raw / "test" / "state.json").write_text(json.dumps(state))
    assert "flatten_indices()" in refusal(read_all, "save_to_disk", raw)
    (raw / "test" / "state.json").write_text("[]")
    assert "not a state of save_to_disk" in refusal(read_all, "save_to_disk", raw)


def test_images_without_bytes_are_found_by_their_paths(raw, capsys):
    """Without embedding, the rows have the path on the disk of whoever saved them."""
    save_images(raw / "photos", "a.png", "b.png")
    rows = [row(n, data=False, path=f"/home/me/photos/{name}.png") for n, name in enumerate("ab")]
    save(raw / "test", rows)
    corpus = read_all("save_to_disk", raw)
    test = corpus.images[corpus.images["split"] == "test"]
    assert test["image_id"].tolist() == [f"test/home/me/photos/{name}.png" for name in "ab"]
    found = files_of(corpus)["test/home/me/photos/a.png"]
    assert found == (raw / "photos" / "a.png").read_bytes()
    assert "images: 2 of 2 are found by the last part of their names" in capsys.readouterr().err


def test_images_without_bytes_that_are_nowhere_are_named(raw):
    save(raw / "test", [row(4, data=False, path="/home/me/x.png"), row(5)])
    message = refusal(read_all, "save_to_disk", raw)
    assert "no file of its name below raw: '/home/me/x.png'" in message
    corpus = read_all("save_to_disk", raw, skip_bad_images=True)
    assert corpus.images["image_id"].tolist()[-1] == "test/5.jpg"


def test_every_cut_of_a_file_is_noticed(raw):
    path = raw / "train" / "data-00000-of-00001.arrow"
    whole = path.read_bytes()
    ends = [n for n in range(len(whole)) if whole[n : n + 4] == b"\xff\xff\xff\xff"]
    for length in [0, 4, 100, *ends[1:], len(whole) - 8, len(whole) - 1]:
        path.write_bytes(whole[:length])
        message = refusal(read_all, "save_to_disk", raw, skip_bad_images=True)
        fault = "its rows: damaged" if length else "an empty file"
        assert f"cannot be read (1): train/data-00000-of-00001.arrow ({fault}" in message


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("file", [False, True])
def test_compressed_batches_are_refused(raw, compression, file):
    """A small file of them could ask for any amount of memory; datasets writes none."""
    save(raw / "test", [row(4), row(5)], compression=compression, file=file)
    assert "compressed record batches" in refusal(read_all, "save_to_disk", raw)


def test_a_dictionary_is_read_and_its_values_stay_one(tmp_path):
    words = pa.DictionaryArray.from_arrays([0] * 200, ["x" * 100_000])
    table = pa.table({"image": pa.array([JPG[0]] * 200), "caption": words})
    with pa.ipc.new_stream(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    columns = find_columns(FORMAT.read_schema(tmp_path / "x.arrow"), options().corpus)
    texts = [row.texts[0].text for row in read_rows(FORMAT, tmp_path / "x.arrow", columns)]
    assert len(texts) == 200
    assert len({id(text) for text in texts}) < 10


def test_views_are_refused(tmp_path):
    table = pa.table({"a": pa.array(["x"] * 3, pa.string_view())})
    with pa.ipc.new_stream(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(WorkbenchError, match="columns of views, which are not read: a"):
        list(read_batches(tmp_path / "x.arrow", ["a"]))


@settings(max_examples=40)
@given(st.data())
def test_changed_bytes_are_rows_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.arrow"
    write_arrow(path, [row(n) for n in range(3)], SCHEMA)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.unlink()
    path.write_bytes(content)
    try:
        columns = find_columns(FORMAT.read_schema(path), options().corpus)
        rows = list(read_rows(FORMAT, path, columns))
    except WorkbenchError:
        return
    assert all(isinstance(row.data, bytes | None) for row in rows)
