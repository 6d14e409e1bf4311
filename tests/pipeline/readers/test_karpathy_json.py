import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images

from pipeline.readers.karpathy_json import read
from pipeline.runtime.errors import WorkbenchError

MINI = Path(__file__).resolve().parents[4] / "shared" / "flickr8k-mini"


NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]


def record(name, split, *captions, first=0, **more):
    sentences = [
        {"raw": text, "tokens": text.lower().rstrip(".").split(), "sentid": first + n, "imgid": 7}
        for n, text in enumerate(captions)
    ]
    return {"filename": name, "split": split, "sentences": sentences, "imgid": 7, **more}


def records():
    return [
        record("d.jpg", "test", "A dog runs.", first=10),
        record("a.jpg", "train", "Two cats.", "Cats on a mat.", first=0),
        record("b.jpg", "restval", "A bird.", first=5),
        record("c.jpg", "val", "A horse.", "A Brown horse.", "Grass.", first=20),
    ]


def write(raw, images, name="dataset_flickr8k.json"):
    raw.mkdir(exist_ok=True)
    (raw / name).write_text(json.dumps({"images": images, "dataset": "flickr8k"}))


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    write(raw, records())
    save_images(raw / "Images", *NAMES)
    return raw


@pytest.fixture(scope="module")
def folder_of_four(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    save_images(folder / "Images", *NAMES)
    return folder


def test_rows_are_ordered_by_split_and_captions_vary(raw):
    corpus = read_all("karpathy_json", raw)
    assert corpus.images["image_id"].tolist() == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert corpus.images["path"].tolist()[0] == (raw / "Images" / "a.jpg").as_posix()
    assert corpus.images["group"].equals(corpus.images["image_id"])
    assert corpus.images["width"].tolist() == [8, 9, 10, 11]
    assert corpus.captions["caption_id"].tolist() == ["0", "1", "5", "20", "21", "22", "10"]
    described = [name[0] for name in corpus.captions["image_id"]]
    assert described == [*"aabcccd"]
    assert corpus.captions["tokens"].tolist()[4] == ["a", "brown", "horse"]
    assert corpus.captions["text"].tolist()[4] == "A Brown horse."
    assert len(corpus.boxes) == len(corpus.rejects) == 0


def test_restval_is_dropped_by_option(raw, capsys):
    corpus = read_all("karpathy_json", raw, restval="drop")
    assert "b.jpg" not in set(corpus.images["image_id"])
    assert "5" not in set(corpus.captions["caption_id"])
    assert "left out: 1 images of split restval" in capsys.readouterr().err


def test_coco_paths_are_ids_and_the_folder_may_be_raw_itself(tmp_path):
    raw = tmp_path / "raw"
    images = [
        record("x.jpg", "train", "one", first=0, filepath="train2014"),
        record("x.jpg", "val", "two", first=1, filepath="val2014"),
        record("y.jpg", "test", "three", first=2, filepath="val2014"),
    ]
    write(raw, images, "dataset_coco.json")
    save_images(raw, "train2014/x.jpg", "val2014/x.jpg", "val2014/y.jpg")
    corpus = read_all("karpathy_json", raw)
    assert corpus.images["image_id"].tolist() == [
        "train2014/x.jpg",
        "val2014/x.jpg",
        "val2014/y.jpg",
    ]


def test_own_tokens_are_cut_where_the_file_has_none(raw):
    images = records()
    del images[0]["sentences"][0]["tokens"]
    write(raw, images)
    captions = read_all("karpathy_json", raw).captions.set_index("caption_id")
    assert captions.loc["10", "tokens"] == ["a", "dog", "runs"]


def test_one_file_must_be_the_only_candidate(raw):
    write(raw, records(), "dataset_coco.json")
    with pytest.raises(WorkbenchError, match=r"several .*: dataset_coco\.json, dataset_flickr8k"):
        read_all("karpathy_json", raw)
    assert len(read_all("karpathy_json", raw, annotations="dataset_coco.json").images) == 4
    for name, message in [
        ("nothing.json", "no such file"),
        ("../raw/dataset_coco.json", "must be a path inside"),
        ("Images", "not a file"),
    ]:
        with pytest.raises(WorkbenchError, match=message):
            read_all("karpathy_json", raw, annotations=name)


def test_no_annotations_and_no_images_say_what_was_looked_for(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    with pytest.raises(WorkbenchError, match=r"no annotation file; looked for dataset_\*\.json"):
        read_all("karpathy_json", raw)
    write(raw, records())
    with pytest.raises(WorkbenchError, match="no image folder; looked for Images, images"):
        read_all("karpathy_json", raw)
    with pytest.raises(WorkbenchError, match="not a folder"):
        read_all("karpathy_json", raw / "none")


def test_several_image_folders_must_be_chosen_from(raw):
    save_images(raw / "flickr30k_images", "a.jpg")
    with pytest.raises(WorkbenchError, match="several image folders: Images, flickr30k_images"):
        read_all("karpathy_json", raw)
    assert len(read_all("karpathy_json", raw, images="Images").images) == 4
    with pytest.raises(WorkbenchError, match="not a folder"):
        read_all("karpathy_json", raw, images="dataset_flickr8k.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"images": [\n{"a" 1}]}', r"line 2, column 6: not valid JSON"),
        (b'{"images": "none"}', "no list named 'images'"),
        (b"[1, 2]", "no list named 'images'"),
        (b'{"images": []}', "no list named 'images'"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"images": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"images": [],\n"x": "caf\xe9"}', r"line 2: not UTF-8 \(byte 0xe9\)"),
    ],
)
def test_what_is_not_karpathys_json_is_refused(raw, content, message):
    (raw / "dataset_flickr8k.json").write_bytes(content)
    with pytest.raises(WorkbenchError, match=message):
        read_all("karpathy_json", raw)


def test_all_faulty_fields_are_named_together(raw):
    images = records()
    del images[0]["filename"]
    images[1]["split"] = "dev"
    images[2]["sentences"][0]["raw"] = None
    images[1]["sentences"][0]["tokens"] = ["\ud800"]
    images[3]["sentences"] = "none"
    write(raw, [*images, 5, record("e.jpg", "train", "x") | {"filepath": 3}])
    with pytest.raises(WorkbenchError) as caught:
        read_all("karpathy_json", raw)
    for fault in [
        "faulty fields (7): ",
        "images[0].filename is not a name",
        "images[1].split is not one of train, val, test, restval",
        "images[1].sentences[0].tokens is not a list of words",
        "images[2].sentences[0].raw is not text",
        "images[3].sentences is not a list",
        "images[4] is not an object",
        "images[5].filepath is not a name",
    ]:
        assert fault in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["filename", "filepath", "split", "sentences", "raw", "sentid", "tokens"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


WHOLE = st.text(st.characters(codec="utf-8"), max_size=6)  # JSON can hold halves of characters


@st.composite
def valid_records(draw):
    """One to four images of the folder, each with captions of any text."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return [
        {
            "filename": name,
            "split": draw(st.sampled_from(["train", "val", "test", "restval"])),
            "sentences": draw(st.lists(SENTENCE, max_size=3)),
            **draw(st.dictionaries(st.sampled_from(["imgid", "cocoid"]), JSON, max_size=1)),
        }
        for name in names
    ]


SENTENCE = st.fixed_dictionaries(
    {"raw": WHOLE, "sentid": st.integers(0, 9) | WHOLE},
    optional={"tokens": st.lists(WHOLE, max_size=3), "imgid": JSON},
)


@settings(max_examples=100)
@given(valid_records(), st.none() | st.tuples(st.integers(0, 3), JSON))
def test_any_json_is_refused_or_read_and_valid_json_is_read(folder_of_four, images, damage):
    """damage: put in place of a record, or into it where both are objects."""
    if damage:
        place, value = damage[0] % len(images), damage[1]
        images[place] = images[place] | value if isinstance(value, dict) else value
    write(folder_of_four, images)
    try:
        source = read(folder_of_four, folder_of_four, options())
    except WorkbenchError:
        assert damage, images
        return
    assert set(source.captions["image_id"]) <= set(source.images["image_id"])
    if not damage:
        assert source.images["image_id"].tolist() == [image["filename"] for image in images]
        texts = [sentence["raw"] for image in images for sentence in image["sentences"]]
        assert source.captions["text"].tolist() == texts


@pytest.mark.skipif(not MINI.is_dir(), reason="no real photographs beside the repository")
def test_real_subset_of_flickr8k():
    source = read(MINI, MINI, options())
    assert len(source.images) == 1000
    assert len(source.captions) == 5000
    assert source.images["split"].value_counts().to_dict() == {
        "train": 700,
        "val": 150,
        "test": 150,
    }


def test_captions_are_capped_by_option_in_the_files_order(raw, capsys):
    captions = read_all("karpathy_json", raw, max_captions=2).captions
    assert captions["caption_id"].tolist() == ["0", "1", "5", "20", "21", "10"]
    assert "left out: 1 captions after the first 2 of an image" in capsys.readouterr().err
    whole = read_all("karpathy_json", raw).captions
    assert read_all("karpathy_json", raw, max_captions=3).captions.equals(whole)
    assert "left out" not in capsys.readouterr().err
