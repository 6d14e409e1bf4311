"""The folder of readers: what lies in it is a reader, loaded only when it is read with."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from reader_cases import options

from pipeline.dataset import READERS, brings_boxes
from pipeline.dataset.source import Options, Source

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads(name):
    read = READERS.load(name)
    signature = inspect.signature(read)
    assert list(signature.parameters) == ["raw", "out", "options"]
    assert signature.parameters["options"].annotation is Options
    assert signature.return_annotation is Source


def test_shapes_alone_bring_boxes(tmp_path):
    """What the list says is what the reader does; check_params judges by it."""
    assert [name for name in READERS if brings_boxes(name)] == ["shapes"]
    source = READERS.load("shapes")(ROOT / "data/raw/shapes", tmp_path, options())
    assert source.boxes is not None
    assert len(source.boxes)


def test_the_lists_load_nothing_heavy():
    code = (
        "import sys, pipeline.dataset.params, pipeline.sentences.params\n"
        "print([name for name in ('torch', 'pandas', 'numpy', 'sklearn', 'PIL')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
