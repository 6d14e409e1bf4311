import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import refusal
from corpora import images_table

from pipeline.corpus.tables import (
    Corpus,
    images_digest,
    in_split,
    load_boxes,
    load_captions,
    load_images,
)
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture
def corpus():
    splits = ["train", "train", "val", "test"]
    ids = [f"{n}.jpg" for n in range(4)]
    rows = [(ids[n], f"raw/{n}.jpg", splits[n], ids[n], n + 3, 7, f"{n:064x}") for n in range(4)]
    return Corpus(
        images=images_table(rows),
        captions=pd.DataFrame(
            {
                "caption_id": [f"{name}#0" for name in ids],
                "image_id": ids,
                "split": splits,
                "text": ["A dog.", "Ein Hündchen", 'two "cats"', "x,\ty"],
                "tokens": [["a", "dog"], ["ein", "hündchen"], ["two", "cats"], ["x", "y"]],
            }
        ),
        boxes=pd.DataFrame(
            {
                "image_id": ["0.jpg"],
                **{side: [0.1] for side in ("x1", "y1", "x2", "y2")},
                "object": ["dog"],
                "attributes": [["brown", "small"]],
            }
        ),
        rejects=pd.DataFrame({"file": ["9.jpg"], "reason": ["empty file"]}),
    )


def test_tables_come_back_as_they_were(corpus, tmp_path):
    corpus.write(tmp_path)
    images = load_images(tmp_path / "images.parquet")
    captions = load_captions(tmp_path / "captions.parquet")
    boxes = load_boxes(tmp_path / "boxes.parquet")
    assert captions.pop("fits").tolist() == [[]] * len(captions)
    for name, back in {"images": images, "captions": captions, "boxes": boxes}.items():
        table = getattr(corpus, name)
        pd.testing.assert_frame_equal(table, back, check_dtype=False, rtol=1e-6)
    assert [images[name].dtype for name in ("width", "height")] == [np.int32, np.int32]
    assert boxes["x1"].dtype == np.float32
    assert type(captions["tokens"][0]) is list
    assert (tmp_path / "rejects.tsv").read_text() == "file\treason\n9.jpg\tempty file\n"
    assert (tmp_path / "images").is_dir()  # DVC expects it, whether or not a reader writes there


def test_a_row_group_that_has_lost_rows_is_refused(corpus, tmp_path):
    captions = pd.concat([corpus.captions] * 20, ignore_index=True)
    captions["caption_id"] = [f"caption {number}" for number in range(len(captions))]
    dataclasses.replace(corpus, captions=captions).write(tmp_path)
    path = tmp_path / "captions.parquet"
    content, refusals = path.read_bytes(), 0
    size = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - size, len(content) - 8):  # of the file's description
        path.write_bytes(content[:place] + bytes((content[place] ^ 32,)) + content[place + 1 :])
        try:
            assert len(load_captions(path)) == len(captions), place
        except WorkbenchError as error:
            refusals += "rows announced" in error.message
    assert refusals


def test_some_rows_are_those_of_the_whole_whatever_their_groups(corpus, tmp_path):
    """Groups of three, three and two rows; no rows, turned ones and ones beyond the end are no."""
    path = tmp_path / "images.parquet"
    corpus.write(tmp_path)
    table = pa.concat_tables([pq.read_table(path)] * 2)
    ids = pa.array([f"{n}.jpg" for n in range(8)])
    pq.write_table(table.set_column(0, table.schema.field(0), ids), path, row_group_size=3)
    whole = load_images(path)
    for start in range(-1, 9):
        for stop in range(-1, 10):
            if 0 <= start < stop <= 8:
                some = load_images(path, range(start, stop))
                expected = whole[start:stop].reset_index(drop=True)
                pd.testing.assert_frame_equal(some, expected)
            else:
                assert "no rows" in refusal(load_images, path, range(start, stop))


def test_a_missing_file_and_another_table_say_how_to_make_it(corpus, tmp_path):
    with pytest.raises(WorkbenchError, match=r"no such file\nbuild it again"):
        load_images(tmp_path / "images.parquet")
    corpus.write(tmp_path)
    with pytest.raises(WorkbenchError, match=r"columns are .* expected image_id"):
        load_images(tmp_path / "captions.parquet")


def test_in_split_numbers_rows_from_zero(corpus):
    assert in_split(corpus.images, "test").index.tolist() == [0]
    assert in_split(corpus.captions, "train")["image_id"].tolist() == ["0.jpg", "1.jpg"]
    assert "'dev': allowed are train, val, test" in refusal(in_split, corpus.images, "dev")
    assert "'val' of the corpus is empty" in refusal(in_split, corpus.images[:2], "val")


def test_digest_depends_on_ids_contents_and_order(corpus):
    images = corpus.images
    digest = images_digest(images)
    assert digest == images_digest(images.assign(path="elsewhere", split="train"))
    others = [
        images[::-1],
        images[:3],
        images.assign(image_id=images["image_id"] + "x"),
        images.assign(sha256=images["sha256"][::-1].tolist()),
    ]
    assert len({digest, *map(images_digest, others)}) == 5
