"""What was asked about an image is no caption, whichever reader reads it."""

import csv
import json
import shutil

import pytest
from commands import refusal
from reader_cases import image_bytes, read_all, save_images, texts_of, write_parquet

from pipeline.corpus.dataset.asked import check_questions, chosen_fields
from pipeline.runtime.errors import WorkbenchError

NAMES = [f"{number:03}.jpg" for number in range(12)]
SAID = [f"A dog jumps over {number} fences." for number in range(12)]
VARIED = [
    "Describe this image.",
    "What do you see?",
    "Write a short caption.",
    "Summarize the photo.",
]
PROMPTS = {
    "constant": ["a photo of"] * 12,
    "varied": VARIED * 3,
    "open": [f"a dog number {number}, 4k" for number in range(12)],
}


def write_csv(raw, records):
    with open(raw / "x.csv", "w", newline="") as file:
        table = csv.DictWriter(file, ["image", *records[0]])
        table.writeheader()
        rows = zip(NAMES, records, strict=True)
        table.writerows({"image": name, **record} for name, record in rows)


def write_json(raw, records):
    rows = zip(NAMES, records, strict=True)
    (raw / "x.json").write_text(json.dumps([{"image": name, **own} for name, own in rows]))


def write_mapping(raw, records):
    (raw / "x.json").write_text(json.dumps(dict(zip(NAMES, records, strict=True))))


def write_metadata(raw, records):
    rows = zip(NAMES, records, strict=True)
    lines = [json.dumps({"file_name": name, **own}) for name, own in rows]
    (raw / "metadata.jsonl").write_text("\n".join(lines))


def write_beside(raw, records):
    for name, record in zip(NAMES, records, strict=True):
        (raw / name).with_suffix(".json").write_text(json.dumps(record))


def write_rows(raw, records):
    for name in NAMES:
        (raw / name).unlink()
    rows = [{"image": {"bytes": image_bytes(n), "path": NAMES[n]}} for n in range(12)]
    own = [row | record for row, record in zip(rows, records, strict=True)]
    write_parquet(raw / "x.parquet", own)


WRITERS = [write_csv, write_json, write_mapping, write_metadata, write_beside, write_rows]


@pytest.fixture
def raw(tmp_path):
    save_images(tmp_path / "raw", *NAMES)
    return tmp_path / "raw"


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("prompts", ["constant", "varied"])
@pytest.mark.parametrize(("asks", "answers"), [("prompt", "response"), ("text", "generated_text")])
def test_the_answer_to_a_prompt_is_the_caption(raw, write, prompts, asks, answers):
    asked = PROMPTS[prompts]
    write(raw, [{asks: asked[n], answers: SAID[n]} for n in range(12)])
    texts = [text for own in texts_of(read_all("auto", raw)).values() for text in own]
    assert sorted(texts) == sorted(SAID)


@pytest.mark.parametrize("write", WRITERS)
def test_beside_an_answer_any_prompt_is_in_doubt_until_a_field_is_named(raw, write):
    asked = PROMPTS["open"]
    write(raw, [{"prompt": asked[n], "recaption": SAID[n]} for n in range(12)])
    error = refusal(read_all, "auto", raw)
    assert "prompt may be what was asked, for recaption is beside it" in error
    assert "corpus.caption_field" in error
    for field, texts in (("prompt", asked), ("recaption", SAID)):
        assert set(read_all("auto", raw, caption_field=field).captions["text"]) == set(texts)
        shutil.rmtree(raw.parent / "out", ignore_errors=True)


@pytest.mark.parametrize("write", WRITERS)
def test_a_title_takes_the_place_of_what_the_camera_writes(raw, write):
    write(raw, [{"description": "E-M10 MARK II", "title": SAID[n]} for n in range(12)])
    assert set(read_all("auto", raw).captions["text"]) == set(SAID)


BESIDE = {
    "question_id": [{"text": SAID[n], "question_id": n} for n in range(12)],
    "ref_id": [{"sentence": SAID[n], "ref_id": n} for n in range(12)],
    "bbox": [{"caption": SAID[n], "bbox": f"[1, 2, 3, {n}]"} for n in range(12)],
    "correct_idx": [{"captions": [SAID[n], "A cat."], "correct_idx": 0} for n in range(12)],
    "Task2.Caption": [{"prompt": SAID[n], "Task2": {"Caption": SAID[-n]}} for n in range(12)],
}


@pytest.mark.parametrize("field", BESIDE)
def test_fields_beside_a_caption_say_what_it_is(raw, field):
    write_json(raw, BESIDE[field])
    assert field in refusal(read_all, "auto", raw).partition("\n")[0]
    name = next(iter(BESIDE[field][0]))
    assert SAID[0] in set(read_all("auto", raw, caption_field=name).captions["text"])


@pytest.mark.parametrize(
    "record",
    [
        {"caption": "A dog.", "bbox": [[1, 2, 3, 4], [5, 6, 7, 8]]},
        {"caption": "A dog.", "width": 4, "height": 7, "ann_id": 3},
        {"caption": "A dog.", "region": "Bavaria", "box": 12},
        {"text": "A dog.", "prompt": "Describe.", "question_id": 7},
        {"caption": "A dog.", "question": "Which?", "answer": "Brown."},
        {"captions": ["A dog.", "A cat."], "label": 1},
    ],
)
def test_other_fields_say_nothing(record):
    name = next(iter(record))
    assert chosen_fields([[name]], [record, record]) == ([name], "")


def turns(question, answer):
    return [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]


DESCRIBING = {
    "<image>\nDescribe the image concisely.": "A dog.",
    "What is this?\n<image>": "A dog on grass.",
    "Render a clear and concise summary of the photo.": "A dog.",
    "Can you elaborate on the elements of the picture provided?": "A dog.",
    "What's happening in the scene?": "A dog runs.",
    "Beschreibe das Bild.": "Ein Hund.",
    "\u8bf7\u63cf\u8ff0\u8fd9\u5f20\u56fe\u7247\u3002": "\u4e00\u53ea\u72d7\u3002",
    "Kuva?": "Koira juoksee nurmikolla metsän reunassa.",
}
OTHERS = {
    "What color is the dog?": "Blue",
    "What is this?": "family",
    "Choose from: rose, tulip.": "rose",
    "How many people are in the image?": "3",
    "Please describe the region [0.1, 0.2, 0.3, 0.4].": "the dog on the left",
    "Extract all the text in the image.": "STOP",
    "What challenges might the person face?": "The person may face a flat tyre.",
    "\u56fe\u4e2d\u7684\u72d7\u662f\u4ec0\u4e48\u989c\u8272\uff1f": "\u7ea2\u8272",
    "Väri?": "Sininen",
}


@pytest.mark.parametrize("question", DESCRIBING)
def test_conversations_that_ask_for_a_description_are_read(question):
    check_questions("x", [turns(question, DESCRIBING[question])] * 3)


@pytest.mark.parametrize("question", OTHERS)
def test_conversations_that_ask_otherwise_are_refused(question):
    with pytest.raises(WorkbenchError, match="ask for something else"):
        check_questions("x", [turns(question, OTHERS[question])] * 3)


@pytest.mark.parametrize("write", [write_json, write_beside])
def test_such_conversations_are_read_where_their_field_is_named(raw, write):
    own = [turns("What is the dog called?", f"It is Rex {n}.") for n in range(12)]
    write(raw, [{"conversations": one} for one in own])
    assert "corpus.caption_field: conversations" in refusal(read_all, "auto", raw)
    corpus = read_all("auto", raw, caption_field="conversations")
    assert "It is Rex 0." in set(corpus.captions["text"])


@pytest.mark.parametrize("write", [write_json, write_metadata])
def test_a_question_and_its_answer_in_two_fields(raw, write):
    asked = {"question": "What is this?"}
    write(raw, [{**asked, "answer": ("winter", "spring")[n % 2]} for n in range(12)])
    assert "ask for something else" in refusal(read_all, "auto", raw)
    write(raw, [{**asked, "answer": SAID[n]} for n in range(12)])
    assert set(read_all("auto", raw).captions["text"]) == set(SAID)


def test_the_text_of_a_record_of_flickr_comes_before_the_name_that_the_camera_gave(raw):
    write_beside(
        raw, [{"title": f"IMG_{n}", "description": {"_content": SAID[n]}} for n in range(12)]
    )
    assert set(read_all("auto", raw).captions["text"]) == set(SAID)
    write_beside(raw, [{"title": f"DSC0{n}"} for n in range(12)])
    assert "numbers or codes" in refusal(read_all, "auto", raw)


@pytest.mark.parametrize(
    "write", [write_csv, write_json, write_mapping, write_metadata, write_beside]
)
def test_a_list_that_is_written_as_text_is_its_captions(raw, write):
    write(raw, [{"caption": json.dumps([SAID[n], SAID[n - 1]])} for n in range(12)])
    assert len(read_all("auto", raw).captions) == 24


def test_line_ends_as_databases_write_them_are_said(raw, capsys):
    write_csv(raw, [{"caption": f"A dog.\\nIt runs {n} times."} for n in range(12)])
    read_all("auto", raw)
    assert "12 captions with \\n, which stays as it is: 'A dog." in capsys.readouterr().err
