"""Files known by what is in them: looks at beginnings of files, whatever the files are."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import options

from pipeline.corpus.dataset import recognise
from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.recognise import (
    Found,
    annotation_files,
    few_files,
    first_records,
    head,
    record_under,
    values_in_head,
)
from pipeline.corpus.readers import (
    coco_captions,
    cuhk_pedes,
    image_beside_text,
    karpathy_json,
    name_lists,
    records_json,
)
from pipeline.runtime.errors import WorkbenchError

READERS = (coco_captions, cuhk_pedes, image_beside_text, karpathy_json, name_lists, records_json)


def test_what_is_no_file_of_text_has_no_beginning(tmp_path):
    """A pipe would block for ever."""
    os.mkfifo(tmp_path / "pipe.json")
    os.mkfifo(tmp_path / "a.txt")
    (tmp_path / "broken.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "binary.json").write_bytes(b"\xff\x00\xfe")
    folder = list_folder(tmp_path)
    for name in ("pipe.json", "broken.json", "binary.json"):
        assert head(folder, name) == ""
        assert record_under(tmp_path / name, "images") == {}
    assert [reader.recognise(folder) for reader in READERS] == [[]] * len(READERS)


@pytest.mark.parametrize("blanks", range(0, 40, 3))
def test_a_list_far_into_a_file_is_found_across_blocks(tmp_path, monkeypatch, blanks):
    monkeypatch.setattr(recognise, "LOOKED_AT", 32)
    text = '{"images": [{"id": 1, "annotations": 5}],%s "annotations" : [ {"a": "b"}, {' % (
        " " * blanks
    )
    (tmp_path / "a.json").write_text(text)
    assert record_under(tmp_path / "a.json", "annotations") == {"a": "b"}
    assert record_under(tmp_path / "a.json", "captions") == {}


def test_a_record_on_each_line_may_hold_other_ends_of_lines(tmp_path):
    lines = [{"image": "a.jpg", "caption": "one\u2028two"}, {"image": "b.jpg", "caption": ""}]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "a.jsonl").write_text(text)
    assert first_records(list_folder(tmp_path), "a.jsonl") == {"": lines[0]}


def test_names_of_images_are_found_with_their_escapes(tmp_path):
    names = ["a.jpg", "b\\c.jpg", 'd".jpg', "\u00e9.jpg"]
    (tmp_path / "a.json").write_text(json.dumps([{"f": name, "g": "f"} for name in names]))
    assert values_in_head(list_folder(tmp_path), "a.json", "f") == tuple(names)


def test_files_for_each_image_are_not_all_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(recognise, "MOST_IN_FOLDER", 3)
    (tmp_path / "many").mkdir()
    for n in range(5):
        (tmp_path / f"many/{n}.json").touch()
    (tmp_path / "one.json").touch()
    folder = list_folder(tmp_path)
    assert few_files(folder, "*.json") == ["one.json", *(f"many/{n}.json" for n in range(3))]


def test_the_file_that_can_be_meant_is_read_to_say_what_is_wrong(tmp_path):
    def find():
        return annotation_files(
            list_folder(tmp_path),
            options(),
            recognise=lambda folder: [],
            expected="captions",
            published=("dataset_*.json",),
        )

    with pytest.raises(WorkbenchError, match="looked for captions\nset raw"):
        find()
    (tmp_path / "a.json").touch()
    assert find() == Found(("a.json",))
    (tmp_path / "b.json").touch()
    with pytest.raises(WorkbenchError, match=r"looked for captions, among a\.json, b\.json"):
        find()
    (tmp_path / "dataset_b.json").touch()
    assert find() == Found(("dataset_b.json",))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["images", "annotations", "id", "file_name", "caption", "image"])
            | st.sampled_from(["filename", "sentences", "captions", "image_id", "file_path"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.binary(max_size=40), st.sampled_from(["a.json", "a.jsonl", "a.txt", "train.de"]))
def test_a_look_never_fails(tmp_path_factory, content, name):
    raw = tmp_path_factory.mktemp("raw")
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (raw / name).write_bytes(data)
    (raw / "a.jpg").touch()
    (raw / "train_images.txt").write_bytes(data or b"a.jpg")
    folder = list_folder(raw)
    for reader in READERS:
        for found in reader.recognise(folder):
            assert all(file in folder for file in found.files)
