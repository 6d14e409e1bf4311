import hashlib
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reader_cases import files_of, image_bytes, options, read_all, texts_of, write_parquet

from pipeline.dataset.rows import find_columns, read_rows
from pipeline.readers.parquet_shards import FORMAT
from pipeline.runtime.errors import WorkbenchError

JPG = [image_bytes(n) for n in range(8)]
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {"info": {"features": {"image": {"_type": "Image"}, "caption": {"_type": "Value"}}}}


def schema(caption=None, **more):
    """As Hugging Face's datasets writes it: the features stand in the metadata too."""
    fields = {"image": IMAGE, "caption": caption or pa.list_(pa.string()), **more}
    return pa.schema(fields, metadata={"huggingface": json.dumps(FEATURES)})


def row(number, *captions, path=True, **more):
    image = {"bytes": JPG[number], "path": f"{number}.jpg" if path else None}
    return {"image": image, "caption": list(captions), **more}


SHARDS = {
    "train-00000-of-00002": [row(0, "A dog.", "A brown dog."), row(1, "Two cats.")],
    "train-00001-of-00002": [row(2, "A horse.")],
    "validation-00000-of-00001": [row(3, "A bird.")],
    "test-00000-of-00001": [row(4, "A bee.", "A wasp.")],
}


@pytest.fixture
def raw(tmp_path):
    for name, rows in SHARDS.items():
        write_parquet(tmp_path / "raw" / "data" / f"{name}.parquet", rows, schema())
    return tmp_path / "raw"


def refusal(raw, **changed):
    with pytest.raises(WorkbenchError) as caught:
        read_all("parquet_shards", raw, **changed)
    assert not (raw.parent / "out" / "images").exists()  # nothing half read stays
    return caught.value.message


def test_images_and_captions_of_all_shards(raw):
    corpus = read_all("parquet_shards", raw)
    ids = ["train/0.jpg", "train/1.jpg", "train/2.jpg", "val/3.jpg", "test/4.jpg"]
    assert corpus.images["image_id"].tolist() == ids
    assert corpus.images["split"].tolist() == ["train", "train", "train", "val", "test"]
    assert files_of(corpus) == dict(zip(ids, JPG, strict=False))
    assert texts_of(corpus)["train/0.jpg"] == ["A dog.", "A brown dog."]
    assert corpus.captions["caption_id"].tolist()[:2] == ["train/0.jpg#0", "train/0.jpg#1"]
    assert corpus.images["sha256"][1] == hashlib.sha256(JPG[1]).hexdigest()


def test_a_row_per_caption_gives_one_image_even_across_shards(tmp_path):
    raw = tmp_path / "raw"
    rows = [row(n, caption) for n in range(3) for caption in ("one", "two")]
    rows = [values | {"caption": values["caption"][0]} for values in rows]
    write_parquet(raw / "0.parquet", rows[:3], schema(pa.string()))
    write_parquet(raw / "1.parquet", rows[3:], schema(pa.string()))
    corpus = read_all("parquet_shards", raw)
    assert texts_of(corpus) == {key: ["one", "two"] for key in corpus.images["image_id"]}
    assert sorted(corpus.images["split"]) == ["test", "train", "val"]


@pytest.mark.parametrize("types", [schema(), None], ids=["string", "null"])
def test_images_without_a_path_are_named_by_their_content(tmp_path, types):
    raw = tmp_path / "raw"
    rows = [row(n, f"caption {m}", path=False) for n in range(3) for m in range(2)]
    write_parquet(raw / "0.parquet", rows, types)
    names = {hashlib.sha256(JPG[n]).hexdigest() for n in range(3)}
    assert set(read_all("parquet_shards", raw).images["image_id"]) == names


BYTES, TEXT = pa.binary(), pa.string()
LARGE = pa.large_list(pa.large_string())


@pytest.mark.parametrize(
    ("columns", "cells", "changed"),
    [
        ({"picture": BYTES, "text": TEXT}, {"text": "x"}, {}),
        ({"picture": pa.large_binary(), "text": LARGE}, {"text": ["x"]}, {}),
        ({"picture": BYTES, "caption_0": TEXT, "caption_1": TEXT}, {"caption_0": "x"}, {}),
        (
            {"left": BYTES, "picture": BYTES, "alt": TEXT},
            {"left": b"y", "alt": "x"},
            {"image_field": "picture", "caption_field": "alt"},
        ),
    ],
)
def test_columns_are_found_or_chosen(tmp_path, columns, cells, changed):
    rows = [{"picture": JPG[n], **cells} for n in range(3)]
    write_parquet(tmp_path / "raw" / "0.parquet", rows, pa.schema(columns))
    corpus = read_all("parquet_shards", tmp_path / "raw", **changed)
    assert sorted(files_of(corpus).values()) == sorted(JPG[:3])
    assert corpus.captions["text"].tolist() == ["x"] * 3


@pytest.mark.parametrize(
    ("columns", "changed", "message"),
    [
        ({"a": TEXT}, {}, "no column of image bytes: a (string); set corpus.image_field"),
        ({"a": BYTES, "b": BYTES}, {}, "several columns of image bytes: a (binary), b (binary)"),
        ({"image": IMAGE}, {"image_field": "img"}, "no column 'img' of image bytes"),
        (
            {"image": IMAGE, "caption": pa.int64()},
            {},
            "no column caption or captions or comment or",
        ),
        ({"image": IMAGE}, {"caption_field": "alt"}, "no column alt of text"),
        ({"image": BYTES, "caption": BYTES}, {"image_field": "image"}, "no column caption or"),
    ],
)
def test_missing_columns_are_said_with_those_that_are_there(tmp_path, columns, changed, message):
    write_parquet(tmp_path / "raw" / "0.parquet", [{}], pa.schema(columns))
    assert message in refusal(tmp_path / "raw", **changed)


def third(raw, *rows):
    write_parquet(raw / "data" / "train-00002-of-00003.parquet", list(rows), schema())
    return raw


def image(data, path="7.jpg"):
    return {"image": {"bytes": data, "path": path}, "caption": ["A dog."]}


def test_captions_without_image_bytes_are_named_and_may_be_left_out(raw):
    third(raw, image(None), image(b"", "8.jpg"), image(b"GIF", "9.jpg"), image(None, None))
    message = refusal(raw)
    for case in [
        "cannot be used (4): train/7.jpg (no image in the shard, and no file of its name below raw",
        "train/8.jpg (empty file)",
        "train/9.jpg (not an image",
        "train/data/train-00002-of-00003-row-3 (no image in the shard)",
    ]:
        assert case in message
    corpus = read_all("parquet_shards", raw, skip_bad_images=True)
    assert len(corpus.images) == 5
    assert len(corpus.rejects) == 4


def digest_of(number):
    return hashlib.sha256(JPG[number]).hexdigest()[:12]


@pytest.mark.parametrize("turned", [False, True])
def test_different_images_with_one_name_are_told_apart_by_their_digests(raw, capsys, turned):
    """Hugging Face keeps the last part of a path alone. The ids do not depend on the order."""
    rows = [row(7, "A cow."), row(6, "A pig."), row(7, "A calf.")]
    for values in rows:
        values["image"]["path"] = "a/0.x.jpg"
    third(raw, *(reversed(rows) if turned else rows))
    corpus = read_all("parquet_shards", raw)
    texts = texts_of(corpus)
    assert sorted(texts[f"train/a/0.x-{digest_of(7)}.jpg"]) == ["A calf.", "A cow."]
    assert texts[f"train/a/0.x-{digest_of(6)}.jpg"] == ["A pig."]
    assert files_of(corpus)[f"train/a/0.x-{digest_of(7)}.jpg"] == JPG[7]
    assert "train/a/0.x.jpg" not in texts
    assert texts["train/0.jpg"] == ["A dog.", "A brown dog."]
    own = corpus.captions[corpus.captions["image_id"] == f"train/a/0.x-{digest_of(6)}.jpg"]
    assert own["caption_id"].tolist() == [f"train/a/0.x-{digest_of(6)}.jpg#0"]
    said = capsys.readouterr().err
    assert "different images with one name: 1 name; a part of the digest tells" in said


def test_a_name_that_another_image_s_digest_makes_is_refused(raw):
    rows = [image(JPG[7], "0.jpg"), image(JPG[6], f"0-{digest_of(7)}.jpg")]
    message = refusal(third(raw, *rows))
    assert f"paths of more than one image (1): 'train/0-{digest_of(7)}.jpg'" in message


def test_captions_that_are_missing_or_empty(raw):
    rows = [row(5, None, "A dog."), row(6) | {"caption": None}, row(7, " ")]
    message = refusal(third(raw, *rows))
    assert "train/6.jpg (no caption)" in message
    assert "train/7.jpg (caption train/7.jpg#0 without a word)" in message
    corpus = read_all("parquet_shards", raw, skip_bad_images=True)
    assert texts_of(corpus)["train/5.jpg"] == ["A dog."]


def test_a_small_file_of_one_large_value_takes_the_memory_of_that_value(tmp_path):
    """A dictionary stores it once; a batch of its rows would be 200 times as large."""
    path = tmp_path / "bomb.parquet"
    rows = pa.array([bytes(1_000_000)] * 200).dictionary_encode()
    table = pa.table({"image": rows.cast(pa.binary()), "caption": ["x"] * 200})
    pq.write_table(table, path, compression="zstd")
    del table, rows
    assert path.stat().st_size < 20_000
    before = pa.total_allocated_bytes()
    most = 0
    columns = find_columns(FORMAT.read_schema(path), options().corpus)
    for values in read_rows(FORMAT, path, columns):
        assert len(values.data) == 1_000_000
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 10_000_000


@pytest.mark.parametrize("announced", [1, 3])
def test_a_number_of_rows_that_lies_is_noticed(raw, announced):
    """The footer's count is one byte of thrift's compact protocol: field type 0x16, then 2 n."""
    path = raw / "data" / "train-00000-of-00002.parquet"
    data = path.read_bytes()
    place = data.index(b"\x16\x04", len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    path.write_bytes(data[: place + 1] + bytes([2 * announced]) + data[place + 2 :])
    assert pq.read_metadata(path).num_rows == announced
    assert f"{announced} rows announced, 2 found" in refusal(raw)


def test_every_cut_of_a_shard_is_noticed(raw):
    path = raw / "data" / "train-00000-of-00002.parquet"
    whole = path.read_bytes()
    for length in [0, 4, 8, 100, len(whole) // 2, len(whole) - 8, len(whole) - 1]:
        path.write_bytes(whole[:length])
        message = refusal(raw, skip_bad_images=True)
        assert "cannot be read (1): data/train-00000-of-00002.parquet (its row" in message


def test_a_pickle_is_no_parquet(raw):
    pd.DataFrame({"image": JPG}).to_pickle(raw / "data" / "train-00002-of-00003.parquet")
    assert "(1): data/train-00002-of-00003.parquet (its rows: damaged, or of" in refusal(raw)
