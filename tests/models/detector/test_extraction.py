"""The file of regions: rows as detector and selection give them."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from region_cases import WIDTH, Detector, world

from models.backbone.extraction import fill
from models.backbone.preprocessing import PictureBatch
from models.detector.extraction import regions_of
from models.detector.selection import select_regions
from pipeline.features.feature_file import FeatureFile, FeatureWriter
from pipeline.features.regions.file import pad_regions, region_datasets

SLOTS, DETECT = 5, Detector().regions
select = partial(select_regions, minimum=2, maximum=SLOTS, threshold=0.5)


def run(images, folder: Path, detect=DETECT) -> FeatureFile:
    ids, datasets = images["image_id"].tolist(), region_datasets(SLOTS, WIDTH)

    def compute(batch: PictureBatch) -> dict[str, np.ndarray]:
        regions = regions_of(batch.pictures, detect, select, torch.device("cpu"))
        return pad_regions(regions, SLOTS, WIDTH)

    with FeatureWriter(folder / "work", "f", ids, datasets, {}) as writer:
        fill(images, writer, compute, batch_size=4, workers=0, section="regions")
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
        best, objects = output.object_scores[kept, 1:].max(1)
        clear, attributes = output.attribute_scores[kept].max(1)
        expected = {"objects": objects, "confidences": best, "attributes": attributes}
        expected |= {"attribute_confidences": clear, "boxes": output.boxes[kept]}
        expected |= {"features": output.features[kept].half()}
        for name, values in expected.items():
            stored = file.read([row], name)[0]
            np.testing.assert_array_equal(stored[:count], values)
            padding = -1 if name in ("objects", "attributes") else 0
            assert (stored[count:] == padding).all()
        assert file.read([row], "sizes")[0].tolist() == [pixels.shape[2], pixels.shape[1]]


def test_a_detector_without_attributes(tmp_path: Path) -> None:
    images = world(tmp_path / "images")

    def plain(pictures):
        found = Detector().regions(pictures)
        return [output._replace(attribute_scores=torch.empty(6, 0)) for output in found]

    file = run(images, tmp_path, detect=plain)
    assert (file.load("attributes") == -1).all()
    assert not file.load("attribute_confidences").any()
