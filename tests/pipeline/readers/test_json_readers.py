"""Readers of JSON annotations: any JSON is read or refused, and the format is read."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import options, save_images

from pipeline.readers import coco_captions, cuhk_pedes, karpathy_json
from pipeline.runtime.errors import WorkbenchError

NAMES = ("a.jpg", "b.jpg", "c.jpg", "d.jpg")


def karpathy(captions):
    return [
        {
            "filename": name,
            "split": "train",
            "sentences": [{"raw": text, "sentid": n, "imgid": 7} for n, text in enumerate(texts)],
        }
        for name, texts in captions.items()
    ]


def coco(captions):
    return [{"id": n, "file_name": name} for n, name in enumerate(captions)]


def coco_texts(captions):
    rows = [(n, text) for n, texts in enumerate(captions.values()) for text in texts]
    return [{"id": i, "image_id": n, "caption": text} for i, (n, text) in enumerate(rows)]


def pedes(captions):
    return [
        {"id": n, "file_path": name, "split": "train", "captions": texts}
        for n, (name, texts) in enumerate(captions.items())
    ]


READERS = {
    karpathy_json: ("dataset_x.json", lambda c: {"images": karpathy(c)}),
    coco_captions: (
        "captions_train2017.json",
        lambda c: {"images": coco(c), "annotations": coco_texts(c)},
    ),
    cuhk_pedes: ("reid_raw.json", pedes),
}
readers = pytest.mark.parametrize("reader", READERS)

KEYS = re.findall(r'"(\w+)": ', json.dumps([build({"a": ["x"]}) for _, build in READERS.values()]))
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    save_images(folder / "images", *NAMES)
    return folder


def read(reader, folder, content):
    for name, _ in READERS.values():
        (folder / name).unlink(missing_ok=True)
    (folder / READERS[reader][0]).write_bytes(content)
    return reader.read(folder, folder, options())


@readers
@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.lists(TEXT, max_size=3), min_size=3),
    st.none() | st.tuples(st.integers(0, 9), JSON),
)
def test_any_json_is_refused_or_read_and_valid_json_is_read(folder, reader, captions, damage):
    """damage: put in place of a record, or into it where both are objects."""
    value = READERS[reader][1](captions)
    if damage:
        lists = [value] if isinstance(value, list) else [rows for rows in value.values() if rows]
        records = lists[damage[0] % len(lists)]
        place = damage[0] % len(records)
        new = damage[1]
        records[place] = records[place] | new if isinstance(new, dict) else new
    try:
        source = read(reader, folder, json.dumps(value).encode())
    except WorkbenchError:
        assert damage, captions
        return
    assert set(source.captions["image_id"]) <= set(source.images["image_id"])
    if not damage:
        assert sorted(name.split("/")[-1] for name in source.images["image_id"]) == sorted(captions)
        texts = [text for rows in captions.values() for text in rows]
        assert sorted(source.captions["text"]) == sorted(texts)


@readers
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[\n{"a" 1}]', "Invalid JSON: .* at line 2 column 6"),
        (b"[" * 100_000, "Invalid JSON: recursion limit"),
        (b'["\\ud800"]', "Invalid JSON: .* escape"),
        (b'["",\n"caf\xe9"]', r"line 2: not UTF-8 \(byte 0xe9\)"),
        (b'"none"', "must be"),
    ],
)
def test_what_is_not_the_format_is_refused(folder, reader, content, message):
    with pytest.raises(WorkbenchError, match=f"{READERS[reader][0]}.*{message}"):
        read(reader, folder, content)


@pytest.mark.parametrize(
    ("reader", "text", "faults"),
    [
        (
            karpathy_json,
            """{"images": [
            {"filename": "", "split": "dev", "sentences": [{"raw": null, "sentid": true}]},
            {"filename": "a", "split": "val", "sentences": "none"}, 5]}""",
            [
                "images[0].filename = '': String should have at least 1 character",
                "images[0].split = 'dev': must be 'train', 'val', 'test' or 'restval'",
                "images[0].sentences[0].raw = None: must be a valid string",
                "images[0].sentences[0].sentid.int = True: must be a valid integer",
                "images[1].sentences = 'none': must be a valid array",
                "images[2] = 5: must be an object",
            ],
        ),
        (
            coco_captions,
            '{"images": [], "annotations": [{"id": 1, "image_id": "x", "caption": 2}]}',
            [
                "images: List should have at least 1 item",
                "annotations[0].image_id = 'x': must be a valid integer",
                "annotations[0].caption = 2: must be a valid string",
            ],
        ),
        (
            cuhk_pedes,
            '[{"id": true, "split": "dev", "captions": ["a", null]}]',
            [
                "[0].id = True: must be a valid integer",
                "[0].file_path: Field required",
                "[0].split = 'dev': must be 'train', 'val' or 'test'",
                "[0].captions[1] = None: must be a valid string",
            ],
        ),
    ],
)
def test_all_faults_are_named_together(folder, reader, text, faults):
    with pytest.raises(WorkbenchError) as caught:
        read(reader, folder, text.encode())
    for fault in faults:
        assert fault in caught.value.message
