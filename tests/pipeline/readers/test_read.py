"""The list of readers: what it names is there, and is loaded only when it is read with."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from reader_cases import options, read_all, save_images

from pipeline.readers import READERS, DatasetReader
from pipeline.readers.source import Options, Source

ROOT = Path(__file__).resolve().parents[3]
TINY = '''
"""Every image of a folder in a split of its own, with its name for a caption."""
import pandas as pd
from pipeline.readers.source import Source

def read(raw, out, options):
    names = sorted(path.name for path in raw.glob("*.png"))
    images = pd.DataFrame({"image_id": names, "split": ["train", "val", "test"]})
    captions = pd.DataFrame({"caption_id": names, "image_id": names, "text": ["a dog"] * 3})
    return Source(raw, images, captions, remarks=("hello",))
'''


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads(name):
    read = importlib.import_module(READERS[name].module).read
    signature = inspect.signature(read)
    assert list(signature.parameters) == ["raw", "out", "options"]
    assert signature.parameters["options"].annotation is Options
    assert signature.return_annotation is Source


def test_shapes_alone_bring_boxes(tmp_path):
    """What the list says is what the reader does; check_params judges by it."""
    assert [name for name, reader in READERS.items() if reader.boxes] == ["shapes"]
    shapes = importlib.import_module(READERS["shapes"].module)
    source = shapes.read(ROOT / "data/raw/shapes", tmp_path, options())
    assert source.boxes is not None
    assert len(source.boxes)


def test_a_new_reader_is_a_file_and_a_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "tiny_reader.py").write_text(TINY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(READERS, "tiny", DatasetReader("tiny_reader"))
    save_images(tmp_path / "raw", "a.png", "b.png", "c.png")
    corpus = read_all("tiny", tmp_path / "raw")
    assert corpus.images["image_id"].tolist() == ["a.png", "b.png", "c.png"]
    assert "hello" in capsys.readouterr().err


def test_the_lists_load_nothing_heavy():
    code = (
        "import sys, pipeline.readers.params, pipeline.sentences.params\n"
        "print([name for name in ('torch', 'pandas', 'numpy', 'sklearn', 'PIL')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
