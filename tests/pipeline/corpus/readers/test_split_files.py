"""Forms in which people keep splits: each is read, refused, or named as not read; none is passed
over in silence, for the seed would then train on images that were kept for the test."""

import json
import pickle

import numpy as np
import pytest
from commands import refusal
from reader_cases import read_all, save_images

from pipeline.corpus.dataset.split_forms import images_in_list, lists_images
from pipeline.corpus.dataset.split_names import Known

NAMES = [f"img_{letter}.jpg" for letter in "abcdef"]
SPLITS = {"train": NAMES[:3], "val": NAMES[3:4], "test": NAMES[4:]}
DIVIDED = {name: split for split, names in SPLITS.items() for name in names}


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in NAMES))
    return raw


def splits_of(raw, **changed):
    images = read_all("auto", raw, **changed).images
    names = (image.rpartition("/")[2] for image in images["image_id"])
    return dict(zip(names, images["split"], strict=True))


def lines(texts):
    return "".join(f"{text}\n" for text in texts)


READ = {
    "{}.jsonl": lambda names: lines(json.dumps({"image": name, "label": 3}) for name in names),
    "{}.ndjson": lambda names: lines(map(json.dumps, names)),
    "{}_images.json": lambda names: json.dumps({"of": ["us"], "images": names}),
    "{}_ids.json": lambda names: json.dumps({"ids": [name[:-4] for name in names]}),
    "my_{}.json": lambda names: json.dumps({"wanted": [{"file_name": name} for name in names]}),
    "{}.json": lambda names: json.dumps([{"id": "x", "Bild": name, "label": 3} for name in names]),
    "instances_{}.json": lambda names: json.dumps(
        {
            "images": [{"id": place, "file_name": name} for place, name in enumerate(names)],
            "annotations": [{"image_id": names[0], "bbox": [1, 2, 3, 4]}],
        }
    ),
    "{}.yaml": lambda names: lines(f"- {name}" for name in names),
    "{}_list.yml": lambda names: f"# mine\nimages: {json.dumps(names)}\n",
    "{}.txt": lambda names: ",".join(names),
    "{}_.txt": lambda names: " ".join(names),
    "{}_2.txt": lambda names: f"{'; '.join(names)}\n",
    "{}_3.txt": lambda names: lines(f"images/{name} {place}" for place, name in enumerate(names)),
    "{}_4.txt": lambda names: lines(f"{place}\t{name}\t7" for place, name in enumerate(names)),
    "{}_5.txt": lambda names: str(names),
    "{}_6.txt": lambda names: f"# my split\n{lines(names)}# images/{NAMES[0]}\n",
    "{}.csv": lambda names: f"# my split\nBild,nr\n{lines(f'{name},3' for name in names)}",
    "{}.md": lambda names: f"# My {len(names)}\n\nThese:\n\n{lines(f'- {name}' for name in names)}",
    "{}_7.md": lambda names: lines(f"1. `{name}`" for name in names),
}


@pytest.mark.parametrize("called", READ)
def test_forms_of_lists_that_are_read(raw, called, capsys):
    for split, names in SPLITS.items():
        (raw / called.format(split)).write_text(READ[called](names))
    assert splits_of(raw) == DIVIDED
    said = capsys.readouterr().err
    assert f"splits: of the lists {', '.join(called.format(split) for split in SPLITS)}" in said
    assert "have no captions" not in said
    assert "not read, for" not in said


def test_a_long_line_of_names(tmp_path):
    names = [f"{'x' * 100}{number}" for number in range(1000)]
    (tmp_path / "train.txt").write_text(",".join(names))
    assert lists_images(tmp_path / "train.txt", Known(names))
    assert images_in_list(tmp_path / "train.txt", Known(names)) == names
    assert not lists_images(tmp_path / "train.txt", Known(["a"]))


def test_an_image_whose_name_begins_as_a_comment(tmp_path):
    raw = tmp_path / "raw"
    names = ["#1.jpg", "#2.jpg", "3.jpg"]
    save_images(raw, *names)
    (raw / "captions.csv").write_text("image,caption\n" + lines(f"{n},A dog." for n in names))
    (raw / "splits.csv").write_text("# a comment\nimage,split\n#1.jpg,train\n#2.jpg,val\n3,test\n")
    assert splits_of(raw) == dict(zip(names, SPLITS, strict=True))


FOR_ALL = {
    "splits.json": json.dumps({split: {"images": names} for split, names in SPLITS.items()}),
    "split.json": json.dumps([{"Bild": name, "split": DIVIDED[name]} for name in NAMES]),
    "my_split.ndjson": lines(json.dumps({"Bild": n, "split": DIVIDED[n]}) for n in NAMES),
    "about.json": json.dumps([{"Bild": name, "split": DIVIDED[name]} for name in NAMES]),
    "folds.json": json.dumps({"fold_0": SPLITS, "fold_1": {"train": ["x.jpg"], "test": ["y"]}}),
    "partition.txt": lines(
        ["# mine", "[train]", *NAMES[:3], "# then", "[val]", NAMES[3], "[test]", *NAMES[4:]]
    ),
}


@pytest.mark.parametrize("name", FOR_ALL)
def test_forms_of_files_for_all_splits_that_are_read(raw, name, capsys):
    (raw / name).write_text(FOR_ALL[name])
    assert splits_of(raw) == DIVIDED
    said = capsys.readouterr().err
    assert f"splits: of the lists {name}" in said
    assert "have no captions" not in said


BOXES = {
    f"instances_{split}.json": READ["instances_{}.json"](names[:1])
    for split, names in SPLITS.items()
}


@pytest.mark.parametrize("place", ["", "lists"])
@pytest.mark.parametrize("boxes_in", ["", "lists", "boxes"])
def test_lists_come_before_data_with_a_list_in_it(raw, place, boxes_in, capsys):
    """Boxes have fewer images than their split."""
    for folder in {place, boxes_in}:
        (raw / folder).mkdir(exist_ok=True)
    for name, text in BOXES.items():
        (raw / boxes_in / name).write_text(text)
    for split, names in SPLITS.items():
        (raw / place / f"{split}_images.txt").write_text(lines(names))
        (raw / place / f"{split}.yaml").write_text(f"rate: 0.1\nshown: {names[0]}\n")
    assert splits_of(raw) == DIVIDED
    assert "splits: of the lists train_images.txt, val_images.txt" in capsys.readouterr().err
    if "lists" in (place, boxes_in):
        for name in BOXES:
            (raw / boxes_in / name).unlink()
        assert splits_of(raw, split_files=place or None) == DIVIDED


NUMBERS = {name: place % 3 for place, name in enumerate(NAMES)}
OTHER_FOLD = {"train": NAMES[3:], "val": NAMES[2:3], "test": NAMES[:2]}


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("split.json", NUMBERS, "images have numbers for splits, and which are for training"),
        ("split.json", {"of": "us", "splits": NUMBERS}, "images have numbers for splits"),
        ("splits.yaml", NUMBERS, "images have numbers for splits"),
        (
            "images.json",
            [{"image": name, "split": number} for name, number in NUMBERS.items()],
            "images have numbers for splits",
        ),
        ("split.json", {"fold_0": SPLITS, "fold_1": OTHER_FOLD}, "2 divisions of the images"),
        ("splits.json", [SPLITS, OTHER_FOLD], "2 divisions of the images that differ, such as fol"),
    ],
)
def test_forms_that_are_asked_about(raw, name, value, what):
    (raw / name).write_text(json.dumps(value))
    said = refusal(read_all, "auto", raw)
    assert f"{raw / name}: {what}" in said
    assert "corpus.split_files in params.yaml" in said
    (raw / "mine.json").write_text(json.dumps(SPLITS))
    assert splits_of(raw, split_files="mine.json") == DIVIDED


def numbers_of(split):
    return [str(place) for place, name in enumerate(NAMES) if DIVIDED[name] == split]


def xml(names):
    return "<split>" + "".join(f"<image>{name}</image>" for name in names) + "</split>"


OTHER = "most of their entries name no image that has captions"
ROWS = "they have numbers and name no images"
FORM = "their form is not known"
NOT_READ = {
    "{}.txt": (OTHER, lambda split: lines(f"x/old_{name}" for name in SPLITS[split])),
    "{}_ids.txt": (OTHER, lambda split: lines(f"old_{name[:-4]}" for name in SPLITS[split])),
    "{}.csv": (OTHER, lambda split: "image\n" + lines(f"old_{name}" for name in SPLITS[split])),
    "{}.json": (OTHER, lambda split: json.dumps([f"old_{name[:-4]}" for name in SPLITS[split]])),
    "{}.jsonl": (
        OTHER,
        lambda split: lines(json.dumps({"image": f"old_{name}"}) for name in SPLITS[split]),
    ),
    "{}.yaml": (OTHER, lambda split: lines(f"- old_{name}" for name in SPLITS[split])),
    "{}_idx.txt": (ROWS, lambda split: lines(numbers_of(split))),
    "{}_idx.json": (ROWS, lambda split: json.dumps([*map(int, numbers_of(split))])),
    "{}_idx.csv": (ROWS, lambda split: ",\n" + lines(f"0,{own}" for own in numbers_of(split))),
    "{}.toml": (FORM, lambda split: f"images = {json.dumps(SPLITS[split])}\n"),
    "{}.xml": (FORM, lambda split: xml(SPLITS[split])),
    "{}_images.xml": (FORM, lambda split: xml(name[:-4] for name in SPLITS[split])),
    "{}.ids": (FORM, lambda split: f"images: {' '.join(SPLITS[split])}\n"),
    "{}_set.yaml": (FORM, lambda split: json.dumps({"a": {"b": SPLITS[split]}})),
    "{}.pkl": (FORM, lambda split: pickle.dumps(SPLITS[split])),
    "{}.xlsx": (FORM, lambda split: b"PK\3\4"),
    "{}.npz": (FORM, lambda split: b"PK\3\4"),
    "{}_list.parquet": (FORM, lambda split: b"PAR1"),
}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("called", NOT_READ)
def test_lists_that_are_not_read_are_named(raw, called, capsys):
    reason, content = NOT_READ[called]
    for split in SPLITS:
        write(raw / called.format(split), content(split))
    splits_of(raw)
    said = capsys.readouterr().err
    shown = ", ".join(called.format(split) for split in sorted(SPLITS))
    assert f"not read, for {reason}: {shown}" in said
    assert "splits drawn by seed" in said


@pytest.mark.parametrize(("reason", "values"), [(FORM, NAMES[:3]), (FORM, [0, 1, 2])])
def test_an_array_of_names_or_rows_is_named(raw, reason, values, capsys):
    np.save(raw / "train_idx.npy", np.array(values))
    np.save(raw / "test.npy", np.ones((6, 4), dtype=np.float32))  # features of images
    splits_of(raw)
    said = capsys.readouterr().err
    assert f"not read, for {reason}: train_idx.npy\n" in said


@pytest.mark.parametrize(
    ("name", "reason", "content"),
    [
        ("splits.csv", ROWS, "index,split\n0,train\n1,train\n2,val\n3,test\n"),
        ("splits.csv", OTHER, "image,split\n" + lines(f"old_{n},{DIVIDED[n]}" for n in NAMES)),
        ("splits.json", ROWS, json.dumps({"train": [0, 1, 2], "val": [3], "test": [4, 5]})),
        ("splits.yaml", OTHER, "train: [old_a.jpg, old_b.jpg]\ntest: [old_c.jpg]\n"),
        ("split.json", FORM, json.dumps({"train": "train_images/", "test": "x"})),
        ("folds.json", FORM, json.dumps({name: place for place, name in enumerate(NAMES)})),
        ("splits.toml", FORM, "".join(f"{s} = {json.dumps(own)}\n" for s, own in SPLITS.items())),
        ("split.xml", FORM, xml(NAMES)),
        ("splits.pkl", FORM, b"cos\nsystem\n(S'touch run'\ntR."),
    ],
)
def test_files_for_all_splits_that_are_not_read_are_named(raw, name, reason, content, capsys):
    write(raw / name, content)
    splits_of(raw)
    assert f"not read, for {reason}: {name}\n" in capsys.readouterr().err


def test_what_lacks_beside_lists_that_are_read_is_named(raw, capsys):
    (raw / "train.txt").write_text(lines(SPLITS["train"]))
    (raw / "val.txt").write_text(lines(SPLITS["val"] + SPLITS["test"]))
    (raw / "train.pkl").write_bytes(b"")
    (raw / "test.pkl").write_bytes(b"")
    splits_of(raw)
    said = capsys.readouterr().err
    assert "splits: of the lists train.txt, val.txt" in said
    assert "not read, for their form is not known: test.pkl\n" in said
    (raw / "test.txt").write_text(lines(SPLITS["test"]))
    (raw / "val.txt").write_text(lines(SPLITS["val"]))
    assert splits_of(raw) == DIVIDED
    assert "not read, for" not in capsys.readouterr().err
    (raw / "val.txt").unlink()
    (raw / "more").mkdir()
    (raw / "more/val.txt").write_text(lines(SPLITS["val"]))
    splits_of(raw)
    assert "not read, for other lists are read: more/val.txt\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((f"train{ending}", "img_a.jpg\n") for ending in (".py", ".log", ".ipynb", ".pt", ".pth")),
        *((f"test{ending}", "img_a.jpg\n") for ending in (".ckpt", ".safetensors", ".sh", ".pdf")),
        ("test.md", "# How to test\n\nRun the tests, and look.\n"),
        ("train.txt", "This is how it was trained, and when.\n"),
        ("train.json", json.dumps({"rate": 0.1, "layers": ["a b", "c d"]})),
        ("train.yaml", "rate: 0.1\nlayers: [a b, c d]\n"),
        ("split.md", "Half of them.\n"),
        ("dev.en", "A man runs.\n"),
        ("train.dat", "\0\1\2"),
        ("images/img_a.pkl", ""),
    ],
)
def test_files_that_list_nothing_are_not_named(raw, name, content, capsys):
    (raw / name).write_text(content)
    splits_of(raw)
    assert "not read, for" not in capsys.readouterr().err


def test_what_stands_beside_images_is_not_named(tmp_path, capsys):
    raw = tmp_path / "raw"
    names = [f"train_{number}.jpg" for number in range(4)]
    save_images(raw, *names)
    (raw / "captions.csv").write_text("image,caption\n" + lines(f"{n},A dog." for n in names[1:]))
    for name in names:
        (raw / name).with_suffix(".xml").write_text(f"<annotation>{name}</annotation>")
    splits_of(raw)
    assert "not read, for" not in capsys.readouterr().err


def test_numbers_of_records_of_other_images_are_no_images(tmp_path, capsys):
    raw = tmp_path / "raw"
    names = [f"{number}.jpg" for number in range(4)]
    save_images(raw / "images", *names)
    (raw / "captions.csv").write_text("image,caption\n" + lines(f"{n},A dog." for n in names))
    for place, split in enumerate(SPLITS):
        records = [{"id": place, "file_name": f"old_{place}.jpg"}]
        (raw / f"{split}.json").write_text(json.dumps(records))
    splits_of(raw)
    assert f"not read, for {OTHER}: test.json, train.json" in capsys.readouterr().err


COCO = {
    "images": [{"id": place, "file_name": name} for place, name in enumerate(NAMES)],
    "annotations": [
        {"id": place, "image_id": place, "caption": "A dog."} for place in range(len(NAMES))
    ],
}


def test_annotations_of_one_split_beside_a_list(tmp_path, capsys):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    (raw / "captions_train2017.json").write_text(json.dumps(COCO))
    (raw / "test.txt").write_text(lines(SPLITS["test"]))
    splits = splits_of(raw)
    assert [name for name, split in splits.items() if split == "test"] == SPLITS["test"]
    assert "splits: of the lists test.txt; images that they lack" in capsys.readouterr().err


@pytest.mark.parametrize("value", [COCO, {name: ["A dog."] for name in NAMES}])
def test_annotations_that_are_called_like_a_list_are_not_named(tmp_path, value, capsys):
    raw = tmp_path / "raw"
    save_images(raw, *NAMES)
    (raw / "train.json").write_text(json.dumps(value))
    splits_of(raw)
    said = capsys.readouterr().err
    assert "all images are of split train; splits drawn by seed" in said
    assert "not read, for" not in said


def test_folders_of_splits_that_have_none_of_the_images_are_named(raw, capsys):
    for split, names in SPLITS.items():
        (raw / split).mkdir()
        (raw / split / "_annotations.csv").write_text("filename,class\n" + lines(names))
    splits_of(raw)
    said = capsys.readouterr().err
    assert "not taken for splits: test, train, val, with no image that has captions" in said
    for split in SPLITS:
        (raw / split / "_annotations.csv").rename(raw / split / "main.py")
    splits_of(raw)
    assert "not taken for splits" not in capsys.readouterr().err


ALBUMS = {"Test drive": ("a", "b"), "Train station": ("c", "d"), "Val Thorens": ("e", "f")}


@pytest.mark.parametrize("form", ["captions.csv", "metadata.csv", "texts"])
def test_albums_that_are_taken_for_splits_are_named(tmp_path, form, capsys):
    raw = tmp_path / "raw"
    for album, stems in ALBUMS.items():
        save_images(raw, *(f"{album}/{stem}.jpg" for stem in stems))
        if form == "texts":
            for stem in stems:
                (raw / album / f"{stem}.txt").write_text("A dog.")
        else:
            rows = lines(f"{stem}.jpg,A dog." for stem in stems)
            (raw / album / form).write_text(f"file_name,text\n{rows}")
    assert splits_of(raw)["a.jpg"] == "test"
    said = capsys.readouterr().err
    assert "splits: of the folders Test drive, Train station, Val Thorens" in said
