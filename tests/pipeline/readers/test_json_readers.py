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
