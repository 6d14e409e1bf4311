"""Searching stored embeddings: order, texts, the page, and what cannot be searched."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.corpus.tokens import tokenise
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.graph import stage_options, stage_paths
from pipeline.scores.file import SplitScores, write_scores
from pipeline.search.index import (
    Catalogue,
    Hit,
    Index,
    best,
    find_hits,
    lines,
    read_index,
    words_of,
)
from vse_workbench.search.page import THUMBNAIL, page

SHA = "a" * 64
IMAGES = pd.DataFrame({"image_id": ["x", "y", "z"], "path": ["x.png", "y.png", "z.png"]})
ROWS = [("x#0", "a dog"), ("x#1", "a brown dog"), ("z#0", "two cats"), ("z#1", "cats")]
CAPTIONS = pd.DataFrame(ROWS, columns=["caption_id", "text"])
CAPTIONS["image_id"] = CAPTIONS["caption_id"].str[0]
CATALOGUE = Catalogue(IMAGES, CAPTIONS)


def index(ids=("x", "y", "z")):
    return Index(list(ids), np.eye(len(ids), dtype=np.float32))


def message(call, *arguments):
    with pytest.raises(WorkbenchError) as caught:
        call(*arguments)
    return str(caught.value)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(1, 15))
def test_best_is_a_sort_with_equal_scores_in_order(scores, top):
    expected = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:top]
    assert best(np.array(scores, np.float32), top).tolist() == expected


def test_vectors_in_a_file_are_searched_as_those_in_memory(tmp_path):
    """Bit for bit, and equal scores in the order of the rows, by a sort of all."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(50, 24)).astype(np.float32)
    rows[30:] = rows[:20]
    path = write_index(tmp_path / "m.h5", values=rows)
    mapped = read_index(path, "test", "image", SHA)
    assert not mapped.embeddings.flags.owndata
    for query in generator.normal(size=(20, 24)).astype(np.float32):
        near, scores = mapped.candidates(query, 5)
        assert near is mapped
        assert scores.tobytes() == (rows @ query).tobytes()
        expected = np.argsort(-(rows @ query), kind="stable")
        for top in (1, 7, 49, 50, 99):
            assert best(scores, top).tolist() == expected[:top].tolist()


def test_queries_of_another_width_or_not_finite():
    assert "shape (2,)" in message(index().similarities, np.ones(2, np.float32))
    assert "not finite" in message(index().similarities, np.array([0, np.nan, 0], np.float32))


def test_images_come_with_their_first_caption_and_captions_with_their_image():
    scores = np.array([0.5, 0.9, 0.1], np.float32)
    found = find_hits(index(), scores, 2, CATALOGUE, "image")
    assert [(h.rank, h.name, h.text, h.path) for h in found] == [
        (1, "y", "", "y.png"),
        (2, "x", "a dog", "x.png"),
    ]
    assert [h.score for h in found] == [pytest.approx(0.9), pytest.approx(0.5)]
    captions = index(("z#1", "x#1"))
    (hit,) = find_hits(captions, scores[:2], 1, CATALOGUE, "caption")
    assert (hit.name, hit.text, hit.path) == ("x#1", "a brown dog", "x.png")


def test_ids_that_the_corpus_does_not_have():
    found = message(find_hits, index(("x", "q")), np.ones(2), 5, CATALOGUE, "image")
    assert "no image_id q" in found
    assert "different corpora" in found


def test_lines_are_aligned_and_harmless():
    hits = [Hit(n, 1 / n - 0.6, "i" * (n % 3 + 1), f"text\n{n}", "") for n in range(1, 12)]
    found = list(lines([*hits, Hit(12, -1.0, "\x1b[2J", "\x1b]0;x\x07", "")]))
    assert found[0] == '  1   0.400  ii         "text 1"'
    assert found[10] == ' 11  -0.509  iii        "text 11"'
    assert all(line.isprintable() for line in found)
    assert list(lines([Hit(1, 0.5, "x", "", "")])) == [" 1   0.500  x"]


@given(st.text())
def test_words_are_the_corpuss(text):
    words = tokenise(text)
    if words:
        assert words_of(text) == words
    else:
        assert re.search("is empty|has no words", message(words_of, text))


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def write_index(path, embeddings=True, values=VALUES, **attributes):
    names = ["x", "y", *map(str, range(2, len(values)))]
    split = SplitScores(
        scores=np.zeros((len(values), 3), np.float32),
        image_ids=names,
        caption_ids=["x#0", "x#1", "y#0"],
        caption_image_ids=["x", "x", "y"],
        image_groups=["x", "y", *["x"] * (len(values) - 2)],
        image_embeddings=values if embeddings else None,
        caption_embeddings=np.ones((3, values.shape[1]), np.float32) if embeddings else None,
    )
    write_scores(path, {"test": split}, {"model": "m", "checkpoint_sha256": SHA} | attributes)
    return path


def test_what_cannot_be_searched(tmp_path):
    path = write_index(tmp_path / "m.h5")
    assert "split 'train'" in message(read_index, path, "train", "image", SHA)
    assert "not made with the weights" in message(read_index, path, "test", "image", "b" * 64)
    assert "no such file" in message(read_index, tmp_path / "n.h5", "test", "image", SHA)
    plain = write_index(tmp_path / "p.h5", embeddings=False)
    assert "has no image_embeddings" in message(read_index, plain, "test", "image", SHA)
    content = path.read_bytes()
    place = content.index(np.arange(6, dtype=np.float32).tobytes())
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    assert "m.h5" in message(read_index, path, "test", "image", SHA)


class Tags(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def test_the_page_escapes_and_holds_its_images(tmp_path):
    path = tmp_path / "big.png"
    Image.new("RGB", (600, 300), (200, 30, 30)).save(path)
    evil = "<script>alert('&')</script>"
    hits = [Hit(1, 0.75, '"><b>id', evil, str(path)), Hit(2, 0.5, "y", "", str(path))]
    text = page(evil, Image.new("RGB", (10, 500)), hits, "vse", "test")
    found = Tags(text)
    names = [tag for tag, _ in found.tags]
    assert not {"script", "link"} & set(names)
    assert names.count("b") == 2  # the ranks alone
    assert found.text.count(evil) == 3  # title, heading, caption
    assert '"><b>id' in found.text
    assert str(tmp_path) not in text
    sources = [attributes["src"] for tag, attributes in found.tags if tag == "img"]
    sizes = []
    for source in sources:
        kind, data = source.split(",")
        assert kind == "data:image/jpeg;base64"
        sizes.append(Image.open(io.BytesIO(base64.b64decode(data))).size)
    assert sizes == [(5, THUMBNAIL), (THUMBNAIL, THUMBNAIL // 2), (THUMBNAIL, THUMBNAIL // 2)]
    # nothing is fetched: the only addresses are those of the images it holds
    assert not re.search(r"url\(|https?:|@import", re.sub(r'"data:[^"]*"', "", text))


def test_an_image_that_cannot_be_read(tmp_path):
    path = tmp_path / "junk.png"
    path.write_text("junk")
    assert "junk.png" in message(page, "q", None, [Hit(1, 0.5, "x", "", str(path))], "vse", "test")


GRAPH = """
stages:
  plain: {cmd: "python -m stages.plain --out 'a b' --raw ${raw}"}
  broken: {cmd: "python 'x"}
  open: {cmd: "python ${nowhere}"}
  many:
    foreach: {one: {text: t.h5}}
    do: {cmd: "python -m stages.many ${key} --text ${item.text} --output ${key}.h5"}
"""


def test_paths_of_a_command(tmp_path):
    graph = tmp_path / "dvc.yaml"
    graph.write_text(GRAPH)
    (tmp_path / "params.yaml").write_text("raw: given\n")
    assert stage_options("plain", graph=graph) == {"out": "a b", "raw": "given"}
    paths = stage_paths("many", ("text", "output"), "one", graph)
    assert {name: str(path) for name, path in paths.items()} == {"text": "t.h5", "output": "one.h5"}
    for arguments, words in (
        (("many", ("text",), "two", graph), "model 'two': stage many of"),
        (("plain", ("raw", "no"), None, graph), "no path for --no"),
        (("none", ("raw",), None, graph), "no stage 'none'"),
        (("broken", ("raw",), None, graph), "command cannot be read"),
        (("open", ("raw",), None, graph), "stage open"),
        (("plain", ("raw",), None, tmp_path / "no.yaml"), "no such file"),
    ):
        assert words in message(stage_paths, *arguments)
