"""Files that say that there are no phrases: of a corpus without any, every stage has an output."""

from pathlib import Path

from pipeline.features.groups import GroupFile, write_groups
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say

ABSENT = {"phrases": "none"}


def write_absent(path: Path) -> None:
    """Say in place of an artefact that the corpus has no phrases."""
    write_groups(path, {}, ABSENT)
    say(f"{path}: the corpus has no phrases")


def is_absent(path: Path) -> bool:
    """Whether `write_absent` wrote a file, as far as its header says."""
    try:
        file = GroupFile(path)
    except WorkbenchError:  # a file of another kind, which its own reader judges
        return False
    return not file.layouts and file.attributes.get("phrases") == ABSENT["phrases"]
