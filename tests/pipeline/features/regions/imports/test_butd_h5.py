"""HDF5 files of bottom-up-attention-vqa, fixed and end to end; ids from text or JSON, no pickle."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from region_cases import WIDTH, sample, world

from pipeline.features.regions.imports.butd_h5 import ButdRegions
from pipeline.features.regions.source import ImportCorpus
from pipeline.runtime.errors import WorkbenchError


def spatial(one):
    """Corners and sides as shares of the image, as the converters write them."""
    boxes = one.boxes / np.tile(np.float32(one.size), 2)
    return np.concatenate([boxes, boxes[:, 2:] - boxes[:, :2]], 1).astype(np.float32)


def write(path: Path, regions, names, flat: bool = True, shares: bool = True, change=None) -> None:
    """One file and its ids; change: spoils the datasets."""
    join = np.concatenate if flat else np.stack
    data = {
        "image_features": join([one.features for one in regions]),
        "image_bb": join([one.boxes for one in regions]),
    }
    if shares:
        data["spatial_features"] = join([spatial(one) for one in regions])
    if flat:
        ends = np.cumsum([len(one.features) for one in regions])
        data["pos_boxes"] = np.stack([np.r_[0, ends[:-1]], ends], 1)
    if change:
        change(data)
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            file[name] = values
    path.with_name(f"{path.stem}_ids.txt").write_text("".join(f"{name}\n" for name in names))


@pytest.fixture
def case(tmp_path: Path):
    images = world(tmp_path / "images")
    return images, sample(images), [name[:-4] for name in images["image_id"]]


def check(images, regions, path: Path) -> None:
    source = ButdRegions(path, ImportCorpus(images))
    assert source.width == WIDTH
    assert source.most == max(len(one.features) for one in regions)
    for row, one in enumerate(regions):
        found = source.read(row)
        assert found.size == one.size
        assert found.features.tobytes() == one.features.tobytes()
        assert found.boxes.tobytes() == one.boxes.tobytes()


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_both_layouts_are_read_bit_for_bit(tmp_path: Path, case, flat: bool, shares: bool) -> None:
    images, regions, names = case
    regions = regions if flat else sample(images, 1)
    write(tmp_path / "r.hdf5", regions[::-1], names[::-1], flat, shares)
    check(images, regions, tmp_path / "r.hdf5")


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_boxes_that_are_shares_of_the_image(tmp_path: Path, case, capsys, flat, shares) -> None:
    images, regions, names = case
    regions = regions if flat else sample(images, 1)

    def divide(data):
        sizes = np.concatenate([np.tile(one.size, (len(one.boxes), 2)) for one in regions])
        data["image_bb"] /= sizes.reshape(data["image_bb"].shape).astype(np.float32)

    write(tmp_path / "r.hdf5", regions, names, flat, shares, divide)
    source = ButdRegions(tmp_path / "r.hdf5", ImportCorpus(images))
    for row, one in enumerate(regions):
        found = source.read(row)
        assert found.size == one.size
        np.testing.assert_allclose(found.boxes, one.boxes, rtol=1e-5)
    assert "r.hdf5: no corner of a box exceeds 1, so boxes are shares" in capsys.readouterr().err
    unknown = ButdRegions(tmp_path / "r.hdf5", ImportCorpus(images.assign(width=0, height=0)))
    with pytest.raises(WorkbenchError, match="nothing says the size of the image"):
        unknown.read(0)


def test_several_files_and_ids_as_json(tmp_path: Path, case) -> None:
    images, regions, names = case
    folder = tmp_path / "h5"
    folder.mkdir()
    write(folder / "a.hdf5", regions[:5], names[:5])
    write(folder / "b.h5", regions[5:], names[5:])
    (folder / "a_ids.txt").unlink()
    (folder / "a_ids.json").write_text(json.dumps(names[:5]))
    (folder / "b_ids.txt").unlink()
    index = {name: row for row, name in enumerate(names[5:])}
    (folder / "b_imgid2idx.json").write_text(json.dumps(dict(sorted(index.items())[::-1])))
    check(images, regions, folder)


def test_the_size_comes_from_the_shares(tmp_path: Path, case) -> None:
    images, regions, names = case
    write(tmp_path / "r.hdf5", regions, names)
    check(images.assign(width=7, height=7), regions, tmp_path / "r.hdf5")
    write(tmp_path / "s.hdf5", regions, names, shares=False)
    source = ButdRegions(tmp_path / "s.hdf5", ImportCorpus(images.assign(width=7)))
    with pytest.raises(WorkbenchError, match=r"s\.hdf5, row 0 .*train0.*inside the image of 7 x"):
        source.read(0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(image_bb=data["image_bb"][:-1]), "does not fit image_features"),
        (lambda data: data.update(pos_boxes=data["pos_boxes"] + 1), "pos_boxes, row 11"),
        (lambda data: data.pop("pos_boxes"), "no array 'pos_boxes'"),
        (lambda data: data.update(image_bb=data["image_bb"].astype(int)), "of type int64"),
        (lambda data: data.update(image_features=h5py.ExternalLink("x", "y")), "link to elsewhere"),
        (
            lambda data: data.update(spatial_features=data["spatial_features"][::-1]),
            "not the corners of image_bb",
        ),
        (
            lambda data: data.update(image_features=data["image_features"] * np.nan),
            "NaN or infinite features in region 0",
        ),
    ],
)
def test_faults_are_named(tmp_path: Path, case, change, words: str) -> None:
    images, regions, names = case
    write(tmp_path / "r.hdf5", regions, names, change=change)
    with pytest.raises(WorkbenchError, match=words) as error:
        ButdRegions(tmp_path / "r.hdf5", ImportCorpus(images)).read(0)
    assert "r.hdf5" in error.value.message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("r_ids.txt", "train0\n", "1 ids for 12 rows"),
        ("r_ids.json", '{"a": 0}', "not a list of ids"),
        ("r_imgid2idx.json", '{"train0": 0}', "not a mapping of ids to the rows 0 to 11"),
        ("r_imgid2idx.pkl", "pickle", "no ids: looked for r_ids.txt"),
    ],
)
def test_ids_that_do_not_fit(tmp_path: Path, case, name: str, text: str, words: str) -> None:
    images, regions, names = case
    write(tmp_path / "r.hdf5", regions, names)
    (tmp_path / "r_ids.txt").unlink()
    (tmp_path / name).write_text(text)
    with pytest.raises(WorkbenchError, match=words):
        ButdRegions(tmp_path / "r.hdf5", ImportCorpus(images))


def test_what_is_no_hdf5_is_said_plainly(tmp_path: Path, case) -> None:
    (tmp_path / "r.hdf5").write_text("hello")
    for path, words in (("r.hdf5", "not an HDF5 file"), ("images", "no file and no folder")):
        with pytest.raises(WorkbenchError, match=words):
            ButdRegions(tmp_path / path, ImportCorpus(case[0]))


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_ids_inside_the_file(tmp_path: Path, case, kind) -> None:
    images, regions, names = case
    if kind == "numbers":
        images = images.assign(image_id=[f"{number}.png" for number in range(len(images))])
        names = list(range(len(images)))
    values = np.array(names, "S") if kind == "texts" else np.array(names)
    write(tmp_path / "r.hdf5", regions, names, change=lambda data: data.update(image_ids=values))
    (tmp_path / "r_ids.txt").unlink()
    check(images, regions, tmp_path / "r.hdf5")


def padded(regions, slots: int):
    """Regions with rows of zeros behind them."""
    return [
        replace(
            one,
            features=np.pad(one.features, ((0, slots - len(one.features)), (0, 0))),
            boxes=np.pad(one.boxes, ((0, slots - len(one.boxes)), (0, 0))),
        )
        for one in regions
    ]


def test_rows_of_zeros_at_the_end_are_padding(tmp_path: Path, case) -> None:
    images, regions, names = case
    slots = max(len(one.features) for one in regions) + 2
    write(tmp_path / "r.h5", padded(regions, slots), names, flat=False)
    source = ButdRegions(tmp_path / "r.h5", ImportCorpus(images))
    for row, one in enumerate(regions):
        assert source.read(row).features.tobytes() == one.features.tobytes()
        assert source.read(row).boxes.tobytes() == one.boxes.tobytes()


@pytest.mark.parametrize("name", ["num_boxes", "num_bbox"])
def test_a_list_says_how_many_regions_count(tmp_path: Path, case, name) -> None:
    images, regions, names = case
    slots = max(len(one.features) for one in regions) + 2
    numbers = np.array([len(one.features) for one in regions])
    full = [  # old values behind those that count
        replace(one, features=one.features + np.float32(0.5), boxes=one.boxes)
        for one in padded(regions, slots)
    ]
    for one, count in zip(full, numbers, strict=True):
        one.boxes[count:] = one.boxes[0]

    def add(data):
        data[name] = numbers

    write(tmp_path / "r.h5", full, names, flat=False, change=add)
    source = ButdRegions(tmp_path / "r.h5", ImportCorpus(images))
    assert source.most == numbers.max()
    for row, count in enumerate(numbers):
        assert source.read(row).features.tobytes() == full[row].features[:count].tobytes()
    numbers[2] = slots + 1
    write(tmp_path / "r.h5", full, names, flat=False, change=add)
    with pytest.raises(WorkbenchError, match=f"{name}: 12 numbers of regions from"):
        ButdRegions(tmp_path / "r.h5", ImportCorpus(images))


def test_an_image_whose_regions_were_never_written_is_named(tmp_path: Path, case) -> None:
    images, regions, names = case
    regions[3] = replace(regions[3], features=regions[3].features * 0, boxes=regions[3].boxes * 0)
    write(tmp_path / "r.h5", regions, names, shares=False)
    source = ButdRegions(tmp_path / "r.h5", ImportCorpus(images))
    with pytest.raises(WorkbenchError, match=f"image_id {names[3]}.*: all .* regions are zeros"):
        source.read(3)
