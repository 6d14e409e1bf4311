"""Copies of a photograph, and captions that several images have."""

import shutil

import pandas as pd
from reader_cases import read_all, save_images

from pipeline.corpus.dataset.read import divided_photographs, repeated_captions
from pipeline.corpus.dataset.splits import equal_photographs


def folder_with_copies(tmp_path, number=30, copies=10):
    """captions.txt and images, of which some are there twice."""
    raw = tmp_path / "raw"
    names = [f"{n}.jpg" for n in range(number)]
    save_images(raw, *names)
    for n in range(copies):
        shutil.copy(raw / f"{n}.jpg", raw / f"{n} (1).jpg")
        names.append(f"{n} (1).jpg")
    lines = ["image,caption", *(f"{name},caption {place}" for place, name in enumerate(names))]
    (raw / "captions.txt").write_text("\n".join(lines))
    return raw


def test_files_of_one_size_are_compared_by_their_bytes(tmp_path):
    for name, content in {"a": b"12", "b": b"21", "c": b"12", "d": b"123", "e": b""}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "f").write_bytes(b"")
    assert equal_photographs(tmp_path, list("abcdefz")) == [["a", "c"]]


def test_copies_are_one_group_in_one_split(tmp_path, capsys):
    raw = folder_with_copies(tmp_path)
    images = read_all("captions_csv", raw, val_images=6, test_images=6).images
    assert "20 images are 10 photographs (0.jpg = 0 (1).jpg" in capsys.readouterr().err
    by_bytes = images.groupby("sha256")
    assert (by_bytes["split"].nunique() == 1).all()
    assert (by_bytes["group"].nunique() == 1).all()
    assert images["group"].nunique() == 30
    assert set(images["group"]) <= set(images["image_id"])


def test_splits_of_the_files_are_kept_and_copies_across_them_named(tmp_path, capsys):
    raw = folder_with_copies(tmp_path, number=4, copies=1)
    lists = {"train": "0.jpg\n1.jpg", "val": "2.jpg", "test": "3.jpg\n0 (1).jpg"}
    for split, names in lists.items():
        (raw / f"{split}.txt").write_text(names)
    images = read_all("captions_csv", raw).images.set_index("image_id")
    assert images["split"].to_dict() == {
        "0.jpg": "train",
        "1.jpg": "train",
        "2.jpg": "val",
        "3.jpg": "test",
        "0 (1).jpg": "test",
    }
    said = capsys.readouterr().err
    assert "equal photographs in different splits" in said
    assert "1 image of val and test can be known from training" in said


def test_no_copies_no_word(tmp_path):
    table = pd.DataFrame({"image_id": ["a", "b"], "split": ["train", "test"], "sha256": ["1", "2"]})
    assert divided_photographs(table) == ()


def test_the_best_recall_with_repeated_captions():
    """Four captions of two images each can be right half the time, the fifth always."""
    captions = pd.DataFrame(
        {
            "image_id": ["a", "b", "a", "b", "a", "c"],
            "split": ["test"] * 5 + ["train"],
            "tokens": [["x"], ["x"], ["y"], ["y"], ["z"], ["x"]],
        }
    )
    (remark,) = repeated_captions(captions, {"a": "a", "b": "b", "c": "c"})
    assert "4 of 5 test captions also describe other images, as 'x' does" in remark
    assert "R@1 of text to image can be at most about 60.0" in remark
    assert repeated_captions(captions, {"a": "a", "b": "a", "c": "c"}) == ()
