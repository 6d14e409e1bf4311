"""Digests of code: what changes one, which files a program may load, and the net under it."""

import subprocess
import sys

import pytest
from corpora import ROOT

import pipeline.evaluation.figures  # noqa: F401 - loaded, for the last test
from pipeline.runtime.code import Sources, check_listed, check_loaded, loaded_sources
from pipeline.runtime.errors import WorkbenchError

WRITTEN = '''\
"""What it is for."""
from typing import TYPE_CHECKING
from models.words import known
if TYPE_CHECKING:
    from models.types import Words
LIMIT: int = 3


def count(words: "Words", least: int = 1) -> int:
    """How many.

    Args: words.
    """
    from models import late  # slow to load

    if least > LIMIT:
        raise ValueError(f"least = {least}: too large")
    return sum(known(word) for word in words) * late.FACTOR
'''
# Edits of WRITTEN, and whether the digest changes.
EDITS = {
    "a docstring": ("How many.", "The number of words.", False),
    "a comment": ("# slow to load", "# takes a second", False),
    "white space": ("LIMIT: int = 3", "LIMIT:  int =  3", False),
    "an annotation": ("least: int", "least: float", False),
    "an import for annotations": ("models.types import Words", "models.kinds import Words", False),
    "the text of an error": ("too large", "at most 3 is allowed", False),
    "a number": ("= 3", "= 4", True),
    "a name": ("known(word) for", "later(word) for", True),
    "an import in a function": ("from models import late", "from models import later", True),
    "a condition of an error": ("least > LIMIT", "least >= LIMIT", True),
}


@pytest.fixture
def root(tmp_path):
    files = {
        "stages/run.py": WRITTEN,
        "stages/other.py": "",
        "models/words.py": "import pipeline.report.page\n\ndef known(word): return True\n",
        "models/late.py": "from models.losses.hinge import LIMIT as FACTOR\n",
        "models/losses/hinge.py": "LIMIT = 1\n",
        "models/losses/other.py": "LIMIT = 2\n",
        "models/types.py": "Words = list\n",
        "pipeline/report/page.py": 'TEMPLATES = "templates"',
        "pipeline/report/pairs.py": "",
        "pipeline/report/templates/style.css": "body {}\n",
        "pipeline/runtime/errors.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in ("models", "models/losses", "pipeline", "pipeline/report", "stages"):
        (tmp_path / folder / "__init__.py").touch()
    return tmp_path


@pytest.mark.parametrize("edit", EDITS)
def test_what_changes_a_digest(root, edit):
    old, new, changes = EDITS[edit]
    before = Sources(root).digest("stages/run.py")
    assert WRITTEN.count(old) == 1
    (root / "stages/run.py").write_text(WRITTEN.replace(old, new))
    assert (Sources(root).digest("stages/run.py") != before) == changes


def test_the_files_that_a_program_may_load(root):
    assert Sources(root).closure(["stages.run"]) == [
        "models/__init__.py",
        "models/late.py",
        "models/losses/__init__.py",
        "models/losses/hinge.py",
        "models/words.py",
        "pipeline/__init__.py",
        "pipeline/report/__init__.py",
        "pipeline/report/page.py",
        "pipeline/report/templates/style.css",
        "stages/run.py",
    ]
    assert Sources(root).closure(["stages.other"]) == ["stages/other.py"]
    assert Sources(root).closure(["pipeline.report.pairs"]) == [
        "pipeline/__init__.py",
        "pipeline/report/__init__.py",
        "pipeline/report/pairs.py",
    ]
    assert "models/late.py" not in Sources(root).closure(["stages.run"], late=False)


def test_a_syntax_error_is_named_with_its_line(root):
    (root / "models/late.py").write_text("x = 1\ny = (\n")
    with pytest.raises(WorkbenchError, match=r"models/late\.py, line 2: "):
        Sources(root).closure(["stages.run"])


def test_what_was_read_is_remembered_until_the_file_changes(root):
    memory = root / "memory.json"
    first = Sources(root, memory)
    before = first.digest("stages/run.py")
    first.remember()
    again = Sources(root, memory)
    assert again.digest("stages/run.py") == before
    (root / "stages/run.py").write_text("x = 2\n")
    assert Sources(root, memory).digest("stages/run.py") == Sources(root).digest("stages/run.py")
    memory.write_text("{")  # cut off by a kill
    assert Sources(root, memory).digest("stages/run.py") == Sources(root).digest("stages/run.py")


def test_a_stage_that_loads_a_file_beyond_its_list_fails_by_its_name(tmp_path):
    listing, loaded = tmp_path / "run", loaded_sources()
    lost = "pipeline/evaluation/figures.py"
    assert lost in loaded
    check_loaded(listing)  # no list: not run by DVC
    listing.write_text("".join(f"{file} 0\n" for file in loaded))
    check_loaded(listing)
    listing.write_text("".join(f"{file} 0\n" for file in loaded - {lost}))
    with pytest.raises(WorkbenchError, match=f"run has loaded {lost}, which .* does not list"):
        check_loaded(listing)


def test_a_stage_of_other_code_than_its_list_is_refused(tmp_path):
    """What it makes would be kept as made by the code of the list."""
    listing = tmp_path / "score@cca"
    sources = Sources()
    files = ("models/cca.py", "pipeline/features/split.py")
    without = sources.digest("models/scan.py", frozenset({"attention"}))
    assert without != sources.digest("models/scan.py")
    lines = [*(f"{file} {sources.digest(file)}" for file in files), f"models/scan.py {without}"]
    lines += ["image_features.size 32", "vocabulary.file.path 0123"]  # of keys of params.yaml
    check_listed(listing)  # no list: not run by DVC
    listing.write_text("".join(f"{line}\n" for line in lines))
    check_listed(listing, uncalled=frozenset({"attention"}))
    with pytest.raises(WorkbenchError, match=r"^models/scan.py changed after check_params"):
        check_listed(listing)
    listing.write_text(
        "".join(f"{line}\n" for line in lines).replace(f"{files[1]} ", f"{files[1]} 0")
    )
    with pytest.raises(
        WorkbenchError, match=r"^pipeline/features/split.py changed .* of score@cca"
    ):
        check_listed(listing, uncalled=frozenset({"attention"}))


LATE_IMPORTS = """
import os, sys, time
from pathlib import Path
from pipeline.runtime.code import Imports
import models
folder = Path(sys.argv[1])
models.__path__.append(str(folder))
imports = Imports()
import models.as_it_is, models.written_later
later = time.time() + 1
os.utime(folder / "written_later.py", (later, later))
print(sorted(imports.of_present_code(folder)))
"""


def test_imports_tell_what_was_imported_as_it_now_is(tmp_path):
    for name in ("as_it_is", "written_later", "not_imported"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    done = subprocess.run(
        [sys.executable, "-c", LATE_IMPORTS, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['as_it_is.py']\n"


def test_some_files_of_a_list_can_be_compared_alone(tmp_path):
    listing = tmp_path / "score@cca"
    listing.write_text("models/cca.py 0\npipeline/features/split.py 0\n")
    check_listed(listing, files=frozenset({"models/vse.py"}))
    with pytest.raises(WorkbenchError, match=r"^models/cca.py changed after"):
        check_listed(listing, files=frozenset({"models/cca.py"}))
