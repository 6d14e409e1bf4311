"""Annotations in JSON that are none, or of another form: what a message names."""

import re

import pytest
from reader_cases import options, save_images

from pipeline.readers import coco_captions, cuhk_pedes, karpathy_json
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
def test_all_faults_are_named_together(tmp_path, reader, text, faults):
    message = refusal(reader, tmp_path, text.encode())
    assert [fault for fault in faults if fault not in message] == []
