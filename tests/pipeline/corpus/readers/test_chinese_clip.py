"""Chinese-CLIP's form: images in base64 by id, texts with the ids of their images."""

import base64
import json
from dataclasses import replace

import pytest
from commands import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import files_of, image_bytes, options, read_all, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import chinese_clip
from pipeline.runtime.errors import WorkbenchError

JPG = [image_bytes(n) for n in range(8)]


def write(raw, split, images, texts):
    """images: numbers by id; texts: (id, text, ids of images)."""
    raw.mkdir(parents=True, exist_ok=True)
    rows = [b"%d\t%s\n" % (own, base64.b64encode(JPG[n])) for own, n in images.items()]
    (raw / f"{split}_imgs.tsv").write_bytes(b"".join(rows))
    lines = [
        json.dumps({"text_id": own, "text": text, "image_ids": ids}, ensure_ascii=False)
        for own, text, ids in texts
    ]
    (raw / f"{split}_texts.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    write(raw, "train", {1: 0, 2: 1}, [(0, "一只 狗", [1]), (1, "两只 猫", [2]), (2, "狗", [1])])
    write(raw, "valid", {1: 2}, [(0, "一匹 马", [1])])
    write(raw, "test", {7: 3}, [(0, "一只 鸟", [7])])
    return raw


def test_images_and_texts_of_every_split(raw):
    corpus = read_all("chinese_clip", raw)
    ids = ["train/1", "train/2", "val/1", "test/7"]
    assert files_of(corpus) == dict(zip(ids, JPG, strict=False))
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert texts_of(corpus)["train/1"] == ["一只 狗", "狗"]
    assert corpus.captions["caption_id"].tolist()[:3] == ["train/0", "train/2", "train/1"]
    assert corpus.relevance is None


def test_its_files_are_known_by_what_is_in_them(raw):
    (found,) = chinese_clip.recognise(list_folder(raw))
    assert found.has_splits
    assert len(found.files) == 6
    (raw / "other.tsv").write_text("image\tcaption\na.jpg\ta dog\n")
    (raw / "other.jsonl").write_text('{"file_name": "a.jpg", "text": "a dog"}\n')
    assert chinese_clip.recognise(list_folder(raw)) == [found]
    for path in raw.glob("*_texts.jsonl"):
        path.unlink()
    assert chinese_clip.recognise(list_folder(raw)) == []


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_both_alphabets_of_base64_with_and_without_padding(raw, encode, ending):
    data = encode(JPG[5])
    row = b"7\t" + (data if ending else data.rstrip(b"=")) + ending
    (raw / "test_imgs.tsv").write_bytes(b"\xef\xbb\xbf" + row)
    assert files_of(read_all("chinese_clip", raw))["test/7"] == JPG[5]


def test_a_split_without_texts_is_passed_over_and_said(raw, capsys):
    write(raw, "valid", {n: n for n in range(4)}, [(n, f"马 {n}", [n]) for n in range(4)])
    (raw / "test_texts.jsonl").unlink()
    assert set(read_all("chinese_clip", raw).images["split"]) == {"train", "val", "test"}
    assert (
        "passed over, without texts or images of their split: test_imgs.tsv"
        in capsys.readouterr().err
    )


def test_the_names_of_muge_s_keys_are_known(raw):
    for path in raw.glob("*_texts.jsonl"):
        text = path.read_text().replace("text_id", "query_id").replace("image_ids", "item_ids")
        path.write_text(text.replace('"text"', '"query_text"'))
    assert len(read_all("chinese_clip", raw).captions) == 5


def test_texts_without_an_image_are_left_out_and_counted(raw, capsys):
    """The test texts of MUGE name no image: validation and test then come from valid."""
    write(raw, "test", {7: 3}, [(0, "一只 鸟", []), (1, "一只 鸟", [])])
    write(raw, "valid", {n: n for n in range(4)}, [(n, f"马 {n}", [n]) for n in range(4)])
    corpus = read_all("chinese_clip", raw)
    said = capsys.readouterr().err
    assert "left out: 2 texts of no image in test_texts.jsonl" in said
    assert "left out: 1 image without a text of its own in test_imgs.tsv" in said
    assert corpus.images["split"].value_counts().to_dict() == {"train": 2, "val": 1, "test": 1}


def several(raw):
    """Two texts of several images in training, one in test, and an image that has no own text."""
    train = [(0, "狗", [1, 2]), (1, "猫", [1, 2]), (2, "马", [1, 3])]
    write(raw, "train", {1: 0, 2: 1, 3: 4}, train)
    write(raw, "test", {7: 3, 8: 5, 9: 6}, [(0, "鸟", [7, 8]), (1, "鱼", [8])])
    return raw


def test_a_text_of_several_images_has_one_row_and_the_first_that_needs_it(raw, capsys):
    corpus = read_all("chinese_clip", several(raw))
    owners = dict(zip(corpus.captions["caption_id"], corpus.captions["image_id"], strict=True))
    assert owners["train/0"] == "train/1"
    assert owners["train/1"] == "train/2"
    assert owners["train/2"] == "train/3"
    assert owners["test/0"] == "test/7"
    fits = dict(zip(corpus.captions["caption_id"], corpus.captions["fits"], strict=True))
    assert fits["train/0"] == ["train/2"]
    assert fits["train/2"] == ["train/1"]
    assert fits["test/0"] == []
    assert corpus.relevance is None
    said = capsys.readouterr().err
    assert "4 captions of several images: none of these images is a negative in training" in said
    assert "corpus.positives: several_images makes them right answers" in said
    assert "left out: 1 image without a text of its own in test_imgs.tsv" in said


def test_further_images_are_right_answers_by_option(raw):
    corpus = read_all("chinese_clip", several(raw), positives="several_images")
    test = corpus.relevance[corpus.relevance["image_id"].str.startswith("test")]
    pairs = set(zip(test["image_id"], test["caption_id"], strict=True))
    assert pairs == {("test/7", "test/0"), ("test/8", "test/0"), ("test/8", "test/1")}
    assert (corpus.relevance["grade"] == 1).all()
    assert corpus.captions["fits"].map(len).sum() == 3


def test_the_option_is_refused_where_every_caption_is_of_one_image(raw):
    message = refusal(read_all, "chinese_clip", raw, positives="several_images")
    assert "every caption of this dataset is of one image" in message


FIRST = b'{"text": "x", "image_ids": [1]}\n'
NUMBERED = b'{"text": "x", "image_ids": [1], "text_id": 4}\n'


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train_imgs.tsv", b"1\t%s\n1\t%s\n", "images more than once (1): '1'"),
        ("train_imgs.tsv", b"1\t%s\nx\n2\t%s\n", "an id and a tab (1): train_imgs.tsv, line 2"),
        ("train_imgs.tsv", b"1\t%s\n", "images of texts that are not there (1): '2'"),
        ("train_texts.jsonl", FIRST + b"[]", "line 2 (no record)"),
        ("train_texts.jsonl", FIRST + b'{"text": 1}', "line 2 (text 1, image_ids None)"),
        ("train_texts.jsonl", FIRST + FIRST.replace(b"1", b"[]"), "an id that is neither"),
        ("train_texts.jsonl", FIRST + b"[" * 90_000, "line 2 (maximum recursion"),
        ("train_texts.jsonl", FIRST + b"x" * 1_048_577, "more than 1,048,576 bytes"),
        ("train_texts.jsonl", NUMBERED * 2, "text ids more than once (1): 'train/4'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(raw, file, content, message):
    data = base64.b64encode(JPG[0])
    (raw / file).write_bytes(content.replace(b"%s", data))
    assert message in refusal(read_all, "chinese_clip", raw)
    assert not (raw.parent / "out" / "images").exists()


def test_an_image_that_is_none_or_too_large_is_named(raw):
    lines = (raw / "train_imgs.tsv").read_bytes().splitlines()
    (raw / "train_imgs.tsv").write_bytes(lines[0] + b"\n2\t@@\n")
    assert "train/2 (not base64" in refusal(read_all, "chinese_clip", raw)
    (raw / "train_imgs.tsv").write_bytes(lines[0] + b"\n2\t" + b"A" * 14_000_000 + b"\n")
    assert "bytes, allowed are 9,048,576 for corpus.max_megapixels" in refusal(
        read_all, "chinese_clip", raw
    )


def test_an_id_that_leads_out_is_refused(raw):
    (raw / "test_imgs.tsv").write_bytes(b"../../../x\t" + base64.b64encode(JPG[0]) + b"\n")
    texts = {"text_id": 0, "text": "x", "image_ids": ["../../../x"]}
    (raw / "test_texts.jsonl").write_text(json.dumps(texts))
    assert "names that lead out of the image folder" in refusal(read_all, "chinese_clip", raw)
    assert not list(raw.parent.rglob("x"))


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_texts_or_refused(tmp_path_factory, data):
    raw = tmp_path_factory.getbasetemp() / "any"
    raw.mkdir(exist_ok=True)
    (raw / "a_texts.jsonl").write_bytes(b'{"text": "x", "image_ids": [1]}\n' + data)
    (raw / "a_imgs.tsv").write_bytes(b"1\t" + base64.b64encode(JPG[0]) + b"\n" + data)
    try:
        source = chinese_clip.read(raw, raw / "out", replace(options(), look=True))
    except WorkbenchError:
        pass
    else:
        assert source.captions["text"].tolist() == ["x"]
