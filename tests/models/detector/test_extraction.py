"""The region loop: rows as detector and selection give them, for any workers and interruptions."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from region_cases import WIDTH, Detector, world

from models.detector.extraction import extract_regions
from models.detector.selection import select_regions
from pipeline.regions.file import region_datasets
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import FeatureFile, FeatureWriter

SLOTS, DETECT = 5, Detector().regions
select = partial(select_regions, minimum=2, maximum=SLOTS, threshold=0.5)


def writer_for(images, work: Path) -> FeatureWriter:
    datasets = region_datasets(SLOTS, WIDTH)
    return FeatureWriter(work, "f", images["image_id"].tolist(), datasets, {}, flush_seconds=0)


def run(images, folder: Path, workers: int = 0, detect=DETECT, chosen=select) -> bytes:
    with writer_for(images, folder / "work") as writer:
        extract_regions(
            images,
            detect,
            chosen,
            writer,
            batch_size=4,
            workers=workers,
            device=torch.device("cpu"),
        )
        writer.finish(folder / "out.h5")
    return (folder / "out.h5").read_bytes()


def test_rows_are_the_selected_regions_and_their_likeliest_labels(tmp_path: Path) -> None:
    images = world(tmp_path / "images")
    run(images, tmp_path)
    file = FeatureFile(tmp_path / "out.h5")
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

    run(images, tmp_path, detect=plain)
    file = FeatureFile(tmp_path / "out.h5")
    assert (file.load("attributes") == -1).all()
    assert not file.load("attribute_confidences").any()


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    images = world(tmp_path / "images")
    assert run(images, tmp_path / "none") == run(images, tmp_path / "one", workers=1)


@pytest.mark.parametrize("stop", [0, 2])
def test_an_interrupted_run_continues_with_the_same_bytes(tmp_path: Path, stop: int) -> None:
    images = world(tmp_path / "images")
    calls = []

    def failing(pictures):
        calls.append(len(pictures))
        if len(calls) > stop:
            raise KeyboardInterrupt
        return Detector().regions(pictures)

    with pytest.raises(KeyboardInterrupt):
        run(images, tmp_path / "cut", detect=failing)
    with writer_for(images, tmp_path / "cut" / "work") as writer:
        assert len(writer.missing) == 12 - 4 * stop
    assert run(images, tmp_path / "cut") == run(images, tmp_path / "whole")


def test_a_batch_that_is_partly_there_is_computed_in_its_own_company(tmp_path: Path) -> None:
    images = world(tmp_path / "images")

    def social(pictures):
        found = Detector().regions(pictures)
        mean = torch.stack([output.features for output in found]).mean()
        return [output._replace(features=output.features + mean) for output in found]

    whole = run(images, tmp_path / "whole", detect=social)
    done = FeatureFile(tmp_path / "whole" / "out.h5")
    with writer_for(images, tmp_path / "part" / "work") as writer:
        names = region_datasets(SLOTS, WIDTH)
        writer.write([5, 9], **{name: done.read([5, 9], name) for name in names})
    assert run(images, tmp_path / "part", detect=social) == whole


@pytest.mark.parametrize("workers", [0, 1])
def test_changed_and_unreadable_images_are_named_together(tmp_path: Path, workers: int) -> None:
    images = world(tmp_path / "images")
    Path(images["path"][1]).write_bytes(Path(images["path"][2]).read_bytes())
    Path(images["path"][3]).write_bytes(b"no image")
    with pytest.raises(WorkbenchError) as error:
        run(images, tmp_path, workers=workers)
    for part in ("train1.png: changed", "train3.png", "dvc repro -f prepare_corpus"):
        assert part in str(error.value)


def test_ribbons_and_infinite_features_are_refused(tmp_path: Path) -> None:
    images = world(tmp_path / "images")

    def huge(pictures):
        found = Detector().regions(pictures)
        return [output._replace(features=output.features * 1e6) for output in found]

    with pytest.raises(WorkbenchError, match=r"65,504.*train0"):
        run(images, tmp_path, detect=huge)
    images.loc[1, "width"] = 10**6
    with pytest.raises(WorkbenchError, match=r"50 times.*train1"):
        run(images, tmp_path)
