"""Multi30K: train.de beside train_images.txt, line by line."""

import os

import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images, texts_of

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import name_lists

NAMES = ["1.jpg", "2.jpg", "3.jpg", "4.jpg"]
SPLITS = {"train": ["1.jpg", "2.jpg"], "val": ["3.jpg"], "test_2016_flickr": ["4.jpg"]}


def write(raw, name, lines):
    path = raw / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "flickr30k-images", *NAMES)
    for split, names in SPLITS.items():
        write(raw, f"{split}_images.txt", names)
        write(raw, f"{split}.de", [f"Ein Hund läuft über Gras {name[0]}." for name in names])
    return raw


def test_lists_of_images_and_of_captions(raw, capsys):
    corpus = read_all("auto", raw)
    assert corpus.images["image_id"].tolist() == NAMES
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert texts_of(corpus) == {name: [f"Ein Hund läuft über Gras {name[0]}."] for name in NAMES}
    assert corpus.captions["caption_id"].tolist() == [f"{name}#0" for name in NAMES]
    said = capsys.readouterr().err
    assert "dataset: name_lists, because of test_2016_flickr.de, train.de, val.de" in said
    assert "line by line: test_2016_flickr.de with test_2016_flickr_images.txt, train.de" in said


def test_of_several_languages_one_is_named(raw):
    for split, names in SPLITS.items():
        write(raw, f"{split}.en", [f"A dog {name[0]}." for name in names])
    said = refusal(read_all, "auto", raw)
    assert "several annotation files: test_2016_flickr.de, train.de, val.de" in said
    assert "choose one with corpus.annotations in params.yaml, such as test_2016_flickr.de" in said
    for named in ("train.en", "test_2016_flickr.en"):
        assert texts_of(read_all("name_lists", raw, annotations=named))["4.jpg"] == ["A dog 4."]
    (raw / "train.en").unlink()  # the other has more
    assert texts_of(read_all("name_lists", raw))["4.jpg"][0].startswith("Ein Hund")


def test_several_captions_of_an_image(raw):
    """As the second task of Multi30K, and as lists that name an image on several lines."""
    for split, names in SPLITS.items():
        (raw / f"{split}.de").unlink()
        for number in (1, 2):
            write(raw, f"{split}.{number}.en", [f"Caption {number}." for _ in names])
    write(raw, "train_images.txt", ["1.jpg", "2.jpg", "1.jpg"])
    for number in (1, 2):
        write(raw, f"train.{number}.en", ["One.", "Two.", f"Three {number}."])
    corpus = read_all("auto", raw)
    assert texts_of(corpus)["1.jpg"] == ["One.", "Three 1.", "One.", "Three 2."]
    assert texts_of(corpus)["3.jpg"] == ["Caption 1.", "Caption 2."]
    assert corpus.captions["caption_id"].tolist()[:4] == [f"1.jpg#{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("images", "captions"),
    [
        ("image_splits/{}.txt", "raw/{}.de"),
        ("{}.txt", "{}.lc.norm.tok.de"),
        ("{}_filenames.txt", "{}_captions.txt"),
        ("{}.images.lst", "{}.txt"),
        ("{}/images.txt", "{}/captions.txt"),
    ],
)
def test_other_names_of_lists(raw, images, captions):
    for split in SPLITS:
        for old, new in ((f"{split}_images.txt", images), (f"{split}.de", captions)):
            place = raw / "lists" / new.format(split)
            place.parent.mkdir(parents=True, exist_ok=True)
            (raw / old).rename(place)
    corpus = read_all("auto", raw)
    assert corpus.images["image_id"].tolist() == NAMES
    assert texts_of(corpus)["4.jpg"] == ["Ein Hund läuft über Gras 4."]


def test_one_pair_alone_and_a_test_whose_images_are_elsewhere(raw):
    write(raw, "test_2017_mscoco_images.txt", ["COCO_train2014_000000000009.jpg"])
    write(raw, "test_2017_mscoco.de", ["Zwei Katzen."])
    assert len(read_all("auto", raw).images) == 4
    for path in raw.glob("*.*"):
        path.unlink()
    write(raw, "names.txt", NAMES)
    write(raw, "captions.txt", ["A dog."] * 4)
    assert sorted(read_all("auto", raw).images["split"]) == ["test", "train", "train", "val"]


def test_what_is_no_pair_of_lists_is_none(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "Images", *NAMES)
    write(raw, "captions.txt", ["image,caption", *(f"{name},A dog." for name in NAMES)])
    write(raw, "images.txt", NAMES)  # of a table that names its images itself
    write(raw, "train.txt", NAMES[:2])
    write(raw, "Flickr_8k.trainImages.txt", NAMES[:2])
    write(raw, "train.py", ["import os", "print()"])
    write(raw, "train.csv", ["a", "b"])
    (raw / "train.pt").write_bytes(b"\x80\x02\xff\xff")
    assert name_lists.recognise(list_folder(raw)) == []
    assert "no annotation file; looked for a list of images beside" in refusal(
        read_all, "name_lists", raw
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.de", b"Ein Hund.\n", "different lengths (1): train.de has 1 lines, train_images"),
        ("train.de", b"Ein\nHund\nl\xe4uft.\n", "train.de, line 3: not UTF-8 (byte 0xe4)"),
        ("train.de", b"Ein Hund.\n\n", "2.jpg (caption 2.jpg#0 without a word)"),
        ("train_images.txt", b"1.jpg\n\n", "without an image (1): train_images.txt, line 2"),
        ("train_images.txt", b"1.jpg\n4.jpg\n", "images in more than one split (1): '4.jpg'"),
        ("train_images.txt", b"1.jpg\n../2.jpg\n", "lead out of the image folder (1): '../2.jpg'"),
        ("train_images.txt", b"1.jpg\n5.jpg\n", "5.jpg (no such file)"),
    ],
)
def test_what_is_broken_is_named(raw, name, content, message):
    (raw / name).write_bytes(content)
    assert message in refusal(read_all, "name_lists", raw)


def test_a_file_that_is_no_list_of_captions_is_named(raw):
    said = refusal(read_all, "name_lists", raw, annotations="train_images.txt")
    assert "corpus.annotations = 'train_images.txt': no list of captions" in said
    os.mkfifo(raw / "val.en")
    assert len(read_all("name_lists", raw).images) == 4


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=8)


@given(st.lists(st.tuples(st.sampled_from(NAMES), TEXT), min_size=3, max_size=9))
def test_line_n_is_of_line_n(tmp_path_factory, rows):
    raw = tmp_path_factory.mktemp("raw")
    rows = [*((name, "x") for name in NAMES), *rows]
    for name in NAMES:
        (raw / name).touch()
    write(raw, "all_images.txt", [name for name, _ in rows])
    write(raw, "all.en", [text for _, text in rows])
    captions = name_lists.read(raw, raw, options()).captions
    found = list(zip(captions["image_id"], captions["text"], strict=True))
    assert found == [(name, text.strip()) for name, text in rows]
