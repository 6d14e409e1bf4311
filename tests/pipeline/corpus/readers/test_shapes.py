from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from full_disk import files_of_at_most
from PIL import Image
from reader_cases import options
from scene_reading import RAW, SIDE, TEXT, WORLD, facts, is_true, scene_things

from pipeline.corpus.dataset import READERS
from pipeline.corpus.readers import shapes
from pipeline.corpus.readers.shapes.drawing import box, corners, draw, polygon_mask
from pipeline.corpus.readers.shapes.mentions import plain
from pipeline.corpus.readers.shapes.scenes import ATTRIBUTES, make_scenes
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    chosen = options(train=60, val=20, test=20, image_size=SIDE, captions_per_image=6)
    return shapes.read(RAW, out, chosen)


def test_every_caption_is_true_of_its_scene(source):
    things = scene_things(source)
    for row in source.captions.itertuples():
        assert is_true(row.text, things[row.image_id]), f"{row.image_id}: {row.text}"


def test_sizes_come_from_the_options(source):
    assert source.images["split"].value_counts().to_dict() == {"train": 60, "val": 20, "test": 20}
    assert source.images["image_id"].tolist()[:2] == ["train_00000.jpg", "train_00001.jpg"]
    assert source.images["image_id"].tolist()[-1] == "test_00019.jpg"
    assert source.captions["caption_id"].tolist()[6] == "train_00001.jpg#0"
    assert source.boxes.groupby("image_id").size().between(2, 5).all()
    with Image.open(source.root / "val_00003.jpg") as image:
        assert (image.format, image.size) == ("JPEG", (SIDE, SIDE))


def test_the_list_of_readers_says_that_this_one_alone_brings_boxes(source):
    assert [name for name in READERS if READERS.constant(name, "BOXES")] == ["shapes"]
    assert len(source.boxes)


def test_boxes_are_tight_around_what_is_drawn():
    """The pixels that an object changes, against its box."""
    for scene in make_scenes(WORLD, 40, 0.0, [5]):
        empty = np.asarray(draw(type(scene)((), scene.background), WORLD, SIDE)).astype(int)
        for thing in scene.things:
            alone = np.asarray(draw(type(scene)((thing,), scene.background), WORLD, SIDE))
            changed = np.abs(alone.astype(int) - empty).max(axis=2) > 8
            rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
            drawn = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
            tip = 3 if thing.shape in ("star", "triangle") else 1.5  # thin tips cover little
            np.testing.assert_allclose(drawn, box(thing, WORLD, SIDE), atol=tip)


def test_objects_do_not_overlap_and_stay_inside():
    for scene in make_scenes(WORLD, 100, 1.0, [7]):
        for one, other in combinations(scene.things, 2):
            distance = np.hypot(one.x - other.x, one.y - other.y)
            assert distance >= one.radius + other.radius
        total = np.zeros((SIDE, SIDE))
        for thing in scene.things:
            mask, (left, top) = polygon_mask(corners(thing, WORLD, SIDE))
            height, width = mask.shape
            assert min(left, top) >= 0
            total[top : top + height, left : left + width] += mask
        assert total.max() <= 1.001


@pytest.mark.parametrize(("share", "pairs"), [(0.0, 0), (0.25, 5), (1.0, 20)])
def test_near_duplicates_differ_in_one_attribute_of_one_object(share, pairs):
    scenes = make_scenes(WORLD, 40, share, [8])
    found = [
        (a, b)
        for n, a in enumerate(scenes)
        for b in scenes[n + 1 :]
        if a.background == b.background
    ]
    assert len(found) == pairs
    for a, b in found:
        changes = [
            (n, name)
            for n, (one, other) in enumerate(zip(a.things, b.things, strict=True))
            for name in ATTRIBUTES
            if getattr(one, name) != getattr(other, name)
        ]
        assert changes == [a.focus] == [b.focus]
        places = [[(thing.x, thing.y, thing.turn) for thing in scene.things] for scene in (a, b)]
        assert places[0] == places[1]


def test_most_captions_of_a_pair_tell_it_apart_and_some_do_not():
    scenes = make_scenes(WORLD, 200, 1.0, [9])
    told = []
    for scene in scenes:
        twin = next(s for s in scenes if s.background == scene.background and s is not scene)
        boxes = [box(thing, WORLD, SIDE) for thing in scene.things]
        speaker = shapes.Speaker(WORLD, SIDE, np.random.default_rng([1, scene.background]))
        texts = map(plain, speaker.marked_captions(scene, boxes, 3))
        told += [not is_true(text, facts(twin)) for text in texts]
    assert 0.5 < np.mean(told) < 0.95


def test_same_seed_same_bytes_whatever_the_processes(tmp_path, monkeypatch):
    """The world has a seed of its own, beside that of training."""
    monkeypatch.setattr("pipeline.corpus.dataset.processes.WORTH_IT", 1)
    chosen = [options(3), replace(options(3, workers=2), seed=9), replace(options(4), seed=3)]
    sources = [shapes.read(RAW, tmp_path / f"{n}", one) for n, one in enumerate(chosen)]
    contents = [
        {path.name: path.read_bytes() for path in sorted(source.root.iterdir())}
        for source in sources
    ]
    assert len(contents[0]) == 12
    assert contents[0] == contents[1]
    assert sources[0].captions.equals(sources[1].captions)
    assert sources[0].boxes.equals(sources[1].boxes)
    assert not set(contents[0].values()) & set(contents[2].values())


def test_larger_splits_keep_the_scenes_of_smaller_ones():
    assert make_scenes(WORLD, 5, 0.0, [1, 2]) == make_scenes(WORLD, 9, 0.0, [1, 2])[:5]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("objects: [2, 5]", "objects: [3, 2]", "objects must be fewest, then most"),
        ("objects: [2, 5]", "objects: [2, 7]", "counts must have the words from two to 7"),
        ("outline: circle\n", "outline: blob\n", r"shapes\.circle\.outline"),
        ("[0, -1], [0.866, 0.5], [-0.866", "[0, -1], [0, 0.5], [0", "too thin to be seen"),
        ("[0.7, 0.7]", "[0.9, 0.9]", r"shapes\.square: outline leaves the unit circle"),
        ("words: [green]", "words: [red]", "words with more than one meaning: red"),
        ("  green:", "  large:", "names of more than one attribute: large"),
        ("[0.075, 0.1]", "[0.1, 0.075]", "radius must be least, then most"),
        ('"we see {}"', '"we see {} and {}"', r"frames\[5\]"),
    ],
)
def test_a_broken_world_says_where(tmp_path, old, new, message):
    assert TEXT.count(old) == 1
    (tmp_path / "world.yaml").write_text(TEXT.replace(old, new))
    with pytest.raises(WorkbenchError, match=message) as caught:
        shapes.read(tmp_path, tmp_path, options())
    assert caught.value.hint == "mend the file or restore it with git checkout"
    assert len(caught.value.message) < 1000


def test_a_world_without_room_is_an_error(tmp_path):
    crowded = TEXT.replace("[2, 5]", "[8, 8]").replace("[0.075, 0.1]", "[0.22, 0.22]")
    crowded = crowded.replace("[0.135, 0.175]", "[0.22, 0.22]")
    crowded = crowded.replace("four, five]", "four, five, six, seven, eight]")
    (tmp_path / "world.yaml").write_text(crowded)
    with pytest.raises(WorkbenchError, match="no room for 8 objects"):
        shapes.read(tmp_path, tmp_path, options(train=1, val=1, test=1))


def test_an_image_that_could_not_be_written_is_named(tmp_path):
    shapes.read(RAW, tmp_path, options())
    before = {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()}
    with files_of_at_most(1000), pytest.raises(WorkbenchError) as error:
        shapes.read(RAW, tmp_path, options())
    assert ".jpg: File too large" in error.value.message
    assert "skip_bad_images" not in str(error.value)
    # those of the earlier run are whole, and nothing lies beside them
    assert {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()} == before
