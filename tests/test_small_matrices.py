"""The page of small matrices runs without torch and is right, and so is `evaluate`."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from clone import ROOT
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pipeline.evaluation.figures import rounded
from pipeline.evaluation.score_file import SplitScores
from vse_workbench import evaluate

PAGE = ROOT / "docs/coming.md"
PROGRAM = """
import doctest, re, sys
from pathlib import Path
text = Path(sys.argv[1]).read_text()
shown = "".join(re.findall("```pycon\\n(.*?)```", text, re.DOTALL))
found = doctest.DocTestParser().get_doctest(shown, {}, "coming.md", None, 0)
done = doctest.DocTestRunner().run(found)
print(done.attempted, done.failed, "torch" in sys.modules)
"""


def test_the_page_shows_what_it_prints_and_loads_no_torch():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(PAGE)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    *said, last = done.stdout.splitlines()
    attempted, failed, has_torch = last.split()
    assert (failed, has_torch) == ("0", "False"), "\n".join(said)
    assert int(attempted) > 10


def plain_recalls(scores, images, captions):
    """R@K one query after the other; an item that scores as high as a true one stands before it."""
    figures: dict[str, Any] = {"i2t": {}, "t2i": {}}
    ways = {"i2t": (scores, images, captions), "t2i": (scores.T, captions, images)}
    for way, (rows, queries, items) in ways.items():
        ranks = []
        for row, query in zip(rows, queries, strict=True):
            best = max(own for own, item in zip(row, items, strict=True) if item == query)
            before = [
                item for own, item in zip(row, items, strict=True) if item != query and own >= best
            ]
            ranks.append(1 + len(before))
        for k in (1, 5, 10):
            figures[way][f"r{k}"] = 100 * sum(rank <= k for rank in ranks) / len(ranks)
    return figures


SCORES = arrays.arrays(np.float64, (4, 12), elements=st.integers(-3, 3).map(float))


@given(SCORES, st.permutations([0, 1, 2, 3] * 3), st.booleans())
def test_recalls_are_those_of_the_plain_form(scores, owner, has_persons):
    persons = ["a", "b", "a", "c"] if has_persons else None
    of_images = persons or [0, 1, 2, 3]
    of_captions = [persons[row] for row in owner] if persons else owner
    found = evaluate(scores, of_captions, persons).metrics["naive"]
    for way, wanted in plain_recalls(scores, of_images, of_captions).items():
        assert {key: found[way][key] for key in wanted} == rounded(wanted)


def test_a_split_is_what_its_matrix_is():
    scores = np.random.default_rng(0).normal(size=(6, 12)).astype(np.float32)
    owner = np.arange(12) % 6
    names = [f"im{n}" for n in range(6)]
    captions = [f"c{n}" for n in range(12)]
    split = SplitScores(scores, names, captions, [names[n] for n in owner], names)
    options = {"folds": 2, "resamples": 30, "seed": 3}
    one, other = evaluate(split, **options), evaluate(scores, owner, **options)
    assert (one.metrics, one.intervals) == (other.metrics, other.intervals)
    assert one.protocol == "3_x2"


@pytest.mark.parametrize(
    ("scores", "groups", "words"),
    [
        (np.eye(2), None, "groups: missing; they say which image each caption belongs to"),
        (np.ones(3), [0, 0, 0], "scores of shape (3,): must be a matrix"),
        (np.eye(2), [0, 2], "images without a caption: those of group 1"),
        (np.eye(2), [0, 1, 1], "(2, 2)"),
        (np.eye(2), [0.0, 1.0], "groups of type int64 and float64"),
        (np.array([[1, np.nan], [0, 1]]), [0, 1], "score nan of image 0 and caption 1"),
        (np.eye(2) - np.inf, [0, 1], "score -inf of image 0 and caption 0"),
    ],
)
def test_what_cannot_be_evaluated_is_said(scores, groups, words):
    assert words in refusal(evaluate, scores, groups)
