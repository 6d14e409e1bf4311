import json

import pytest
from commands import refusal
from reader_cases import read_all, record, save_images

from pipeline.runtime.errors import WorkbenchError

NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]


def records():
    return [
        record("d.jpg", "test", "A dog runs.", first=10),
        record("a.jpg", "train", "Two cats.", "Cats on a mat.", first=0),
        record("b.jpg", "restval", "A bird.", first=5),
        record("c.jpg", "val", "A horse.", "A Brown horse.", "Grass.", first=20),
    ]


def write(raw, images, name="dataset_flickr8k.json"):
    raw.mkdir(exist_ok=True)
    (raw / name).write_text(json.dumps({"images": images, "dataset": "flickr8k"}))


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    write(raw, records())
    save_images(raw / "Images", *NAMES)
    return raw


def test_rows_are_ordered_by_split_and_captions_vary(raw):
    corpus = read_all("karpathy_json", raw)
    assert corpus.images["image_id"].tolist() == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert corpus.images["path"].tolist()[0] == (raw / "Images" / "a.jpg").as_posix()
    assert corpus.images["group"].equals(corpus.images["image_id"])
    assert corpus.images["width"].tolist() == [8, 9, 10, 11]
    assert corpus.captions["caption_id"].tolist() == ["0", "1", "5", "20", "21", "22", "10"]
    described = [name[0] for name in corpus.captions["image_id"]]
    assert described == [*"aabcccd"]
    assert corpus.captions["tokens"].tolist()[4] == ["a", "brown", "horse"]
    assert corpus.captions["text"].tolist()[4] == "A Brown horse."
    assert len(corpus.boxes) == len(corpus.rejects) == 0


def test_restval_is_dropped_by_option(raw, capsys):
    corpus = read_all("karpathy_json", raw, restval="drop")
    assert "b.jpg" not in set(corpus.images["image_id"])
    assert "5" not in set(corpus.captions["caption_id"])
    assert "left out: 1 image of split restval" in capsys.readouterr().err


def test_coco_paths_are_ids_and_the_folder_may_be_raw_itself(tmp_path):
    raw = tmp_path / "raw"
    images = [
        record("x.jpg", "train", "one", first=0, filepath="train2014"),
        record("x.jpg", "val", "two", first=1, filepath="val2014"),
        record("y.jpg", "test", "three", first=2, filepath="val2014"),
    ]
    write(raw, images, "dataset_coco.json")
    save_images(raw, "train2014/x.jpg", "val2014/x.jpg", "val2014/y.jpg")
    corpus = read_all("karpathy_json", raw)
    names = ["train2014/x.jpg", "val2014/x.jpg", "val2014/y.jpg"]
    assert corpus.images["image_id"].tolist() == names


def test_own_tokens_are_cut_where_the_file_has_none(raw):
    images = records()
    del images[0]["sentences"][0]["tokens"]
    write(raw, images)
    captions = read_all("karpathy_json", raw).captions.set_index("caption_id")
    assert captions.loc["10", "tokens"] == ["a", "dog", "runs"]


def test_one_file_must_be_the_only_candidate(raw):
    write(raw, records(), "dataset_coco.json")
    with pytest.raises(WorkbenchError, match=r"several .*: dataset_coco\.json, dataset_flickr8k"):
        read_all("karpathy_json", raw)
    assert len(read_all("karpathy_json", raw, annotations="dataset_coco.json").images) == 4
    for name, message in [
        ("nothing.json", "no such file"),
        ("../raw/dataset_coco.json", "must be a path inside"),
        ("Images", "raw/Images: no annotation file; looked for a JSON file of records"),
    ]:
        with pytest.raises(WorkbenchError, match=message):
            read_all("karpathy_json", raw, annotations=name)


def test_no_annotations_and_no_images_say_what_was_looked_for(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    with pytest.raises(WorkbenchError, match=r"no annotation file; looked for a JSON file of rec"):
        read_all("karpathy_json", raw)
    write(raw, records())
    said = refusal(read_all, "karpathy_json", raw)
    assert f"{raw}: none of the 4 images of the annotations is there" in said
    assert "the first is 'd.jpg'" in said


def test_several_image_folders_must_be_chosen_from(raw):
    """Folders that hold all images; one that holds some is passed over."""
    save_images(raw / "flickr30k_images", "a.jpg")
    assert len(read_all("karpathy_json", raw).images) == 4
    save_images(raw / "flickr30k_images", *NAMES)
    with pytest.raises(WorkbenchError, match="several folders hold the images: Images, flickr30k"):
        read_all("karpathy_json", raw)
    assert len(read_all("karpathy_json", raw, images="Images").images) == 4
    assert "not a folder" in refusal(read_all, "karpathy_json", raw, images="dataset_flickr8k.json")


def test_captions_are_capped_by_option_in_the_files_order(raw, capsys):
    captions = read_all("karpathy_json", raw, max_captions=2).captions
    assert captions["caption_id"].tolist() == ["0", "1", "5", "20", "21", "10"]
    assert "left out: 1 caption after the first 2 of an image" in capsys.readouterr().err
    whole = read_all("karpathy_json", raw).captions
    assert read_all("karpathy_json", raw, max_captions=3).captions.equals(whole)
    assert "left out" not in capsys.readouterr().err
