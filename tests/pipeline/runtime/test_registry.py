"""Names come from files, offers from sources, and a slip is one line that names its file."""

import re
import subprocess
import sys

import pytest
from commands import refusal

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import ONE_CLASS, Registry

LOUD = "print('imported')\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / f"shelf_{tmp_path.name}"
    package.mkdir()
    (package / "__init__.py").write_text("")
    return package


@pytest.fixture
def readers(folder):
    return Registry(folder.name, "reader", "read", "read(raw)", root=folder.parent)


@pytest.fixture
def losses(folder):
    return Registry(folder.name, "loss", ONE_CLASS, "one class", root=folder.parent)


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)


def test_files_and_packages_are_entries_and_the_chosen_one_is_imported(folder, readers, capsys):
    write(folder, b=LOUD + "def read(raw): return 'b'", a=LOUD + "def read(raw): return 'a'")
    (folder / "c").mkdir()
    write(folder / "c", __init__="from os.path import exists as read", helper="")
    (folder / "__pycache__").mkdir()
    (folder / "world.yaml").write_text("")
    assert list(readers) == ["a", "b", "c"]
    assert readers.entries() == {name: f"{folder.name}.{name}" for name in "abc"}
    assert capsys.readouterr().out == ""
    assert readers.load("a")(None) == "a"
    assert capsys.readouterr().out == "imported\n"
    assert f"{folder.name}.b" not in sys.modules
    assert "reader 'x': allowed are a, b, c" in refusal(readers.load, "x")


def test_a_new_file_is_an_entry_at_once_and_the_first_stays_first(folder):
    own = Registry(folder.name, "reader", "read", "read(raw)", first="naive", root=folder.parent)
    write(folder, naive="read = 1", a="read = 1")
    assert list(own) == ["naive", "a"]
    write(folder, b="read = 1")
    assert list(own) == ["naive", "a", "b"]
    assert "b" in own


def test_constants_are_read_and_nothing_is_run(folder, readers):
    write(folder, a="BOXES = True\nSIGNS: tuple = ('x', 'y')\ndef read(): 1 / 0")
    assert readers.constant("a", "BOXES") is True
    assert readers.constant("a", "SIGNS", ()) == ("x", "y")
    assert readers.constant("a", "OTHER", 3) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"x = 1\n", r"mine\.py: offers no reader; it must hold read\(raw\)$"),
        (b"def read(:\n", r"mine\.py, line 1: invalid syntax"),
        (b"read = '\xff'\n", r"mine\.py, line 1: .*utf-8"),
        (b"read = 1\0", r"mine\.py.*null bytes"),
    ],
)
def test_what_cannot_be_an_entry_is_one_line(folder, readers, text, said):
    (folder / "mine.py").write_bytes(text)
    for look in (readers.entries, lambda: readers.load("mine")):
        with pytest.raises(WorkbenchError) as caught:
            look()
        assert re.search(said, caught.value.message), caught.value.message
        assert "\n" not in caught.value.message


def test_a_file_that_fails_while_it_is_loaded_is_a_line(folder, readers):
    write(folder, a="import os\n\nread = 1 / 0\n", b="def read(): ...\nraise KeyError('x')\n")
    assert refusal(readers.load, "a").endswith("a.py, line 3: ZeroDivisionError: division by zero")
    assert refusal(readers.load, "b").endswith("b.py, line 2: KeyError: 'x'")


def test_a_loss_is_the_one_public_class_of_its_file(folder, losses):
    write(folder, a="class _Sum: ...\nclass A(_Sum): ...\nclass _B: ...")
    assert losses.load("a").__name__ == "A"
    write(folder, b="class B: ...\nclass C: ...")
    assert "b.py: holds the classes B and C; one of them is" in refusal(losses.entries)
    write(folder, b="x = 1")
    assert "b.py: offers no loss; it must hold one class" in refusal(losses.entries)


def test_an_error_while_modules_load_is_a_line(tmp_path):
    """A stage imports before its command can catch anything."""
    code = "import stages; from pipeline.runtime.errors import WorkbenchError; raise {}"
    for error, said in (("WorkbenchError('a', 'b')", "error: a\nb\n"), ("KeyError()", "Traceback")):
        done = subprocess.run(
            [sys.executable, "-c", code.format(error)], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert done.stderr.startswith(said)
