import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images, texts_of

from pipeline.readers.coco_captions import read
from pipeline.runtime.errors import WorkbenchError


def content(captions, first=0):
    """A file in MS-COCO's format, all its fields included.

    captions: image's number to its captions; first: id of the first annotation.
    """
    texts = [(image, text) for image, rows in captions.items() for text in rows]
    return {
        "info": {"description": "COCO 2017 Dataset", "version": "1.0", "year": 2017},
        "licenses": [{"url": "http://creativecommons.org/licenses/by/2.0/", "id": 4, "name": "by"}],
        "images": [
            {
                "license": 4,
                "file_name": f"{image:012d}.jpg",
                "coco_url": f"http://images.cocodataset.org/val2017/{image:012d}.jpg",
                "height": 6,
                "width": 8,
                "date_captured": "2013-11-14 17:02:52",
                "flickr_url": "http://farm7.staticflickr.com/x.jpg",
                "id": image,
            }
            for image in captions
        ],
        "annotations": [
            {"image_id": image, "id": first + n, "caption": text}
            for n, (image, text) in reversed(list(enumerate(texts)))  # MS-COCO's are in no order
        ],
    }


TRAIN = {9: ["Two cats.", "Cats on a mat."], 25: ["A giraffe."]}
VAL = {139: ["A room."], 285: ["A bear.", "A big bear."], 632: ["A bed."], 724: ["A stop sign."]}


def write(raw, name, value):
    path = raw / "annotations" / f"captions_{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "coco"
    write(raw, "train2017", content(TRAIN))
    write(raw, "val2017", content(VAL, first=100))
    save_images(raw, *(f"train2017/{n:012d}.jpg" for n in TRAIN))
    save_images(raw, *(f"val2017/{n:012d}.jpg" for n in VAL))
    return raw


def test_training_is_train2017_and_the_rest_is_drawn_from_val2017(raw, capsys):
    corpus = read_all("coco_captions", raw)
    images = corpus.images
    assert images["split"].tolist() == ["train", "train", "val", "test"]
    assert images["image_id"].tolist()[:2] == [f"train2017/{n:012d}.jpg" for n in (9, 25)]
    assert {image.split("/")[0] for image in images["image_id"][2:]} == {"val2017"}
    assert images["path"][0] == (raw / "train2017" / "000000000009.jpg").as_posix()
    assert texts_of(corpus)["train2017/000000000009.jpg"] == ["Cats on a mat.", "Two cats."]
    numbers = corpus.captions.set_index("text")["caption_id"]
    assert numbers["Two cats."] == "0"
    remark = "drawn from val by seed: 1 val, 1 test; left out: 2 images"
    assert remark in capsys.readouterr().err
    assert corpus.images.equals(read_all("coco_captions", raw).images)
    drawn = {tuple(read_all("coco_captions", raw, seed=n).images["image_id"]) for n in range(8)}
    assert len(drawn) > 1


@pytest.mark.parametrize("name", ["train2017", "val2017"])
def test_one_file_alone_is_split_by_seed(raw, name):
    TRAIN_TOO = {n: ["A dog."] for n in (9, 25, 30, 34)}
    write(raw, "train2017", content(TRAIN_TOO))
    save_images(raw, *(f"train2017/{n:012d}.jpg" for n in TRAIN_TOO))
    for other in {"train2017", "val2017"} - {name}:
        (raw / "annotations" / f"captions_{other}.json").unlink()
    corpus = read_all("coco_captions", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert {image.split("/")[0] for image in corpus.images["image_id"]} == {name}


def test_files_may_lie_in_raw_be_named_and_have_their_images_elsewhere(raw):
    (raw / "annotations").rename(raw / "texts")
    with pytest.raises(WorkbenchError, match=r"no captions_train2017\.json or captions_val2017"):
        read_all("coco_captions", raw)
    assert len(read_all("coco_captions", raw, annotations="texts").images) == 4
    alone = read_all("coco_captions", raw, annotations="texts/captions_val2017.json")
    assert len(alone.images) == 4
    (raw / "images").mkdir()
    for name in ("train2017", "val2017"):
        (raw / name).rename(raw / "images" / name)
        (raw / "texts" / f"captions_{name}.json").rename(raw / f"captions_{name}.json")
    assert read_all("coco_captions", raw).images["path"][0].startswith(f"{raw}/images/train2017/")


def test_two_years_are_one_too_many(raw):
    write(raw, "val2014", content({42: ["A shoe."]}))
    with pytest.raises(WorkbenchError, match=r"several years: captions_train2017\.json, captions"):
        read_all("coco_captions", raw)


def test_missing_images_are_named_and_may_be_left_out(raw):
    (raw / "train2017" / "000000000025.jpg").unlink()
    with pytest.raises(WorkbenchError, match=r"\(1\): train2017/000000000025\.jpg \(no such file"):
        read_all("coco_captions", raw)
    corpus = read_all("coco_captions", raw, skip_bad_images=True)
    assert corpus.rejects["file"].tolist() == ["train2017/000000000025.jpg"]


def test_ids_that_do_not_fit_are_named_together(raw):
    value = content(TRAIN)
    value["annotations"] += [{"image_id": 7, "id": 70, "caption": "A ghost."}]
    value["images"] += [value["images"][0], value["images"][1] | {"id": 26}]
    write(raw, "train2017", value)
    with pytest.raises(WorkbenchError) as caught:
        read_all("coco_captions", raw)
    for line in [
        "image ids more than once (1): 9",
        "file names of more than one image (1): train2017/000000000025.jpg",
        "captions of images that the file does not list, ids (1): 70",
    ]:
        assert line in caught.value.message


def test_a_caption_id_of_both_files_is_refused(raw):
    write(raw, "val2017", content(VAL))
    with pytest.raises(WorkbenchError, match="caption ids more than once"):
        read_all("coco_captions", raw, val_images=2, test_images=2)


def test_a_file_name_that_leads_out_is_refused(raw):
    value = content(TRAIN)
    value["images"][0]["file_name"] = "../../secret.jpg"
    write(raw, "train2017", value)
    with pytest.raises(WorkbenchError, match="names that lead out of the image folder"):
        read_all("coco_captions", raw, skip_bad_images=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [}', "line 1, column 13: not valid JSON"),
        ('{"images": []}', "no lists named 'images' and 'annotations'"),
        ('{"images": [], "annotations": []}', "no lists named 'images' and 'annotations'"),
        ("[]", "no lists named"),
        (
            '{"images": [{"id": true, "file_name": ""}, 3],'
            ' "annotations": [{"id": 1, "image_id": "x", "caption": "\\ud800"}]}',
            r"faulty fields \(5\): images\[0\]\.id is not a whole number, images\[0\]\.file_name",
        ),
    ],
)
def test_what_is_not_mscocos_json_is_refused(raw, text, message):
    (raw / "annotations" / "captions_train2017.json").write_text(text)
    with pytest.raises(WorkbenchError, match=message):
        read_all("coco_captions", raw)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    raw = tmp_path_factory.mktemp("coco")
    save_images(raw, *(f"train2017/{n:012d}.jpg" for n in range(4)))
    return raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "image_id", "file_name", "caption", "images"]), inner
        )
    ),
    max_leaves=8,
)
WHOLE = st.text(st.characters(codec="utf-8"), max_size=6)
PLACE = st.tuples(st.sampled_from(["images", "annotations"]), st.integers(0, 3), JSON)


@settings(max_examples=100)
@given(
    st.dictionaries(st.integers(0, 3), st.lists(WHOLE, max_size=3), min_size=3),
    st.none() | PLACE,
)
def test_any_json_is_refused_or_read_and_valid_json_is_read(folder, captions, damage):
    """damage: put in place of a record, or into it where both are objects."""
    value = content(captions)
    if damage:
        key, number, new = damage
        records = value[key] or [{}]
        old = records[number % len(records)]
        records[number % len(records)] = old | new if isinstance(new, dict) else new
    write(folder, "train2017", value)
    try:
        source = read(folder, folder, options())
    except WorkbenchError:
        assert damage, captions
        return
    assert set(source.captions["image_id"]) <= set(source.images["image_id"])
    if not damage:
        assert set(source.images["image_id"]) == {f"train2017/{n:012d}.jpg" for n in captions}
        texts = [text for rows in captions.values() for text in rows]
        assert sorted(source.captions["text"]) == sorted(texts)
