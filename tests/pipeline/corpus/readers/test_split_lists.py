"""Lists that divide the images of a folder, whichever reader reads their captions."""

import json

import pytest
from reader_cases import read_all, record, save_images

NAMES = [f"{letter}.jpg" for letter in "abcdef"]
SPLITS = {"train": ["a.jpg", "b.jpg"], "val": ["c.jpg"], "test": ["d.jpg", "e.jpg"]}
DIVIDED = {name: split for split, names in SPLITS.items() for name in names}


def write_table(raw):
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in NAMES))


def write_mapping(raw):
    (raw / "mine.json").write_text(json.dumps({name: ["A dog."] for name in NAMES}))


def write_coco(raw):
    images = [{"id": place, "file_name": name} for place, name in enumerate(NAMES)]
    captions = [{"id": own["id"], "image_id": own["id"], "caption": "A dog."} for own in images]
    (raw / "mine.json").write_text(json.dumps({"images": images, "annotations": captions}))


def write_karpathy(raw):
    records = [record(name, None, "A dog.", first=place) for place, name in enumerate(NAMES)]
    for own in records:
        del own["split"]
    (raw / "dataset_mine.json").write_text(json.dumps({"images": records}))


def write_beside(raw):
    for name in NAMES:
        (raw / "images" / name).with_suffix(".txt").write_text("A dog.")


def write_image_folder(raw):
    lines = "".join(f"images/{name},A dog.\n" for name in NAMES)
    (raw / "metadata.csv").write_text("file_name,caption\n" + lines)


WRITERS = [write_table, write_mapping, write_coco, write_karpathy, write_beside, write_image_folder]


@pytest.fixture(params=WRITERS, ids=lambda write: write.__name__)
def raw(request, tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    request.param(raw)
    return raw


def splits_of(corpus):
    images = corpus.images
    names = (image.rpartition("/")[2] for image in images["image_id"])
    return dict(zip(names, images["split"], strict=True))


def write_lists(place, ending=""):
    place.mkdir(exist_ok=True)
    for split, names in SPLITS.items():
        lines = [name.removesuffix(ending) for name in names]
        (place / f"{split}.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("ending", ["", ".jpg"])
def test_lists_beside_the_captions(raw, ending, capsys):
    write_lists(raw, ending)
    assert splits_of(read_all("auto", raw)) == DIVIDED
    said = capsys.readouterr().err
    assert "splits: of the lists train.txt, val.txt, test.txt" in said
    assert "left out: 1 image in no split" in said


def test_lists_at_the_top_and_beside_captions_further_down(raw, tmp_path):
    below = tmp_path / "above/dataset"
    below.parent.mkdir()
    raw.rename(below)
    write_lists(below.parent)
    assert splits_of(read_all("auto", below.parent)) == DIVIDED


@pytest.mark.parametrize("write", WRITERS[:4], ids=lambda write: write.__name__)
def test_lists_beside_captions_further_down(tmp_path, write):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    (raw / "annotations").mkdir()
    write(raw / "annotations")
    write_lists(raw / "annotations")
    assert splits_of(read_all("auto", raw)) == DIVIDED


@pytest.mark.parametrize(
    "value", [SPLITS, DIVIDED, {"training": SPLITS["train"], "dev": ["c"], "test": ["d", "e"]}]
)
def test_one_json_file_of_all_lists(raw, value, capsys):
    (raw / "my_splits.json").write_text(json.dumps(value))
    assert splits_of(read_all("auto", raw)) == DIVIDED
    assert "splits: of the lists my_splits.json" in capsys.readouterr().err


def test_numbers_of_images_as_cub_has_them(raw, capsys):
    lines = [f"{number} x/{name}\n" for number, name in enumerate(NAMES, 1)]
    (raw / "images.txt").write_text("".join(lines) + "7\n")
    (raw / "train_test_split.txt").write_text("1 1\n2 1\n3 0\n4 0\n5 0\n6 1\n")
    splits = splits_of(read_all("auto", raw))
    assert {name for name, split in splits.items() if split == "test"} == set(NAMES[2:5])
    assert "splits: of the lists train_test_split.txt" in capsys.readouterr().err


def test_lists_that_somebody_names(raw):
    write_lists(raw / "lists")
    assert splits_of(read_all("auto", raw, split_files="lists")) == DIVIDED


@pytest.mark.parametrize(
    "value",
    [
        {"train": ["x.jpg", "y.jpg"], "test": ["z.jpg"]},  # other images
        {"train": NAMES},  # all of them
        {"test": NAMES[:3]},
        {"train": 3, "test": [4]},
        [],
        "train",
    ],
)
def test_json_that_divides_nothing_is_no_list(raw, value, capsys):
    (raw / "splits.json").write_text(json.dumps(value))
    assert len(splits_of(read_all("auto", raw))) == len(NAMES)
    said = capsys.readouterr().err
    assert "splits drawn by seed: 1 val, 1 test" in said
    assert "of the lists" not in said


def test_lists_do_not_outrank_what_the_captions_say(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    words = ["test", "train", "train", "val", "val", "test"]
    lines = [f"{name},A dog.,{word}\n" for name, word in zip(NAMES, words, strict=True)]
    (raw / "captions.csv").write_text("image,caption,split\n" + "".join(lines))
    write_lists(raw)
    assert splits_of(read_all("auto", raw)) == dict(zip(NAMES, words, strict=True))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("words", [("train", "val", "test"), ("training", "validation", "testing")])
def test_lists_of_other_names_and_encodings(tmp_path, words, encoding):
    """As Windows writes them; one name alone in a list is half of what it is known by."""
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    write_table(raw)
    for word, names in zip(words, SPLITS.values(), strict=True):
        text = "".join(f"{name}\n" for name in names)
        (raw / f"{word}.txt").write_text(text, encoding=encoding)
    images = read_all("auto", raw).images
    assert dict(zip(images["image_id"], images["split"], strict=True)) == DIVIDED


@pytest.mark.parametrize("named", ["images\\{}", "C:\\data\\{}", "https://example.org/x/{}"])
@pytest.mark.parametrize("listed", ["my photo {}", "my photo {}.jpg", "images/my photo {}.jpg"])
def test_lists_name_images_in_another_way_than_the_captions(tmp_path, named, listed):
    raw = tmp_path / "raw"
    save_images(raw / "images", *(f"my photo {number}.jpg" for number in range(5)))
    blank = "%20" if "https" in named else " "
    names = [named.format(f"my{blank}photo{blank}{number}.jpg") for number in range(5)]
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in names))
    for split, numbers in {"train": (0, 1), "val": (2,), "test": (3, 4)}.items():
        (raw / f"{split}.txt").write_text("".join(f"{listed.format(n)}\n" for n in numbers))
    images = read_all("auto", raw).images
    assert images["split"].tolist() == ["train", "train", "val", "test", "test"]
    assert images["image_id"].str[-5].tolist() == ["0", "1", "2", "3", "4"]
