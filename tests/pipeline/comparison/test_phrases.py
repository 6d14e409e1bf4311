"""Figures of models of phrases, held against what they found."""

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.comparison.phrases import read_rows
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import write_features

RANKS = np.array([1, 2, 0, 7, 1], np.int32)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Metrics and found phrases of a model."""
    own = {"r1": 40.0, "r5": 60.0, "r10": 80.0, "map": 50.0}
    content = {"naive": {"phrases": own}, "upper_bound": 80.0, "phrases": 5, "unique_phrases": 4}
    (tmp_path / "m.json").write_text(json.dumps(content | {"types": {}}))
    ids = [f"phrase {number}" for number in range(5)]
    write_features(tmp_path / "m.h5", ids, {"ranks": RANKS}, {"model": "m"})
    return tmp_path / "m.json", tmp_path / "m.h5"


def test_figures_that_what_was_found_gives_are_read(files: tuple[Path, Path]) -> None:
    (row,) = read_rows(files[:1], files[1:])
    assert (row.name, row.figures["r5"], row.phrases) == ("m", 60.0, 5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("40.0", "41.0", r"m\.json: r1 41\.0000, but .*m\.h5 gives 40\.0000"),
        ("80.0,", "90.0,", r"m\.json: r10 90\.0000, but .*m\.h5 gives 80\.0000"),
        ('"phrases": 5', '"phrases": 6', r"m\.json: 6 phrases; .*m\.h5 has 5"),
    ],
)
def test_changed_figures_are_refused(files: tuple[Path, Path], old, new, message) -> None:
    text = files[0].read_text()
    assert old in text
    files[0].write_text(text.replace(old, new))
    assert read_rows(files[:1])  # nothing to hold them against
    with pytest.raises(WorkbenchError, match=message):
        read_rows(files[:1], files[1:])
