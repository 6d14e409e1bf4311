"""Several sources of splits, and splits in names: one is taken, and what says others is named."""

import json

import pytest
from commands import refusal
from reader_cases import read_all, save_images

NAMES = [f"{number:03}.jpg" for number in range(14)]
ONE = {"train": NAMES[:9], "val": NAMES[9:11], "test": NAMES[11:]}
OTHER = {"train": NAMES[5:], "val": NAMES[3:5], "test": NAMES[:3]}
WORDS = ("train", "val", "test")


def write_captions(raw, names=NAMES, splits=None):
    save_images(raw / "images", *names)
    column = {name: f",{split}" for split, own in (splits or {}).items() for name in own}
    rows = "".join(f"{name},A dog and {name}.{column.get(name, '')}\n" for name in names)
    (raw / "captions.csv").write_text(f"image,caption{',split' if splits else ''}\n{rows}")


def write_json(path, splits):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(splits))


def write_table(path, splits):
    rows = "".join(f"{name},{split}\n" for split, own in splits.items() for name in own)
    path.write_text(f"image,split\n{rows}")


def write_lists(path, splits):
    path.mkdir(exist_ok=True)
    for split, own in splits.items():
        (path / f"{split}.txt").write_text("\n".join(own))


def splits_of(corpus):
    images = corpus.images
    names = images["image_id"].str.rpartition("/")[2]
    return {split: sorted(names[images["split"] == split]) for split in WORDS}


PAIRS = {
    "versions": lambda raw, one, other: (
        write_json(raw / "splits_v1.json", one),
        write_json(raw / "splits_v2.json", other),
    ),
    "backup": lambda raw, one, other: (
        write_json(raw / "split.json", one),
        write_json(raw / "split_backup.json", other),
    ),
    "table and json": lambda raw, one, other: (
        write_table(raw / "split.csv", one),
        write_json(raw / "splits.json", other),
    ),
    "lists and json": lambda raw, one, other: (
        write_lists(raw, one),
        write_json(raw / "splits.json", other),
    ),
}
CHOSEN = {"versions": "splits_v1.json", "backup": "split.json", "table and json": "split.csv"}


@pytest.mark.parametrize("kind", PAIRS)
def test_two_files_that_say_different_splits_are_refused(tmp_path, kind):
    write_captions(tmp_path)
    PAIRS[kind](tmp_path, ONE, OTHER)
    error = refusal(read_all, "auto", tmp_path)
    assert "files divide the images in different ways" in error
    named = CHOSEN.get(kind)
    if named is not None:
        assert splits_of(read_all("auto", tmp_path, split_files=named)) == ONE


@pytest.mark.parametrize("kind", PAIRS)
def test_two_files_that_say_the_same_are_read(tmp_path, kind):
    write_captions(tmp_path)
    PAIRS[kind](tmp_path, ONE, ONE)
    assert splits_of(read_all("auto", tmp_path)) == ONE


@pytest.mark.parametrize("write", [write_lists, write_json])
def test_a_column_comes_before_lists_and_what_they_say_is_named(tmp_path, write, capsys):
    write_captions(tmp_path, splits=ONE)
    path = tmp_path / ("splits" if write is write_lists else "splits.json")
    write(path, OTHER)
    assert splits_of(read_all("auto", tmp_path)) == ONE
    said = capsys.readouterr().err
    assert "not taken for splits: splits" in said
    assert "(other splits for 10 images); corpus.split_files" in said
    assert splits_of(read_all("auto", tmp_path, split_files=path.name)) == OTHER
    write(path, ONE)
    read_all("auto", tmp_path)
    assert "other splits" not in capsys.readouterr().err


def test_folders_that_say_other_splits_than_lists_are_named(tmp_path, capsys):
    write_captions(tmp_path)
    for split, own in OTHER.items():
        for name in own:
            (tmp_path / split).mkdir(exist_ok=True)
            (tmp_path / "images" / name).rename(tmp_path / split / name)
    write_lists(tmp_path / "lists", ONE)
    assert splits_of(read_all("auto", tmp_path)) == ONE
    said = capsys.readouterr().err
    assert "the folders of 10 images say other splits than these lists" in said


@pytest.mark.parametrize("called", ["flickr8k{}.txt", "{}_screens.txt", "my{}ing.lst"])
def test_lists_that_differ_in_the_word_alone(tmp_path, called):
    write_captions(tmp_path)
    (tmp_path / "lists").mkdir()
    for split, own in ONE.items():
        (tmp_path / "lists" / called.format(split)).write_text("\n".join(own))
    assert splits_of(read_all("auto", tmp_path)) == ONE


@pytest.mark.parametrize(
    "form", ["{split}_{name}", "{split}-{name}", "{name}_{split}", "A_{split}_{name}"]
)
def test_splits_in_the_names_of_all_images(tmp_path, form, capsys):
    named = {
        split: sorted(form.format(split=split, name=name[:-4]) + ".jpg" for name in own)
        for split, own in ONE.items()
    }
    write_captions(tmp_path, [name for own in named.values() for name in own])
    assert splits_of(read_all("auto", tmp_path)) == named
    assert "splits: of the names of the images, such as" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ([f"COCO_{word}2014_{name}" for word in ("train", "val") for name in NAMES], "of MS-COCO"),
        ([*(f"train_{name}" for name in NAMES), "test_1.jpg", "dog.jpg"], ""),
        ([f"train_{name}" for name in NAMES], ""),
    ],
)
def test_names_that_are_not_taken_for_splits(tmp_path, names, line, capsys):
    write_captions(tmp_path, names)
    read_all("auto", tmp_path)
    said = capsys.readouterr().err
    assert "splits drawn by seed" in said
    assert line in said
    assert "splits: of the names" not in said


NUMBERED = [f"{number}.jpg" for number in range(1, 15)]


@pytest.mark.parametrize("form", ["lists", "json"])
def test_numbers_from_0_on_are_no_names(tmp_path, form):
    write_captions(tmp_path, NUMBERED)
    rows = {"train": range(9), "val": range(9, 11), "test": range(11, 14)}
    if form == "json":
        write_json(tmp_path / "split_indices.json", {name: [*own] for name, own in rows.items()})
    else:
        write_lists(tmp_path, {name: map(str, own) for name, own in rows.items()})
    assert "they may count rows" in refusal(read_all, "auto", tmp_path)


def test_numbers_that_are_names_are_read(tmp_path):
    write_captions(tmp_path, NUMBERED)
    write_lists(tmp_path, {"train": map(str, range(1, 10)), "test": map(str, range(10, 15))})
    assert splits_of(read_all("auto", tmp_path))["test"] == sorted(NUMBERED[9:])


LOGS = {
    "{}.csv": ("epoch,loss\n", "{number},{number}.25\n"),
    "{}.tsv": ("step\tacc\n", "{number}\t0.{number}\n"),
    "logs/{}.txt": ("", "{number} 2.{number}\n"),
    "log/{}.csv": ("", "{number},0.{number}\n"),
}


@pytest.mark.parametrize("called", LOGS)
def test_logs_of_training_are_no_lists(tmp_path, called, capsys):
    write_captions(tmp_path, NUMBERED)
    header, line = LOGS[called]
    for split, numbers in {"train": range(1, 10), "val": range(10, 15)}.items():
        path = tmp_path / called.format(split)
        path.parent.mkdir(exist_ok=True)
        path.write_text(header + "".join(line.format(number=number) for number in numbers))
    assert len(read_all("auto", tmp_path).images) == len(NUMBERED)
    assert f"not read: {called.format('train')}, {called.format('val')}" in capsys.readouterr().err


@pytest.mark.parametrize("header", ["id", "image_id", "train", "Number", "flower_id"])
def test_numbers_below_a_name_for_images_are_a_list(tmp_path, header):
    write_captions(tmp_path, NUMBERED)
    for split, numbers in {"train": range(1, 10), "test": range(10, 15)}.items():
        rows = "".join(f"{number},x\n" for number in numbers)
        (tmp_path / f"{split}.csv").write_text(f"{header},class\n{rows}")
    assert splits_of(read_all("auto", tmp_path))["test"] == sorted(NUMBERED[9:])


def test_a_list_with_a_comment_that_says_no_split_is_named(tmp_path, capsys):
    write_captions(tmp_path)
    (tmp_path / "bad_images.txt").write_text("# blurry\n003.jpg\n007.jpg\n")
    read_all("auto", tmp_path)
    assert "not called like train.txt (bad_images.txt)" in capsys.readouterr().err


def test_no_split_is_drawn_from_images_without_captions_or_files(tmp_path):
    write_captions(tmp_path)
    whole = splits_of(read_all("auto", tmp_path, skip_bad_images=True))
    rows = "".join(f"x{number}.jpg,A dog.\n" for number in range(200))
    with (tmp_path / "captions.csv").open("a") as table:
        table.write(rows)
    table_of_empty = "".join(f"e{number}.jpg,\n" for number in range(50))
    save_images(tmp_path / "images", *(f"e{number}.jpg" for number in range(50)))
    with (tmp_path / "captions.csv").open("a") as table:
        table.write(table_of_empty)
    assert splits_of(read_all("auto", tmp_path, skip_bad_images=True)) == whole


def write_parts(raw, names):
    """Files of Hateful Memes' kind, each with two images of its own and one that all of its split
    have."""
    expected = {}
    for number, name in enumerate(names):
        split = {"trai": "train", "test": "test"}.get(name[:4], "val")
        own = [f"{name}{place}.jpg" for place in range(4)] + [f"{split}_of_all.jpg"]
        save_images(raw / "img", *own)
        expected |= dict.fromkeys(own, split)
        records = [
            {"id": number, "img": f"img/{image}", "text": f"A dog, {image}"} for image in own
        ]
        records = [{"label": 1, **record} if number else record for record in records]
        (raw / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    return expected


PARTS = [
    ["train", "dev_seen", "test_seen"],
    ["train", "dev_seen", "dev_unseen", "test_seen", "test_unseen"],
    ["train", "val_unseen", "test_unseen"],
    ["train_seen", "val_seen", "test_seen"],
]


@pytest.mark.parametrize("names", PARTS)
def test_a_split_may_be_in_parts_that_are_seen_and_unseen(tmp_path, names):
    expected = write_parts(tmp_path, names)
    corpus = read_all("auto", tmp_path)
    images = corpus.images
    found = images["image_id"].str.rpartition("/")[2]
    assert dict(zip(found, images["split"], strict=True)) == expected
    assert len(corpus.captions) == len(expected)


def test_a_training_file_that_is_not_read_is_named(tmp_path):
    write_parts(tmp_path, ["dev", "test"])
    (tmp_path / "train.jsonl").write_text(json.dumps({"pic": "1.jpg", "words": "A dog."}))
    error = refusal(read_all, "auto", tmp_path)
    assert (
        "dev.jsonl, test.jsonl have the splits test and val, and train.jsonl is not read" in error
    )
    (tmp_path / "train.jsonl").unlink()
    assert "none to train on" in refusal(read_all, "auto", tmp_path)


@pytest.mark.parametrize(
    "written",
    [
        lambda names: [{"question": f"What is {name}?", "image": name} for name in names],
        lambda names: {"images": [{"file_name": name} for name in names], "categories": []},
    ],
)
def test_annotations_of_another_task_are_no_lists(tmp_path, written, capsys):
    write_captions(tmp_path)
    for split, own in {"train": NAMES[:6], "val": NAMES[6:9]}.items():
        write_json(tmp_path / f"vqa/{split}.json", written(own))
    assert len(read_all("auto", tmp_path).images) == 14
    said = capsys.readouterr().err
    assert "not taken for splits: vqa/train.json, vqa/val.json, records of 9 of the 14 imag" in said
    assert "splits drawn by seed" in said
    for split in ("train", "val"):  # as the line says
        (tmp_path / f"vqa/{split}.json").rename(tmp_path / f"{split}.json")
    assert len(splits_of(read_all("auto", tmp_path))["train"]) == 6
