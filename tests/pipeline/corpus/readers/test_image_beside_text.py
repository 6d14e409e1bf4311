"""IMG_1.jpg beside IMG_1.txt."""

import json
import os

import pytest
from commands import refusal
from hypothesis import example, given
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import image_beside_text

NAMES = ["IMG_1.jpg", "IMG_2.PNG", "IMG_3.tif", "my photo.jpg"]


def write(raw, texts):
    for name, text in texts.items():
        path = raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def raw(tmp_path):
    save_images(tmp_path / "raw", *NAMES)
    for name in NAMES:
        write(tmp_path / "raw", {f"{name.rpartition('.')[0]}.txt": f"This is {name}\n"})
    return tmp_path / "raw"


def test_a_line_is_a_caption_and_the_path_the_id(raw, capsys):
    write(raw, {"IMG_1.txt": "\ufeffOne.\r\n\r\n Two. \r\n", "sub/x.txt": "Three."})
    save_images(raw / "sub", "x.jpg")
    write(raw, {"sub/x.jpg": (raw / "sub/x.jpg").read_bytes() + b"\n"})
    corpus = read_all("auto", raw)
    assert texts_of(corpus)["IMG_1.jpg"] == ["One.", "Two."]
    assert texts_of(corpus)["sub/x.jpg"] == ["Three."]
    assert set(corpus.captions["caption_id"]) >= {"IMG_1.jpg#0", "IMG_1.jpg#1", "sub/x.jpg#0"}
    assert len(corpus.images) == 5
    said = capsys.readouterr().err
    assert "dataset: image_beside_text, because of IMG_1.txt, IMG_2.txt" in said
    assert "splits drawn by seed: 1 val, 1 test" in said


def test_marks_of_flickr30k_entities_are_no_words(raw):
    marked = "[/EN#1/people A young girl] in [/EN#2/clothing/other a red dress] , [0] ."
    write(raw, {"IMG_1.txt": f"{marked}\n[/EN#0/scene It] rains .\n"})
    plain = ["A young girl in a red dress , [0] .", "It rains ."]
    assert texts_of(read_all("auto", raw))["IMG_1.jpg"] == plain


def test_folders_are_splits(tmp_path):
    raw = tmp_path / "raw"
    for n, split in enumerate(("train", "train", "validation", "test")):
        save_images(raw / split, *(f"{k}.jpg" for k in range(n + 1)))
        write(raw, {f"{split}/{n}.txt": "A dog."})
    corpus = read_all("image_beside_text", raw)
    assert corpus.images["image_id"].tolist() == [
        *("train/0.jpg", "train/1.jpg", "validation/2.jpg", "test/3.jpg")
    ]


def test_a_folder_called_train_alone_may_show_trains(raw):
    save_images(raw / "train", "loco.jpg")
    write(raw, {"train/loco.txt": "A red train.", "train/loco.jpg": b""})
    source = image_beside_text.read(raw, raw, options())
    assert sorted(source.images["split"].value_counts().tolist()) == [1, 1, 3]


@pytest.mark.parametrize(
    "ending", ["{stem}.caption", "{stem}.TXT", "{name}.txt", "texts/{stem}.txt"]
)
def test_other_places_and_endings_of_texts(raw, ending):
    for name in NAMES:
        stem = name.rpartition(".")[0]
        new = raw / ending.format(stem=stem, name=name)
        new.parent.mkdir(exist_ok=True)
        (raw / f"{stem}.txt").rename(new)
    assert texts_of(read_all("auto", raw)) == {name: [f"This is {name}"] for name in NAMES}


def test_folders_of_texts_beside_folders_of_images(tmp_path):
    """With the same names in each of them."""
    raw = tmp_path / "raw"
    save_images(raw / "images", *(f"{split}/same.jpg" for split in ("train", "val", "test")))
    for split in ("train", "val", "test"):
        write(raw, {f"texts/{split}/same.txt": f"A {split} image."})
    write(raw, {"notes/same.txt": "None of the three."})
    corpus = read_all("auto", raw)
    assert texts_of(corpus) == {
        f"images/{split}/same.jpg": [f"A {split} image."] for split in ("train", "val", "test")
    }


def test_what_has_no_other_half_is_counted(raw, capsys):
    save_images(raw / "more", "alone.jpg")
    write(raw, {"train.txt": "\n".join(NAMES)})  # a list of images, and no text of an image
    write(raw, {"README.txt": "Photos.", "IMG_1.caption": "Another.", "test_7.txt": "A dog."})
    corpus = read_all("auto", raw)
    assert len(corpus.images) == 4
    said = capsys.readouterr().err
    assert "left out: 1 image without a text of its name: more/alone.jpg" in said
    assert "left out: 2 texts without an image of its name: README.txt, test_7.txt" in said
    assert "left out: 1 text of images that have another: IMG_1.txt" in said
    assert texts_of(corpus)["IMG_1.jpg"] == ["Another."]  # tags are in the .txt then


def test_settings_name_the_folders(raw):
    save_images(raw / "photos/in", *NAMES)
    for name in NAMES:
        stem = name.rpartition(".")[0]
        write(raw, {f"texts/{stem}.txt": f"New {name}."})
    found = read_all("image_beside_text", raw, images="photos", annotations="texts")
    assert texts_of(found) == {f"in/{name}": [f"New {name}."] for name in NAMES}
    assert found.images["path"][0].startswith(f"{raw}/photos/in/")
    said = refusal(read_all, "image_beside_text", raw, annotations="IMG_1.txt")
    assert "corpus.annotations = 'IMG_1.txt': not a folder" in said


def test_few_texts_lists_of_names_and_boxes_are_none(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw, *(f"{n}.jpg" for n in range(4)))
    write(
        raw, {"0.txt": "A dog.", "1.txt": "A cat.", "train.txt": "0.jpg\n1.jpg", "README.txt": "."}
    )
    assert image_beside_text.recognise(list_folder(raw)) == []
    write(raw, {f"{n}.txt": "0 0.5 0.5 0.25 0.125\n" for n in range(4)})  # a detector's boxes
    assert image_beside_text.recognise(list_folder(raw)) == []
    write(raw, {f"{n}.txt": "\u72d7\u5728\u8349\u5730\u4e0a" for n in range(4)})
    assert len(image_beside_text.recognise(list_folder(raw))) == 1


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"IMG_1.txt": b"caf\xe9"}, "texts that cannot be read (1): IMG_1.txt, line 1: not UTF-8"),
        ({"IMG_1.txt": b"a" * 2_000_000}, "IMG_1.txt: more than 1,048,576 bytes"),
        ({"IMG_1.txt": "\n \n"}, "IMG_1.jpg (caption IMG_1.jpg#0 without a word)"),
        ({"IMG_1.txt": ""}, "IMG_1.jpg (no caption)"),
        ({"IMG_1.png": b"x"}, "could have (1): IMG_1.txt (IMG_1.jpg, IMG_1.png)"),
        ({"IMG_2.PNG": b""}, "IMG_2.PNG (empty file)"),
        ({"a\nb.jpg": b"x", "a\nb.txt": "A dog."}, "lead out of the image folder (1): 'a\\nb.jpg'"),
    ],
)
def test_what_is_broken_is_named(raw, texts, message):
    write(raw, texts)
    assert message in refusal(read_all, "image_beside_text", raw)


def test_a_pipe_is_no_text(raw):
    (raw / "IMG_1.txt").unlink()
    os.mkfifo(raw / "IMG_1.txt")
    assert "IMG_1.txt: not a regular file" in refusal(read_all, "image_beside_text", raw)
    (raw / "IMG_1.txt").unlink()
    for name in list(raw.glob("*.txt")):
        name.unlink()
    assert "no image has a text of its name" in refusal(read_all, "image_beside_text", raw)


STEMS = st.sampled_from(["a", "b", "sub/a", "sub/b", "c.d"])
CONTENT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8)


@example({"sub/a"}, {"a": ["Elsewhere."], "sub/a": ["Beside."]})
@given(st.sets(STEMS), st.dictionaries(STEMS, st.lists(CONTENT, max_size=3)))
def test_every_line_beside_an_image_is_a_caption(tmp_path_factory, images, texts):
    raw = tmp_path_factory.mktemp("raw")
    write(raw, {f"{stem}.jpg": b"" for stem in images})
    write(raw, {f"{stem}.txt": "\n".join(lines) for stem, lines in texts.items()})
    pairs = image_beside_text._paired(list_folder(raw))
    beside = {f"{stem}.jpg": f"{stem}.txt" for stem in images & set(texts)}
    assert beside.items() <= pairs.texts.items()
    assert len(set(pairs.texts.values())) == len(pairs.texts)
    assert set(pairs.texts) | set(pairs.images_alone) == {f"{stem}.jpg" for stem in images}
    for text in pairs.texts.values():
        lines = texts[text.removesuffix(".txt")]
        kept = [line for line in lines if line.strip()]
        if kept and not lines[0].startswith("\ufeff"):
            assert image_beside_text._lines(raw / text, "image.jpg") == kept


RECORDS = {  # a record beside an image, and the captions that it has
    "a caption": ({"caption": "A dog.", "width": 24}, ["A dog."]),
    "several": ({"captions": ["A dog.", "It runs."]}, ["A dog.", "It runs."]),
    "numbered": ({"caption_0": "A dog.", "caption_1": None, "url": "x"}, ["A dog."]),
    "Google Photos": (
        {"title": "IMG_1.jpg", "description": "A dog.", "imageViews": "3"},
        ["A dog."],
    ),
}


@pytest.mark.parametrize(("record", "captions"), RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("name", ["IMG_1.json", "IMG_1.jpg.json", "IMG_1.JSON"])
def test_a_record_beside_an_image(tmp_path, record, captions, name):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    write(raw, {"README.txt": "Photographs.\n", name: json.dumps(record)})
    for other in NAMES[1:]:
        ending = name[5:] if name != "IMG_1.jpg.json" else f"{other[other.rindex('.') :]}.json"
        write(raw, {f"{other.rpartition('.')[0]}{ending}": json.dumps({"caption": f"On {other}."})})
    corpus = read_all("auto", raw)
    assert texts_of(corpus)["IMG_1.jpg"] == captions
    assert texts_of(corpus)["my photo.jpg"] == ["On my photo.jpg."]


def test_records_beside_texts_are_passed_over(raw):
    write(raw, {"IMG_1.json": json.dumps({"caption": "Another."})})
    assert texts_of(read_all("auto", raw))["IMG_1.jpg"] == ["This is IMG_1.jpg"]


@pytest.mark.parametrize("record", [{"shapes": ["a"]}, {"title": "{}"}, ["A dog."], {}])
def test_records_without_captions_are_none(raw, record):
    for name in NAMES:
        text = raw / f"{name.rpartition('.')[0]}.txt"
        text.unlink()
        text.with_suffix(".json").write_text(json.dumps(record).replace("{}", name))
    assert image_beside_text.recognise(list_folder(raw)) == []


@pytest.mark.parametrize("folder", ["masks/{}.png", "smaller/{}.jpg"])
def test_other_files_of_the_images_names(raw, folder):
    """Masks and smaller ones have no texts beside them, and are passed over."""
    expected = texts_of(read_all("auto", raw))
    save_images(raw, *(folder.format(name.rpartition(".")[0]) for name in NAMES))
    assert texts_of(read_all("auto", raw)) == expected
    for name in NAMES:  # elsewhere a text may be of either
        stem = name.rpartition(".")[0]
        write(raw, {f"texts/{stem}.txt": (raw / f"{stem}.txt").read_text()})
        (raw / f"{stem}.txt").unlink()
    said = refusal(read_all, "auto", raw)
    assert f"texts that several images could have ({len(NAMES)}): texts/" in said
    assert len(read_all("image_beside_text", raw, images=folder.split("/")[0]).images) == len(NAMES)
