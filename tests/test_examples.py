"""The examples of the documents are about scenes of the test split, and what they show is right."""

import ast
import json
import re
from itertools import zip_longest

import numpy as np
import pytest
from clone import ROOT
from scene_reading import RAW, facts, fits, is_true, parse

from pipeline.corpus.dataset.source import Options
from pipeline.corpus.readers.shapes import scenes_of, spoken, world_of
from pipeline.corpus.readers.shapes.drawing import box
from pipeline.corpus.readers.shapes.mentions import plain
from pipeline.phrases.boxes import overlaps
from stages.params import load_params

PLACES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "docs/tour.ipynb",
    *sorted((ROOT / "vse_workbench").rglob("*.py")),
]
SEARCH = re.compile(r'vse search "([^"]+)"|captions\(\["([^"]+)"\]\)|[?&]text=([a-z+]+)')
LOCALISE = re.compile(r'vse localise "([^"]+)" --image (\S+)')
FIRST = re.compile(r"^ *1  +-?[\d.]+  (test_\d+\.jpg)", re.MULTILINE)
BOX = re.compile(r"^ *-?[\d.]+ +(\d+) +(\d+) +(\d+) +(\d+) +#\w{6}$", re.MULTILINE)
FEW = range(1, 5)  # five results can show all that are right, and a wrong one


@pytest.fixture(scope="module")
def scenes():
    """Objects and captions of every test image, which no number of training scenes changes."""
    params = load_params(ROOT / "params.yaml", models=None)
    shapes = params.shapes.model_copy(update={"train": 0, "val": 0})
    world, things, captions = world_of(RAW, shapes), {}, {}
    for task in scenes_of(world, Options(0, params.corpus, shapes)):
        boxes = [box(thing, world, shapes.image_size) for thing in task.scene.things]
        things[task.image_id] = facts(task.scene)
        captions[task.image_id] = [plain(text) for text in spoken(task, boxes, world, shapes)]
    return things, captions


def text_of(path):
    """A document; of a notebook what is written and printed in its cells."""
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    printed = [out.get("text", []) for cell in cells for out in cell.get("outputs", [])]
    return "\n".join("".join(lines) for lines in [*(cell["source"] for cell in cells), *printed])


def sentence(text):
    return text[0].upper() + text[1:] + "."


def wrong_examples(text, things, captions):
    """What a document shows that the test split does not have, or that is not so."""
    said = [caption.lower() for texts in captions.values() for caption in texts]
    for found in re.finditer(r"(test_\d+\.jpg)(?:#(\d+))?", text):
        name, number = found.groups()
        if name not in things or int(number or 0) >= len(captions[name]):
            yield f"{found[0]}: not in the test split"
    searches = list(SEARCH.finditer(text))
    for search, after in zip_longest(searches, searches[1:]):
        query = next(filter(None, search.groups())).replace("+", " ")
        if not any(caption.endswith(f"{query}.") for caption in said):
            yield f"{query}: no caption of the test split says so"
            continue
        right = [name for name, there in things.items() if is_true(sentence(query), there)]
        if len(right) not in FEW and not search[2]:  # what is embedded only has to be there
            yield f"{query}: true of {len(right)} images"
        shown = FIRST.findall(text, search.end(), after.start() if after else len(text))
        yield from (f"{query}: {name} is wrong" for name in shown if name not in right)
    for example in LOCALISE.finditer(text):
        phrase, name = example.groups()
        ((_, wanted),), _ = parse(sentence(phrase))
        own = [thing for thing in things.get(name, []) if fits(thing, wanted)]
        if len(own) != 1:
            yield f"{phrase}: stands for {len(own)} objects of {name}"
            continue
        true = np.array([[own[0][side] for side in ("x1", "y1", "x2", "y2")]])
        best = BOX.search(text[example.end() :].partition("vse localise")[0])
        if best and overlaps(np.array([best.groups()], float), true).item() < 0.5:
            yield f"{phrase}: the box shown lies elsewhere"


def test_examples_are_of_the_test_split_and_right(scenes):
    texts = {str(path.relative_to(ROOT)): text_of(path) for path in PLACES}
    wrong = {name: list(wrong_examples(text, *scenes)) for name, text in texts.items()}
    assert {name: found for name, found in wrong.items() if found} == {}
    assert sum(len(SEARCH.findall(text)) for text in texts.values()) > 5
    assert any(LOCALISE.search(text) for text in texts.values())


def test_captions_that_shapes_quotes_are_of_one_test_image(scenes):
    page = (ROOT / "docs/shapes.md").read_text().partition("## A harder one")[0]
    quoted = {" ".join(text.split()) for text in re.findall(r'"([A-Z][^"]+\.)"', page)}
    assert len(quoted) > 1
    assert any(quoted <= set(texts) for texts in scenes[1].values())


def told(node):
    """The text of a string in code, with ... for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(told(part) or "..." for part in node.values)
    return None


def test_troubleshooting_quotes_messages_of_the_code():
    page = (ROOT / "docs/troubleshooting.md").read_text().partition("## What DVC says itself")[0]
    quoted = re.findall(r"^\| (`[^|]+`[^|]*) \|", page, re.MULTILINE)
    quoted = [text for cell in quoted for text in re.findall(r"`([^`]+)`", cell)]
    said = {
        text
        for package in ("pipeline", "models", "stages", "vse_workbench")
        for path in (ROOT / package).rglob("*.py")
        for text in map(told, ast.walk(ast.parse(path.read_text())))
        if text
    }
    assert len(quoted) > 40
    # A message may be put together from several strings: each part between what is filled in, or
    # between two commas, is one.
    parts = {
        text: [part.strip(" :;,()") for part in re.split(r"\.\.\.|, ", text)] for text in quoted
    }
    assert all(any(own) for own in parts.values())
    unsaid = {
        text: [part for part in own if not any(part in message for message in said)]
        for text, own in parts.items()
    }
    assert {text: own for text, own in unsaid.items() if own} == {}
