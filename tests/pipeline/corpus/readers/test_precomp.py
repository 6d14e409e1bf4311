"""Folders of features and captions without photographs: which lines are of which image, and what is
refused by its name."""

import numpy as np
import pytest
from commands import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from precomp_folders import PER_IMAGE, write_lines, write_precomp
from reader_cases import image_bytes, options, read_all

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import auto, precomp
from pipeline.features.matching.precomp import PrecompFolder
from pipeline.features.matching.precomp_splits import read_split

SMALL = {"train": 4, "dev": 2, "test": 3}


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    write_precomp(raw, SMALL)
    return raw


def ids_of(corpus, split):
    images = corpus.images
    return images["image_id"][images["split"] == split].tolist()


@pytest.mark.parametrize("rows_per_caption", [False, True])
@pytest.mark.parametrize("regions", [False, True])
def test_images_captions_and_places(tmp_path, rows_per_caption, regions):
    """A row for each image, or one for each of its captions: the same corpus."""
    raw = tmp_path / "raw"
    texts = write_precomp(raw, SMALL, regions=regions, rows_per_caption=rows_per_caption)
    corpus = read_all("precomp", raw)
    assert ids_of(corpus, "train") == ["train/0", "train/1", "train/2", "train/3"]
    assert ids_of(corpus, "val") == ["val/0", "val/1"]
    told = corpus.captions.groupby("image_id", sort=False)["text"].apply(list)
    assert told.tolist() == [*texts["train"], *texts["dev"], *texts["test"]]
    assert corpus.captions["caption_id"].tolist()[:2] == ["train/0#0", "train/0#1"]
    folder = PrecompFolder(raw, corpus.images, corpus.captions, False, "image_features.other")
    places = folder.places(3 if regions else 2)
    step = PER_IMAGE if rows_per_caption else 1
    assert [place.rows.start for place in places[:6]] == [0, step, 2 * step, 3 * step, 0, step]
    assert [len(place.rows) for place in places] == [step] * 9


@pytest.mark.parametrize("of", ["rows", "captions"])
@pytest.mark.parametrize("rows_per_caption", [False, True])
def test_ids_name_the_images(raw, of, rows_per_caption):
    write_precomp(raw, SMALL, rows_per_caption=rows_per_caption)
    names = {"train": [f"10{n}.jpg" for n in range(4)], "dev": ["77", "9"], "test": ["5", "3", "4"]}
    for split, own in names.items():
        repeats = PER_IMAGE if of == "captions" or rows_per_caption else 1
        write_lines(raw / f"{split}_ids.txt", [name for name in own for _ in range(repeats)])
    corpus = read_all("precomp", raw)
    assert ids_of(corpus, "train") == names["train"]
    assert ids_of(corpus, "val") == names["dev"]
    assert ids_of(corpus, "test") == names["test"]
    assert corpus.captions["caption_id"].tolist()[-1] == "4#4"
    places = PrecompFolder(raw, corpus.images, None, False, "image_features.other").places(2)
    assert places[1].rows.start == (PER_IMAGE if rows_per_caption else 1)


def test_images_may_have_different_numbers_of_captions_where_ids_say_so(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    np.save(raw / "train_ims.npy", np.eye(4, dtype=np.float32))
    write_lines(
        raw / "train_caps.txt", [f"a dog {word}" for word in ["one", "two", "three", "six"]] * 2
    )
    write_lines(raw / "train_ids.txt", ["a", "b", "b", "b", "c", "d", "d", "d"])
    corpus = read_all("precomp", raw)
    assert corpus.captions["image_id"].value_counts().to_dict() == {"b": 3, "d": 3, "a": 1, "c": 1}


def test_ids_that_number_rows_or_captions_are_said_or_numbered_anew(raw, capsys):
    """Numbers of each split from 0 name different images in each; those of captions name none."""
    for split, count in SMALL.items():
        write_lines(raw / f"{split}_ids.txt", range(count))
    assert ids_of(read_all("precomp", raw), "val") == ["val/0", "val/1"]
    write_precomp(raw, SMALL, rows_per_caption=True)
    for split, count in SMALL.items():
        write_lines(raw / f"{split}_ids.txt", range(100, 100 + PER_IMAGE * count))
    assert ids_of(read_all("precomp", raw), "val") == ["val/0", "val/1"]
    said = capsys.readouterr().err
    assert "dev_ids.txt: a different id for each of 5 equal rows" in said


def test_rows_for_as_many_captions_that_never_repeat_are_images_of_one_caption(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    np.save(raw / "train_ims.npy", np.eye(6, dtype=np.float32))
    write_lines(raw / "train_caps.txt", [f"a dog {n}" for n in range(6)])
    corpus = read_all("precomp", raw)
    assert corpus.captions["image_id"].is_unique
    assert sorted(corpus.images["split"].unique()) == ["test", "train", "val"]


def test_equal_neighbours_are_two_images(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = np.repeat(np.eye(4, dtype=np.float32)[[0, 0, 1, 2]], PER_IMAGE, axis=0)
    np.save(raw / "train_ims.npy", rows)
    write_lines(raw / "train_caps.txt", [f"a dog {n}" for n in range(len(rows))])
    assert len(read_all("precomp", raw).images) == 4


def test_val_names_and_the_larger_test_and_what_is_not_read(raw, capsys):
    for path in sorted(raw.glob("dev_*")):
        path.rename(raw / path.name.replace("dev", "val"))
    write_precomp(raw, {"testall": 5})
    write_lines(raw / "train_tags.txt", ["dog"])
    (raw / "photo.jpg").write_bytes(image_bytes(1))
    corpus = read_all("precomp", raw)
    assert corpus.images["split"].value_counts().to_dict() == {"test": 5, "train": 4, "val": 2}
    said = capsys.readouterr().err
    assert "passed over: files of test, beside those of testall, train, val" in said
    assert "not read: train_tags.txt" in said
    assert "not used: 1 photograph below" in said


def test_a_split_that_is_not_there_is_drawn(raw, capsys):
    for path in sorted(raw.glob("dev_*")):
        path.unlink()
    corpus = read_all("precomp", raw)
    assert corpus.images["split"].value_counts().to_dict() == {"train": 3, "test": 3, "val": 1}
    assert "drawn from train by seed: 1 val" in capsys.readouterr().err
    places = PrecompFolder(raw, corpus.images, corpus.captions, False, "x").places(2)
    assert len(places) == 7


def test_captions_that_were_left_out_do_not_move_the_others(raw):
    """An empty caption stops the run; left out, or beyond the first ones, the rows are found."""
    lines = (raw / "train_caps.txt").read_text().splitlines()
    lines[PER_IMAGE + 1] = ""
    write_lines(raw / "train_caps.txt", lines)
    assert "train/1 (caption train/1#1 without a word)" in refusal(read_all, "precomp", raw)
    corpus = read_all("precomp", raw, skip_bad_images=True, max_captions=3)
    assert len(corpus.captions) == 3 * 9 - 1
    places = PrecompFolder(raw, corpus.images, corpus.captions, False, "x").places(2)
    assert [place.rows.start for place in places] == [0, 1, 2, 3, 0, 1, 0, 1, 2]


def test_another_folder_with_other_captions_is_refused(raw, tmp_path):
    """Both have images train/0 to train/3, which are others."""
    corpus = read_all("precomp", raw)
    write_precomp(tmp_path / "other", SMALL, seed=1)
    folder = PrecompFolder(tmp_path / "other", corpus.images, corpus.captions, False, "x")
    said = refusal(folder.places, 2)
    assert "train_caps.txt: caption train/0#" in said
    assert "name the folder that raw is, or write train_ids.txt in both" in said


def lines_lost(raw):
    lines = (raw / "train_caps.txt").read_text().splitlines()
    write_lines(raw / "train_caps.txt", lines[:-1])


def no_captions(raw):
    (raw / "dev_caps.txt").unlink()


def no_array(raw):
    (raw / "dev_ims.npy").unlink()


def ids_lost(raw):
    write_lines(raw / "train_ids.txt", ["a", "b", "c"])


def ids_come_back(raw):
    write_lines(raw / "train_ids.txt", ["a", "b", "a", "c"])


def ids_are_empty(raw):
    write_lines(raw / "train_ids.txt", ["a", "", "b", "c"])


def ids_in_two_splits(raw):
    write_lines(raw / "train_ids.txt", ["a", "b", "c", "d"])
    write_lines(raw / "dev_ids.txt", ["e", "a"])


def too_few_ids_of_captions(raw):
    write_lines(raw / "train_ids.txt", ["a"] * 10 + ["b"] * 10)


def repeated_ids_of_rows(raw):
    write_lines(raw / "train_ids.txt", ["a", "a", "b", "c"])


def rows_that_repeat_now_and_then(raw):
    rows = np.eye(20, dtype=np.float32)
    rows[7] = rows[6]
    np.save(raw / "train_ims.npy", rows)


def one_number_an_image(raw):
    np.save(raw / "train_ims.npy", np.zeros(4, np.float32))


def names(raw):
    np.save(raw / "train_ims.npy", np.array(["a", "b"]))


def pickled(raw):
    np.save(raw / "train_ims.npy", np.array([{}, {}]), allow_pickle=True)


def a_pointer(raw):
    line = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (raw / "train_ims.npy").write_text(line)


FAULTS = {
    lines_lost: ("train_caps.txt: 19 captions for 4 rows of train_ims.npy", "write train_ids.txt"),
    no_captions: ("dev_ims.npy without dev_caps.txt", "move dev_ims.npy away"),
    no_array: ("dev_caps.txt without dev_ims.npy", "move dev_caps.txt away"),
    ids_lost: (
        "train_ids.txt: 3 ids for 4 rows of the array and 20 captions",
        "move the file away",
    ),
    ids_come_back: ("ids that come back after others (1): 'a'", "must follow one another"),
    ids_are_empty: ("train_ids.txt: lines without an id, numbers (1): 2", ""),
    ids_in_two_splits: ("images in more than one split (1): 'a'", "must not be tested on"),
    too_few_ids_of_captions: ("train_ids.txt: 2 different ids for 4 rows", "one a line"),
    repeated_ids_of_rows: ("train_ids.txt: 3 different ids for 4 rows", "one for each of its"),
    rows_that_repeat_now_and_then: (
        "train_ims.npy: 20 rows for as many captions, of which 1 stand there up to 2 times",
        "write train_ids.txt beside it",
    ),
    one_number_an_image: (
        "train_ims.npy: shape (4,); expected are vectors (N, D)",
        "copy the file",
    ),
    names: ("train_ims.npy: ", ""),
    pickled: ("pickled objects", "save the array again"),
    a_pointer: ("train_ims.npy: a pointer of git-lfs", "lfs pull"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_is_refused_by_its_name(raw, fault):
    fault(raw)
    said = refusal(read_all, "precomp", raw)
    for part in FAULTS[fault]:
        assert part in said


def test_the_ways_out_lead_out(raw):
    """Of the array without captions, and of lines that do not fit."""
    no_captions(raw)
    (raw / "dev_ims.npy").unlink()
    lines_lost(raw)
    ids = ["a"] * 5 + ["b"] * 5 + ["c"] * 5 + ["d"] * 4
    write_lines(raw / "train_ids.txt", ids)
    assert len(read_all("precomp", raw).captions) == 19 + 15


def test_one_of_several_folders_is_chosen_by_the_setting(tmp_path):
    """As VSE++'s data.tar holds coco_precomp, f8k_precomp and f30k_precomp."""
    raw = tmp_path / "raw"
    for name in ("coco_precomp", "f8k_precomp"):
        write_precomp(raw / name, SMALL)
    said = refusal(read_all, "auto", raw)
    assert "choose one with corpus.annotations" in said
    for name in ("f8k_precomp", "f8k_precomp/", "f8k_precomp/train_caps.txt"):
        corpus = read_all("auto" if name == "f8k_precomp" else "precomp", raw, annotations=name)
        assert len(corpus.images) == 9


def test_photographs_outrank_a_folder_of_features(raw):
    """Which lies beside them, or above them."""
    (raw / "photos").mkdir()
    for number in range(4):
        (raw / f"photos/{number}.jpg").write_bytes(image_bytes(number))
    write_lines(
        raw / "photos/captions.csv", ["image,caption", *(f"{n}.jpg,a dog" for n in range(4))]
    )
    source = auto.read(raw, raw.parent / "out", options())
    assert source.has_files
    assert "captions_csv" in source.remarks[0]
    assert "train_ims.npy" in source.remarks[0]
    assert len(precomp.recognise(list_folder(raw))) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=8), st.booleans())
def test_every_line_is_of_the_image_whose_id_stands_beside_it(tmp_path_factory, counts, repeated):
    """Any numbers of captions: ids of rows that repeat, or ids of captions, against plain lists."""
    folder = tmp_path_factory.mktemp("made")
    owners = [f"i{image}" for image, count in enumerate(counts) for _ in range(count)]
    rows = np.eye(len(counts), dtype=np.float32)
    np.save(folder / "train_ims.npy", np.repeat(rows, counts, axis=0) if repeated else rows)
    lines = [f"{owner} number {place}" for place, owner in enumerate(owners)]
    write_lines(folder / "train_caps.txt", lines)
    write_lines(folder / "train_ids.txt", owners)
    read = read_split(folder / "train", "train")
    found = dict(zip(read.images, read.captions, strict=True))
    assert found == {
        name: [x for x in lines if x.startswith(f"{name} ")] for name in dict.fromkeys(owners)
    }
    array = np.load(folder / "train_ims.npy")
    for image, own in enumerate(read.rows):
        assert (array[own.start : own.stop] == rows[image]).all()
