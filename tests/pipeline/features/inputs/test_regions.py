"""Regions as models get them: positions as shares, counts, moments without padding."""

from pathlib import Path

import numpy as np
import pytest
import torch
from region_cases import WIDTH, sample, world

from pipeline.features import data as inputs_data
from pipeline.features.data import ImageRegions
from pipeline.features.feature_file import write_features
from pipeline.features.regions.boxes import names_of
from pipeline.features.regions.file import pad_regions
from pipeline.runtime.errors import WorkbenchError


def write(path: Path, folder: Path, change=lambda arrays: None, **attributes):
    images = world(folder)
    regions = sample(images)
    arrays = pad_regions(regions, 4, WIDTH)
    arrays["features"] = arrays["features"].astype(np.float16)
    change(arrays)
    write_features(path, images["image_id"].tolist(), arrays, {"model": "m"} | attributes)
    return images, regions


def test_positions_and_counts_follow_from_boxes_in_pixels(tmp_path: Path) -> None:
    images, regions = write(tmp_path / "r.h5", tmp_path / "images")
    ids = images["image_id"].tolist()
    source = ImageRegions(tmp_path / "r.h5").source(ids[::-1])
    batch = source(np.array([2, 0, 2]))
    assert len(batch.counts) == 3
    assert batch.features.dtype == batch.positions.dtype == torch.float32
    for place, row in enumerate([-3, -1, -3]):
        one, count = regions[row], len(regions[row].features)
        assert batch.counts[place] == count
        np.testing.assert_array_equal(batch.features[place, :count], one.features)
        assert not batch.features[place, count:].any()
        assert not batch.positions[place, count:].any()
        width, height = one.size
        for region, (x1, y1, x2, y2) in enumerate(one.boxes.tolist()):
            expected = [(x2 - x1) / width, (y2 - y1) / height]
            expected += [(x1 + x2) / 2 / width, (y1 + y2) / 2 / height]
            np.testing.assert_allclose(batch.positions[place, region], expected, rtol=1e-5)


def test_moments_are_those_of_all_real_regions(tmp_path: Path, monkeypatch) -> None:
    images, regions = write(tmp_path / "r.h5", tmp_path / "images")
    source = ImageRegions(tmp_path / "r.h5").source(images["image_id"].tolist())
    every = np.concatenate([one.features for one in regions]).astype(np.float64)
    for block in (3, 100):
        monkeypatch.setattr(inputs_data, "REGION_BLOCK", block)
        mean, deviation = source.moments()
        np.testing.assert_allclose(mean, every.mean(0), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(deviation, every.std(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: arrays.pop("sizes"), "no sizes"),
    ],
)
def test_what_is_no_file_of_regions_is_refused(tmp_path: Path, change, words: str) -> None:
    write(tmp_path / "r.h5", tmp_path / "images", change)
    with pytest.raises(WorkbenchError, match=words):
        ImageRegions(tmp_path / "r.h5")


def test_names_are_those_of_the_attribute(tmp_path: Path) -> None:
    write(tmp_path / "r.h5", tmp_path / "images", object_names='["cat", "dog"]')
    file = ImageRegions(tmp_path / "r.h5").file
    assert names_of(file, "object_names") == ["cat", "dog"]
    assert names_of(file, "attribute_names") == []
