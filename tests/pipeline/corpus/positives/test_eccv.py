"""ECCV Caption's real lists against the package's own evaluator, and lists that are none."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import refusal
from ranking_cases import measure_judged

from pipeline.corpus.dataset.positives import positives_of
from pipeline.corpus.positives import eccv
from pipeline.corpus.tables import Corpus
from pipeline.evaluation.truth import relevance_of
from pipeline.runtime.errors import WorkbenchError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of a faster JSON library that it can do without
    from eccv_caption import Metrics

FIGURES = {"eccv_r1": "r1", "eccv_map_at_r": "mapr", "eccv_rprecision": "rprecision"}
WAYS = ("i2t", "t2i")


@pytest.fixture(scope="module")
def evaluator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Metrics()


@pytest.fixture(scope="module")
def corpus(evaluator):
    """The 5,000 images, their 25,000 captions, and the listed sixth captions of two images."""
    owners = {caption: images[0] for caption, images in evaluator.coco_gts["t2i"].items()}
    for image, captions in evaluator.eccv_gts["i2t"].items():
        owners |= {caption: image for caption in captions if caption not in owners}
    images = [f"val2014/COCO_val2014_{number:012}.jpg" for number in evaluator.coco_gts["i2t"]]
    name = "val2014/COCO_val2014_{:012}.jpg".format
    captions = [(str(caption), name(image)) for caption, image in owners.items()]
    return Corpus(
        pd.DataFrame({"image_id": images}),
        pd.DataFrame(captions, columns=["caption_id", "image_id"]),
        pd.DataFrame(),
        pd.DataFrame(),
    )


@pytest.fixture(scope="module")
def pairs(corpus):
    return positives_of(corpus, eccv.read(eccv.installed()), "eccv")


@pytest.fixture(scope="module")
def relevance(corpus, pairs):
    ids = corpus.images["image_id"].tolist(), corpus.captions["caption_id"].tolist()
    return relevance_of("eccv", pairs, *ids)


def test_both_directions_have_the_lists_of_their_queries(corpus, pairs, evaluator):
    assert (len(corpus.images), len(corpus.captions)) == (5000, 25002)
    numbers = pairs["image_id"].str[-16:-4].astype(int), pairs["caption_id"].astype(int)
    for way, (query, item) in zip(WAYS, (numbers, numbers[::-1]), strict=True):
        own = pd.DataFrame({"query": query, "item": item})[pairs[way]]
        found = own.groupby("query")["item"].agg(set).to_dict()
        assert found == {q: set(items) for q, items in evaluator.eccv_gts[way].items()}


def test_figures_are_those_of_the_evaluator(corpus, relevance, evaluator):
    """Of the images that are queries against all captions, and the other way round."""
    random = np.random.default_rng(0)
    images = corpus.images["image_id"].str[-16:-4].astype(int).to_numpy()
    captions = corpus.captions["caption_id"].astype(int).to_numpy()
    owners = corpus.captions["image_id"].str[-16:-4].astype(int).to_numpy()
    retrieved, found = {}, {}
    for way in WAYS:
        rows = np.arange(5000) if way == "t2i" else relevance.positives(way).queries
        columns = np.arange(25002) if way == "i2t" else relevance.positives(way).queries
        inside = relevance.inside(rows, columns)
        listed = np.zeros(inside.size, bool)
        listed[inside.images[inside.counts[way]], inside.captions[inside.counts[way]]] = True
        own = np.equal.outer(images[rows], owners[columns])
        scores = random.random(inside.size)  # no equal ones; original and listed pairs lifted
        scores += 0.6 * own * random.random(own.shape) + 0.3 * listed * random.random(own.shape)
        measured = measure_judged(scores, inside.positives(way), way)
        found[way] = {name: values.mean() for name, values in measured.values.items()}
        queries, items = images[rows], captions[columns]
        if way == "t2i":
            scores, queries, items = scores.T, items, queries
        retrieved[way] = {}
        for query, line in zip(queries, -scores, strict=True):
            first = np.argpartition(line, 100)[:100]  # no query has more items in the lists
            retrieved[way][int(query)] = items[first[line[first].argsort()]].tolist()
    theirs = evaluator.eccv_metrics(retrieved, "all")
    expected = {ours: theirs[name] for name, ours in FIGURES.items()}
    expected |= {f"r{k}": evaluator.eccv_recalls(retrieved, "all", K=k) for k in (5, 10)}
    for name, figures in expected.items():
        for way in WAYS:
            assert found[way][name] == pytest.approx(100 * figures[way], rel=1e-9, abs=1e-12)


def test_numbers_that_match_by_chance_are_no_mscoco(corpus):
    owners = np.roll(corpus.captions["image_id"].to_numpy(), 7)
    other = replace(corpus, captions=corpus.captions.assign(image_id=owners))
    with pytest.raises(WorkbenchError, match="eccv: a list of MS-COCO's test images; of this corp"):
        positives_of(other, eccv.read(eccv.installed()), "eccv")
    none = replace(corpus, images=corpus.images[:0], captions=corpus.captions[:0])
    assert "it has 0 pairs" in refusal(positives_of, none, eccv.read(eccv.installed()), "eccv")


def test_one_number_of_two_images_is_named(corpus):
    twin = corpus.images["image_id"][0].replace("val2014", "train2014")
    images = pd.concat([corpus.images, pd.DataFrame({"image_id": [twin]})], ignore_index=True)
    listed = eccv.read(eccv.installed())
    number = int(twin[-16:-4])
    listed.loc[0, "image"] = number
    with pytest.raises(WorkbenchError, match=r"end in one number \(2\): .*train2014"):
        positives_of(Corpus(images, corpus.captions, images, images), listed, "eccv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "not lists of numbers by number"),
        ('{"x1": [2]}', "not lists of numbers"),
        ('{"1": 2}', "not lists of numbers"),
        ('{"1": [2', "not valid JSON"),
    ],
)
def test_lists_of_another_format_are_refused(tmp_path, content, message):
    assert "eccv_image_to_caption.json: no such file" in refusal(eccv.read, tmp_path)
    (tmp_path / eccv.FILES["i2t"]).write_text(content)
    (tmp_path / eccv.FILES["t2i"]).write_text(json.dumps({"2": [1]}))
    with pytest.raises(WorkbenchError, match=message):
        eccv.read(tmp_path)
