"""Ids of other tools: one rule for a whole file, each of them, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.features.matching.annotations import folders_near
from pipeline.features.matching.images import ImageMatcher
from pipeline.runtime.errors import WorkbenchError

COCO = [f"val2014/COCO_val2014_{number:012}.jpg" for number in (9, 42, 391895)]
FLICKR = ["1000092795.jpg", "10002456.jpg", "1000268201.jpg"]
RULES = {
    "exact": (COCO, COCO),
    "whole paths": (FLICKR, [f"/data/flickr30k/images/{name}" for name in FLICKR]),
    "Windows": (COCO, [f"D:\\coco\\{name}".replace("/", "\\") for name in COCO]),
    "parts of paths": (COCO, [name.partition("/")[2] for name in COCO]),
    "names in other folders": (COCO, [name.replace("val2014", "images", 1) for name in COCO]),
    "without endings": (FLICKR, [name.removesuffix(".jpg") for name in FLICKR]),
    "dots in names": (["a.b.jpg", "a.c.jpg"], ["a.b", "a.c"]),
    "other endings": (FLICKR, [name.replace(".jpg", ".npy") for name in FLICKR]),
    "numbers": (COCO, ["9", "42", "391895"]),
    "numbers with zeros": (COCO, ["000000000009", "0042", "391895"]),
    "numbers in groups or with endings": (COCO, ["train/9", "42.jpg", "391895.npy"]),
    "names of 2014 for those of 2017": (
        [f"{number:012}.jpg" for number in (9, 42, 391895)],
        [name.removesuffix(".jpg").partition("/")[2] for name in COCO],
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_each_rule_tells_all_images(case):
    images, ids = RULES[case]
    assert ImageMatcher(images).named(ids[::-1], "f") == images[::-1]


def test_the_rule_is_said_and_for_image_ids_nothing(capsys):
    ImageMatcher(COCO).named(COCO, "f.tsv")
    assert capsys.readouterr().err == ""
    ImageMatcher(COCO).named(["9", "42"], "f.tsv")
    said = "f.tsv: ids are MS-COCO's numbers; 2 of 3 images found\n"
    assert said in capsys.readouterr().err


def test_one_rule_is_taken_for_all_ids():
    """4 is the name of an image, and so are 1 and 2; as numbers the three mean others."""
    images = ["1.jpg", "2.jpg", "000000000001.png", "000000000004.png"]
    assert ImageMatcher(images).named(["1", "2", "4"], "f") == ["1.jpg", "2.jpg", "4"]
    assert ImageMatcher(images).named(["1", "4"], "f") == images[2:]


def test_an_id_that_may_be_several_images_is_none():
    images = ["a/same.jpg", "b/same.jpg", "b/other.jpg"]
    named = ImageMatcher(images).named(["same", "other"], "f")
    assert named == ["same (one of a/same.jpg, b/same.jpg)", "b/other.jpg"]
    with pytest.raises(WorkbenchError, match=r"same \(one of a/same.jpg, b/same"):
        ImageMatcher(images).match(["same", "other"], "f", False, "regions.other_images")


@given(st.lists(st.text("ab/\\.0", min_size=1, max_size=6)), st.lists(st.text(max_size=8)))
def test_any_names_have_an_answer(images, ids):
    unique = list(dict.fromkeys(images))
    named = ImageMatcher(unique).named(ids, "f")
    assert len(named) == len(ids)
    assert all(name in unique or name.startswith(one) for name, one in zip(named, ids, strict=True))


def karpathy(path, names, **changes):
    images = [{"filename": name, "imgid": n} | changes for n, name in enumerate(names)]
    path.write_text(json.dumps({"images": images, "dataset": "x"}))


def matched(folder, names, ids):
    matcher = ImageMatcher(names, folders_near(folder))
    return matcher.match(ids, f"{folder}/train_ids.txt", False, "regions.other_images")


@pytest.mark.parametrize("place", ["f30k_precomp", ".", "f30k"])
def test_karpathys_numbers_are_explained_by_his_file_nearby(tmp_path, capsys, place):
    for folder in ("f30k_precomp", "f30k"):
        (tmp_path / folder).mkdir()
    karpathy(tmp_path / place / "dataset_flickr30k.json", ["x.jpg", *FLICKR])
    places = matched(tmp_path / "f30k_precomp", FLICKR, ["3", "1", "2"])
    np.testing.assert_array_equal(places, [1, 2, 0])
    said = capsys.readouterr().err
    assert "ids are imgid of " in said
    assert "dataset_flickr30k.json; 3 of 3 images found" in said


@pytest.mark.parametrize("form", ["names", "numbers", "list"])
def test_a_mapping_of_numbers_to_names(tmp_path, form):
    mapping = {str(number): name for number, name in enumerate(FLICKR)}
    if form == "numbers":
        mapping = {name: number for number, name in enumerate(FLICKR)}
    elif form == "list":
        mapping = FLICKR
    (tmp_path / "id_mapping.json").write_text(json.dumps(mapping))
    np.testing.assert_array_equal(matched(tmp_path, FLICKR, ["2", "1", "0"]), [2, 1, 0])


def test_numbers_without_an_explanation_have_a_way_out_that_works(tmp_path):
    (tmp_path / "precomp").mkdir()
    (tmp_path / "dataset_infos.json").write_text(json.dumps({"default": {"images": 3}}))
    with pytest.raises(WorkbenchError, match=r"train_ids.txt: ids of the corpus without") as error:
        matched(tmp_path / "precomp", FLICKR, ["0", "1", "2"])
    assert f"copy his dataset_*.json into {tmp_path / 'precomp'}" in error.value.hint
    karpathy(tmp_path / "precomp/dataset_flickr30k.json", FLICKR)
    np.testing.assert_array_equal(matched(tmp_path / "precomp", FLICKR, ["0", "1", "2"]), range(3))


def test_two_explanations_that_differ_are_refused(tmp_path):
    karpathy(tmp_path / "dataset_a.json", FLICKR)
    karpathy(tmp_path / "dataset_b.json", FLICKR[::-1])
    with pytest.raises(WorkbenchError, match=r"imgid of .*dataset_a.json or imgid of .*_b.json"):
        matched(tmp_path, FLICKR, ["0", "1", "2"])
    karpathy(tmp_path / "dataset_b.json", FLICKR)
    np.testing.assert_array_equal(matched(tmp_path, FLICKR, ["0", "1", "2"]), range(3))


def test_numbers_that_are_names_and_numbers_of_annotations_are_refused(tmp_path):
    names = ["0.jpg", "1.jpg", "2.jpg"]
    karpathy(tmp_path / "dataset.json", names[::-1])
    with pytest.raises(
        WorkbenchError, match=r"file names without their endings or imgid of .*\.js"
    ):
        matched(tmp_path, names, ["2", "1", "0"])
    np.testing.assert_array_equal(matched(tmp_path, names, names), range(3))
    karpathy(tmp_path / "dataset.json", names)
    np.testing.assert_array_equal(matched(tmp_path, names, ["2", "1", "0"]), [2, 1, 0])


def test_a_damaged_file_of_annotations_is_named(tmp_path):
    (tmp_path / "dataset.json").write_text('{"images": [')
    with pytest.raises(WorkbenchError, match=r"dataset\.json, line 1.*not valid JSON"):
        matched(tmp_path, FLICKR, ["0", "1", "2"])
