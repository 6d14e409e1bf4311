import json

import pytest
from commands import refusal
from reader_cases import read_all, save_images, texts_of

from pipeline.runtime.errors import WorkbenchError


def content(captions, first=0):
    """A file in MS-COCO's format, all its fields included.

    captions: image's number to its captions; first: id of the first annotation.
    """
    texts = [(image, text) for image, rows in captions.items() for text in rows]
    return {
        "info": {"description": "COCO 2017 Dataset", "version": "1.0", "year": 2017},
        "images": [
            {"license": 4, "file_name": f"{image:012d}.jpg", "height": 6, "width": 8, "id": image}
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


def test_one_file_alone_is_split_by_seed(raw):
    (raw / "annotations/captions_train2017.json").unlink()
    corpus = read_all("coco_captions", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert {image.split("/")[0] for image in corpus.images["image_id"]} == {"val2017"}


def test_files_may_lie_in_raw_be_named_and_have_their_images_elsewhere(raw):
    (raw / "annotations").rename(raw / "texts")
    whole = read_all("coco_captions", raw)
    assert whole.images.equals(read_all("coco_captions", raw, annotations="texts").images)
    assert len(read_all("coco_captions", raw, annotations="texts").images) == 4
    alone = read_all("coco_captions", raw, annotations="texts/captions_val2017.json")
    assert len(alone.images) == 4
    (raw / "images").mkdir()
    for name in ("train2017", "val2017"):
        (raw / name).rename(raw / "images" / name)
        (raw / "texts" / f"captions_{name}.json").rename(raw / f"captions_{name}.json")
    assert read_all("coco_captions", raw).images["path"][0].startswith(f"{raw}/images/train2017/")


def test_of_two_years_that_whose_images_are_there_or_neither(raw):
    """Both of them, complete, are one too many."""
    write(raw, "val2014", content({42: ["A shoe."]}))
    assert len(read_all("coco_captions", raw).images) == 4
    for name, value in (("train2014", content(TRAIN)), ("val2014", content(VAL, first=100))):
        write(raw, name, value)
        save_images(raw / name, *(image["file_name"] for image in value["images"]))
    said = refusal(read_all, "coco_captions", raw)
    assert "several annotation files: annotations/captions_train2014.json, annotations/" in said
    for name in ("train2014", "val2014"):
        (raw / f"annotations/captions_{name}.json").rename(raw / f"captions_{name}.json")
    (raw / "annotations").rename(raw / "of_2017")
    assert len(read_all("coco_captions", raw, annotations="of_2017").images) == 4


def test_captions_of_images_that_are_not_listed_are_named(raw):
    value = content(TRAIN)
    value["annotations"] += [{"image_id": 7, "id": 70, "caption": "A ghost."}]
    write(raw, "train2017", value)
    said = refusal(read_all, "coco_captions", raw)
    assert "the file does not list, ids (1): 70" in said
