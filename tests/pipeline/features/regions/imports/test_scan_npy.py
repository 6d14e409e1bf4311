"""SCAN's arrays: rows found by id or by order, repeated or not; nothing is taken on trust."""

from pathlib import Path

import numpy as np
import pytest
from region_cases import WIDTH, captions_of, sample, world

from pipeline.features.arrays.npy import mapped_npy
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.regions.export import export_scan, export_tsv
from pipeline.features.regions.file import pad_regions
from pipeline.features.regions.imports.scan_npy import ScanRegions
from pipeline.features.regions.source import ImportCorpus
from pipeline.runtime.errors import WorkbenchError

SLOTS = 4


@pytest.fixture
def case(tmp_path: Path):
    images = world(tmp_path / "images")
    regions = sample(images)
    arrays = pad_regions(regions, SLOTS, WIDTH)
    arrays["features"] = arrays["features"].astype(np.float16)
    write_features(tmp_path / "r.h5", images["image_id"].tolist(), arrays, {"has_boxes": 1})
    return images, regions, FeatureFile(tmp_path / "r.h5")


def exported(case, folder: Path, per_image: int | None = 5):
    images, _, file = case
    captions = captions_of(images, per_image)
    export_scan(file, images, captions, folder)
    return captions


def check(images, regions, folder: Path, captions=None) -> None:
    source = ScanRegions(folder, ImportCorpus(images, captions))
    assert (source.most, source.width, source.has_boxes) == (SLOTS, WIDTH, False)
    for row, one in enumerate(regions):
        found = source.read(row)
        assert found.size == one.size
        assert found.features.tobytes() == one.features.tobytes()
        assert not found.boxes.any()


@pytest.mark.parametrize("per_image", [5, 2, None])
def test_what_is_exported_is_imported_bit_for_bit(tmp_path: Path, case, per_image) -> None:
    images, regions, _ = case
    captions = exported(case, tmp_path / "scan", per_image)
    for prefix, split in (("train", "train"), ("dev", "val"), ("test", "test")):
        lines = (tmp_path / f"scan/{prefix}_caps.txt").read_text().splitlines()
        words = captions[captions["split"] == split]["tokens"]
        assert lines == [" ".join(tokens) for tokens in words]
        array = np.load(tmp_path / f"scan/{prefix}_ims.npy", allow_pickle=False)
        assert array.dtype == np.float32
        # SCAN: image = caption // 5 when the counts differ, else row = caption
        assert len(array) == (len(lines) // 5 if per_image == 5 else len(lines))
    check(images, regions, tmp_path / "scan")


@pytest.mark.parametrize("per_image", [5, 2])
def test_without_ids_the_captions_say_which_image_it_is(tmp_path: Path, case, per_image) -> None:
    images, regions, _ = case
    captions = exported(case, tmp_path / "scan", per_image)
    for path in (tmp_path / "scan").glob("*_ids.txt"):
        path.unlink()
    check(images, regions, tmp_path / "scan", captions)
    with pytest.raises(WorkbenchError, match="nothing says which images these are"):
        ScanRegions(tmp_path / "scan", ImportCorpus(images))
    lines = (tmp_path / "scan/dev_caps.txt").read_text().splitlines(keepends=True)
    (tmp_path / "scan/dev_caps.txt").write_text("".join([lines[-1], *lines[1:-1], lines[0]]))
    with pytest.raises(WorkbenchError, match=r"dev_caps\.txt, line 1: not caption 1 of val0\.png"):
        ScanRegions(tmp_path / "scan", ImportCorpus(images, captions))


def test_unknown_ids_give_way_to_captions_in_the_order_of_the_corpus(tmp_path, case, capsys):
    images, regions, _ = case
    captions = exported(case, tmp_path / "scan")
    for path in (tmp_path / "scan").glob("*_ids.txt"):
        count = len(path.read_text().splitlines())
        path.write_text("".join(f"{100 + row}\n" for row in range(count)))
    check(images, regions, tmp_path / "scan", captions)
    assert "train_ids.txt: unknown ids; the captions are those of" in capsys.readouterr().err
    with pytest.raises(WorkbenchError, match=r"train_ids.txt: ids of the corpus without a row"):
        ScanRegions(tmp_path / "scan", ImportCorpus(images))


def test_captions_in_other_letters_are_compared_too(tmp_path: Path, case) -> None:
    images, regions, _ = case
    captions = exported(case, tmp_path / "scan")
    for path in (tmp_path / "scan").glob("*_ids.txt"):
        path.unlink()
    for path in (tmp_path / "scan").glob("*_caps.txt"):
        lines = path.read_text().splitlines()
        path.write_text("".join(f"кот {line.split()[1][5:]} {line.split()[2]}\n" for line in lines))
    texts = [f"Кот {words[1][5:]}, {words[2]} ." for words in captions["tokens"]]
    tokens = [["кот", words[1][5:], words[2]] for words in captions["tokens"]]
    check(images, regions, tmp_path / "scan", captions.assign(text=texts, tokens=tokens))
    other = [text.replace("Кот", "Пёс") for text in texts]
    with pytest.raises(WorkbenchError, match="nothing says which images"):
        check(images, regions, tmp_path / "scan", captions.assign(text=other, tokens=[[]] * 60))


def test_ids_may_be_given_for_each_caption(tmp_path: Path, case) -> None:
    images, regions, _ = case
    exported(case, tmp_path / "scan")
    for path in (tmp_path / "scan").glob("*_ids.txt"):
        path.write_text("".join(line * 5 for line in path.read_text().splitlines(keepends=True)))
    check(images, regions, tmp_path / "scan")
    lines = (tmp_path / "scan/test_ids.txt").read_text().splitlines(keepends=True)
    lines[2] = "test1.png\n"
    (tmp_path / "scan/test_ids.txt").write_text("".join(lines))
    with pytest.raises(WorkbenchError, match=r"test_ids\.txt: 20 ids for 4 rows"):
        ScanRegions(tmp_path / "scan", ImportCorpus(images))


def test_rows_of_one_image_must_be_equal(tmp_path: Path, case) -> None:
    images, _, _ = case
    exported(case, tmp_path / "scan", 2)
    array = np.load(tmp_path / "scan/dev_ims.npy")
    array[3, 0, 0] += 1
    array[4, 1] = np.nan
    np.save(tmp_path / "scan/dev_ims.npy", array)
    source = ScanRegions(tmp_path / "scan", ImportCorpus(images))
    with pytest.raises(WorkbenchError, match=r"dev_ims\.npy: rows 2 and 3 differ.*val1\.png"):
        source.read(images["image_id"].tolist().index("val1.png"))
    with pytest.raises(WorkbenchError, match=r"dev_ims\.npy, row 4: NaN.*region 1"):
        source.read(images["image_id"].tolist().index("val2.png"))


def test_splits_of_other_widths_and_missing_splits(tmp_path: Path, case) -> None:
    exported(case, tmp_path / "scan")
    array = np.load(tmp_path / "scan/test_ims.npy")
    np.save(tmp_path / "scan/test_ims.npy", array[..., :2])
    with pytest.raises(WorkbenchError, match=r"test_ims\.npy: features of width 2"):
        ScanRegions(tmp_path / "scan", ImportCorpus(case[0]))
    (tmp_path / "scan/dev_ims.npy").unlink()
    with pytest.raises(WorkbenchError, match=r"no dev_ims\.npy"):
        ScanRegions(tmp_path / "scan", ImportCorpus(case[0]))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("objects", "pickled objects"),
        ("integers", "values of type int64"),
        ("flat", "expected are 3 dimensions"),
    ],
)
def test_other_arrays_are_refused_unread(tmp_path: Path, kind: str, words: str) -> None:
    path, values = tmp_path / "a.npy", np.ones((2, 3, 4), np.float32)
    made = {
        "objects": np.array([[[{}]]], dtype=object),
        "integers": values.astype(np.int64),
        "flat": values[0],
    }
    np.save(path, made[kind], allow_pickle=True)
    with pytest.raises(WorkbenchError, match=words):
        mapped_npy(path, 3)


def test_tsv_needs_boxes(tmp_path: Path, case) -> None:
    images, regions, _ = case
    arrays = pad_regions(regions, SLOTS, WIDTH)
    write_features(tmp_path / "b.h5", images["image_id"].tolist(), arrays, {"has_boxes": 0})
    with pytest.raises(WorkbenchError, match="no boxes"):
        export_tsv(FeatureFile(tmp_path / "b.h5"), tmp_path)
