"""Records with a list of images, as of two views of one patient: one group, in one split."""

import json

import pytest
from reader_cases import read_all, save_images

from pipeline.runtime.errors import WorkbenchError

NAMES = [f"CXR{study}/{view}.png" for study in range(6) for view in (0, 1)]
REPORTS = [f"The heart of patient {study} is normal." for study in range(6)]


def write_studies(raw, key="image_path"):
    """IU X-Ray's annotation.json, as R2Gen has it: lists of studies for each split."""
    save_images(raw / "images", *NAMES)
    studies = [
        {"id": f"CXR{n}", key: NAMES[2 * n : 2 * n + 2], "report": report}
        for n, report in enumerate(REPORTS)
    ]
    whole = {"train": studies[:4], "val": studies[4:5], "test": studies[5:]}
    (raw / "annotation.json").write_text(json.dumps(whole))


def write_records(raw, *records):
    save_images(raw, *(f"p{number}.jpg" for number in range(6)))
    (raw / "mine.json").write_text(json.dumps(records))


def record(*numbers, **more):
    return {"image": [f"p{n}.jpg" for n in numbers], "caption": f"Dog {numbers[0]} runs.", **more}


@pytest.mark.parametrize("key", ["image_path", "images"])
def test_each_image_of_a_study_has_its_report_and_one_group(tmp_path, key, capsys):
    write_studies(tmp_path / "raw", key)
    corpus = read_all("auto", tmp_path / "raw")
    texts = dict(zip(corpus.captions["image_id"], corpus.captions["text"], strict=True))
    assert texts == {name: REPORTS[place // 2] for place, name in enumerate(NAMES)}
    groups = corpus.images.groupby("group")["image_id"].agg(list).tolist()
    assert sorted(groups) == [NAMES[n : n + 2] for n in range(0, 12, 2)]
    assert corpus.images["split"].value_counts().to_dict() == {"train": 8, "val": 2, "test": 2}
    said = "6 records with several images (the first: CXR0/0.png): each of these has the captions"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(4))
def test_drawn_splits_keep_the_images_of_a_record_together(tmp_path, seed):
    # p1 is in two records, and joins their images
    write_records(tmp_path / "raw", record(0, 1), record(1, 2), record(3), record(4), record(5))
    images = read_all("auto", tmp_path / "raw", seed=seed).images
    own = images[images["image_id"].isin(["p0.jpg", "p1.jpg", "p2.jpg"])]
    assert own["group"].nunique() == 1
    assert own["split"].nunique() == 1
    assert images["group"].nunique() == 4


def test_lists_of_one_image_are_that_image(tmp_path, capsys):
    records = [record(n) for n in range(6)]
    write_records(tmp_path / "raw", *records[:5], record(5, 5))
    captions = read_all("auto", tmp_path / "raw").captions
    assert sorted(captions["image_id"]) == [f"p{n}.jpg" for n in range(6)]
    assert "several images" not in capsys.readouterr().err


def test_a_conversation_about_several_images_is_no_caption_of_each(tmp_path):
    turns = [
        {"role": "user", "content": "<image>Describe."},
        {"role": "assistant", "content": "A dog runs."},
    ]
    about = [{"images": [f"p{n}.jpg"], "messages": turns} for n in range(5)]
    write_records(tmp_path / "raw", *about)
    assert len(read_all("auto", tmp_path / "raw").captions) == 5
    about[3]["images"] = ["p3.jpg", "p4.jpg"]
    write_records(tmp_path / "raw", *about)
    with pytest.raises(WorkbenchError, match=r"conversations about several \(1\): p3\.jpg"):
        read_all("auto", tmp_path / "raw")


@pytest.mark.parametrize("images", [[], "p0.jpg", [7], None])
def test_a_record_without_a_list_beside_those_with_one_is_named(tmp_path, images):
    write_records(tmp_path / "raw", record(0, 1), record(2) | {"image": images})
    with pytest.raises(WorkbenchError, match=r"mine\.json: \[1\]\.image"):
        read_all("auto", tmp_path / "raw")


def test_an_image_of_two_splits_is_refused(tmp_path):
    write_records(tmp_path / "raw", record(0, 1, split="train"), record(1, 2, split="test"))
    with pytest.raises(WorkbenchError, match="images in more than one split"):
        read_all("auto", tmp_path / "raw")
