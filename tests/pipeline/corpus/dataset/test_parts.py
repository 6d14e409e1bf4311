"""Numbered parts of one dataset are read together, and only where nothing else can be meant."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import read_all, save_images

from pipeline.corpus.dataset.recognise import check_parts, parts_together
from pipeline.runtime.errors import WorkbenchError

IMAGES = [f"p{number}.jpg" for number in range(9)]
SPARK = "part-0000{}-5b0e8c1d-c000.csv"  # Spark writes the same id into the names of all parts


def write_tables(folder, **parts):
    """A table of captions for each part; the names and the numbers of the images in it."""
    save_images(folder, *IMAGES)
    for name, numbers in parts.items():
        rows = [f"p{number}.jpg,Dog {number} runs." for number in numbers]
        (folder / name).write_text("\n".join(["image,caption", *rows, ""]))


def captions_of(folder):
    rows = read_all("auto", folder).captions
    return dict(zip(rows["image_id"], rows["text"], strict=True))


ALL = {f"p{number}.jpg": f"Dog {number} runs." for number in range(9)}


@pytest.mark.parametrize("name", ["captions_{}.csv", "part{}.csv", "captions-0{}-of-03.csv", SPARK])
def test_tables_that_a_number_tells_apart_are_read_together(tmp_path, name):
    thirds = {name.format(n): range(3 * n - 3, 3 * n) for n in (1, 2, 3)}
    write_tables(tmp_path / "raw", **thirds)
    assert captions_of(tmp_path / "raw") == ALL


def test_parts_of_splits_keep_their_splits(tmp_path):
    parts = {"train_0.csv": range(3), "train_1.csv": range(3, 6), "val_0.csv": (6, 7)}
    write_tables(tmp_path / "raw", **parts, **{"test_0.csv": (8,)})
    images = read_all("auto", tmp_path / "raw").images
    assert images.groupby("split").size().to_dict() == {"train": 6, "val": 2, "test": 1}


@pytest.mark.parametrize("form", ["list", "mapping", "lines"])
def test_records_that_a_number_tells_apart_are_read_together(tmp_path, form):
    folder = tmp_path / "raw"
    save_images(folder, *IMAGES)
    for part in range(3):
        own = {image: ALL[image] for image in IMAGES[3 * part : 3 * part + 3]}
        records = [{"image": image, "caption": text} for image, text in own.items()]
        lines = "\n".join(map(json.dumps, records))
        content = {"list": json.dumps(records), "mapping": json.dumps(own), "lines": lines}[form]
        (folder / f"mine_{part}.json").write_text(content)
    assert captions_of(folder) == ALL


@pytest.mark.parametrize(
    ("first", "second", "numbers"),
    [
        ("captions_1.csv", "captions_2.csv", range(4, 9)),  # p4 in both: another state, or people
        ("captions_1.csv", "captions_3.csv", range(5, 9)),  # the second part is not there
        ("captions_2019.csv", "captions_2020.csv", range(5, 9)),  # years count no parts
        ("captions_v1.csv", "captions_v2.csv", range(4)),  # two states of one table
    ],
)
def test_what_may_be_something_else_is_asked(tmp_path, first, second, numbers):
    write_tables(tmp_path / "raw", **{first: range(5), second: numbers})
    with pytest.raises(WorkbenchError, match="several annotation files") as caught:
        read_all("auto", tmp_path / "raw")
    assert caught.value.hint.endswith(f"such as {first}")
    read_all("auto", tmp_path / "raw", annotations=first)


@pytest.mark.parametrize("reader", ["captions_csv", "records_json"])
def test_an_image_far_down_in_two_parts_is_named(tmp_path, monkeypatch, reader):
    # What recognises a file looks at its beginning alone; here at none of the repeated images.
    monkeypatch.setattr("pipeline.corpus.dataset.recognise.LOOKED_AT", 130)
    folder = tmp_path / "raw"
    save_images(folder, *IMAGES)
    for part, numbers in ((1, (0, 1, 2, 3, 8)), (2, (4, 5, 6, 7, 8))):
        rows = [
            (f"p{number}.jpg", f"Dog {number} runs over the wide green grass.")
            for number in numbers
        ]
        lines = {
            "captions_csv": ["image,caption", *(f"{image},{text}" for image, text in rows)],
            "records_json": [json.dumps({"image": image, "caption": text}) for image, text in rows],
        }[reader]
        ending = "csv" if reader == "captions_csv" else "jsonl"
        (folder / f"mine_{part}.{ending}").write_text("\n".join([*lines, ""]))
    with pytest.raises(WorkbenchError, match=r"mine_1\.\w+, mine_2\.\w+ are .* captions of p8.jpg"):
        read_all("auto", folder)
    read_all("auto", folder, annotations=f"mine_1.{ending}")


@given(st.lists(st.integers(0, 5), unique=True, min_size=2), st.booleans())
def test_parts_are_those_that_count_without_a_gap(numbers, are_apart):
    files = [(f"a{number}b7.csv",) for number in numbers]
    names = {file: [file if are_apart else "same.jpg"] for (file,) in files}
    counted = sorted(numbers) in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))
    together = parts_together(files, names)
    if counted and are_apart:
        assert together == [tuple(f"a{number}b7.csv" for number in sorted(numbers))]
    else:
        assert sorted(together) == sorted(files)


def test_albums_and_seen_parts_may_have_images_of_one_name(tmp_path):
    images = {"a/x.csv": ["1.jpg"], "b/x.csv": ["1.jpg"], "dev_seen.csv": ["2.jpg"]}
    check_parts(tmp_path, {**images, "dev_unseen.csv": ["2.jpg"]})
    with pytest.raises(WorkbenchError, match=r"both have captions of 1\.jpg"):
        check_parts(tmp_path, {"a/x.csv": ["1.jpg"], "a/y.csv": ["1.jpg"]})
