"""What the documents say about the project is held against the project."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_drawn_graph_is_the_graph():
    """The picture in the README is what DVC draws of dvc.yaml."""
    command = [Path(sys.executable).with_name("dvc"), "dag", "--mermaid", "evaluate@vse"]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"```mermaid\n{drawn.rstrip()}\n```\n" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_commands_lead_somewhere(document):
    # Files that a reader is to write (tests/test_extending.py does) are not there yet.
    text = re.sub(r"^File `[^`]+`:$", "", document.read_text(), flags=re.MULTILINE)
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / link).exists(), f"{document.name} links to {link}"
    # Commands stand in code: in fences or between backticks; capitals are placeholders.
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    for module in re.findall(r"python -m (stages\.[a-z_]+)", code):
        file = ROOT / Path(*module.split(".")).with_suffix(".py")
        assert file.is_file(), f"{document.name} runs {module}"
    for path in re.findall(r"`((?:pipeline|stages|models|tests|recipes|docs)/[\w/]+\.\w+)`", code):
        assert (ROOT / path).exists(), f"{document.name} names {path}"
    goals = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for goal in re.findall(r"[`\n]make ([a-z]+)", code):
        assert goal in goals, f"{document.name} says make {goal}"
