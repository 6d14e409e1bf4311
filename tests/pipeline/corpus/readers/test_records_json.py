"""Records of an image and its captions, as ALBEF and BLIP write them, and forms like these."""

import json

import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import records_json

NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
TEXTS = {"a.jpg": ["A dog.", "It runs."], "b.jpg": ["A cat."], "c.jpg": ["A boat."]}
TEXTS |= {"d.jpg": ["A kite.", "Sand."]}


@pytest.fixture
def raw(tmp_path):
    save_images(tmp_path / "raw/flickr30k-images", *NAMES)
    return tmp_path / "raw"


def write(raw, name, value):
    text = "\n".join(map(json.dumps, value)) if name.endswith("l") else json.dumps(value)
    (raw / name).write_text(text)


def write_blip(raw):
    """Training has a record for each caption, val and test one for each image."""
    names = {n: f"flickr30k-images/{n}" for n in NAMES}
    training = [
        {"image": names[n], "caption": text, "image_id": place}
        for place, n in enumerate(("a.jpg", "b.jpg"))
        for text in TEXTS[n]
    ]
    write(raw, "flickr30k_train.json", training)
    write(raw, "flickr30k_val.json", [{"image": names["c.jpg"], "caption": TEXTS["c.jpg"]}])
    write(raw, "flickr30k_test.json", [{"image": names["d.jpg"], "caption": TEXTS["d.jpg"]}])


def test_a_file_for_each_split_and_records_of_one_image_together(raw, capsys):
    write_blip(raw)
    write(raw, "vqa_train.json", [{"image": "a.jpg", "question": "Who?", "answer": ["A dog."]}])
    corpus = read_all("auto", raw)
    files = "flickr30k_test.json, flickr30k_train.json, flickr30k_val.json"
    assert f"dataset: records_json, because of {files}" in capsys.readouterr().err
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert texts_of(corpus) == {f"flickr30k-images/{n}": texts for n, texts in TEXTS.items()}
    ids = corpus.captions["caption_id"].tolist()
    assert ids[:3] == [f"flickr30k-images/{n}" for n in ("a.jpg#0", "a.jpg#1", "b.jpg#0")]


def test_of_two_datasets_that_whose_images_are_there(raw):
    write_blip(raw)
    for split in ("train", "val", "test"):
        records = [{"image": f"val2014/{split}.jpg", "caption": "A.", "image_id": "coco_1"}]
        write(raw, f"coco_karpathy_{split}.json", records)
    assert len(read_all("auto", raw).images) == 4


FORMS = {
    "list": [{"filename": n, "captions": texts} for n, texts in TEXTS.items()],
    "list of absolute names": [
        {"img_path": f"/home/me/flickr/{n}", "text": text}
        for n, texts in TEXTS.items()
        for text in texts
    ],
    "numbered captions": [
        {"file": n, **dict(zip(("caption_1", "caption_2"), [*texts, None][:2], strict=True))}
        for n, texts in TEXTS.items()
    ],
    "under a key": {
        "info": [{"year": 2020}],
        "data": [{"image": n, "caption": texts} for n, texts in TEXTS.items()],
    },
    "mapping": TEXTS,
    "mapping without endings": {n.removesuffix(".jpg"): texts for n, texts in TEXTS.items()},
    "mapping to records": {n: {"captions": texts, "w": 3} for n, texts in TEXTS.items()},
    "mapping of ids to records": {
        f"id {place}": {"image": n, "caption": texts}
        for place, (n, texts) in enumerate(TEXTS.items())
    },
    "TextCaps": {
        "dataset_type": "train",
        "data": [
            {"image_id": n, "caption_str": text, "reference_strs": [], "image_path": f"train/{n}"}
            for n, texts in TEXTS.items()
            for text in texts
        ],
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_one_file(raw, form, capsys):
    write(raw, "captions.json", FORMS[form])
    corpus = read_all("auto", raw)
    assert {n.rpartition("/")[2]: texts for n, texts in texts_of(corpus).items()} == TEXTS
    said = capsys.readouterr().err
    assert "dataset: records_json, because of captions.json" in said
    assert "splits drawn by seed: 1 val, 1 test" in said


@pytest.mark.parametrize("ending", ["jsonl", "jsonlines", "ndjson", "json"])
def test_a_record_on_each_line(raw, ending):
    lines = [json.dumps(record, ensure_ascii=False) for record in FORMS["list"]]
    lines[0] = lines[0].replace("dog.", "dog.\u2028\u0085")  # no ends of lines in JSON
    (raw / f"captions.{ending}").write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\r\n")
    corpus = read_all("auto", raw)
    assert texts_of(corpus)["b.jpg"] == ["A cat."]
    assert len(corpus.images) == 4


@pytest.mark.parametrize(
    ("field", "who", "what", "speakers"),
    [
        ("conversations", "from", "value", ("human", "gpt")),
        ("messages", "role", "content", ("user", "assistant")),
    ],
)
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_the_only_answer_of_a_conversation_is_a_caption(raw, field, who, what, speakers, ending):
    def turns(*texts):
        return [{who: speakers[n % 2], what: text} for n, text in enumerate(texts)]

    texts = {name: f"A dog {number}." for number, name in enumerate(NAMES)}
    records = [
        {"id": name[0], "image": name, field: turns("<image>\nDescribe it.", text)}
        for name, text in texts.items()
    ]

    def write_records():
        lines = map(json.dumps, records)
        text = "\n".join(lines) if ending == "jsonl" else json.dumps(records)
        (raw / f"chat.{ending}").write_text(text)

    write_records()
    assert texts_of(read_all("auto", raw)) == {name: [text] for name, text in texts.items()}
    records[2][field] += turns("Is it a cat?", "No.")
    write_records()
    said = refusal(read_all, "auto", raw)
    assert f"images with a conversation that has not one answer (1): {NAMES[2]}" in said
    records[2][field] = turns("Describe it.")
    write_records()
    assert f"has not one answer (1): {NAMES[2]}" in refusal(read_all, "auto", raw)


@pytest.mark.parametrize("rest", ["restval", " RestVal "])
def test_the_records_say_the_split(raw, capsys, rest):
    splits = dict(zip(NAMES, ("train", rest, "dev", "test"), strict=True))
    records = [own | {"split": splits[own["filename"]]} for own in FORMS["list"]]
    write(raw, "captions_train.json", records)
    corpus = read_all("records_json", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert len(read_all("records_json", raw, restval="drop").images) == 3
    assert "left out: 1 image of split restval" in capsys.readouterr().err
    write(raw, "captions_train.json", [own | {"split": "else"} for own in records])
    said = refusal(read_all, "records_json", raw)
    assert "splits that are none of train, val, test and their like (1): 'else'" in said
    others = [{"filename": "e.jpg", "captions": ["A tree."], "split": "qual_dev"}]
    save_images(raw / "flickr30k-images", "e.jpg")
    write(raw, "captions_train.json", records + others)
    assert read_all("records_json", raw).images["split"].tolist() == corpus.images["split"].tolist()
    assert "none of train, val and test: 1 of 'qual_dev'" in capsys.readouterr().err
    # `set` says a split only where its words are those of splits
    write(raw, "captions_train.json", [own | {"set": "else"} for own in FORMS["list"]])
    assert len(read_all("records_json", raw).images) == 4
    records = [own | {"set": splits[own["filename"]]} for own in FORMS["list"]]
    write(raw, "captions_train.json", records)
    assert read_all("records_json", raw).images["split"].tolist()[2:] == ["val", "test"]


def test_records_of_a_mapping_say_the_split_and_name_their_faults(raw):
    splits = dict(zip(NAMES, ("train", "train", "dev", "test"), strict=True))
    records = {n: {"caption": texts, "split": splits[n]} for n, texts in TEXTS.items()}
    write(raw, "captions.json", records)
    assert read_all("auto", raw).images["split"].tolist() == ["train", "train", "val", "test"]
    write(raw, "captions.json", records | {"d.jpg": {"caption": 7}, "c.jpg": "A boat."})
    said = refusal(read_all, "auto", raw)
    assert "d.jpg.caption.str = 7: must be a valid string" in said
    assert "c.jpg = 'A boat.': must be an object" in said


def test_a_mapping_to_lists_of_records(raw):
    """As annotators' answers are exported, with their names."""
    value = {n: [{"caption": text, "by": 1} for text in own] for n, own in TEXTS.items()}
    write(raw, "captions.json", value)
    assert texts_of(read_all("auto", raw)) == TEXTS
    write(raw, "captions.json", value | {"d.jpg": "A kite."})
    assert "d.jpg = 'A kite.': must be a valid array" in refusal(read_all, "auto", raw)


@pytest.mark.parametrize("value", [{"info": {"url": "x", "description": "COCO"}}, {"a": {"b": 1}}])
def test_a_mapping_of_something_else_is_none(raw, value):
    write(raw, "captions.json", value)
    assert records_json.recognise(list_folder(raw)) == []


def test_a_list_for_each_split(raw):
    """However far into the file they lie."""
    by_split = dict(zip(("train", "val", "test"), (NAMES[:2], NAMES[2:3], NAMES[3:]), strict=True))
    value = {
        split: [{"image": name, "caption": TEXTS[name]} for name in names]
        for split, names in by_split.items()
    }
    value["train"][1]["more"] = "x" * (1 << 20)
    write(raw, "captions.json", value)
    corpus = read_all("auto", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert texts_of(corpus)["d.jpg"] == TEXTS["d.jpg"]
    del value["train"][1]["more"]
    write(raw, "captions.json", {f"my_{split}": own for split, own in value.items()})
    said = refusal(read_all, "auto", raw)
    assert "several lists of captions: my_train, my_val, my_test" in said


def test_an_image_is_in_one_split(raw):
    write_blip(raw)
    write(raw, "flickr30k_val.json", [{"image": "flickr30k-images/d.jpg", "caption": "A."}])
    said = refusal(read_all, "records_json", raw)
    assert "images in more than one split (1): 'flickr30k-images/d.jpg'" in said


def test_keys_of_any_name_are_named_by_settings(raw):
    records = [{"ding": n, "words": texts, "title": "x"} for n, texts in TEXTS.items()]
    write(raw, "mine.json", records)
    said = refusal(read_all, "records_json", raw)
    assert "no records with an image and a caption; it has its records with ding, words" in said
    corpus = read_all("records_json", raw, image_field="ding", caption_field="words")
    assert texts_of(corpus)["a.jpg"] == TEXTS["a.jpg"]


@pytest.mark.parametrize("value", ['"A cat."', '["A cat."]', '{"caption": "A cat."}'])
def test_an_image_that_a_mapping_has_twice_is_named(raw, value):
    (raw / "mine.json").write_text(f'{{"a.jpg": {value}, "b.jpg": {value}, "a.jpg": {value}}}')
    said = refusal(read_all, "auto", raw)
    assert "mine.json: keys more than once (1): a.jpg" in said
    assert "give each key all of its captions as a list" in said


def test_keys_that_count_the_records_are_no_images(tmp_path):
    save_images(tmp_path, *[f"{number}.jpg" for number in range(1, 7)])
    records = {
        str(number): {"foto": f"{7 - number}.jpg", "caption": f"Of {7 - number}."}
        for number in range(1, 7)
    }
    write(tmp_path, "captions.json", records)
    texts = texts_of(read_all("auto", tmp_path))
    assert texts == {f"{number}.jpg": [f"Of {number}."] for number in range(1, 7)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "persons.json",
            [{"id": 1, "file_path": file, "captions": ["A man."]} for file in ("a.jpg", "b.jpg")],
        ),
        (
            "coco.json",
            {
                "images": [{"id": 1, "file_name": "a.jpg"}],
                "annotations": [{"id": 1, "image_id": "a", "caption": "A dog."}],
            },
        ),
        ("dataset.json", {"images": [{"filename": "a.jpg", "sentences": [{"raw": "A dog."}]}]}),
        ("results.json", [{"image_id": 42, "caption": "A dog."}]),
        ("vqa.json", [{"image": "a.jpg", "question": "A dog?"}]),
        ("info.json", {"a": {"image": "a.jpg", "question": "A dog?"}}),
        ("one.json", {"caption": "A dog.", "url": "a.jpg", "key": "000000000"}),
    ],
)
def test_what_another_reader_reads_or_nobody_is_none(raw, name, value):
    write(raw, name, value)
    assert records_json.recognise(list_folder(raw)) == []


GOOD = {"image": "a.jpg", "caption": "A dog."}
THREE = [GOOD, GOOD | {"image": "b.jpg"}, GOOD | {"image": "c.jpg"}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", [GOOD, GOOD | {"image": 5}], "[1].image = 5: must be a valid string"),
        ("x.json", [GOOD, GOOD | {"image": ""}], "[1].image = '': String should have at least 1"),
        ("x.json", [GOOD, GOOD | {"caption": ["A", 5]}], "[1].caption"),
        ("x.json", [GOOD, "A dog."], "[1] = 'A dog.': must be an object"),
        (
            "x.json",
            [*THREE, GOOD | {"image": "../a.jpg"}],
            "lead out of the image folder (1): '../a",
        ),
        (
            "x.json",
            [*THREE, GOOD | {"image": "b\n.jpg"}],
            "lead out of the image folder (1): 'b\\n",
        ),
        ("x.json", [*THREE, GOOD | {"image": "/etc/hostname"}], "lead out of the image folder (1)"),
        ("x.json", {"data": [GOOD, {}]}, "x.json: data[1].image: Field required"),
        ("x.json", {"a.jpg": ["A dog."], "b.jpg": 5}, "b.jpg"),
        ("x.jsonl", [GOOD, GOOD | {"caption": 5}], "line 2, caption"),
        ("x.json", b'[{"image": "a.jpg", "caption": "A dog."}, {]', "Invalid JSON: key must be"),
        ("x.jsonl", b'{"image": "a.jpg", "caption": "A dog."}\n{"image"', "line 2, Invalid JSON"),
        ("x.json", b'[{"image": "a.jpg", "caption": "\\ud800"}]', "Invalid JSON"),
        ("x.json", b'[{"image": "a.jpg", "caption": "caf\xe9"}]', "line 1: not UTF-8"),
        ("x.json", b"[" * 100_000, "Invalid JSON: recursion limit"),
        ("x.json", b"", "Invalid JSON: EOF"),
        ("x.json", b"[]", "no records with an image and a caption; it has no records"),
        ("x.json", b"<!DOCTYPE html><html>", "x.json: a page of HTML"),
    ],
)
def test_what_is_broken_is_named_with_its_place(raw, name, content, message):
    if isinstance(content, bytes):
        (raw / name).write_bytes(content)
    else:
        write(raw, name, content)
    assert message in refusal(read_all, "records_json", raw)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.text(st.characters(codec="utf-8"), max_size=8)
            | st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["x.json", "x.jsonl"]),
)
def test_every_caption_is_read_in_its_order(tmp_path_factory, rows, name):
    raw = tmp_path_factory.mktemp("raw")
    for image in NAMES:
        (raw / image).touch()
    others = [(image, "x") for image in NAMES if image not in dict(rows)]
    rows = [*rows, *others]
    write(raw, name, [{"image": image, "caption": texts} for image, texts in rows])
    captions = records_json.read(raw, raw, options()).captions
    expected = [
        (image, text)
        for image, texts in rows
        for text in ([texts] if isinstance(texts, str) else texts)
    ]
    assert list(zip(captions["image_id"], captions["text"], strict=True)) == expected
    assert captions["caption_id"].is_unique


@pytest.mark.parametrize(
    "captions",
    [
        lambda texts: [{"text": text, "id": 3} for text in texts],
        lambda texts: [{"raw": text, "tokens": text.split()} for text in texts],
        lambda texts: {"caption": texts},
    ],
)
def test_captions_that_are_records_themselves(raw, captions, capsys):
    write(raw, "mine.json", [{"image": n, "captions": captions(TEXTS[n]), "w": 8} for n in NAMES])
    assert texts_of(read_all("auto", raw)) == TEXTS
    assert "not read beside image and caption: w" in capsys.readouterr().err


def test_a_caption_that_is_no_record_beside_those_that_are_is_named(raw):
    records = [{"image": n, "captions": [{"text": text} for text in TEXTS[n]]} for n in NAMES]
    records[2]["captions"] = ["A boat."]
    write(raw, "mine.json", records)
    assert "[2].captions" in refusal(read_all, "auto", raw)


def test_fields_that_are_not_read_are_named_once_for_all_files(raw, capsys):
    write_blip(raw)
    read_all("auto", raw)
    assert capsys.readouterr().err.count("not read beside image and caption: image_id\n") == 1


def test_lists_under_splits_in_capitals(raw):
    words = ("Train", "VAL", "Testing")
    value = {word: [{"image": f"{n}.jpg", "caption": word}] for n, word in enumerate(words)}
    save_images(raw, "0.jpg", "1.jpg", "2.jpg")
    (raw / "mine.json").write_text(json.dumps(value))
    corpus = read_all("auto", raw)
    assert texts_of(corpus) == {"0.jpg": ["Train"], "1.jpg": ["VAL"], "2.jpg": ["Testing"]}
    assert corpus.images["split"].tolist() == ["train", "val", "test"]


@pytest.mark.parametrize(
    "write",
    [
        lambda own: json.dumps({"annotations": own}),
        lambda own: json.dumps({"data": [one | {"file_path": one["image_id"]} for one in own]}),
        lambda own: "".join(
            f"{json.dumps({'id': n, 'file_path': one['image_id'], 'captions': one['captions']})}\n"
            for n, one in enumerate(own)
        ),
    ],
    ids=["MS-COCO's key", "persons' fields under a key", "persons' fields on lines"],
)
def test_records_that_look_like_those_of_another_form(raw, write):
    names = ("1.jpg", "2.jpg", "3.jpg")
    save_images(raw, *names)
    own = [{"id": 1, "image_id": name, "captions": [f"A {name}.", "A dog."]} for name in names]
    text = write(own)
    (raw / f"mine.{'json' if text.count(chr(10)) < 3 else 'jsonl'}").write_text(text)
    assert texts_of(read_all("auto", raw)) == {name: [f"A {name}.", "A dog."] for name in names}


MISSING = {"null": {"caption": None}, "NA": {"caption": "NA"}, "list": {"caption": [None]}}


@pytest.mark.parametrize("places", [(0, 2), (1,), (2,)])  # the first record says the form
@pytest.mark.parametrize("how", [*MISSING, "field"])
@pytest.mark.parametrize("form", ["list", "lines", "mapping", "texts"])
def test_an_image_whose_caption_is_missing_is_named_or_left_out(tmp_path, places, how, form):
    if how == "field" and 0 in places:
        pytest.skip("a first record without the field is of another form")
    folder = tmp_path / "raw"
    names = [f"p{number}.jpg" for number in range(6)]
    save_images(folder, *names)
    records = [{"image": name, "caption": f"{name} is a dog."} for name in names]
    if how == "list":
        records = [own | {"caption": [own["caption"]]} for own in records]
    for place in places:
        records[place] = {"image": names[place], **MISSING.get(how, {})}
    values = {"list": records, "lines": "\n".join(map(json.dumps, records))}
    values["mapping"] = {
        own["image"]: {k: v for k, v in own.items() if k != "image"} for own in records
    }
    values["texts"] = {own["image"]: own.get("caption") for own in records}
    value = values[form]
    (folder / "x.json").write_text(value if isinstance(value, str) else json.dumps(value))
    said = refusal(read_all, "auto", folder)
    assert all(f"{names[place]} (" in said for place in places)
    left = read_all("auto", folder, skip_bad_images=True)
    kept = {name: f"{name} is a dog." for n, name in enumerate(names) if n not in places}
    assert dict(zip(left.captions["image_id"], left.captions["text"], strict=True)) == kept
    assert left.images["split"].nunique() == 3  # drawn from images that have a caption


def test_numbered_captions_that_say_nothing_are_none(tmp_path):
    folder = tmp_path / "raw"
    names = [f"p{number}.jpg" for number in range(4)]
    save_images(folder, *names)
    more = [None, "NA", "", "A cat."]
    pairs = zip(names, more, strict=True)
    write(
        folder,
        "x.json",
        [{"image": n, "caption_0": "A dog.", "caption_1": own} for n, own in pairs],
    )
    captions = read_all("auto", folder).captions
    assert captions["text"].tolist().count("A dog.") == 4
    assert len(captions) == 5


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_records_on_lines_without_captions_are_no_broken_json(raw, name):
    (raw / name).write_text('{"id": "a"}\n{"id": "b"}\n')
    said = refusal(read_all, "records_json", raw, annotations=name)
    assert "no records with an image and a caption; it has its records with id" in said
