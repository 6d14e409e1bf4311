"""CxC's ratings and one's own list: what is read, what is refused, and what a corpus gets of it."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reader_cases import CORPUS, read_all, record, save_images

from pipeline.corpus.dataset.positives import read_list
from pipeline.corpus.params import CorpusConfig
from pipeline.corpus.positives import cxc, eccv
from pipeline.corpus.positives import file as own_list
from pipeline.corpus.tables import RELEVANCE
from pipeline.runtime.errors import WorkbenchError

HEADER = "caption,image,agg_score,sampling_method\n"
LINE = "COCO_val2014:sentid:{},COCO_val2014_{:012}.jpg,{},c2i_original\n".format
PAIRS = [(11, 1, 4.97), (21, 2, 5.0), (12, 1, 2.99), (21, 1, 3.0), (11, 2, 0.44), (99, 9, 4.0)]
RATED = HEADER + "".join(LINE(*pair) for pair in PAIRS)


@pytest.fixture
def raw(tmp_path):
    """A Karpathy JSON of six images with two captions each: 1 with 11 and 12, 2 with 21 and 22."""
    folder = tmp_path / "raw"
    names = [f"COCO_val2014_{number:012}.jpg" for number in range(1, 7)]
    save_images(folder / "val2014", *names)
    splits = ["test", "test", "test", "val", "train", "train"]
    records = [
        record(name, split, "a dog", "a dog", first=10 * number + 1, filepath="val2014")
        for number, (name, split) in enumerate(zip(names, splits, strict=True), start=1)
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": records}))
    return folder


def image(number):
    return f"val2014/COCO_val2014_{number:012}.jpg"


def read(raw, **settings):
    return read_all("karpathy_json", raw, **settings)


def test_ratings_from_the_threshold_are_pairs_with_their_grade(raw, capsys):
    (raw / "sits_test.csv").write_text(RATED)
    found = read(raw, positives="cxc", positives_path="sits_test.csv").relevance
    assert found.columns.tolist() == RELEVANCE.names
    assert found.to_numpy().tolist() == [
        [image(1), "11", 4.97, True, True],
        [image(1), "21", 3.0, True, True],
        [image(2), "21", 5.0, True, True],
    ]
    said = capsys.readouterr().err
    assert "positives cxc: left out 1 pair not in the corpus" in said
    assert "3 pairs, 2 image queries and 2 caption queries" in said
    assert "2 own pairs i2t, 0 own pairs t2i" in said
    high = read(raw, positives="cxc", positives_path="sits_test.csv", positives_threshold=4.98)
    assert high.relevance["caption_id"].tolist() == ["21"]


def test_a_pair_sampled_twice_has_its_higher_rating(tmp_path):
    (tmp_path / "s.csv").write_text(HEADER + "".join(LINE(11, 1, r) for r in (3.5, 4.5, 1)))
    assert cxc.read(tmp_path / "s.csv", 3)["grade"].tolist() == [4.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "without the columns caption, image, agg_score"),
        (HEADER + "COCO_val2014:sentid:x,COCO_val2014_000000000001.jpg,3,a\n", r"format \(1\): 2"),
        (HEADER + "COCO_val2014:sentid:1,COCO_val2014_1.jpg,nan,a\n", r"another format \(1\): 2"),
        (HEADER + "COCO_val2014:sentid:1,COCO_val2014_1.jpg\n", r"number of fields \(1\): 2"),
        (HEADER + "COCO_val2014:sentid:1,COCO_val2014_1.jpg,2,a\n", "no pair is rated .* = 3 or"),
    ],
)
def test_ratings_of_another_format_are_refused(tmp_path, text, message):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(WorkbenchError, match=message):
        cxc.read(tmp_path / "s.csv", 3.0)


def put(path, table):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)
    return path


def a_list(*rows):
    return pd.DataFrame(rows, columns=["image_id", "caption_id", "grade"][: len(rows[0])])


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.parquet"])
def test_one_s_own_list_in_any_order_with_grades_or_without(raw, name):
    rows = [(image(2), 22, 0.5), (image(1), 22, 3), (image(4), 41, 1)]
    put(raw / name, a_list(*rows))
    found = read(raw, positives="file", positives_path=name).relevance
    expected = [(image(4), "41", 1.0), (image(1), "22", 3.0), (image(2), "22", 0.5)]
    assert found.to_numpy().tolist() == [[*row, True, True] for row in expected]
    put(raw / name, a_list(*(row[:2] for row in rows)))
    found = read(raw, positives="file", positives_path=name).relevance
    assert found["grade"].tolist() == [1.0] * 3


def test_ids_that_the_corpus_lacks_are_named(raw):
    assert read(raw).relevance is None
    put(raw / "p.csv", a_list((image(1), 11), ("dog.jpg", 11), (image(1), 77)))
    with pytest.raises(WorkbenchError, match=r"image_id that the corpus lacks \(1\): dog") as error:
        read(raw, positives="file", positives_path="p.csv")
    assert "caption_id that the corpus lacks (1): 77" in error.value.message


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (a_list(("a", "1", 1.0), ("a", "1", 2.0)), r"more than once \(1\): a and 1"),
        (a_list(("a", "1", float("nan"))), "no number above 0"),
        (a_list(("a", "1", 1e300)), "no number above 0"),
        (a_list(("a", "1"), (None, "1")), "rows without an id .*: row 2"),
        (a_list(("a", "1", 1.0)).rename(columns={"grade": "score"}), "columns are .*score"),
        (a_list(("a", "1"))[:0], "no pairs"),
    ],
)
def test_lists_that_cannot_be_are_refused(tmp_path, name, table, message):
    with pytest.raises(WorkbenchError, match=message):
        own_list.read(put(tmp_path / name, table))


def test_other_files_are_refused(tmp_path):
    (tmp_path / "p.txt").write_text("x")
    for name in ("p.txt", "missing.csv"):
        with pytest.raises(WorkbenchError, match=r"no \.csv or \.parquet file"):
            own_list.read(tmp_path / name)
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1 cut")
    nested = pd.DataFrame({"image_id": [["a"]], "caption_id": ["1"]})
    for table in (None, nested, a_list(("a", "1", "much"))):
        with pytest.raises(WorkbenchError, match="damaged, or of another"):
            own_list.read(path if table is None else put(path, table))


def test_the_list_is_looked_for_in_raw_and_before_images_are(raw, monkeypatch):
    (raw / "val2014" / "COCO_val2014_000000000001.jpg").write_bytes(b"no image")
    with pytest.raises(WorkbenchError, match=r"_path = '\.\./p.csv': must be a path inside"):
        read(raw, positives="file", positives_path="../p.csv")
    with pytest.raises(WorkbenchError, match=r"positives_path = 'p\.csv': no such file"):
        read(raw, positives="file", positives_path="p.csv")
    config = CorpusConfig(**(CORPUS | {"positives": "eccv"}))
    assert len(read_list(raw, config)) == 27740
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WorkbenchError, match=r"the package eccv_caption, .* is missing"):
        eccv.installed()


def test_pairs_of_training_images_are_kept_for_training_when_asked(raw):
    """21 fits images 5 and 6, which are of training; 51 fits 6; test and own pairs are none."""
    pairs = [(5, 51), (5, 52), (6, 51), (6, 61), (5, 21), (6, 21), (1, 11), (2, 11), (4, 51)]
    rows = "".join(f"{image(number)},{caption}\n" for number, caption in pairs)
    (raw / "p.csv").write_text("image_id,caption_id\n" + rows)
    listed = {"positives": "file", "positives_path": "p.csv"}
    assert "fits" not in read(raw, **listed).captions
    captions = read(raw, **listed, mask_positives=True).captions.set_index("caption_id")["fits"]
    found = {name: images for name, images in captions.items() if images}
    assert found == {"21": [image(5), image(6)], "51": [image(6)]}
