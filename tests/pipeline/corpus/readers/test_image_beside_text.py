"""IMG_1.jpg beside IMG_1.txt."""

import json
import os

import pytest
from commands import refusal
from hypothesis import example, given
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images, texts_of

from pipeline.corpus.dataset.beside import pairs_of
from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.recognise import Found, quality
from pipeline.corpus.dataset.text_lines import lines_in
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


@pytest.fixture
def photographs(tmp_path):
    save_images(tmp_path / "raw", *NAMES)
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
    assert "left out: 1 image without captions: more/alone.jpg" in said
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


def test_two_folders_of_texts_are_not_chosen_from(photographs):
    """But by their names, by what they hold, or by the user."""
    stems = [name.rpartition(".")[0] for name in NAMES]
    for folder in ("blip_captions", "captions"):
        write(photographs, {f"{folder}/{stem}.txt": f"{stem} in {folder}." for stem in stems})
    said = refusal(read_all, "auto", photographs)
    assert "4 images have different texts in blip_captions and in captions, such as " in said
    assert "set corpus.annotations in params.yaml to blip_captions or captions" in said
    for folder in ("blip_captions", "captions"):
        read = texts_of(read_all("auto", photographs, annotations=folder))
        assert read["IMG_1.jpg"] == [f"IMG_1 in {folder}."]
    for stem in stems:  # a copy
        text = photographs / f"captions/{stem}.txt"
        text.write_text(f"{stem} in blip_captions.\n")
    assert texts_of(read_all("auto", photographs))["IMG_1.jpg"] == ["IMG_1 in blip_captions."]


@pytest.mark.parametrize("other", ["", "Prompts/", "a/wd14_tags/", "captions_old/"])
def test_folders_of_captions_come_before_tags_and_prompts(photographs, other, capsys):
    for name in NAMES:
        stem = name.rpartition(".")[0]
        tags = "1girl, long hair, smile" if other == "" else "Describe the image."
        write(photographs, {f"{other}{stem}.txt": tags, f"captions/{stem}.txt": f"{name}."})
    expected = {name: [f"{name}."] for name in NAMES}
    assert texts_of(read_all("auto", photographs)) == expected
    said = capsys.readouterr().err
    assert "left out: 4 texts in folders of tags, of other texts or of earlier ones: " in said


@pytest.mark.parametrize("ending", ["txt", "json"])
def test_few_images_have_captions(tmp_path, ending, capsys):
    names = [f"{number}.jpg" for number in range(20)]
    save_images(tmp_path, *names)
    for number in range(3):
        caption = f"Dog {number}."
        text = json.dumps({"caption": caption}) if ending == "json" else caption
        write(tmp_path, {f"{number}.{ending}": text})
    assert texts_of(read_all("auto", tmp_path)) == {f"{n}.jpg": [f"Dog {n}."] for n in range(3)}
    assert "left out: 17 images without captions: 10.jpg, " in capsys.readouterr().err


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


WRAPPED = [
    "A brown dog leaps over a log in\nthe forest.\n",
    "Two children share an umbrella\non a rainy street. It is cold.\n",
    "A parrot.\n",
    "An old man sells oranges. He is\ntired.\n",
]


@pytest.mark.parametrize("value", ["joined", "each", "first"])
def test_the_user_says_what_wrapped_lines_are(photographs, value):
    write(photographs, {"IMG_1.txt": WRAPPED[0], "IMG_2.txt": WRAPPED[1]})
    write(photographs, {"IMG_3.txt": WRAPPED[2], "my photo.txt": WRAPPED[3]})
    said = refusal(read_all, "auto", photographs)
    assert "several lines (3 of 4), and it is not plain whether each is a caption" in said
    assert "IMG_1.txt: 'A brown dog leaps over a log in / the forest.'" in said
    assert f"{value} (" in said
    lines = [text.strip().split("\n") for text in WRAPPED]
    wanted = {
        "joined": [[" ".join(own)] for own in lines],
        "each": lines,
        "first": [own[:1] for own in lines],
    }
    read = texts_of(read_all("auto", photographs, text_lines=value))
    assert read == dict(zip(NAMES, wanted[value], strict=True))


def test_boxes_beside_images_are_no_captions(photographs):
    boxes = "imagesource:GoogleEarth\ngsd:0.15\n2753 2408 2861 2385 2888 2468 2805 2502 plane 0\n"
    write(photographs, {f"{name.rpartition('.')[0]}.txt": boxes for name in NAMES})
    assert image_beside_text.recognise(list_folder(photographs)) == []
    said = refusal(read_all, "image_beside_text", photographs)
    assert "texts that hold numbers, as of boxes (4): IMG_1.txt" in said


def test_records_in_texts_are_read_from_the_ending_that_the_way_out_names(photographs):
    for name in NAMES:
        write(photographs, {f"{name.rpartition('.')[0]}.txt": json.dumps({"caption": "A dog."})})
    said = refusal(read_all, "auto", photographs)
    assert "texts that hold JSON (4): IMG_1.txt" in said
    assert "are read from files that end in .json" in said
    for text in list(photographs.glob("*.txt")):
        text.rename(text.with_suffix(".json"))
    assert texts_of(read_all("auto", photographs)) == each_has("A dog.")


STEMS = st.sampled_from(["a", "b", "sub/a", "sub/b", "c.d"])
CONTENT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8)


@example({"sub/a"}, {"a": ["Elsewhere."], "sub/a": ["Beside."]})
@given(st.sets(STEMS), st.dictionaries(STEMS, st.lists(CONTENT, max_size=3)))
def test_every_line_beside_an_image_is_a_caption(tmp_path_factory, images, texts):
    raw = tmp_path_factory.mktemp("raw")
    write(raw, {f"{stem}.jpg": b"" for stem in images})
    write(raw, {f"{stem}.txt": "\n".join(lines) for stem, lines in texts.items()})
    pairs, _ = pairs_of(list_folder(raw))
    beside = {f"{stem}.jpg": f"{stem}.txt" for stem in images & set(texts)}
    assert beside.items() <= pairs.texts.items()
    assert len(set(pairs.texts.values())) == len(pairs.texts)
    assert set(pairs.texts) | set(pairs.images_alone) == {f"{stem}.jpg" for stem in images}
    for text in pairs.texts.values():
        lines = texts[text.removesuffix(".txt")]
        kept = [line for line in lines if line.strip()]
        if kept and not lines[0].startswith("\ufeff"):
            assert lines_in(image_beside_text._text(raw / text)) == kept


RECORDS = {  # a record beside an image, and the captions that it has
    "a caption": ({"caption": "A dog.", "width": 24}, ["A dog."]),
    "several": ({"captions": ["A dog.", "It runs."]}, ["A dog.", "It runs."]),
    "numbered": ({"caption_0": "A dog.", "caption_1": None, "url": "x"}, ["A dog."]),
    "Google Photos": (
        {"title": "IMG_1.jpg", "description": "A dog.", "imageViews": "3"},
        ["A dog."],
    ),
    "records of captions": (
        {"captions": [{"raw": "A dog."}, {"raw": "It runs."}]},
        ["A dog.", "It runs."],
    ),
}


def each_has(*captions):
    return {name: [*captions] for name in NAMES}


def write_records(raw, records, name="{stem}.json"):
    """A record for each of the first images."""
    for image, record in zip(NAMES, records, strict=False):
        stem = image.rpartition(".")[0]
        write(raw, {name.format(stem=stem, name=image): json.dumps(record)})


@pytest.mark.parametrize(("record", "captions"), RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("name", ["{stem}.json", "{name}.json", "{stem}.JSON"])
def test_a_record_beside_an_image(photographs, record, captions, name):
    write(photographs, {"README.txt": "Photographs.\n"})
    write_records(photographs, [record] * len(NAMES), name)
    assert texts_of(read_all("auto", photographs)) == each_has(*captions)


ONE_FIELD = {  # what records have beside the caption that every other image has, or beside nothing
    "a title that names the file with signs that the disk lacks": (
        {"title": "IMG: 1.jpg", "description": "A dog."},
        {"title": "IMG? 2.jpg", "description": ""},
        "title",
    ),
    "a title of another ending": (
        {"title": "IMG_1.HEIC", "description": "A dog."},
        {"title": "IMG_2.HEIC"},
        "title",
    ),
    "a title in words": (
        {"title": "Trip", "description": "A dog."},
        {"title": "Trip", "description": None},
        "title",
    ),
    "text in the image": ({"text": "STOP", "caption": "A dog."}, {"text": "GO"}, "text"),
    "a comment": (
        {"caption": "A dog.", "comment": "ok"},
        {"caption": " ", "comment": "ok"},
        "comment",
    ),
}


@pytest.mark.parametrize(("described", "silent", "unread"), ONE_FIELD.values(), ids=ONE_FIELD)
def test_one_field_is_the_caption_of_all_images(photographs, capsys, described, silent, unread):
    write_records(photographs, [described, silent, described, described])
    assert texts_of(read_all("auto", photographs)) == {
        name: ["A dog."] for name in NAMES if name != "IMG_2.PNG"
    }
    said = capsys.readouterr().err
    field = "description" if "description" in described else "caption"
    assert f"not read beside image and caption: {unread}" in said
    assert f"no caption in the field {field}: 1 of 4 records" in said
    assert "left out: 1 image without captions: IMG_2.PNG" in said


@pytest.mark.parametrize(
    "title",
    ["{stem}{ending}", "{stem}", "{stem}.HEIC", "{stem}?.jpg", "On a walk, {stem} (2).jpg"],
)
def test_names_of_files_are_no_captions(tmp_path, title):
    raw = tmp_path / "raw"
    names = ["IMG_1.jpg", "IMG_2.PNG", "IMG_3.tif", "IMG_4.jpg"]
    save_images(raw, *names)
    for name in names:
        stem = name.rpartition(".")[0]
        record = {"title": title.format(stem=stem, ending=name.removeprefix(stem))}
        write(raw, {f"{stem}.json": json.dumps(record)})
    assert image_beside_text.recognise(list_folder(raw)) == []
    said = refusal(read_all, "image_beside_text", raw)
    assert "no record of an image has a caption; their fields are title" in said
    # whoever names the field means it
    read = texts_of(read_all("image_beside_text", raw, caption_field="title"))
    assert read["IMG_4.jpg"] == [title.format(stem="IMG_4", ending=".jpg")]


def test_a_cut_name_is_no_caption_beside_titles_in_words(photographs, capsys):
    long = "The old lighthouse above the bay, seen from the"
    save_images(photographs, f"{long}.jpg")
    write(photographs, {f"{long}.json": json.dumps({"title": f"{long} harbour wall.jpg"})})
    write_records(photographs, [{"title": "A dog runs."}] * len(NAMES))
    write(photographs, {f"{long}.jpg": (photographs / f"{long}.jpg").read_bytes() + b"\n"})
    read = texts_of(read_all("auto", photographs))
    assert read == each_has("A dog runs.")
    said = capsys.readouterr().err
    assert "no caption in the field title: 1 of 5 records" in said
    assert f"left out: 1 image without captions: {long}.jpg" in said


def test_a_caption_may_be_what_the_file_is_called(tmp_path):
    raw = tmp_path / "raw"
    names = ["A dog runs.jpg", "Two cats.jpg", "sunset.jpg", "3 birds.jpg"]
    save_images(raw, *names)
    for name in names:
        text = name.removesuffix(".jpg")
        write(raw, {f"{text}.json": json.dumps({"caption": text})})
    assert texts_of(read_all("auto", raw)) == {name: [name.removesuffix(".jpg")] for name in names}


def test_few_captions_are_enough_where_nothing_else_has_some(tmp_path):
    """As in an album of Google Photos."""
    raw = tmp_path / "raw"
    names = [f"{number}.jpg" for number in range(120)]
    write(raw, {name: b"" for name in names})
    records = {f"{name}.json": json.dumps({"title": name, "description": ""}) for name in names}
    records |= {f"{n}.jpg.json": json.dumps({"description": "A dog."}) for n in range(0, 120, 12)}
    write(raw, records)
    (found,) = image_beside_text.recognise(list_folder(raw))
    assert found.is_few
    stems = list_folder(raw).stems
    assert quality(found, stems) < quality(Found(("sub/captions.csv",), names=("1.jpg",)), stems)


SPLITS = {
    "words": [{"split": word} for word in ("train", "Training", "dev", "test")],
    "another field": [{"set": word} for word in ("train", "train", "val", "test")],
    "flags": [{}, {"is_val": False, "is_test": False}, {"is_val": True}, {"is_test": True}],
}


@pytest.mark.parametrize("own", SPLITS.values(), ids=SPLITS)
def test_records_say_splits(photographs, capsys, own):
    write_records(photographs, [{"caption": "A dog.", **record} for record in own])
    (found,) = image_beside_text.recognise(list_folder(photographs))
    assert found.has_splits
    images = read_all("auto", photographs).images
    splits = dict(zip(images["image_id"], images["split"], strict=True))
    assert splits == dict(zip(NAMES, ("train", "train", "val", "test"), strict=True))
    assert "not read beside" not in capsys.readouterr().err


def test_splits_of_some_records(photographs, capsys):
    own = [{"split": "train"}, {"split": "val"}, {"split": "test"}, {"split": None}]
    write_records(photographs, [{"caption": "A dog.", **record} for record in own])
    assert len(read_all("auto", photographs).images) == 3
    assert "left out: 1 image in no split (my photo.jpg)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"split": "tset"}, "splits that are none of train, val, test and their like (1): 'tset'"),
        ({"split": 1}, "splits that are none of train, val, test and their like (1): '1'"),
        ({"is_val": True, "is_test": True}, "images in more than one split (1): 'IMG_1.jpg'"),
    ],
)
def test_splits_that_nobody_can_tell(photographs, own, message):
    others = [{"caption": "A cat.", **dict.fromkeys(own)}] * (len(NAMES) - 1)
    write_records(photographs, [{"caption": "A dog.", **own}, *others])
    assert message in refusal(read_all, "auto", photographs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"caption": "A dog.",}', "records that cannot be read (1): IMG_1.json, line 1, "),
        ('{"caption": "\\ud800"}', "images with halves of characters in a caption (1): IMG_1.jpg"),
    ],
)
def test_broken_records_are_named(photographs, text, message):
    write_records(photographs, [{"caption": "A cat."}] * len(NAMES))
    write(photographs, {"IMG_1.json": text})
    assert message in refusal(read_all, "auto", photographs)


@pytest.mark.parametrize(
    "text", ['["A dog."]', '{"caption": 7, "size": NaN}', '{"title": "\\ud800"}', "null"]
)
def test_records_of_other_things_have_no_caption(photographs, capsys, text):
    write_records(photographs, [{"caption": "A cat."}] * len(NAMES))
    write(photographs, {"IMG_1.json": text})
    assert len(read_all("auto", photographs).images) == 3
    said = capsys.readouterr().err
    assert "no caption in the field caption: 1 of 4 records" in said
    assert "left out: 1 image without captions: IMG_1.jpg" in said


def test_a_set_that_is_no_split(photographs, capsys):
    sets = ("train", "Castle", "Castle", "Harbour")
    write_records(photographs, [{"caption": "A toy.", "set": own} for own in sets])
    assert len(read_all("auto", photographs).images) == 4
    assert "not read beside image and caption: set" in capsys.readouterr().err


LONG = "PXL_20210809_123456789.PORTRAIT-01.COVER~2"  # of a telephone
TAKEOUT = {
    "today": ("new.jpg", "new.jpg.supplemental-metadata"),
    "today, cut": ("new.jpg", "new.jpg.suppl"),
    "a copy": ("IMG_1(1).jpg", "IMG_1.jpg(1)"),
    "a copy today": ("IMG_1(1).jpg", "IMG_1.jpg.supplemental-metadata(1)"),
    "a copy today, cut": ("IMG_1(12).jpg", "IMG_1.jpg.supp(12)"),
    "cut behind the dot": (f"{LONG[:41]}.jpg", f"{LONG[:41]}.jpg."),
    "cut in the ending": (f"{LONG}_a.jpg", f"{LONG}_a.j"),
    "a long copy": (f"{LONG}_abc(3).jpg", f"{LONG}_abc(3)"),
}


@pytest.mark.parametrize(("image", "record"), TAKEOUT.values(), ids=TAKEOUT)
def test_records_as_google_takeout_calls_them(photographs, image, record):
    write_records(photographs, [{"description": "A cat."}] * len(NAMES), "{name}.suppleme.json")
    save_images(photographs, image)
    write(photographs, {image: (photographs / image).read_bytes() + b"\n"})  # as no other is
    write(photographs, {f"{record}.json": json.dumps({"description": "A dog."})})
    assert texts_of(read_all("auto", photographs)) == {**each_has("A cat."), image: ["A dog."]}


def test_a_record_of_a_cut_name_of_two_images_is_of_none(tmp_path, capsys):
    raw = tmp_path / "raw"
    long = "A walk along the river on the last day of the year"
    save_images(raw, f"{long} 1.jpg", f"{long} 2.jpg", *NAMES)
    write_records(raw, [{"caption": "A dog."}] * len(NAMES))
    write(raw, {f"{long[:46]}.json": json.dumps({"caption": "A river."})})
    assert texts_of(read_all("auto", raw)) == each_has("A dog.")
    assert f"record without an image of its name: {long[:46]}.json" in capsys.readouterr().err


def test_the_form_that_most_images_have_is_read(photographs, capsys):
    write_records(photographs, [{"caption": "A dog."}] * len(NAMES))
    write(photographs, {"IMG_3.txt": "retouch the sky"})
    assert texts_of(read_all("auto", photographs)) == each_has("A dog.")
    said = capsys.readouterr().err
    assert "left out: 1 text beside images, for records are read: IMG_3.txt" in said


def test_half_of_the_images_have_texts_and_half_records(photographs, capsys):
    write_records(photographs, [{"caption": "A dog."}] * 2)
    write(photographs, {"IMG_3.txt": "A cat.", "my photo.txt": "A bird.", "new.json": "{}"})
    save_images(photographs, "new.jpg", "last.jpg")
    write(
        photographs,
        {"last.txt": "A cow.", "last.jpg": (photographs / "new.jpg").read_bytes() + b"\n"},
    )
    read = texts_of(read_all("auto", photographs))
    assert read == {"IMG_3.tif": ["A cat."], "my photo.jpg": ["A bird."], "last.jpg": ["A cow."]}
    said = capsys.readouterr().err
    assert "left out: 3 images without captions: IMG_1.jpg, IMG_2.PNG, new.jpg" in said
    assert "left out: 3 records beside images, for texts are read: IMG_1.json, " in said
    (found,) = image_beside_text.recognise(list_folder(photographs))
    assert found.is_few


def test_boxes_in_texts_do_not_hide_records(photographs):
    write_records(photographs, [{"caption": "A dog."}] * len(NAMES))
    write(photographs, {f"{name.rpartition('.')[0]}.txt": "0 0.5 0.5 0.2 0.1\n" for name in NAMES})
    assert texts_of(read_all("auto", photographs)) == each_has("A dog.")


def test_records_beside_texts_are_passed_over(raw, capsys):
    write(raw, {"IMG_1.json": json.dumps({"caption": "Another."})})
    assert texts_of(read_all("auto", raw))["IMG_1.jpg"] == ["This is IMG_1.jpg"]
    said = capsys.readouterr().err
    assert "left out: 1 record beside images, for texts are read: IMG_1.json" in said


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


@pytest.mark.parametrize("texts", ["text/", "images/", ""])
@pytest.mark.parametrize("ending", ["txt", "json"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_text_whose_image_is_missing_is_of_no_other(tmp_path, texts, ending, is_there):
    """Neither where the other image of that name has a text of its own, nor where it has none."""
    places = [(place, number) for place in ("cats", "dogs") for number in range(1, 6)]
    save_images(tmp_path, *[f"images/{place}/{number}.jpg" for place, number in places])
    for place, number in places:
        file = tmp_path / f"{texts}{place}/{number}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = f"One of {place} {number}."
        file.write_text(json.dumps({"caption": text}) if ending == "json" else text)
    (tmp_path / "images/cats/5.jpg").unlink()
    if not is_there:
        (tmp_path / f"{texts}dogs/5.{ending}").unlink()
    told = read_all("auto", tmp_path).captions.set_index("image_id")["text"].to_dict()
    described = {
        image: f"One of {' '.join(image.removesuffix('.jpg').split('/')[-2:])}." for image in told
    }
    assert told == described
    assert len(told) == (9 if is_there else 8)
