import hashlib
import json
import shutil
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import files_of, image_bytes, options, read_all, texts_of, write_parquet

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.read import read_corpus
from pipeline.corpus.dataset.recognise import Found, quality
from pipeline.corpus.dataset.rows import find_columns, read_rows
from pipeline.corpus.readers import parquet_shards
from pipeline.corpus.readers.parquet_shards import FORMAT
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


def test_what_is_wrong_with_an_image_goes_with_its_new_name(raw):
    """The first of two images with one name, which is too large, has the name until the second."""
    large = b"\0" * 9_048_577
    third(raw, image(large, "0.x.jpg"), image(JPG[7], "0.x.jpg"))
    message = refusal(raw, max_megapixels=1)
    first = hashlib.sha256(large).hexdigest()[:12]
    assert f"train/0.x-{first}.jpg (9,048,577 bytes, allowed are 9,048,576" in message


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
        fault = "its row" if length else "an empty file"
        assert f"cannot be read (1): data/train-00000-of-00002.parquet ({fault}" in message


def test_a_pickle_is_no_parquet(raw):
    pd.DataFrame({"image": JPG}).to_pickle(raw / "data" / "train-00002-of-00003.parquet")
    assert "(1): data/train-00002-of-00003.parquet (a pickle, which can run code" in refusal(raw)


def shard_of(raw, name, rows, types):
    write_parquet(raw / f"{name}.parquet", rows, pa.schema(types))
    return raw


def split_rows(column, values):
    return [row(n, f"Caption {n}.") | {column: value} for n, value in enumerate(values)]


SPLIT_TYPES = {"image": IMAGE, "caption": pa.list_(pa.string())}


@pytest.mark.parametrize("column", ["split", "Split", "set", "subset"])
def test_a_column_of_splits_outranks_the_names_of_files(tmp_path, capsys, column):
    """nlphuji/flickr30k: all rows are its "test", and the column has Karpathy's splits."""
    rows = split_rows(column, ["train", "val", "test", "train", "Validation", "dev"])
    raw = shard_of(tmp_path / "raw", "TEST/test/0000", rows, SPLIT_TYPES | {column: pa.string()})
    corpus = read_all("parquet_shards", raw)
    splits = dict(zip(corpus.images["image_id"], corpus.images["split"], strict=True))
    assert splits == {
        **dict.fromkeys(["train/0.jpg", "train/3.jpg"], "train"),
        **dict.fromkeys(["val/1.jpg", "val/4.jpg", "val/5.jpg"], "val"),
        "test/2.jpg": "test",
    }
    assert f"splits: column {column!r}, not the names of the files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("restval", "number", "said"),
    [("train", 2, None), ("drop", 1, "left out: 1 row of split restval")],
)
def test_restval_is_what_the_option_says(tmp_path, capsys, restval, number, said):
    rows = split_rows("split", ["restval", "val", "test", "train"])
    raw = shard_of(tmp_path / "raw", "0", rows, SPLIT_TYPES | {"split": pa.string()})
    corpus = read_all("parquet_shards", raw, restval=restval)
    assert (corpus.images["split"] == "train").sum() == number
    assert said is None or said in capsys.readouterr().err


def test_a_column_that_names_no_split_is_passed_over(tmp_path):
    rows = split_rows("subset", ["en", "train", "test"])
    raw = shard_of(tmp_path / "raw", "0", rows, SPLIT_TYPES | {"subset": pa.string()})
    assert set(read_all("parquet_shards", raw).images["image_id"]) == {f"{n}.jpg" for n in range(3)}


def test_values_of_the_column_that_are_no_split_are_counted(tmp_path, capsys):
    rows = split_rows("split", ["train", "val", "test", "extra", None])
    raw = shard_of(tmp_path / "raw", "0", rows, SPLIT_TYPES | {"split": pa.string()})
    assert len(read_all("parquet_shards", raw).images) == 3
    said = capsys.readouterr().err
    assert "images of splits that are none of train, val and test: 1 of 'extra'" in said
    assert "left out: 2 images in no split (3.jpg, 4.jpg)" in said


def test_a_split_miswritten_is_no_further_split(tmp_path):
    """As of tables and JSON: without it the test split would be drawn from the others."""
    rows = split_rows("split", ["train", "val", "tset", "tset"])
    raw = shard_of(tmp_path / "raw", "0", rows, SPLIT_TYPES | {"split": pa.string()})
    said = refusal(raw)
    assert "0: splits that are none of train, val, test and their like (1): 'tset'" in said


def test_a_shard_without_the_column_that_others_have_is_refused(tmp_path):
    rows = split_rows("split", ["train", "val", "test"])
    raw = shard_of(tmp_path / "raw", "0", rows, SPLIT_TYPES | {"split": pa.string()})
    shard_of(raw, "1", [row(5, "x")], SPLIT_TYPES)
    assert "1.parquet (no column 'split', which says the split in other" in refusal(raw)
    (raw / "1.parquet").rename(raw / "!.parquet")
    assert "!.parquet (no column 'split', which says the split in other" in refusal(raw)


RECORD = pa.struct(
    {"raw": TEXT, "tokens": pa.list_(TEXT), "imgid": pa.int64(), "sentid": pa.int64()}
)


def sentence(number, text):
    return {"raw": text, "tokens": [*text.upper().split()], "imgid": 1, "sentid": number}


def test_records_of_captions_are_read_with_their_words_and_numbers(tmp_path):
    """HuggingFaceM4/COCO: a row for each caption; the rows of an image are joined."""
    rows = [row(n // 2) | {"sentences": sentence(90 + n, f"caption {n}")} for n in range(6)]
    raw = shard_of(tmp_path / "raw", "0", rows, {"image": IMAGE, "sentences": RECORD})
    captions = read_all("parquet_shards", raw).captions.sort_values("caption_id")
    assert captions["caption_id"].tolist() == [str(90 + n) for n in range(6)]
    assert captions["image_id"].tolist() == [f"{n // 2}.jpg" for n in range(6)]
    assert captions["tokens"].map(list).tolist() == [["caption", str(n)] for n in range(6)]


@pytest.mark.parametrize("kind", [pa.list_(RECORD), pa.large_list(RECORD)])
def test_lists_of_records_and_numbers_that_repeat(tmp_path, kind):
    """Numbers that are of two captions are no ids."""
    rows = [row(n) | {"sentences": [sentence(0, "one"), sentence(1, f"two {n}")]} for n in range(3)]
    raw = shard_of(tmp_path / "raw", "0", rows, {"image": IMAGE, "sentences": kind})
    corpus = read_all("parquet_shards", raw)
    assert texts_of(corpus)["1.jpg"] == ["one", "two 1"]
    assert set(corpus.captions["caption_id"]) >= {"1.jpg#0", "1.jpg#1"}


JSON_LIST = json.dumps(["A dog.", "A cat."])


@pytest.mark.parametrize(
    ("types", "cells", "texts"),
    [
        ({"jpg": BYTES, "txt": TEXT}, {"txt": "A dog.\nA cat.\n"}, ["A dog.", "A cat."]),
        ({"jpg": IMAGE, "TXT": TEXT}, {"TXT": "A dog.\nA cat."}, ["A dog.", "A cat."]),
        ({"png": BYTES, "outputs.txt": TEXT}, {"outputs.txt": "A\nB"}, ["A", "B"]),
        ({"image": IMAGE, "caption": TEXT}, {"caption": JSON_LIST}, ["A dog.", "A cat."]),
        ({"image": IMAGE, "raw": TEXT}, {"raw": "['A dog.', 'B']"}, ["A dog.", "B"]),
        ({"image": IMAGE, "title": TEXT}, {"title": "A dog."}, ["A dog."]),
        ({"image": IMAGE, "TEXT": TEXT}, {"TEXT": "A dog."}, ["A dog."]),
        ({"image": IMAGE, "json": pa.struct({"caption": TEXT})}, {"json": {"caption": "x"}}, ["x"]),
        ({"image": IMAGE, "caption_0": TEXT, "caption_1": TEXT}, {"caption_0": "x"}, ["x"]),
        ({"image": IMAGE, "description": TEXT, "n": pa.int64()}, {"description": "x"}, ["x"]),
    ],
)
def test_what_the_cells_of_captions_mean(tmp_path, types, cells, texts):
    first = next(iter(types))
    rows = [
        {first: JPG[n] if types[first] == BYTES else {"bytes": JPG[n], "path": None}, **cells}
        for n in range(3)
    ]
    changed = {"caption_field": "outputs.txt"} if "outputs.txt" in types else {}
    corpus = read_all("parquet_shards", shard_of(tmp_path / "raw", "0", rows, types), **changed)
    assert list(texts_of(corpus).values()) == [texts] * 3


def test_of_several_images_the_usual_name_is_taken_and_said(tmp_path, capsys):
    rows = [{"mask": b"x", "jpg": JPG[n], "caption": "x"} for n in range(3)]
    raw = shard_of(tmp_path / "raw", "0", rows, {"mask": BYTES, "jpg": BYTES, "caption": TEXT})
    assert sorted(files_of(read_all("parquet_shards", raw)).values()) == sorted(JPG[:3])
    said = capsys.readouterr().err
    assert "images: column 'jpg'; corpus.image_field takes another: mask" in said


def test_other_columns_of_captions_are_said(tmp_path, capsys):
    rows = [{"image": JPG[n], "caption": "x", "title": "y"} for n in range(3)]
    types = {"image": BYTES, "title": TEXT, "caption": TEXT}
    raw = shard_of(tmp_path / "raw", "0", rows, types)
    assert read_all("parquet_shards", raw).captions["text"].tolist() == ["x"] * 3
    said = capsys.readouterr().err
    assert "captions: column caption; corpus.caption_field takes another: title" in said


def test_files_without_images_are_passed_over_and_no_candidates(raw, capsys):
    """img2dataset and clip-retrieval write parquet files of metadata."""
    assert len(parquet_shards.recognise(list_folder(raw))[0].files) == 4
    types = {"url": TEXT, "caption": TEXT}
    shard_of(raw, "metadata/00000", [{"url": "x", "caption": "y"}], types)
    assert len(parquet_shards.recognise(list_folder(raw))[0].files) == 4
    assert len(read_all("parquet_shards", raw).images) == 5
    said = capsys.readouterr().err
    assert "without a column of images: 1 .parquet file: metadata/00000.parquet" in said
    for path in raw.glob("data/*"):
        path.unlink()
    assert parquet_shards.recognise(list_folder(raw)) == []


def test_a_file_that_is_none_counts_less_than_any_other(raw):
    stems = list_folder(raw).stems
    (whole,) = parquet_shards.recognise(list_folder(raw))
    for path in raw.glob("data/*"):
        path.write_bytes(path.read_bytes()[:200])
    (damaged,) = parquet_shards.recognise(list_folder(raw))
    assert damaged.is_damaged
    absent = Found(("a/b/c.csv",), names=("nowhere.jpg",))
    assert quality(damaged, stems) < quality(absent, stems) < quality(whole, stems)


def test_pointers_of_git_lfs_and_links_to_nothing_are_named(raw):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n"
    for path in raw.glob("data/t*"):
        path.unlink()
        path.write_bytes(pointer)
    (found,) = parquet_shards.recognise(list_folder(raw))
    assert len(found.files) == 4
    assert not found.is_damaged
    with pytest.raises(WorkbenchError, match="lfs pull") as caught:
        read_all("parquet_shards", raw)
    assert "shards that cannot be read, a pointer of git-lfs (3): data/" in caught.value.message
    for path in raw.glob("data/t*"):
        path.unlink()
        path.symlink_to("nowhere")
    assert "a link to a file that is not there (3): data/test" in refusal(raw)


def test_a_snapshot_of_links_in_a_hidden_folder_is_read(raw):
    """Hugging Face's cache: raw itself may lie in a hidden folder, and its files are links."""
    blobs = raw.parent / ".cache" / "blobs"
    (raw.parent / ".cache").mkdir()
    (raw / "data").rename(blobs)
    data = raw.parent / ".cache" / "snapshots" / "1" / "data"
    data.mkdir(parents=True)
    for path in blobs.iterdir():
        (data / path.name).symlink_to(f"../../../blobs/{path.name}")
    (data.parent / ".hidden").mkdir()
    (data.parent / ".hidden" / "x.parquet").write_bytes(b"no shard")
    assert len(read_corpus("parquet_shards", data.parent, raw / "out", options()).images) == 5


def test_links_to_the_same_file_are_read_once(raw, capsys):
    """Two snapshots of a dataset, of which nothing has changed."""
    (raw / "other").mkdir()
    for path in raw.glob("data/*"):
        (raw / "other" / path.name).symlink_to(path)
    corpus = read_all("parquet_shards", raw)
    assert texts_of(corpus)["train/0.jpg"] == ["A dog.", "A brown dog."]
    assert "read once, being links to others: other/test-00000" in capsys.readouterr().err


def test_equal_photographs_of_a_split_are_one_group(raw, capsys):
    third(raw, image(JPG[0], "copy.jpg"))
    corpus = read_all("parquet_shards", raw)
    groups = corpus.images.set_index("image_id")["group"]
    assert groups["train/copy.jpg"] == groups["train/0.jpg"]
    assert groups["train/1.jpg"] == "train/1.jpg"
    assert "train/0.jpg = train/copy.jpg" in capsys.readouterr().err


def test_copies_are_drawn_into_one_split(tmp_path):
    rows = [image(JPG[n % 4], f"{n}.jpg") for n in range(8)]
    raw = shard_of(tmp_path / "raw", "0", rows, SPLIT_TYPES)
    images = read_all("parquet_shards", raw).images
    assert (images.groupby("sha256")["split"].nunique() == 1).all()


def test_a_look_writes_no_image(raw):
    before = sorted(raw.parent.rglob("*"))
    source = parquet_shards.read(raw, raw.parent / "out", replace(options(), look=True))
    assert len(source.images) == 5
    assert (source.images["fault"] == "").all()
    assert sorted(raw.parent.rglob("*")) == before


@pytest.mark.parametrize("path", ["/home/me/a/7.jpg", "C:\\me\\7.jpg", "https://x.org/7.jpg"])
def test_a_path_on_somebody_s_disk_gives_its_last_part(raw, path):
    ids = read_all("parquet_shards", third(raw, image(JPG[7], path))).images["image_id"]
    assert "train/7.jpg" in ids.tolist()


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=3),
            st.none() | st.sampled_from(["a.jpg", "b.jpg", "./a.jpg", "../a", "/x/a.jpg", "a", ""]),
            st.none() | st.lists(st.none() | st.text(max_size=3), max_size=2),
        ),
        max_size=8,
    )
)
def test_every_row_s_bytes_and_captions_are_kept(tmp_path_factory, cells):
    """Images with the same name and bytes are one; nothing else is joined, and nothing is lost."""
    raw = tmp_path_factory.getbasetemp() / "rows"
    rows = [
        {"image": {"bytes": data, "path": path}, "caption": texts} for data, path, texts in cells
    ]
    shard_of(raw, "0", rows, SPLIT_TYPES)
    try:
        source = parquet_shards.read(raw, raw / "out", replace(options(), look=True))
    except WorkbenchError as error:
        message = error.message
    else:
        message = ""
    known = ("no images in 1 shards", "no captions in 1 shards", "to draw them from")
    if message:
        assert any(text in message for text in known)
        return
    texts = [text for _, _, own in cells for text in own or [] if text is not None]
    assert sorted(source.captions["text"]) == sorted(texts)
    names = {(data, inner(path) if path else "") for data, path, _ in cells if data is not None}
    without = sum(data is None for data, _, _ in cells)
    assert len(names) <= len(source.images) <= len(names) + without


def inner(path):
    return "a.jpg" if path in ("a.jpg", "./a.jpg", "/x/a.jpg") else path


@pytest.mark.parametrize("reader", ["auto", "parquet_shards"])
def test_configurations_of_one_dataset_are_not_joined(raw, tmp_path, reader):
    for place in ("full", "mini"):
        shutil.copytree(raw, tmp_path / "cloned" / place)
    with pytest.raises(WorkbenchError) as caught:
        read_all("parquet_shards", tmp_path / "cloned")
    assert "several folders, as of several configurations" in caught.value.message
    assert caught.value.hint.endswith("corpus.annotations in params.yaml, such as full/data")
    one = read_all(reader, tmp_path / "cloned", annotations="mini")
    assert len(one.captions) == sum(len(row["caption"]) for rows in SHARDS.values() for row in rows)


def test_folders_of_numbers_hold_parts_of_one_dataset(raw, tmp_path):
    for number, file in enumerate(sorted(raw.rglob("*.parquet"))):
        place = tmp_path / "parts" / f"{number:03}"
        place.mkdir(parents=True)
        shutil.copy(file, place / file.name.replace("-00001-", "-00000-"))
    assert len(read_all("auto", tmp_path / "parts").images) == sum(map(len, SHARDS.values()))


def test_shards_that_others_count_are_missed(raw, capsys):
    first, second = sorted(raw.rglob("train*.parquet"))
    first.rename(first.with_name("train-00001-of-00003.parquet"))
    second.unlink()
    read_all("auto", raw)
    said = capsys.readouterr().err
    assert "not there: 2 shards: data/train-00000-of-00003, data/train-00002-of-00003" in said
