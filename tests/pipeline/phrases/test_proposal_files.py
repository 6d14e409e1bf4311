"""Boxes of other programs, in every format that is read, and what is refused."""

import struct
import zlib

import h5py
import numpy as np
import pytest
from commands import refusal
from scipy.io import savemat

from pipeline.phrases.params import ProposalsConfig
from pipeline.phrases.proposal_files import ProposalFiles
from pipeline.runtime.errors import WorkbenchError

SIZE = (40, 30)
IMAGES = {
    "a.jpg": np.array([[1.0, 2, 11, 12, 0.5], [0, 0, 40, 30, 0.9], [5, 5, 9, 8, 0.1]]),
    "b.jpg": np.array([[3.0, 4, 8, 9, 0.2]]),
}


def cells(values):
    found = np.empty((1, len(values)), object)
    found[0, :] = values
    return found


def write(folder, kind, images=IMAGES):
    if kind in ("npy", "text", "mat"):
        path = folder / kind
        path.mkdir()
        for name, array in images.items():
            stem = path / name.removesuffix(".jpg")
            if kind == "npy":
                np.save(stem.with_suffix(".npy"), array)
            elif kind == "text":
                np.savetxt(stem.with_suffix(".txt"), array)
            else:
                savemat(stem.with_suffix(".mat"), {"bbs": array})
        return path
    path = folder / f"all.{kind}"
    if kind == "npz":
        np.savez(path, **images)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            for name, array in images.items():
                file[name.removesuffix(".jpg")] = array
    elif kind == "txt":
        rows = [f"{n} {' '.join(map(str, row))}" for n, a in images.items() for row in a]
        path.write_text("\n".join(rows) + "\n")
    elif kind == "all.mat":
        names = [name.removesuffix(".jpg") for name in images]
        savemat(path, {"images": cells(names), "boxes": cells(list(images.values()))})
    return path


def settings(path, **changes):
    base = {"source": "file", "order": "xyxy", "origin": 0, "number": 100, "other_images": "error"}
    return ProposalsConfig.model_validate(base | {"path": str(path)} | changes)


@pytest.mark.parametrize("kind", ["npy", "text", "mat", "npz", "h5", "txt", "all.mat"])
def test_every_format_gives_the_boxes_best_first(tmp_path, kind):
    files = ProposalFiles(settings(write(tmp_path, kind), number=2), list(IMAGES))
    boxes, scores = files("a.jpg", SIZE)
    np.testing.assert_array_equal(boxes, [[0, 0, 40, 30], [1, 2, 11, 12]])
    np.testing.assert_allclose(scores, [0.9, 0.5])
    assert boxes.dtype == scores.dtype == np.float32
    assert len(files("b.jpg", SIZE)[0]) == 1


@pytest.mark.parametrize(
    ("order", "origin", "row"),
    [
        ("xyxy", 0, (2, 3, 12, 9)),
        ("xyxy", 1, (3, 4, 12, 9)),
        ("xywh", 0, (2, 3, 10, 6)),
        ("xywh", 1, (3, 4, 10, 6)),
        ("yxyx", 1, (4, 3, 9, 12)),
    ],
)
def test_orders_and_origins_say_the_same_box(tmp_path, order, origin, row):
    path = write(tmp_path, "npy", {"a.jpg": np.array([row], np.int32)})
    boxes, _ = ProposalFiles(settings(path, order=order, origin=origin), ["a.jpg"])("a.jpg", SIZE)
    np.testing.assert_array_equal(boxes, [[2, 3, 12, 9]])


def test_boxes_without_scores_keep_their_order(tmp_path):
    path = write(tmp_path, "npz", {"a.jpg": IMAGES["a.jpg"][:, :4]})
    boxes, _ = ProposalFiles(settings(path, number=2), ["a.jpg"])("a.jpg", SIZE)
    np.testing.assert_array_equal(boxes, IMAGES["a.jpg"][:2, :4])


def test_images_must_be_those_with_phrases(tmp_path, capsys):
    path = write(tmp_path, "npz")
    with pytest.raises(WorkbenchError, match=r"no boxes of 1 images: c\.jpg"):
        ProposalFiles(settings(path), [*IMAGES, "c.jpg"])
    assert "1 images without phrases: b.jpg" in refusal(ProposalFiles, settings(path), ["a.jpg"])
    ProposalFiles(settings(path, other_images="skip"), ["a.jpg"])
    assert "left out: proposals of 1 images without phrases" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([[5.0, 5, 5, 9]], "1 of 1 boxes without area"),
        ([[0.0, 0, 42, 9]], "outside its 40 x 30 pixels"),
        ([[np.nan, 0, 4, 9]], "values that are not finite"),
        ([[0.0, 0, 4]], "expected are rows of four numbers"),
        ([["a", "b", "c", "d"]], "expected are rows of four numbers"),
    ],
)
def test_boxes_that_cannot_be_of_their_image_are_refused(tmp_path, array, message):
    path = write(tmp_path, "npz", {"a.jpg": np.asarray(array)})
    with pytest.raises(WorkbenchError, match=message):
        ProposalFiles(settings(path), ["a.jpg"])("a.jpg", SIZE)


@pytest.mark.parametrize("kind", ["npy", "text", "mat", "npz", "h5", "txt", "all.mat"])
def test_damaged_files_are_plain_errors(tmp_path, kind):
    path = write(tmp_path, kind)
    file = sorted(path.iterdir())[0] if path.is_dir() else path
    file.write_bytes(file.read_bytes()[:20] + b"\0" * 30)
    with pytest.raises(WorkbenchError, match=file.name):
        ProposalFiles(settings(path, other_images="skip"), ["a.jpg"])("a.jpg", SIZE)


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_unknown_type_of_data_does_not_end_the_process(tmp_path, is_packed):
    path, values = tmp_path / "all.mat", {"images": cells(["a"]), "boxes": cells([np.eye(5)])}
    savemat(path, values)
    ProposalFiles(settings(path), ["a.jpg"])
    content = path.read_bytes()
    changed = content[128:].replace(b"\x09\0\0\0\xc8", b"\x09\x09\0\0\xc8")
    assert changed != content[128:]
    if is_packed:
        packed = zlib.compress(changed)
        changed = struct.pack("<II", 15, len(packed)) + packed
    path.write_bytes(content[:128] + changed)
    assert "data of the type 2313" in refusal(ProposalFiles, settings(path), ["a.jpg"])


def test_a_page_in_the_place_of_a_mat_file_is_named(tmp_path):
    path = tmp_path / "all.mat"
    path.write_text("<!doctype html><html>quota exceeded</html>")
    assert refusal(ProposalFiles, settings(path), ["a.jpg"]).startswith(f"{path}: a page of HTML\n")


def test_an_archive_of_an_unknown_version_is_a_plain_error(tmp_path):
    path = write(tmp_path, "npz")
    content = path.read_bytes()
    start = content.index(b"PK\1\2") + 6  # the version needed to read the first member
    path.write_bytes(content[:start] + b"\x80" + content[start + 1 :])
    with pytest.raises(WorkbenchError, match=r"all\.npz: damaged.*version 12\.8"):
        ProposalFiles(settings(path), list(IMAGES))
