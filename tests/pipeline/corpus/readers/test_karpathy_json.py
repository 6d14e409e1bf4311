import json

import pytest
from commands import refusal
from reader_cases import read_all, record, save_images, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import karpathy_json
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


@pytest.mark.parametrize("rest", ["restval", "RESTVAL "])
def test_restval_is_trained_on_or_dropped_as_the_option_says(raw, capsys, rest):
    images = [image | {"split": image["split"].replace("restval", rest)} for image in records()]
    write(raw, images)
    assert read_all("karpathy_json", raw).images["split"].tolist()[1] == "train"
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
    write(raw, records()[::-1], "dataset_coco.json")
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


@pytest.mark.parametrize("name", ["dataset.json", "dataset_RSITMD.json", "my captions.json"])
@pytest.mark.parametrize("is_list", [True, False])
def test_any_name_will_do_and_a_list_alone(raw, name, is_list):
    expected = read_all("karpathy_json", raw)
    (raw / "dataset_flickr8k.json").unlink()
    (raw / name).write_text(json.dumps(records() if is_list else {"images": records()}))
    found = read_all("auto", raw)
    assert found.images.equals(expected.images)
    assert found.captions.equals(expected.captions)


def test_of_three_files_that_whose_images_are_there(raw, capsys):
    """As caption_datasets.zip has them; the first image may be missing here."""
    others = [record(f"{n}.jpg", "train", "A dog.", first=n) for n in range(9)]
    write(raw, others, "dataset_coco.json")
    write(raw, [record("none.jpg", "train", "A.", first=90), *records()], "dataset_flickr30k.json")
    (raw / "dataset_flickr8k.json").unlink()
    corpus = read_all("auto", raw, skip_bad_images=True)
    assert len(corpus.images) == 4
    assert "because of dataset_flickr30k.json; passed over: dataset_coco" in capsys.readouterr().err


def test_captions_without_ids_are_numbered(raw):
    images = records()
    for image in images:
        del image["imgid"]
        for sentence in image["sentences"]:
            del sentence["imgid"]
    del images[1]["sentences"][1]["sentid"]
    images[3]["sentences"][2]["sentid"] = None
    write(raw, images)
    ids = read_all("karpathy_json", raw).captions["caption_id"].tolist()
    assert ids == ["0", "a.jpg#1", "5", "20", "21", "c.jpg#2", "10"]


def test_splits_that_are_missing_are_drawn_and_other_words_are_known(raw, capsys):
    images = [record(f"{letter}.jpg", "train", "A dog.", first=n) for n, letter in enumerate("abc")]
    write(raw, [*images, record("d.jpg", "test", "A cat.", first=9)])
    corpus = read_all("karpathy_json", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert corpus.images["image_id"].tolist()[3] == "d.jpg"
    assert "drawn from train by seed: 1 val" in capsys.readouterr().err
    for image in images:
        del image["split"]
    write(raw, images)
    assert len(read_all("karpathy_json", raw).images) == 3
    assert "splits drawn by seed: 1 val, 1 test" in capsys.readouterr().err
    words = {"train": "training", "val": "Validation", "test": "test", "restval": "restval"}
    write(raw, [image | {"split": words[image["split"]]} for image in records()])
    corpus = read_all("karpathy_json", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]


def test_an_image_is_described_once(raw):
    """In two splits it would be trained on and tested on."""
    write(raw, [*records(), record("a.jpg", "test", "A cat.", first=90)])
    said = refusal(read_all, "karpathy_json", raw)
    assert "dataset_flickr8k.json: images more than once (1): 'a.jpg'" in said


def test_what_hugging_face_calls_dataset_is_none_of_karpathy_s(raw):
    (raw / "dataset_flickr8k.json").unlink()
    features = {"image": {"_type": "Image"}, "sentences": [{"dtype": "string"}]}
    for name in ("dataset_info.json", "dataset_infos.json", "train/dataset_info.json"):
        (raw / name).parent.mkdir(exist_ok=True)
        (raw / name).write_text(json.dumps({"default": {"features": features, "images": []}}))
    (raw / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    folder = list_folder(raw)
    assert karpathy_json.recognise(folder) == []
    assert folder.matching(*karpathy_json.PUBLISHED) == []


def test_images_of_2014_are_found_among_those_of_2017(tmp_path):
    raw = tmp_path / "raw"
    splits = ("train", "val", "test")
    images = [
        record(f"COCO_val2014_{n:012d}.jpg", split, "A dog.", first=n, filepath="val2014")
        for n, split in enumerate(splits)
    ]
    write(raw, images, "dataset_coco.json")
    save_images(raw, "val2017/000000000000.jpg", "train2017/000000000001.jpg")
    save_images(raw, "train2017/000000000002.jpg")
    ids = read_all("karpathy_json", raw).images["image_id"].tolist()
    assert ids == ["val2017/000000000000.jpg", *(f"train2017/{n:012d}.jpg" for n in (1, 2))]


def test_folders_and_images_may_be_links(tmp_path):
    raw = tmp_path / "raw"
    write(raw, records())
    save_images(tmp_path / "disk", *NAMES)
    (raw / "images").symlink_to(tmp_path / "disk")
    assert len(read_all("karpathy_json", raw).images) == 4
    (raw / "images").unlink()
    (raw / "images").mkdir()
    for name in NAMES:
        (raw / "images" / name).symlink_to(tmp_path / "disk" / name)
    assert len(read_all("karpathy_json", raw).images) == 4


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_a_file_for_each_split(tmp_path, ending, capsys):
    """The ids of their captions begin anew in each, and so may the images' names."""
    raw = tmp_path / "raw"
    for split in ("train", "dev", "testing"):
        names = [f"{number}.jpg" for number in range(2)]
        save_images(raw / split, *names)
        records = [record(name, None, f"A {split} dog.", first=7) for name in names]
        for own in records:
            del own["split"]
        lines = "".join(f"{json.dumps(own)}\n" for own in records)
        text = lines if ending == ".jsonl" else json.dumps({"images": records})
        (raw / f"{split}{ending}").write_text(text)
    corpus = read_all("auto", raw)
    assert corpus.images["split"].tolist() == ["train"] * 2 + ["val"] * 2 + ["test"] * 2
    assert texts_of(corpus)["dev/1.jpg"] == ["A dev dog."]
    assert corpus.captions["caption_id"].iloc[-1] == "testing/1.jpg#0"
    assert "ids of captions are in several files" in capsys.readouterr().err


def test_a_field_of_another_name_may_say_the_split(raw):
    content = json.loads((raw / "dataset_flickr8k.json").read_text())
    expected = read_all("karpathy_json", raw).images["split"].tolist()
    for own in content["images"]:
        own["subset"] = own.pop("split")
    (raw / "dataset_flickr8k.json").write_text(json.dumps(content))
    assert read_all("karpathy_json", raw).images["split"].tolist() == expected


def test_fields_that_are_not_read_are_named(raw, capsys):
    images = records()
    read_all("karpathy_json", raw)
    assert "not read beside" not in capsys.readouterr().err
    images[0]["attributes"] = ["brown"]
    images[0]["sentences"][0]["raw_hi"] = "x"
    write(raw, images)
    read_all("karpathy_json", raw)
    assert "image and caption: attributes, sentences.raw_hi" in capsys.readouterr().err
