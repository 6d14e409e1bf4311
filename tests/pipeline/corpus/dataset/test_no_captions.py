"""Texts about images that are no captions: paths, addresses, codes, licences and labels."""

import json

import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import read_all, save_images

from pipeline.corpus.dataset.no_captions import what_instead

NAMES = [f"{number:03}.jpg" for number in range(12)]
ENTRIES = {
    "paths": lambda name: f"./train/{name}",
    "names of files": lambda name: name,
    "addresses": lambda name: f"https://a.org/b c/{name}".replace(" ", "%20"),
    "hashes": lambda name: f"{int(name[:3]) * 7919:032x}",
    "codes": lambda name: f"25G4{name[:3]}",
    "words": lambda name: ("cat", "dog", "bird")[int(name[:3]) % 3],
    "labels": lambda name: ("tabby cat", "golden retriever", "snow goose")[int(name[:3]) % 3],
    "commands": lambda name: f"wget -r ftp://x.org/{name}.tar.gz -P /path/to",
    "licences": lambda name: f"CC BY-SA 3.0, photo by user{name[:3]}",
}


@given(st.lists(st.lists(st.text("abcé", min_size=1), min_size=4).map(" ".join)))
def test_texts_with_blanks_are_captions(texts):
    assert what_instead(texts) == ""


@pytest.mark.parametrize("text", ["一个孩子在公园里", "犬が走っている", "หมาวิ่ง", "ខ្មែរ"])
def test_scripts_without_blanks_are_captions(text):
    assert what_instead([text] * 12) == ""


@pytest.mark.parametrize(
    "credit", ["(Photo by Ann Bee/Agency)", "Copyright Ann Bee", "Ann Bee, all rights reserved."]
)
def test_captions_of_the_press_end_with_a_credit(credit):
    caption = "The mayor opens the new bridge over the river on a rainy Monday morning."
    assert what_instead([f"{caption} {credit}"] * 12) == ""


@pytest.fixture
def raw(tmp_path):
    save_images(tmp_path / "raw/images", *NAMES)
    return tmp_path / "raw"


@pytest.mark.parametrize("kind", ENTRIES)
def test_a_mapping_to_them_is_refused_unless_it_is_named(raw, kind):
    entries = {name: ENTRIES[kind](name) for name in NAMES}
    (raw / "x.json").write_text(json.dumps(entries))
    for dataset in ("auto", "records_json"):
        error = refusal(read_all, dataset, raw)
        assert "x.json: names images, but what it says of them are" in error
        assert repr(entries[NAMES[0]]) in error
    assert "set dataset: records_json and corpus.annotations: x.json" in error
    corpus = read_all("records_json", raw, annotations="x.json")
    assert set(corpus.captions["text"]) == set(entries.values())


@pytest.mark.parametrize("kind", ENTRIES)
def test_a_list_of_them_is_refused_until_it_has_a_header_and_a_reader(raw, kind):
    lines = [f"{name};{ENTRIES[kind](name)}\n" for name in NAMES]
    (raw / "x.txt").write_text("".join(lines))
    error = refusal(read_all, "auto", raw)
    assert "x.txt: names images, but what it says of them are" in error
    (raw / "x.txt").write_text(
        "image,caption\n" + "".join(lines).replace(",", "").replace(";", ",")
    )
    assert len(read_all("captions_csv", raw).captions) == len(NAMES)


def test_another_file_that_names_the_images_is_named_first(raw):
    (raw / "md5.json").write_text(json.dumps({name: ENTRIES["hashes"](name) for name in NAMES}))
    texts = [{"pic": name[:3], "words": f"A dog and {name[:3]} cats."} for name in NAMES]
    (raw / "texts.json").write_text(json.dumps(texts))
    error = refusal(read_all, "auto", raw)
    assert "texts.json: no fields of images and captions are known among pic, words" in error


def test_beside_captions_it_is_not_read(raw, capsys):
    (raw / "labels.json").write_text(json.dumps({name: ENTRIES["labels"](name) for name in NAMES}))
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in NAMES))
    assert set(read_all("auto", raw).captions["text"]) == {"A dog."}
    assert "not read, though it names images: labels.json" in capsys.readouterr().err
