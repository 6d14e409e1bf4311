"""dataset: auto on folders of drawn layouts: read as they are meant, or refused."""

import random
from dataclasses import replace

import pytest

from tests.layouts.forms import FORMS
from tests.layouts.judge import REFUSED, WHOLE, fault, play, write_layout
from tests.layouts.others import OTHERS
from tests.support.reader_cases import read_all

COUNT = 150


def test_drawn_layouts_are_read_whole_or_refused(tmp_path):
    """`python -m tests.campaign --only "layouts of folders"` draws thousands."""
    outcomes = [play(random.Random(seed), tmp_path / "drawn") for seed in range(COUNT)]
    faults = [(said, own.chosen) for said, own in outcomes if said not in (WHOLE, REFUSED)]
    assert faults == []
    refused = [own.chosen["refused"] for said, own in outcomes if said == REFUSED]
    assert len(refused) < COUNT / 20, refused
    assert {own.chosen["form"] for _, own in outcomes} == set(FORMS)
    assert {name for _, own in outcomes for name in own.chosen.get("others", ())} == set(OTHERS)


@pytest.fixture
def layout(tmp_path):
    """One that says splits and is read whole."""
    for seed in range(100):
        raw = tmp_path / str(seed) / "raw"
        raw.mkdir(parents=True)
        drawn = write_layout(random.Random(seed), raw)
        if drawn.says_splits and len(drawn.splits) == 3:
            return drawn
    raise AssertionError("no such layout")


def test_what_is_read_wrongly_is_a_fault(layout):
    """A judge that saw nothing would call every reader right."""
    corpus = read_all("auto", layout.raw)
    assert fault(layout, corpus) == ""
    images, captions = corpus.images, corpus.captions
    drawn = images.assign(split=images["split"].replace({"val": "train"}))
    assert " is in train, and not in val" in fault(layout, replace(corpus, images=drawn))
    fewer = replace(corpus, images=images.iloc[1:])
    assert fault(layout, fewer).startswith("missing: ")
    other = captions.assign(text=captions["text"].str.upper())
    assert " and not [" in fault(layout, replace(corpus, captions=other))
    moved = images.assign(sha256="0")
    assert " is another file than is meant" in fault(layout, replace(corpus, images=moved))


def test_the_seed_decides_a_layout(tmp_path):
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_layout(random.Random(7), tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        written.append(
            {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files}
        )
    assert written[0] == written[1]
