"""What makes the built-in dataset harder: each option does what it says, none is on by default."""

import re
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from reader_cases import options
from scene_reading import (
    KNOWN,
    RAW,
    SIDE,
    WORLD,
    corrected,
    is_true,
    meanings,
    one_edit_apart,
    parse,
    scene_things,
)

from pipeline.corpus.readers import shapes
from pipeline.corpus.readers.shapes.drawing import corners, draw, marks, polygon_mask
from pipeline.corpus.readers.shapes.grammar import Speaker
from pipeline.corpus.readers.shapes.mentions import plain
from pipeline.corpus.readers.shapes.scenes import Scene, lies_between, make_scenes
from pipeline.corpus.readers.shapes.spelling import edits, misspell

SIZES = {"train": 40, "val": 2, "test": 2, "image_size": SIDE, "captions_per_image": 6}
HARD = {
    "objects": [4, 7],
    "clutter": 10,
    "relations": "between",
    "synonyms": True,
    "misspelt": 0.1,
}
# of the default world's first scenes
CAPTIONS = "cdef5d0c26278e2d487f8159614afb4ed18946961ee3c2ca66793eefc563f3f1"
BOXES = "acfd39c05df0d293516677f89242347ea4879a0f944535e5115658aaf3319407"
MEANS = [99.521, 109.063, 109.53, 109.748, 91.816, 110.055]
MEANS += [91.286, 123.658, 123.773, 110.601, 98.468, 112.159]
SYNONYMS = set(meanings("synonyms"))


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    made = {}

    def read(**changed):
        key = repr(changed)
        if key not in made:
            out = tmp_path_factory.mktemp("out")
            made[key] = shapes.read(RAW, out, options(**SIZES, **changed))
        return made[key]

    return read


def pixels(source):
    return np.stack([np.asarray(Image.open(source.root / name)) for name in source.images.image_id])


def words(source):
    return [word for text in source.captions["text"] for word in re.findall("[a-z]+", text.lower())]


def test_without_options_the_world_is_what_it_was_before_there_were_any(tmp_path):
    """Digests and means of the version before; pixels by their means, which a processor's last bit
    does not change and a single mark of clutter does."""
    source = shapes.read(RAW, tmp_path, options(image_size=128, captions_per_image=5))
    digest = sha256("\n".join(source.captions["text"]).encode()).hexdigest()
    assert digest == CAPTIONS
    boxes = source.boxes.assign(attributes=source.boxes["attributes"].str.join(" "))
    rounded = boxes.round(6).to_csv(index=False, float_format="%.6f")
    assert sha256(rounded.encode()).hexdigest() == BOXES
    means = pixels(source).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(means, MEANS, atol=0.01)


def test_every_caption_of_a_hard_world_is_true_of_its_scene(read):
    source = read(**HARD)
    things = scene_things(source)
    for row in source.captions.itertuples():
        assert is_true(corrected(row.text), things[row.image_id]), f"{row.image_id}: {row.text}"


@pytest.mark.parametrize("objects", [[6, 6], [3, 8]])
def test_scenes_have_as_many_objects_as_asked_for(read, objects):
    counts = read(objects=objects).boxes.groupby("image_id").size()
    assert [counts.min(), counts.max()] == objects


def test_a_number_without_a_word_is_not_told():
    (scene,) = make_scenes(WORLD, 1, 0.0, [3])
    model = replace(scene.things[0], shape="circle", colour="red", size="small", texture="plain")
    others = [replace(model, shape="star", colour="blue", size="large", texture="dotted")]
    boxes = [(0.0, 0.0, 9.0, 9.0)] * 8
    crowd = Scene(tuple([model] * 6 + others * 2), 1)
    speaker = Speaker(WORLD, SIDE, np.random.default_rng(0))
    texts = speaker.marked_captions(crowd, boxes, 300)
    numbers = {number for text in texts for number, _ in parse(plain(text))[0]}
    assert numbers == {None, 2}


def test_clutter_changes_nothing_but_pixels_behind_the_objects(read):
    plain, cluttered = read(), read(clutter=10)
    pd.testing.assert_frame_equal(plain.captions, cluttered.captions)
    pd.testing.assert_frame_equal(plain.boxes, cluttered.boxes)
    changed = np.abs(pixels(plain).astype(int) - pixels(cluttered)).max(axis=3) > 40
    assert (changed.mean(axis=(1, 2)) > 0.005).all()
    assert changed.mean() < 0.1
    for scene in make_scenes(WORLD, 10, 0.0, [4]):
        one, other = (np.asarray(draw(scene, WORLD, SIDE, count)) for count in (0, 30))
        for thing in scene.things:
            mask, (left, top) = polygon_mask(corners(thing, WORLD, SIDE))
            inside = np.s_[top : top + mask.shape[0], left : left + mask.shape[1]]
            np.testing.assert_array_equal(one[inside][mask == 1], other[inside][mask == 1])


def test_a_mark_has_its_own_colour():
    """In the middle of the last one, which lies over the others."""
    (scene,) = make_scenes(WORLD, 1, 0.0, [1])
    found = np.asarray(draw(Scene((), scene.background), WORLD, 128, clutter=4))
    corners, colour = marks(scene.background, 4, 128)[-1]
    x, y = corners.mean(axis=0)
    np.testing.assert_allclose(found[int(y), int(x)], colour, atol=2)


def test_captions_tell_what_is_between_only_where_asked(read):
    told = [parse(text)[1] for text in read(relations="between").captions["text"]]
    assert 0.05 < np.mean([direction == "between" for direction in told]) < 0.5
    assert set(told) == {None, "left", "right", "up", "down", "between"}
    assert "between" not in {parse(text)[1] for text in read().captions["text"]}
    assert not lies_between(*[(0.0, 0.0, 8.0, 8.0)] * 3, SIDE)  # no line through one place


def test_synonyms_are_said_only_where_asked(read):
    assert not SYNONYMS & set(words(read()))
    plain, more = read(), read(synonyms=True)
    assert len(SYNONYMS & set(words(more))) > 0.8 * len(SYNONYMS)
    assert set(words(plain)) <= KNOWN
    pd.testing.assert_frame_equal(plain.boxes, more.boxes)


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_share_of_the_long_words_is_one_edit_off(read, share):
    plain, slips = read(synonyms=True), read(synonyms=True, misspelt=share)
    pairs = list(zip(words(plain), words(slips), strict=True))
    for meant, said in pairs:
        assert meant == said or (len(meant) > 3 and one_edit_apart(meant, said))
        assert meant == said or said not in KNOWN
    long = [meant != said for meant, said in pairs if len(meant) > 3]
    assert np.mean(long) == pytest.approx(share, abs=0.03)
    assert [corrected(text) for text in slips.captions["text"]] == plain.captions["text"].tolist()


def test_a_word_that_every_slip_would_make_another_stays():
    crowded = {"aaaa", *edits("aaaa")}
    text = misspell("Aaaa, aaaa bbbb.", 1.0, {*crowded, "bbbb"}, np.random.default_rng(0))
    assert text.startswith("Aaaa, aaaa ")
    assert text != "Aaaa, aaaa bbbb."
