"""JSON whose records are not flat is read as meant: conversations, exports of programs, lists of
other things than images; what may mean something else is refused."""

import copy
import json

import pytest
from reader_cases import read_all, save_images, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.json_forms import flat_records
from pipeline.runtime.errors import WorkbenchError

NAMES = [f"{number:012d}.jpg" for number in range(4)]
TEXTS = [f"A dog runs past house {number}." for number in range(4)]
CAPTIONS = {name: [text] for name, text in zip(NAMES, TEXTS, strict=True)}
ROWS = [*zip(NAMES, TEXTS, strict=True)]
ASKED = "<image>Describe the picture."


def pair(question, answer, image="image", asked=ASKED):
    return [{image: name, question: asked, answer: text} for name, text in ROWS]


def turns(asked, said, speakers=("user", "assistant")):
    return [
        {"role": who, "content": what} for who, what in zip(speakers, (asked, said), strict=True)
    ]


def annotated(name, text, is_cancelled=False):
    results = [
        {"from_name": "remarks", "type": "textarea", "value": {"text": ["blurred, look again"]}},
        {"from_name": "scene", "type": "choices", "value": {"choices": ["Outdoor"]}},
        {"from_name": "caption", "type": "textarea", "value": {"text": [text]}},
    ]
    return {
        "annotations": [
            {"result": results, "was_cancelled": is_cancelled},
            {"result": [{"value": {"text": "a draft"}, "from_name": "caption"}]}
            | {"was_cancelled": True},
        ],
        "data": {"image": f"/data/upload/1/{name}"},
    }


PARTS = [{"type": "text", "text": "Describe it."}]
FORMS = {
    "swift": [{"query": ASKED, "response": text, "images": [name]} for name, text in ROWS],
    "lavis": pair("text_input", "text_output", asked="a photo of"),
    "paligemma": pair("prefix", "suffix", asked="caption en"),
    "alpaca": pair("instruction", "output", asked="描述这张图片"),
    "gpt4": pair("prompt", "response", asked="Bitte beschreibe das Bild"),
    "question": pair("question", "answer", image="file"),
    "qwen": [
        {"id": name}
        | {
            "conversations": [
                {"from": "user", "value": f"Picture 1: <img>{name}</img>\nDescribe it."},
                {"from": "assistant", "value": text},
            ]
        }
        for name, text in ROWS
    ],
    "openai": [
        {
            "messages": [
                {"role": "system", "content": "You caption."},
                *turns(
                    [PARTS[0], {"type": "image_url", "image_url": {"url": f"file://{name}"}}], text
                ),
            ]
        }
        for name, text in ROWS
    ],
    "parts": [
        {
            "messages": turns(
                [{"type": "image", "image": name}, PARTS[0]], [{"type": "text", "text": text}]
            )
        }
        for name, text in ROWS
    ],
    "label_studio": [annotated(*row) for row in ROWS],
    "argilla": [
        {"fields": {"image": name}, "responses": {"caption": [{"value": text}]}}
        | {"suggestions": {"caption": {"value": "no"}}}
        for name, text in ROWS
    ],
    "doccano": [{"id": 1, "filename": name, "label": [text]} for name, text in ROWS],
    "via": {
        f"{name}12": {"filename": name, "regions": [], "file_attributes": {"caption": text}}
        for name, text in ROWS
    },
    "via_project": {
        "_via_settings": {"ui": {}},
        "_via_img_metadata": {
            f"{name}12": {"filename": name, "file_attributes": {"caption": text}}
            for name, text in ROWS
        },
    },
    "nwpu": {
        kind: [
            {"filename": name, "imgid": 1, "raw": text, "raw_1": f"{text} Again."}
            for name, text in ROWS[start::2]
        ]
        for start, kind in enumerate(["airport", "bridge"])
    },
    "videos": {
        "videos": [{"video_id": name[:-4], "split": "train"} for name in NAMES],
        "sentences": [{"video_id": name[:-4], "caption": text, "sen_id": 1} for name, text in ROWS],
    },
    "minigpt4": {
        "annotations": [{"image_id": str(n), "caption": text} for n, text in enumerate(TEXTS)]
    },
    "results": [{"image_id": number, "caption": text} for number, text in enumerate(TEXTS)],
    "splits": {"train": dict(ROWS[:2]), "test": {name: [text] for name, text in ROWS[2:]}},
    "lists": {"images": NAMES, "captions": TEXTS, "score": [0, 1, 2, 3]},
    "albums": {
        "albums": [
            {
                "album": "Trip",
                "description": "Our trip",
                "photos": [{"file": name, "caption": text} for name, text in ROWS],
            }
        ]
    },
    "instagram": [
        {"media": [{"uri": f"media/{name}", "title": text}], "title": ""} for name, text in ROWS
    ],
    "facebook": {
        "name": "Album",
        "photos": [
            {"uri": f"photos/{name}", "creation_timestamp": 1, "title": "x", "description": text}
            for name, text in ROWS
        ],
    },
    "telegram": {
        "name": "Chat",
        "messages": [
            {"id": 1, "text": "Where is that?"},
            {
                "id": 2,
                "photo": f"photos/{NAMES[0]}",
                "text": ["A dog ", {"text": "runs past house 0."}],
            },
            *({"id": 3, "photo": f"photos/{name}", "text": text} for name, text in ROWS[1:]),
        ],
    },
    "mastodon": {
        "orderedItems": [
            {"object": "https://x/another"},
            *(
                {"object": {"content": "Hello", "attachment": [{"url": f"/{name}", "name": text}]}}
                for name, text in ROWS
            ),
        ]
    },
}


def by_name(corpus):
    """The captions of every image by the name of its file, wherever it lies."""
    return {path.rpartition("/")[2]: own for path, own in texts_of(corpus).items()}


def write(folder, value, is_lines=False):
    save_images(folder / "images", *NAMES)
    text = "\n".join(map(json.dumps, value)) if is_lines else json.dumps(value)
    (folder / ("mine.jsonl" if is_lines else "mine.json")).write_text(text)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_its_captions(tmp_path, name):
    value = FORMS[name]
    for is_lines in (False, True)[: 1 + isinstance(value, list)]:
        folder = tmp_path / str(is_lines)
        write(folder, value, is_lines)
        found = by_name(read_all("auto", folder))
        first = {image: texts[:1] for image, texts in found.items()}
        assert first == CAPTIONS
        assert set(map(len, found.values())) == {2 if name == "nwpu" else 1}


def places_in(value, above=()):
    """The keys and numbers that lead to every value inside another."""
    yield above
    keys = [*value] if isinstance(value, dict) else []
    numbers = range(len(value)) if isinstance(value, list) else []
    for key in (*keys, *numbers):
        yield from places_in(value[key], (*above, key))


@pytest.mark.parametrize("name", FORMS)
def test_damage_is_read_or_refused(tmp_path, name):
    write(tmp_path, [])
    folder = list_folder(tmp_path)
    for number, place in enumerate([*places_in(FORMS[name])][1:]):
        value = copy.deepcopy(FORMS[name])
        inner = value
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = (None, 1, [], {}, [[{}]], {"a": 1})[number % 6]
        (tmp_path / f"{number}.json").write_text(json.dumps(value))
        rows = flat_records(folder, f"{number}.json")
        assert all(isinstance(row, dict) for row in rows)


def test_splits_of_other_forms_are_read(tmp_path):
    write(tmp_path, FORMS["splits"])
    splits = dict(read_all("auto", tmp_path).images[["image_id", "split"]].to_numpy())
    assert [name for name, own in splits.items() if own == "test"] == NAMES[2:]


@pytest.mark.parametrize(
    "value",
    [
        pair("query", "response", asked="How many dogs are there?"),
        pair("question", "answer", asked="What is the name of this place?"),
        [{"filename": name, "label": ["dog"]} for name in NAMES],
        [{"image_id": 900 + number, "caption": text} for number, text in enumerate(TEXTS)],
        {"images": NAMES, "captions": TEXTS[:3]},
        [{"image": {"path": name}, "caption": text} for name, text in ROWS],
        [{"labels": ["neutral"], "sentence1": text} for text in TEXTS],
        [["x"], {"videos": [{"video_id": "x"}], "messages": [{"id": 1}]}],
        [{"image": name, "alt": name} for name in NAMES],
        {"photos": [{"uri": NAMES[0], "creation_timestamp": 1}], "other": 7},
    ],
)
def test_what_means_something_else_is_refused(tmp_path, value):
    write(tmp_path, value)
    with pytest.raises(WorkbenchError):
        read_all("auto", tmp_path)


def test_fields_that_somebody_chose_are_read(tmp_path):
    write(tmp_path, pair("question", "answer", asked="What do you see?"))
    own = {"annotations": "mine.json", "image_field": "image", "caption_field": "answer"}
    assert texts_of(read_all("records_json", tmp_path, **own)) == CAPTIONS


def test_a_chosen_field_of_a_question_is_read_too(tmp_path):
    write(tmp_path, FORMS["gpt4"])
    own = {"annotations": "mine.json", "image_field": "image", "caption_field": "response"}
    assert texts_of(read_all("records_json", tmp_path, **own)) == CAPTIONS


def test_a_field_that_is_no_name_is_refused(tmp_path):
    write(tmp_path, {name: {"images": {"0": text}, "article": "x y"} for name, text in ROWS})
    own = {"annotations": "mine.json", "image_field": "images", "caption_field": "images"}
    with pytest.raises(WorkbenchError):
        read_all("records_json", tmp_path, **own)


def test_photographs_of_one_name_lie_in_the_folders_of_their_albums(tmp_path):
    albums = [
        {"album": place, "photos": [{"file": f"{n}.jpg", "caption": f"A dog {n} in {place}."}]}
        for n in range(2)
        for place in ("sea", "town")
    ]
    paths = [f"{place}/{n}.jpg" for n in range(2) for place in ("sea", "town")]
    save_images(tmp_path, *paths)
    (tmp_path / "albums.json").write_text(json.dumps(albums))
    found = texts_of(read_all("auto", tmp_path))
    assert found == {path: [f"A dog {path[-5]} in {path[:-6]}."] for path in paths}


def test_texts_of_facebook_are_mended(tmp_path):
    value = FORMS["facebook"]
    photos = [
        {**own, "description": "Ein Hund läuft".encode().decode("latin-1")}
        for own in value["photos"]
    ]
    write(tmp_path, {**value, "photos": photos})
    assert set(read_all("auto", tmp_path).captions["text"]) == {"Ein Hund läuft"}


def test_names_of_coco_are_known_by_their_numbers(tmp_path):
    names = [f"COCO_val2014_{number + 7:012d}.jpg" for number in range(4)]
    save_images(tmp_path / "val2014", *names)
    value = [{"image_id": number + 7, "caption": text} for number, text in enumerate(TEXTS)]
    (tmp_path / "results.json").write_text(json.dumps(value))
    assert by_name(read_all("auto", tmp_path)) == {
        name: [text] for name, text in zip(names, TEXTS, strict=True)
    }


@pytest.mark.parametrize("form", ["label_studio", "records"])
def test_files_are_known_without_what_an_upload_writes_before_them(tmp_path, form):
    rows = [(f"{number:08x}-{name}", text) for number, (name, text) in enumerate(ROWS)]
    records = [{"image": f"/data/upload/3/{name}", "caption": text} for name, text in rows]
    write(tmp_path, [annotated(*row) for row in rows] if form == "label_studio" else records)
    assert by_name(read_all("auto", tmp_path)) == CAPTIONS


def test_files_that_roboflow_exported_are_known(tmp_path):
    exported = [f"{name[:-4]}_jpg.rf.{number:032x}.jpg" for number, name in enumerate(NAMES)]
    save_images(tmp_path, *exported)
    records = [{"image": name, "caption": text} for name, text in ROWS]
    (tmp_path / "captions.json").write_text(json.dumps(records))
    found = texts_of(read_all("auto", tmp_path))
    assert found == {name: [text] for name, text in zip(exported, TEXTS, strict=True)}


def test_two_uploads_of_one_name_are_not_guessed(tmp_path):
    name, text = ROWS[0]
    twice = [{"image": f"{start}-{name}", "caption": text} for start in ("0" * 8, "f" * 8)]
    others = [{"image": f"12345678-{name}", "caption": text} for name, text in ROWS[1:]]
    write(tmp_path, [*twice, *others])
    with pytest.raises(WorkbenchError, match="no such file"):
        read_all("auto", tmp_path)
