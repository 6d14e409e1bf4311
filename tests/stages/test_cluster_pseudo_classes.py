"""cluster_pseudo_classes from params.yaml to its file: groups, clusters and plain errors."""

import numpy as np
import pytest
from commands import invoke
from pretended_cuda import on_pretended_gpu
from tiny_inputs import IMAGES, PATHS, write_image_features, write_inputs, write_params

from models.dual_path.classes import read_pseudo_classes
from pipeline.corpus.tables import in_split, load_images
from pipeline.features.feature_file import FeatureFile
from stages.cluster_pseudo_classes import main

OPTIONS = ["--images", PATHS["images"], "--features", PATHS["features"], "--output", "p.h5"]
KMEANS = {"source": "kmeans", "k": 5}


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


def run(folder, **changes):
    """(exit code, what was printed); changes: keys of the section `pseudo_classes`."""
    write_params(folder, **{f"pseudo_classes__{key}": value for key, value in changes.items()})
    return invoke(main, folder, *OPTIONS)


def made(folder, **changes):
    code, printed = run(folder, **changes)
    assert code == 0, printed
    return read_pseudo_classes(folder / "p.h5"), printed


def train(folder):
    return in_split(load_images(folder / PATHS["images"]), "train")


def test_a_class_per_image(folder):
    found, printed = made(folder, source="instance")
    assert found.image_ids == train(folder)["image_id"].tolist()
    assert found.classes.tolist() == list(range(IMAGES["train"]))
    assert "(instance): 24 training images in 24 classes of 1 to 1, median 1" in printed


def test_a_class_per_cluster(folder):
    found, printed = made(folder, **KMEANS)
    assert found.image_ids == train(folder)["image_id"].tolist()
    assert len(found) == 5
    file = FeatureFile(folder / PATHS["features"])
    points = file.read(file.rows(found.image_ids)).astype(np.float32)
    distances = ((points[:, None] - found.centres[None]) ** 2).sum(2)
    assert found.classes.tolist() == distances.argmin(1).tolist()
    assert found.attributes["inertia"] == pytest.approx(distances.min(1).sum(), rel=1e-5)
    assert "k-means: converged after" in printed
    with on_pretended_gpu(folder):
        assert invoke(main, folder, *OPTIONS)[0] == 0
    there = read_pseudo_classes(folder / "p.h5")
    assert there.classes.tolist() == found.classes.tolist()
    np.testing.assert_allclose(there.centres, found.centres, atol=1e-5)


def test_the_seed_changes_what_is_drawn(folder):
    first, _ = made(folder, **KMEANS)
    content = (folder / "p.h5").read_bytes()
    made(folder, **KMEANS)
    assert (folder / "p.h5").read_bytes() == content
    write_params(folder, seed=1, **{f"pseudo_classes__{k}": v for k, v in KMEANS.items()})
    assert invoke(main, folder, *OPTIONS)[0] == 0
    other = read_pseudo_classes(folder / "p.h5")
    assert not np.array_equal(first.centres, other.centres)


def test_fewer_vectors_or_images_than_clusters(folder):
    code, message = run(folder, **KMEANS | {"k": 25})
    assert code == 1
    assert "error: pseudo_classes.k = 25, but there are 24 training images" in message
    assert not (folder / "p.h5").exists()
    ids = load_images(folder / PATHS["images"])["image_id"].tolist()
    write_image_features(folder, ids, np.eye(3, dtype=np.float16)[np.arange(len(ids)) % 3])
    found, printed = made(folder, **KMEANS)
    assert found.sizes.tolist() == [8, 8, 8]
    assert "in 3 classes of 8 to 8" in printed
    assert "2 of 5 stay empty: 3 vectors differ" in printed
    ended = found.attributes
    assert (ended["clusters"], ended["empty"], ended["distinct_vectors"]) == (5, 2, 3)
