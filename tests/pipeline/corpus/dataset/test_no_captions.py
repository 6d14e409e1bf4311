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


MORE = {
    "commands": lambda n: f"wget -r ftp://a.org/{n}.tar.gz -P dir",
    "sizes": lambda n: f"{n}000 bytes",
    "settings of a camera": lambda n: f"Canon EOS 5D f/2.8 1/{n}0s ISO 100",
    "labels with scores": lambda n: f"dog 0.{n}1",
    "records of JSON": lambda n: json.dumps({"total": n}),
    "questions": lambda n: f"What is in room {n}?",
    "prompts": lambda n: ("Describe the image.", "Write a caption.")[n % 2],
    "lists of tags": lambda n: f"1girl, solo, long hair, {n} ribbons",
    "one and the same text": lambda _: "Nikon Coolpix",
    "few different labels": lambda n: ("cat", "golden retriever", "bird")[n % 3],
    "numbers or codes": lambda n: f"{n * 7919:032x}",
    "paths or addresses": lambda n: f"https://t.co/{n}",
    "names of files": lambda n: f"{n:03}",
}


@pytest.mark.parametrize("form", ["a table", "texts", "records"])
@pytest.mark.parametrize("kind", MORE)
def test_what_is_called_a_caption_is_refused_until_somebody_names_its_reader(
    raw, capsys, kind, form
):
    texts = [MORE[kind](number) for number in range(12)]
    reader = write_form(raw, form, texts)
    error = refusal(read_all, "auto", raw)
    if kind not in ("records of JSON", "numbers or codes", "names of files"):
        assert kind in error or "no captions that a reader knows" in error
    if (form, kind) == ("texts", "records of JSON") or "no captions that" in error:
        return  # texts of other forms have their own message
    assert f"set dataset: {reader}" in error
    assert set(read_all(reader, raw).captions["text"]) == set(texts)
    assert "read as captions: " in capsys.readouterr().err


def write_form(raw, form, texts):
    if form == "texts":
        for name, text in zip(NAMES, texts, strict=True):
            (raw / "images" / name).with_suffix(".txt").write_text(text)
        return "image_beside_text"
    if form == "records":
        rows = zip(NAMES, texts, strict=True)
        records = [{"image": name, "caption": text} for name, text in rows]
        (raw / "x.json").write_text(json.dumps(records))
        return "records_json"
    lines = [f"{name}\t{text}\n" for name, text in zip(NAMES, texts, strict=True)]
    (raw / "x.tsv").write_text("image\tcaption\n" + "".join(lines))
    return "captions_csv"


@pytest.mark.parametrize(
    "caption", ["a photo of sks dog", "Hund", "Untitled {n}", "\u4e00\u53ea\u72d7 {n}", "work-{n}"]
)
def test_short_captions_are_captions(raw, caption):
    texts = [caption.format(n=n) for n in range(12)]
    texts = [
        f"{text} {'abcdefghijkl'[n]}" if text == "Hund" else text for n, text in enumerate(texts)
    ]
    write_form(raw, "records", texts)
    assert set(read_all("auto", raw).captions["text"]) == set(texts)


def test_a_text_of_many_images_is_said(raw, capsys):
    write_form(raw, "a table", [f"A dog {n}." if n % 2 else "No finding." for n in range(12)])
    read_all("auto", raw)
    assert "one text: 6 of 12 captions are 'No finding.'" in capsys.readouterr().err


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
