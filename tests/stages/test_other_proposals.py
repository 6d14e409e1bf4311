"""Proposals of a corpus with some other images than before: the bytes of a full run, in the file of
images and in that of boxes, from rows of the earlier run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from c4_cases import small
from commands import fail, succeed
from corpora import change_params, write_corpus
from other_images import NO_ROW_IS_KEPT, ROWS_ARE_KEPT, new_picture, with_others
from region_cases import world
from tiny_inputs import write_params

from models.detector.file import describe, write_detector
from models.detector.fpn import build_detector
from pipeline.features.feature_file import FeatureFile, row_checksums, write_features
from pipeline.features.kept_rows import FILE, INDEX
from pipeline.phrases.tables import PHRASES, SIDES, PhraseTables
from stages.extract_proposals import main as extract_proposals

WORDS = ["--images", "corpus/images.parquet", "--phrases", "phrases"]
WORDS += ["--detector", "detector.safetensors"]
STORES = Path("data/.work/rows")
NETWORK = {"model": "timm/test_resnet", "weights": "random", "layers": ["layer1"]}
NETWORK |= {"pool": "mean", "short_side": 48}
OF_NETWORK = {"source": "network", "network": NETWORK, "batch_size": 4, "workers": 0}
OF_DETECTOR = {"source": "detector", "batch_size": 4, "workers": 0}
OF_FILE = {"source": "file", "path": "boxes.txt", "number": 3}


@pytest.fixture
def images(tmp_path: Path, monkeypatch) -> pd.DataFrame:
    """The images of a corpus in the current folder, boxes of a network in a file, phrases."""
    monkeypatch.chdir(tmp_path)
    table = world(Path("pictures"))
    write_params(tmp_path, runtime=ROWS_ARE_KEPT)
    change_params(tmp_path, phrases={"proposals": OF_FILE, "features": OF_NETWORK})
    write_pyramid(seed=3)
    write_inputs(table)
    return table


def write_pyramid(seed: int, **sizes: object) -> None:
    torch.manual_seed(seed)
    sizes = {"layers": 2, "channels": 4, "hidden": 6, "anchors": ((16.0,), (26.0,))} | sizes
    detector = build_detector("fpn_resnet18", ["square"], [], **sizes).eval()
    write_detector("detector.safetensors", detector, describe(detector, "random", {}, {}, {}))


def write_inputs(table: pd.DataFrame, wider: str = "") -> None:
    """The corpus, with two phrases of each image, a box each, and three boxes of each image in the
    file: those of an image depend on its name's last digit. wider: the image of larger boxes."""
    write_corpus(Path("corpus"), table)
    phrases, boxes, lines = [], [], []
    for name, split in zip(table["image_id"], table["split"], strict=True):
        near = sum(map(ord, name)) % 7
        for place in range(2):
            chain = f"{place}"
            phrases.append((f"{name}#{place}", f"{name}#0", name, split, ["a"], chain, "other"))
            right = 20.0 + near + (name == wider)
            boxes.append((name, chain, near, place, right, 18.0))
        lines += [f"{name} {near} {top} 20 22 0.{9 - top}" for top in range(3)]
    columns = ["image_id", "chain", *SIDES]
    tables = PhraseTables(
        pd.DataFrame(phrases, columns=PHRASES.names), pd.DataFrame(boxes, columns=columns)
    )
    Path("phrases").mkdir(exist_ok=True)
    tables.write(Path("phrases"))
    Path("boxes.txt").write_text("\n".join(lines) + "\n")


def extract(name: str) -> str:
    outputs = ["--output", f"{name}.h5", "--truth", f"{name}_truth.h5"]
    return succeed(extract_proposals, Path(), *WORDS, *outputs)


def compared() -> str:
    """What a run with rows of an earlier one says, whose files must be those of a run without."""
    said = extract("kept")
    change_params(Path(), runtime=NO_ROW_IS_KEPT)
    extract("full")
    change_params(Path(), runtime=ROWS_ARE_KEPT)
    for kind in ("", "_truth"):
        assert Path(f"kept{kind}.h5").read_bytes() == Path(f"full{kind}.h5").read_bytes()
    return said


def reused(images: int, boxes: int) -> str:
    return f"reused {images} of 11 rows of images and {boxes} of 10 rows of boxes of an earlier run"


@pytest.mark.parametrize(
    ("proposals", "features"),
    [
        (OF_FILE, OF_NETWORK),
        ({"source": "detector", "number": 5}, OF_DETECTOR),  # of the bottom-up detector
        pytest.param({"source": "detector", "number": 5}, OF_NETWORK, marks=pytest.mark.slow),
    ],
)
def test_only_new_images_are_computed(images, proposals, features) -> None:
    """Two images are removed, one has another picture, one is new and stands in front."""
    detector = small()
    write_detector("detector.safetensors", detector, describe(detector, "random", {}, {}, {}))
    change_params(Path(), phrases={"proposals": {"path": None} | proposals, "features": features})
    extract("kept")
    write_inputs(with_others(images))
    assert reused(9, 8) in compared()


@pytest.mark.parametrize(
    "features", [OF_DETECTOR, pytest.param(OF_NETWORK, marks=pytest.mark.slow)]
)
def test_in_a_pyramid_whole_batches_are_taken(images, features) -> None:
    """Whoever proposes the boxes: images of one size pass the pyramid together."""
    proposals = {"source": "detector", "path": None, "number": 5}
    change_params(Path(), phrases={"proposals": proposals, "features": features})
    extract("kept")
    images = new_picture(images, 2)
    write_inputs(images)
    said = compared()
    assert "reused 8 of 12 rows of images and 2 of 10 rows of boxes of an earlier run" in said
    write_inputs(with_others(images))  # one in front moves all
    assert "reused" not in compared()


def test_other_boxes_of_phrases_are_other_rows(images) -> None:
    extract("kept")
    write_inputs(images, wider="train2.png")
    said = compared()
    assert "reused 11 of 12 rows of images and 8 of 10 rows of boxes of an earlier run" in said


def test_other_boxes_in_the_file_are_other_rows(images) -> None:
    extract("kept")
    text = Path("boxes.txt").read_text()
    Path("boxes.txt").write_text(text.replace("val1.png ", "val1.png 0 0 9 9 0.95\nval1.png ", 1))
    assert "reused 11 of 12 rows of images and 10 of 10 rows of boxes" in compared()


@pytest.mark.parametrize("other", [{"seed": 4}, {"seed": 3, "proposal_iou": 0.4}])
def test_another_proposer_s_rows_are_not_used(images, other) -> None:
    """Other weights, or the same with other sizes: what describes the boxes and all attributes of
    the file are as before."""
    change_params(Path(), phrases={"proposals": {"source": "detector", "path": None, "number": 5}})
    extract("kept")
    write_pyramid(**other)
    assert "reused" not in compared()


def test_a_detector_that_is_not_used_may_change(images) -> None:
    extract("kept")
    write_pyramid(seed=4)
    assert "reused 12 of 12 rows of images" in compared()


def stores() -> dict[str, Path]:
    """The two indices, by what they are of."""
    found = {len(FeatureFile(index)): index for index in STORES.glob(f"*{INDEX}")}
    return {"images": found[12], "boxes": found[10]}


def test_where_rows_of_boxes_are_lost_their_images_are_computed(images) -> None:
    extract("kept")
    stores()["boxes"].write_bytes(b"junk")
    said = compared()
    assert "rows of an earlier run are not used" in said
    assert "reused 12 of 12 rows of images and 0 of 10 rows of boxes of an earlier run" in said


@pytest.mark.slow
def test_where_rows_of_images_are_lost_all_are_computed(images) -> None:
    extract("kept")
    stores()["images"].unlink()
    assert "reused" not in compared()


@pytest.mark.parametrize("kind", [pytest.param("images", marks=pytest.mark.slow), "boxes"])
def test_rows_with_other_bytes_are_not_used(images, kind: str) -> None:
    """A whole store, of something else."""
    extract("kept")
    index = stores()[kind]
    table = FeatureFile(index)
    file = FeatureFile(STORES / f"{index.stem}-{table.attributes[FILE]}.h5")
    names = ["features", "boxes", "scores", "counts", "sizes"] if kind == "images" else ["features"]
    arrays = {name: file.load(name) for name in names}
    arrays["features"] = arrays["features"] + np.float16(1)
    write_features("other.h5", file.ids, arrays, file.attributes)
    digest = FeatureFile("other.h5").sha256
    Path("other.h5").replace(STORES / f"{index.stem}-{digest}.h5")
    rows = table.load("rows")
    columns = {"rows": rows, "checksums": row_checksums(list(arrays.values()))[rows]}
    write_features(index, table.ids, columns, dict(table.attributes) | {FILE: digest})
    write_inputs(with_others(images))
    said = compared()
    assert reused(9, 8) in said
    assert "rows of an earlier run are not used: some have other bytes now" in said


def test_unfinished_work_is_continued(images) -> None:
    """A run with rows of an earlier one that ends in the middle, where a picture is missing."""
    change_params(Path(), phrases={"features": {"batch_size": 1}})
    extract("kept")
    write_inputs(with_others(images))
    picture = Path("pictures/val0.png")
    picture.rename("elsewhere.png")
    assert "val0.png" in fail(extract_proposals, Path(), *WORDS, "--output", "x", "--truth", "y")
    Path("elsewhere.png").rename(picture)
    assert reused(9, 8) in compared()
    assert not list(Path("data/.work/proposals").glob("**/*.h5"))
