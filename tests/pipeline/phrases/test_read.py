"""Phrases of the built-in dataset against a second reading of its captions."""

import numpy as np
import pytest
from scene_reading import MEANING, NUMBERS, RAW

from pipeline.corpus.dataset.source import Options
from pipeline.corpus.params import CorpusConfig, ShapesConfig
from pipeline.corpus.readers.shapes import read, scenes_of, world_of
from pipeline.corpus.readers.shapes.drawing import box
from pipeline.corpus.tokens import tokenise
from pipeline.phrases.read import read_world
from pipeline.phrases.tables import distinct_regions
from stages.params import load_params


def options(**changes):
    params = load_params(RAW.parents[2] / "params.yaml")
    sizes = {"train": 60, "val": 2, "test": 2, "image_size": 64}
    shapes = ShapesConfig.model_validate(params.shapes.model_dump() | sizes | changes)
    return Options(0, CorpusConfig.model_validate(params.corpus.model_dump()), shapes)


@pytest.fixture(scope="module", params=["plain", "hard"])
def world(request, tmp_path_factory):
    hard = {"relations": "between", "synonyms": True, "misspelt": 0.3, "objects": [3, 7]}
    chosen = options(**(hard if request.param == "hard" else {}))
    captions = read(RAW, tmp_path_factory.mktemp("world"), chosen).captions
    captions["tokens"] = [tokenise(text) for text in captions["text"]]
    return chosen, captions, read_world(RAW, captions, chosen)


def corners_of(tables):
    """Corners (boxes, 4) by image and chain."""
    chains = tables.boxes.groupby(["image_id", "chain"], sort=False)
    return {chain: own[["x1", "y1", "x2", "y2"]].to_numpy() for chain, own in chains}


def test_phrases_are_words_of_their_captions(world):
    _, captions, tables = world
    words = dict(zip(captions["caption_id"], captions["tokens"], strict=True))
    assert set(tables.phrases["caption_id"]) == set(words)
    assert set(tables.phrases["type"]) == {"object", "several", "relation"}
    for caption, phrase in zip(tables.phrases["caption_id"], tables.phrases["words"], strict=True):
        text = " ".join(words[caption])
        assert f" {' '.join(phrase)} " in f" {text} "


def test_objects_are_what_their_phrases_say(world):
    """What the words mean, those spelt right, agrees with the object whose box they have."""
    chosen, _, tables = world
    things = {
        (task.image_id, str(number)): (thing, box(thing, world_of(RAW, chosen.shapes), 64))
        for task in scenes_of(world_of(RAW, chosen.shapes), chosen)
        for number, thing in enumerate(task.scene.things)
    }
    several, boxes = 0, corners_of(tables)
    for row in tables.phrases.itertuples():
        numbers = row.chain.split("+")
        told = dict(MEANING[word] for word in row.words if word in MEANING)
        own = [things[row.image_id, number] for number in numbers]
        if row.type == "object" or (row.type == "several" and NUMBERS.get(row.words[0])):
            for kind, name in told.items():
                attribute = "shape" if kind == "object" else kind
                assert {getattr(thing, attribute) for thing, _ in own} == {name}
        if row.type == "several" and NUMBERS.get(row.words[0]):
            assert NUMBERS[row.words[0]] == len(own)
            several += 1
        found, wanted = boxes[row.image_id, row.chain], [corners for _, corners in own]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert several


def test_a_relation_stands_for_what_it_begins_with(world):
    _, _, tables = world
    rows = tables.phrases.reset_index()
    relations = rows[rows["type"] == "relation"]
    after = rows.iloc[relations["index"] + 1]
    assert len(relations) > 20
    assert (after["type"] == "object").all()
    assert (after["chain"].to_numpy() == relations["chain"].to_numpy()).all()


def test_every_box_is_one_region(world):
    _, _, tables = world
    images = list(dict.fromkeys(tables.phrases["image_id"]))[::-1]
    found = distinct_regions(tables.boxes, images)
    assert len(set(found.ids)) == len(found.ids)
    assert list(dict.fromkeys(found.image_ids)) == images
    rows = {(i, *b) for i, b in zip(found.image_ids, found.boxes.tolist(), strict=True)}
    assert len(rows) == len(found.ids)
    boxes = corners_of(tables)
    for chain, places in found.of_chain.items():
        np.testing.assert_array_equal(found.boxes[places], np.float32(boxes[chain]))
