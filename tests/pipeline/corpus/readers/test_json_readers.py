"""Annotations in JSON that are none, or of another form: what a message names."""

import json
import re

import pytest
from reader_cases import options, read_all, save_images

from pipeline.corpus.readers import coco_captions, cuhk_pedes, karpathy_json
from pipeline.runtime.errors import WorkbenchError

FILES = {
    karpathy_json: "dataset_x.json",
    coco_captions: "captions_train2017.json",
    cuhk_pedes: "reid_raw.json",
}


def refusal(reader, raw, content):
    save_images(raw / "images", "a.jpg")
    (raw / FILES[reader]).write_bytes(content)
    with pytest.raises(WorkbenchError, match=FILES[reader]) as caught:
        reader.read(raw, raw, options())
    return caught.value.message


@pytest.mark.parametrize("reader", FILES)
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
def test_what_is_not_the_format_is_refused(tmp_path, reader, content, message):
    assert re.search(message, refusal(reader, tmp_path, content))


def test_all_faults_are_named_together(tmp_path):
    content = b'[{"id": true, "split": "other", "captions": ["a", null]}]'
    message = refusal(cuhk_pedes, tmp_path, content)
    for fault in (
        "[0].id = True: must be a valid integer",
        "[0].file_path: Field required",
        "[0].split = 'other': must be 'train', 'val' or 'test'",
        "[0].captions[1] = None: must be a valid string",
    ):
        assert fault in message


KARPATHY = {"filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog.", "sentid": 0}]}
IMAGE = {"id": 1, "file_name": "a.jpg"}
CAPTION = {"id": 7, "image_id": 1, "caption": "A dog."}
PERSON = {"id": 1, "file_path": "a.jpg", "split": "train", "captions": ["A man."]}


def deep(levels):
    value = "A dog."
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        (karpathy_json, {"images": []}, "images: List should have at least 1 item"),
        (karpathy_json, {"image": [KARPATHY]}, "images: Field required"),
        (karpathy_json, {"images": [KARPATHY, 5]}, "images[1] = 5: must be"),
        (karpathy_json, {"images": [{"split": "train"}]}, "images[0].filename: Field required"),
        (karpathy_json, {"images": [KARPATHY | {"filename": ""}]}, "images[0].filename = ''"),
        (
            karpathy_json,
            {"images": [KARPATHY | {"split": "x"}]},
            "splits that are none of train, val, test and their like (1): 'x'",
        ),
        (
            karpathy_json,
            {"images": [KARPATHY | {"sentences": [{"sentid": 0}]}]},
            "images[0].sentences[0].raw: Field required",
        ),
        (
            karpathy_json,
            {"images": [KARPATHY | {"sentences": [{"raw": "a", "tokens": "a"}]}]},
            "images[0].sentences[0].tokens = 'a': must be a valid array",
        ),
        (
            karpathy_json,
            {"images": [KARPATHY | {"sentences": deep(300)}]},
            "recursion limit",
        ),
        (coco_captions, {"images": [IMAGE]}, "annotations: Field required"),
        (coco_captions, {"images": [IMAGE], "annotations": []}, "annotations: List should have"),
        (coco_captions, {"images": [], "annotations": [CAPTION]}, "images: List should have"),
        (
            coco_captions,
            {"images": [IMAGE, {"id": 2}], "annotations": [CAPTION]},
            "images[1].file_name: Field required",
        ),
        (
            coco_captions,
            {"images": [IMAGE | {"id": 1.5}], "annotations": [CAPTION]},
            "images[0].id",
        ),
        (
            coco_captions,
            {"images": [IMAGE], "annotations": [CAPTION, CAPTION | {"caption": 7}]},
            "annotations[1].caption = 7: must be a valid string",
        ),
        (cuhk_pedes, [], "List should have at least 1 item"),
        (cuhk_pedes, [{"id": 1, "captions": []}], "[0].file_path: Field required"),
        (cuhk_pedes, [PERSON, PERSON | {"id": "x"}], "[1].id = 'x': must be a valid integer"),
        (cuhk_pedes, [PERSON | {"captions": "A man."}], "[0].captions = 'A man.': must be a valid"),
        (cuhk_pedes, {"a": PERSON}, "must be a valid array"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path, reader, value, message):
    assert message in refusal(reader, tmp_path, json.dumps(value).encode())


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/hostname", "b\n.jpg", "images/../../a.jpg"])
@pytest.mark.parametrize("reader", FILES)
def test_names_that_lead_out_are_refused(tmp_path, reader, name):
    names = ["a.jpg", "b.jpg", "c.jpg", name]
    save_images(tmp_path / "raw/images", *names[:3])
    splits = ("train", "val", "test", "train")
    values = {
        karpathy_json: {
            "images": [
                KARPATHY | {"filename": own, "split": split, "sentences": [{"raw": "A dog."}]}
                for own, split in zip(names, splits, strict=True)
            ]
        },
        coco_captions: {
            "images": [{"id": n, "file_name": own} for n, own in enumerate(names)],
            "annotations": [{"image_id": n, "caption": "A dog."} for n in range(4)],
        },
        cuhk_pedes: [
            PERSON | {"id": n, "file_path": own, "split": split}
            for n, (own, split) in enumerate(zip(names, splits, strict=True))
        ],
    }
    (tmp_path / "raw" / FILES[reader]).write_text(json.dumps(values[reader]))
    with pytest.raises(WorkbenchError, match=r"lead out of the image folder \(1\)"):
        read_all(reader.__name__.rpartition(".")[2], tmp_path / "raw")
