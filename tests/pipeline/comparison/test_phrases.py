"""Figures of models of phrases, held against what they found."""

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.comparison.phrases import read_rows
from pipeline.evaluation.figures import metrics_digest
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import write_features

RANKS = np.array([1, 2, 0, 7, 1], np.int32)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Metrics and found phrases of a model."""
    own = {"r1": 40.0, "r5": 60.0, "r10": 80.0, "map": 50.0}
    content = {"naive": {"phrases": own}, "upper_bound": 80.0, "phrases": 5, "unique_phrases": 4}
    content |= {"types": {}}
    (tmp_path / "m.json").write_text(json.dumps(content))
    ids = [f"phrase {number}" for number in range(5)]
    attributes = {"model": "m", "metrics_sha256": metrics_digest(content)}
    write_features(tmp_path / "m.h5", ids, {"ranks": RANKS}, attributes)
    return tmp_path / "m.json", tmp_path / "m.h5"


def test_figures_that_what_was_found_gives_are_read(files: tuple[Path, Path]) -> None:
    (row,) = read_rows(files[:1], files[1:])
    assert (row.name, row.figures["r5"], row.phrases) == ("m", 60.0, 5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("40.0", "41.0", r"m\.json: was not written with .*m\.h5, or was changed"),
        ('"phrases": 5', '"phrases": 6', r"m\.json: was not written with .*m\.h5"),
    ],
)
def test_changed_figures_are_refused(files: tuple[Path, Path], old, new, message) -> None:
    text = files[0].read_text()
    assert old in text
    files[0].write_text(text.replace(old, new))
    assert read_rows(files[:1])  # nothing to hold them against
    with pytest.raises(WorkbenchError, match=message):
        read_rows(files[:1], files[1:])


def test_what_another_model_found_is_refused(files: tuple[Path, Path]) -> None:
    other = files[0].with_name("n.json"), files[1].with_name("n.h5")
    for mine, theirs in zip(files, other, strict=True):
        mine.rename(theirs)
    with pytest.raises(WorkbenchError, match=r"n\.h5: of m, another model"):
        read_rows(other[:1], other[1:])
