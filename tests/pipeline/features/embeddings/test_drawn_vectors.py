"""Drawn files of vectors: each image is given its own, or the file is refused."""

import random

import numpy as np
import pytest

from tests.layouts.judge import REFUSED, WHOLE
from tests.layouts.vectors import FORMS, WAYS, drawn_vectors, fault_of_vectors, play_vectors

COUNT = 120


def test_every_image_is_given_its_vector_or_the_file_is_refused(tmp_path):
    """`python -m tests.campaign --only "files of vectors"` draws thousands."""
    outcomes = [play_vectors(random.Random(seed), tmp_path / "drawn") for seed in range(COUNT)]
    faults = [(said, own.chosen) for said, own in outcomes if said not in (WHOLE, REFUSED)]
    assert faults == []
    refused = [own.chosen for said, own in outcomes if said == REFUSED and own.are_all]
    assert {own["way"] for own in refused} <= {"small letters"}
    assert {own.chosen["form"] for _, own in outcomes} == set(FORMS)
    assert {own.chosen["way"] for _, own in outcomes} == set(WAYS)


@pytest.fixture
def drawn(tmp_path):
    return drawn_vectors(random.Random(1), tmp_path)


def test_what_is_matched_wrongly_is_a_fault(drawn):
    """A judge that saw nothing would call every file right."""
    count = len(drawn.ids)
    places = np.arange(count)
    drawn.are_all = True
    assert fault_of_vectors(drawn, places, drawn.expected) == ""
    exchanged = fault_of_vectors(drawn, places[::-1], drawn.expected)
    assert exchanged.startswith("the vector of another image: ")
    fewer = fault_of_vectors(drawn, np.where(places == 0, -1, places), drawn.expected)
    assert fewer == f"no vector, and not refused: {drawn.ids[0]}"
    drawn.are_all = False
    said = fault_of_vectors(drawn, places, drawn.expected)
    assert said == "an image without a row has the vector of another"
