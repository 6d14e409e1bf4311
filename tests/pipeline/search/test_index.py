"""Searching stored embeddings: order, texts, the page, and what cannot be searched."""

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
from commands import refusal
from PIL import Image
from report_world import taken_apart

from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.runtime.graph import stage_options, stage_paths
from pipeline.search.index import (
    Catalogue,
    Hit,
    Index,
    find_hits,
    hit_lines,
    read_index,
    top_rows,
)
from vse_workbench.search.page import THUMBNAIL, results_page

SHA = "a" * 64
IMAGES = pd.DataFrame({"image_id": ["x", "y", "z"], "path": ["x.png", "y.png", "z.png"]})
ROWS = [("x#0", "a dog"), ("x#1", "a brown dog"), ("z#0", "two cats"), ("z#1", "cats")]
CAPTIONS = pd.DataFrame(ROWS, columns=["caption_id", "text"])
CAPTIONS["image_id"] = CAPTIONS["caption_id"].str[0]
CATALOGUE = Catalogue(IMAGES, CAPTIONS)


def index(ids=("x", "y", "z")):
    return Index(list(ids), np.eye(len(ids), dtype=np.float32))


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
            assert top_rows(scores, top).tolist() == expected[:top].tolist()


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


def test_lines_are_aligned_and_harmless():
    hits = [Hit(n, 1 / n - 0.6, "i" * (n % 3 + 1), f"text\n{n}", "") for n in range(1, 12)]
    found = list(hit_lines([*hits, Hit(12, -1.0, "\x1b[2J", "\x1b]0;x\x07", "")]))
    assert found[0] == '  1   0.400  ii         "text 1"'
    assert found[10] == ' 11  -0.509  iii        "text 11"'
    assert all(line.isprintable() for line in found)
    assert list(hit_lines([Hit(1, 0.5, "x", "", "")])) == [" 1   0.500  x"]


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
    found = refusal(find_hits, index(("x", "q")), np.ones(2), 5, CATALOGUE, "image")
    assert "the corpus lacks q" in found
    assert "different corpora" in found
    path = write_index(tmp_path / "m.h5")
    plain = write_index(tmp_path / "p.h5", embeddings=False)
    assert "has no image_embeddings" in refusal(read_index, plain, "test", "image", SHA)
    content = path.read_bytes()
    place = content.index(np.arange(6, dtype=np.float32).tobytes())
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    assert "m.h5" in refusal(read_index, path, "test", "image", SHA)


def test_the_page_escapes_and_holds_its_images(tmp_path):
    path = tmp_path / "big.png"
    Image.new("RGB", (600, 300), (200, 30, 30)).save(path)
    evil = "<script>alert('&')</script>"
    hits = [Hit(1, 0.75, '"><b>id', evil, str(path)), Hit(2, 0.5, "y", "", str(path))]
    text = results_page(evil, Image.new("RGB", (10, 500)), hits, "images")
    found = taken_apart(text)
    assert not [*found.find("script"), *found.find("link")]
    assert len(list(found.find("b"))) == 2  # the ranks alone
    assert found.text.count(evil) == 3  # title, heading, caption
    assert '"><b>id' in found.text
    assert str(tmp_path) not in text
    sizes = []
    for image in found.find("img"):
        kind, data = image.attributes["src"].split(",")
        assert kind == "data:image/jpeg;base64"
        sizes.append(Image.open(io.BytesIO(base64.b64decode(data))).size)
    assert sizes == [(5, THUMBNAIL), (THUMBNAIL, THUMBNAIL // 2), (THUMBNAIL, THUMBNAIL // 2)]
    # nothing is fetched: the only addresses are those of the images it holds
    assert not re.search(r"url\(|https?:|@import", re.sub(r'"data:[^"]*"', "", text))
    path.write_text("junk")
    assert "big.png" in refusal(results_page, "q", None, hits, "images")


GRAPH = """
stages:
  plain: {cmd: "python -m stages.plain --out 'a b' --raw ${raw}"}
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
        (("open", ("raw",), None, graph), "stage open"),
        (("plain", ("raw",), None, tmp_path / "no.yaml"), "no such file"),
    ):
        assert words in refusal(stage_paths, *arguments)
