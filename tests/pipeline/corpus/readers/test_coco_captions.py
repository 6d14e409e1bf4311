import json
import shutil

import pytest
from commands import refusal
from reader_cases import read_all, save_images, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import coco_captions


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


def test_a_split_without_its_images_is_named(raw):
    """As where val2017.zip alone is downloaded."""
    shutil.rmtree(raw / "train2017")
    said = refusal(read_all, "auto", raw, skip_bad_images=True)
    assert "none of the 2 images of split train is there, such as 000000000009.jpg" in said
    named = "annotations/captions_val2017.json"
    assert f"or set corpus.annotations: {named} in params.yaml, to draw splits of it" in said
    assert len(read_all("auto", raw, annotations=named).images) == len(VAL)


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
    for name, value in (("train2014", content(TRAIN, 7)), ("val2014", content(VAL, 107))):
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


@pytest.mark.parametrize(
    "names",
    [
        ("annotations/train.json", "annotations/val.json"),  # VizWiz
        ("stair_captions_v1.2_train.json", "stair_captions_v1.2_val.json"),
        ("captions_train2014_farsi.json", "captions_val2014_farsi.json"),
        ("train/captions.json", "val/captions.json"),
    ],
)
def test_any_name_will_do_that_says_the_split(tmp_path, names, capsys):
    raw = tmp_path / "raw"
    for name, value in zip(names, (content(TRAIN), content(VAL, first=100)), strict=True):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_text(json.dumps(value))
    save_images(raw / "pictures", *(f"{n:012d}.jpg" for n in (*TRAIN, *VAL)))
    corpus = read_all("auto", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert corpus.images["image_id"].tolist()[:2] == [f"{n:012d}.jpg" for n in (9, 25)]
    assert "dataset: coco_captions, because of" in capsys.readouterr().err


def test_one_file_of_any_name_and_ids_of_text(tmp_path, capsys):
    """As nocaps: one file of val, its own folder of images."""
    raw = tmp_path / "raw"
    value = content(VAL)
    for image in value["images"]:
        image["id"] = f"id_{image['id']}"
    for caption in value["annotations"]:
        caption["image_id"] = f"id_{caption['image_id']}"
        caption["id"] = f"c{caption['id']}"
    raw.mkdir()
    (raw / "nocaps_val_4500_captions.json").write_text(json.dumps(value))
    save_images(raw / "val_imgs", *(f"{n:012d}.jpg" for n in VAL))
    corpus = read_all("auto", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert sorted(corpus.captions["caption_id"]) == ["c0", "c1", "c2", "c3", "c4"]
    assert "all images are of split val; splits drawn by seed" in capsys.readouterr().err


def test_captions_without_ids_or_with_ids_of_another_file_are_numbered(raw, capsys):
    value = content(TRAIN)
    for caption in value["annotations"]:
        del caption["id"]
    write(raw, "train2017", value)
    corpus = read_all("coco_captions", raw)
    texts = corpus.captions.set_index("caption_id")["text"]
    assert texts["train2017/000000000009.jpg#0"] == "Cats on a mat."
    assert texts["train2017/000000000009.jpg#1"] == "Two cats."
    write(raw, "train2017", content(TRAIN, first=100))  # ids of val2017, too
    corpus = read_all("coco_captions", raw)
    assert all(f"{row.image_id}#" in row.caption_id for row in corpus.captions.itertuples())
    assert "captions are numbered image by image" in capsys.readouterr().err


def test_files_without_captions_are_none(raw):
    whole = content(VAL)
    others = {
        "instances_val2017": [{"id": 1, "image_id": 139, "bbox": [0, 0, 1, 1], "category_id": 1}],
        "person_keypoints_val2017": [{"id": 1, "image_id": 139, "keypoints": [0] * 51}],
        "image_info_test2017": [],
        "image_info_test-dev2017": None,
    }
    for name, annotations in others.items():
        value = whole | {"annotations": annotations}
        if annotations is None:
            del value["annotations"]
        (raw / f"annotations/{name}.json").write_text(json.dumps(value))
    (found,) = coco_captions.recognise(list_folder(raw))
    names = [f"annotations/captions_{name}.json" for name in ("train2017", "val2017")]
    assert list(found.files) == names


def test_the_captions_may_come_first_or_far_behind_the_images(raw, monkeypatch):
    monkeypatch.setattr("pipeline.corpus.dataset.recognise.LOOKED_AT", 256)
    expected = coco_captions.recognise(list_folder(raw))
    value = content(VAL, first=100)
    (raw / "annotations/captions_val2017.json").write_text(
        json.dumps({"annotations": value["annotations"], "images": value["images"]})
    )
    assert [own.files for own in coco_captions.recognise(list_folder(raw))] == [
        own.files for own in expected
    ]
    assert len(expected) == 1


def test_an_id_of_two_images_and_an_image_of_two_files_are_named(raw):
    value = content(TRAIN)
    value["images"].append(value["images"][0] | {"file_name": "other.jpg"})
    write(raw, "train2017", value)
    assert "ids of more than one image (1): 9" in refusal(read_all, "coco_captions", raw)
    save_images(raw / "all", *(f"{n:012d}.jpg" for n in (*TRAIN, *VAL)))
    for name in ("train2017", "val2017"):
        (raw / f"annotations/captions_{name}.json").unlink()
    for name in ("train", "val"):
        (raw / f"{name}.json").write_text(json.dumps(content(TRAIN)))
    said = refusal(read_all, "coco_captions", raw)
    assert "images in more than one split (2): '000000000009.jpg', '000000000025.jpg'" in said


def test_backslashes_are_slashes(raw):
    for name, captions, first in (("train2017", TRAIN, 0), ("val2017", VAL, 100)):
        value = content(captions, first)
        for image in value["images"]:
            image["file_name"] = f"{name}\\{image['file_name']}"
        write(raw, name, value)
    ids = read_all("coco_captions", raw).images["image_id"].tolist()
    assert ids[:2] == [f"train2017/{n:012d}.jpg" for n in (9, 25)]


def test_annotations_of_both_years_with_images_of_one(tmp_path):
    """The same images, under other names: those of the year that is there are read."""
    raw = tmp_path / "raw"
    for year in ("2014", "2017"):
        for split, captions in (("train", TRAIN), ("val", VAL)):
            value = content(captions, first=100 * (split == "val"))
            for image in value["images"]:
                prefix = f"COCO_{split}2014_" if year == "2014" else ""
                image["file_name"] = prefix + image["file_name"]
            write(raw, f"{split}{year}", value)
    save_images(raw, *(f"train2017/{n:012d}.jpg" for n in TRAIN))
    save_images(raw, *(f"val2017/{n:012d}.jpg" for n in VAL))
    ids = read_all("auto", raw).images["image_id"].tolist()
    assert ids[:2] == [f"train2017/{n:012d}.jpg" for n in TRAIN]


def test_images_may_say_their_splits(tmp_path, capsys):
    raw = tmp_path / "raw"
    value = content({number: ["A dog."] for number in range(5)})
    words = ("training", "Val", "test", "train", "qual_dev")
    for image, word in zip(value["images"], words, strict=True):
        image["split"] = word
    (raw / "images").mkdir(parents=True)
    (raw / "mine_train.json").write_text(json.dumps(value))
    save_images(raw / "images", *(image["file_name"] for image in value["images"]))
    images = read_all("auto", raw).images
    assert images["split"].tolist() == ["train", "train", "val", "test"]
    assert images["image_id"].str[-5].tolist() == ["0", "3", "1", "2"]
    said = capsys.readouterr().err
    assert "images of splits that are none of train, val and test: 1 of 'qual_dev'" in said
    del value["images"][0]["split"]  # the name of the file says it
    (raw / "mine_train.json").write_text(json.dumps(value))
    assert read_all("auto", raw).images["split"].tolist() == ["train", "train", "val", "test"]
    for image in value["images"][1:]:
        image["split"] = image["split"].replace("test", "tset")
    (raw / "mine_train.json").write_text(json.dumps(value))
    assert "like (2): 'tset', 'qual_dev'" in refusal(read_all, "auto", raw)


def test_fields_of_captions_that_are_not_read_are_named(raw, capsys):
    """VizWiz's workers have marked captions that should not count."""
    value = content(VAL)
    for caption in value["annotations"]:
        caption |= {"is_rejected": True, "text_detected": False}
    write(raw, "val2017", value)
    read_all("coco_captions", raw)
    said = capsys.readouterr().err
    assert "not read beside image and caption: is_rejected, text_detected" in said
