"""The file of regions: rows as detector and selection give them."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from region_cases import WIDTH, Detector, world

from models.detector.extraction import extract_regions
from models.detector.selection import select_regions
from pipeline.regions.file import region_datasets
from pipeline.storage.features import FeatureFile, FeatureWriter

SLOTS, DETECT = 5, Detector().regions
select = partial(select_regions, minimum=2, maximum=SLOTS, threshold=0.5)


def run(images, folder: Path, detect=DETECT) -> FeatureFile:
    ids, datasets = images["image_id"].tolist(), region_datasets(SLOTS, WIDTH)
    options = {"batch_size": 4, "workers": 0, "device": torch.device("cpu")}
    with FeatureWriter(folder / "work", "f", ids, datasets, {}) as writer:
        extract_regions(images, detect, select, writer, **options)
        writer.finish(folder / "out.h5")
    return FeatureFile(folder / "out.h5")


def test_rows_are_the_selected_regions_and_their_likeliest_labels(tmp_path: Path) -> None:
    images = world(tmp_path / "images")
    file = run(images, tmp_path)
    assert file.ids == images["image_id"].tolist()
    counts = file.load("counts")
    assert len(set(counts.tolist())) > 1
    for row, path in enumerate(images["path"]):
        pixels = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)
        output = Detector().one(pixels)
        kept = select(output)
        count = counts[row]
        assert count == len(kept)
        for place, proposal in enumerate(kept.tolist()):
            scores = output.object_scores[proposal, 1:].tolist()
            qualities = output.attribute_scores[proposal].tolist()
            assert file.read([row], "objects")[0, place] == scores.index(max(scores))
            assert file.read([row], "confidences")[0, place] == np.float32(max(scores))
            assert file.read([row], "attributes")[0, place] == qualities.index(max(qualities))
            found = file.read([row], "attribute_confidences")[0, place]
            assert found == np.float32(max(qualities))
            np.testing.assert_array_equal(
                file.read([row], "boxes")[0, place], output.boxes[proposal]
            )
            expected = output.features[proposal].numpy().astype(np.float16)
            np.testing.assert_array_equal(file.read([row])[0, place], expected)
        for name in ("features", "boxes", "confidences", "attribute_confidences"):
            assert not file.read([row], name)[0, count:].any()
        for name in ("objects", "attributes"):
            assert (file.read([row], name)[0, count:] == -1).all()
        assert file.read([row], "sizes")[0].tolist() == [pixels.shape[2], pixels.shape[1]]


def test_a_detector_without_attributes(tmp_path: Path) -> None:
    images = world(tmp_path / "images")

    def plain(pictures):
        found = Detector().regions(pictures)
        return [output._replace(attribute_scores=torch.empty(6, 0)) for output in found]

    file = run(images, tmp_path, detect=plain)
    assert (file.load("attributes") == -1).all()
    assert not file.load("attribute_confidences").any()
