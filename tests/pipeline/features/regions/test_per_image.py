"""Arrays of their own for each image, in HDF5 and in folders, with boxes and without."""

import json

import h5py
import numpy as np
import pytest
from commands import refusal
from region_cases import WIDTH, sample, world

from pipeline.features.arrays.per_image import images_of_folder, images_of_hdf5
from pipeline.features.regions.params import RegionsConfig
from pipeline.features.regions.per_image import PerImageRegions
from pipeline.features.regions.source import ImportCorpus, import_job, imported_slots
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture
def case(tmp_path):
    """Images with MS-COCO's names, their regions and their numbers."""
    images = world(tmp_path / "images")
    numbers = range(10, 10 + len(images))
    names = [f"val2014/COCO_val2014_{number:012}.jpg" for number in numbers]
    return images.assign(image_id=names), sample(images), [str(number) for number in numbers]


def write(path, regions, names, layout="{}_{}", boxes=True, **spoilt):
    """layout: of a name and a kind; spoilt: values by the name of their dataset."""
    with h5py.File(path, "w") as file:
        for name, one in zip(names, regions, strict=True):
            file[layout.format(name, "features")] = one.features
            if boxes:
                file[layout.format(name, "boxes")] = one.boxes
                file[layout.format(name, "cls_prob")] = np.ones((len(one.boxes), 3))
        for name, values in spoilt.items():
            del file[name]
            if values is not None:
                file[name] = values


def source_of(path, images):
    read = images_of_folder if path.is_dir() else images_of_hdf5
    return PerImageRegions([path], read, ImportCorpus(images))


def check(path, images, regions, boxes=True):
    source = source_of(path, images)
    assert (source.width, source.has_boxes) == (WIDTH, boxes)
    assert source.most == max(len(one.features) for one in regions)
    for row, one in enumerate(regions):
        found = source.read(row)
        assert found.features.tobytes() == one.features.tobytes()
        np.testing.assert_allclose(found.boxes, one.boxes if boxes else 0, rtol=1e-5)


@pytest.mark.parametrize("layout", ["{}_{}", "{}/{}"])
@pytest.mark.parametrize("boxes", [True, False])
def test_datasets_or_groups_of_each_image(tmp_path, case, layout, boxes):
    images, regions, numbers = case
    write(tmp_path / "r.hdf5", regions[::-1], numbers[::-1], layout, boxes)
    check(tmp_path / "r.hdf5", images, regions, boxes)


@pytest.mark.parametrize("named", ["whole", "stem"])
def test_one_dataset_under_the_name_of_its_image(tmp_path, case, named):
    images, regions, _ = case
    names = images["image_id"].tolist()
    if named == "stem":
        names = [name.rpartition("/")[2].removesuffix(".jpg") for name in names]
    write(tmp_path / "r.hdf5", regions, names, "{}", boxes=False)
    check(tmp_path / "r.hdf5", images, regions, boxes=False)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_a_folder_with_a_file_for_each_image(tmp_path, case, ending):
    images, regions, numbers = case
    (tmp_path / "att").mkdir()
    for number, one in zip(numbers, regions, strict=True):
        if ending == ".npy":
            np.save(tmp_path / f"att/{number}.npy", one.features)
        else:
            np.savez(tmp_path / f"att/{number}.npz", feat=one.features, bbox=one.boxes)
    check(tmp_path / "att", images, regions, boxes=ending == ".npz")
    settings = RegionsConfig(source="scan_npy", path=str(tmp_path / "att"), boxes="adaptive", min=1)
    assert import_job(settings, images, None).datasets["features"][0][1] == WIDTH
    np.save(tmp_path / "att/10.npy", np.ones(WIDTH, np.float32))
    with pytest.raises(WorkbenchError, match=r"10.np.: shape \(5,\); expected are|more than once"):
        source_of(tmp_path / "att", images)


def test_boxes_that_are_shares_of_the_image_are_told_and_said(tmp_path, case, capsys):
    images, regions, numbers = case
    write(tmp_path / "r.hdf5", regions, numbers)
    with h5py.File(tmp_path / "r.hdf5", "r+") as file:
        for number, one in zip(numbers, regions, strict=True):
            file[f"{number}_boxes"][:] = one.boxes / np.tile(np.float32(one.size), 2)
    check(tmp_path / "r.hdf5", images, regions)
    assert "boxes are shares of the image's sides" in capsys.readouterr().err


def test_the_source_butd_h5_reads_them(tmp_path, case):
    images, regions, numbers = case
    write(tmp_path / "r.hdf5", regions, numbers)
    settings = RegionsConfig(
        source="butd_h5", path=str(tmp_path / "r.hdf5"), boxes="adaptive", min=1
    )
    job = import_job(settings, images, None)
    slots = max(len(one.features) for one in regions)
    assert job.datasets["features"] == ((slots, WIDTH), "float16")
    assert job.attributes["has_boxes"] == 1
    assert json.loads(job.attributes["object_names"]) == []


FAULTS = {
    "count": ({"11_boxes": np.ones((9, 4))}, r"array 11_boxes: shape \(9, 4\); .*11_features has"),
    "none": ({"11_boxes": None}, "array 11_features: no boxes beside it, unlike"),
    "width": ({"11_features": np.ones((2, 9)), "11_boxes": np.ones((2, 4))}, r"width 9; .* has 5"),
    "flat": ({"11_features": np.ones(5)}, r"11_features: shape \(5,\); expected are regions"),
    "whole": ({"11_features": np.ones((2, 5), int)}, r"11_features: values of type int64"),
    "link": (
        {"11_features": h5py.ExternalLink("/etc/passwd", "x")},
        r"without a row \(1\): val2014",
    ),
    "empty": ({"11_features": np.ones((0, 5))}, "'11_features' is empty"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(tmp_path, case, fault):
    images, regions, numbers = case
    spoilt, words = FAULTS[fault]
    write(tmp_path / "r.hdf5", regions, numbers, **spoilt)
    with pytest.raises(WorkbenchError, match=words) as error:
        source_of(tmp_path / "r.hdf5", images)
    assert "r.hdf5" in error.value.message


def test_groups_that_hold_themselves_end(tmp_path, case):
    images, regions, numbers = case
    write(tmp_path / "r.hdf5", regions, numbers)
    with h5py.File(tmp_path / "r.hdf5", "r+") as file:
        file["again"] = file["/"]
    check(tmp_path / "r.hdf5", images, regions)


def test_a_file_of_other_things_says_what_it_has(tmp_path, case):
    with h5py.File(tmp_path / "r.hdf5", "w") as file:
        file["17_boxes"] = np.ones((2, 4))
    with pytest.raises(
        WorkbenchError, match=r"no arrays of images, .*17_features.* it has 17_boxes"
    ):
        source_of(tmp_path / "r.hdf5", case[0])


EXCHANGED = "if these are 3 regions of 20 values, save it with its last two axes exchanged"


@pytest.mark.parametrize("boxes", [5, "adaptive"])
def test_more_rows_than_columns_are_told(tmp_path, case, capsys, boxes):
    images, _, numbers = case
    (tmp_path / "att").mkdir()
    for number in numbers:
        np.save(tmp_path / f"att/{number}.npy", np.ones((20, 3), np.float32))
    source = source_of(tmp_path / "att", images)
    if boxes == "adaptive":
        assert imported_slots(source, boxes, 100) == 20
        said = capsys.readouterr().err
        assert f"10.npy has 20 regions; an array has a row for each region: {EXCHANGED}" in said
    else:
        said = refusal(imported_slots, source, boxes, 100)
        assert "has 20 regions; regions.boxes = 5" in said
        assert f"{EXCHANGED}; otherwise set regions.boxes to 20 or more" in said


def test_boxes_tell_which_axis_is_that_of_the_regions(tmp_path, case, capsys):
    images, _, numbers = case
    (tmp_path / "att").mkdir()
    for number in numbers:
        features, boxes = np.ones((20, 3), np.float32), np.ones((20, 4), np.float32)
        np.savez(tmp_path / f"att/{number}.npz", feat=features, bbox=boxes)
    assert imported_slots(source_of(tmp_path / "att", images), "adaptive", 100) == 20
    assert "exchanged" not in capsys.readouterr().err


def test_more_regions_than_there_may_be(tmp_path, case):
    images, _, numbers = case
    (tmp_path / "att").mkdir()
    np.save(tmp_path / f"att/{numbers[0]}.npy", np.ones((2048, 36), np.float32))
    said = refusal(source_of, tmp_path / "att", images)
    assert "2,048 boxes; allowed are at most 1,000" in said
    assert "if these are 36 regions of 2,048 values" in said
