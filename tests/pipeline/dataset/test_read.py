"""The folder of readers: what lies in it is a reader, loaded only when it is read with."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from reader_cases import options, read_all, save_images

from pipeline.dataset import READERS, brings_boxes
from pipeline.dataset import read as read_module
from pipeline.dataset.source import Options, Source
from pipeline.runtime.registry import Registry

ROOT = Path(__file__).resolve().parents[3]
TINY = '''
"""Every image of a folder in a split of its own, with its name for a caption."""
import pandas as pd
from pipeline.dataset.source import Source

def read(raw, out, options):
    names = sorted(path.name for path in raw.glob("*.png"))
    images = pd.DataFrame({"image_id": names, "split": ["train", "val", "test"]})
    captions = pd.DataFrame({"caption_id": names, "image_id": names, "text": ["a dog"] * 3})
    return Source(raw, images, captions, remarks=("hello",))
'''


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


def test_a_new_reader_is_a_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "tiny_readers").mkdir()
    (tmp_path / "tiny_readers/tiny.py").write_text(TINY)
    monkeypatch.syspath_prepend(tmp_path)
    own = Registry("tiny_readers", "reader", "read", "read", root=tmp_path)
    monkeypatch.setattr(read_module, "READERS", own)
    save_images(tmp_path / "raw", "a.png", "b.png", "c.png")
    corpus = read_all("tiny", tmp_path / "raw")
    assert corpus.images["image_id"].tolist() == ["a.png", "b.png", "c.png"]
    assert "hello" in capsys.readouterr().err


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
