"""Pseudo classes: which class an image gets, and a file that gives back what was written."""

import numpy as np
import pandas as pd
import pytest
import torch

from models.dual_path.classes import group_classes, read_pseudo_classes, write_pseudo_classes
from models.dual_path.clusters import cluster_classes
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.runtime.errors import WorkbenchError

CPU = torch.device("cpu")


def images(groups):
    names = [f"i{number}" for number in range(len(groups))]
    return pd.DataFrame({"image_id": names, "group": groups})


def features(folder, values, ids=None):
    ids = [f"i{number}" for number in range(len(values))] if ids is None else ids
    rows = np.concatenate([np.full_like(values[:1], 9), values[::-1]])
    write_features(folder / "image.h5", ["other", *ids[::-1]], {"features": rows}, {"model": "m"})
    return FeatureFile(folder / "image.h5")


def cluster(folder, values, k, seed=0):
    file = features(folder, values)
    return cluster_classes(images(["g"] * len(values)), file, k, seed=seed, device=CPU)


def three_places(count=30):
    places = np.array([[0, 0], [50, 1], [3, 70]], np.float16)
    return places[np.arange(count) % 3]


def test_a_class_per_group_in_the_order_of_the_table():
    found = group_classes(images(["b", "a", "b", "c", "a"]))
    assert found.classes.tolist() == [0, 1, 0, 2, 1]
    assert found.sizes.tolist() == [2, 2, 1]
    assert len(found) == 3


@pytest.mark.parametrize("kind", ["groups", "clusters"])
def test_what_was_written_is_read(tmp_path, kind):
    if kind == "groups":
        found = group_classes(images(["ä", "b", "ä"]))
    else:
        found = cluster(tmp_path, three_places(), 2)
    write_pseudo_classes(tmp_path / "p.h5", found, {"params": "{}"})
    again = read_pseudo_classes(tmp_path / "p.h5")
    assert again.image_ids == found.image_ids
    np.testing.assert_array_equal(again.classes, found.classes)
    np.testing.assert_array_equal(again.sizes, found.sizes)
    assert list(again.inertia) == list(found.inertia)
    if kind == "clusters":
        np.testing.assert_array_equal(again.centres, found.centres)
    else:
        assert again.centres is None
    assert dict(again.attributes) == {**found.attributes, "params": "{}", "schema_version": 1}


def test_classes_by_id():
    found = group_classes(images(["b", "a", "c"]))
    assert found.labels_of(["i2", "i0", "i2"]).tolist() == [2, 0, 2]
    assert found.labels_of([]).dtype == np.int64
    with pytest.raises(WorkbenchError, match="no pseudo class for i9, x; there are 3 images"):
        found.labels_of(["i0", "i9", "x"])
