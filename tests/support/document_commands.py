"""The commands in the fences of the documents, as a reader would type them, and what becomes of
each in a test: it is run, or it is marked with the reason why not."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.corpus.tables import load_images
from pipeline.evaluation.score_file import read_scores

# What is not run, by how its line begins, and why.
MARKED = {
    "dvc exp run": "trains; tests/test_graph.py runs its own",
    "dvc queue": "trains what was queued",
    "dvc repro": "the fixture of tests/test_graph.py is one",
    "dvc add": "of the reader's images; tests/test_outside_files.py tracks some",
    "dvc push": "in the test of a remote",
    "dvc pull": "in the test of a remote",
    "dvc remote": "in the test of a remote",
    "dvc artifacts": "in the test of a remote",
    "dvc exp pu": "asks for remotes of the reader's group",
    "dvc cache dir": "names a folder of the reader's group",
    "dvc config": "of the reader's group",
    "dvc get": "asks for an experiment that a reader has run",
    "git ": "of the reader's repository",
    "make ": "installs",
    "touch ": "with git, undoes a wrong value",
    "source ": "of the reader's shell",
    "eval ": "of the reader's shell",
    ".venv/bin/pre-commit": "of the reader's repository",
    "python -m tests.campaign": "takes minutes; tests/test_campaign.py runs a sample",
    "python -m tests.sequences": "takes hours; tests/test_sequences.py runs some",
    "vse claims queue": "plans runs; tests/vse_workbench/commands/test_claims.py",
    "vse claims run": "trains; tests/vse_workbench/commands/test_claims.py",
    "vse claims pack": "trains; tests/vse_workbench/commands/test_claims.py",
    "vse claims unpack": "of a folder that another machine has worked through, likewise",
    "python -m vse_workbench claims work": "of another machine, likewise",
    "vse recipe photographs": "of the reader's folder",
    "vse recipe clip_zero_shot": "of the reader's folder",
    "vse import scores EMBEDDINGS": "of clip-retrieval's folder; test_import_scores.py reads one",
    "vse serve": "waits for browsers; tests/vse_workbench/commands/test_serve.py",
    "pip install": "installs",
    "vse new": "of the reader's own code; tests/vse_workbench/commands/test_new.py",
    "vse embed-plots": "of this clone; tests/vse_workbench/commands/test_embed_plots.py",
    "vse compare vse-1": "of experiments; tests/vse_workbench/commands/test_compare.py runs some",
    "vse compare runs/a": "of folders of experiments, likewise",
    "vse analyse dual_path": "of three experiments; getting_started.md has that of vse",
}
PIPED = re.compile(r"\| (sh|vse .*)$")  # reads experiments, which have to be run


@dataclass(frozen=True)
class Command:
    document: str
    line: str  # continued lines joined, without its comment

    @property
    def reason(self) -> str:
        if PIPED.search(self.line):
            return "reads experiments that a reader has run"
        return next((why for start, why in MARKED.items() if self.line.startswith(start)), "")

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)


def commands_of(documents: list[Path]) -> list[Command]:
    """All commands in fences, in their order: lines that begin with the name of a program."""
    programs = r"(dvc|vse|python -m|git|make|touch|pip|source|eval|curl|\.venv/bin/\S+) "
    found = []
    for path in documents:
        for block in re.findall(r"^```\w*\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            lines = block.replace("\\\n", " ").splitlines()
            found += [
                Command(path.name, re.sub(r"\s+#\s.*", "", line))
                for line in lines
                if re.match(programs, line) and not line.startswith("make:")
            ]
    return found


def stand_ins(folder: Path) -> dict[str, str]:
    """What the documents leave to the reader: files put into a folder where the graph has run, and
    by a word of a command what takes its place."""
    split = read_scores(folder / "data/scores/vse.h5", "test")
    np.save(folder / "MY.npy", split.scores)
    np.save(folder / "IMAGES.npy", split.image_embeddings)
    np.save(folder / "CAPTIONS.npy", split.caption_embeddings)
    images = load_images(folder / "data/corpus/images.parquet").set_index("image_id")
    photo = folder / images.loc[split.image_ids[0], "path"]
    shutil.copy(photo, folder / "photo.jpg")
    (folder / "RAW").mkdir(exist_ok=True)
    (folder / "FOLDER").mkdir(exist_ok=True)
    lines = ["image,caption"]
    for name in split.image_ids[:4]:
        shutil.copy(folder / images.loc[name, "path"], folder / "FOLDER" / name)
        lines.append(f"{name},a red circle")
    (folder / "FOLDER/captions.txt").write_text("\n".join(lines))
    return {
        "raw=/path/to/flickr30k": "raw=RAW",
        "/path/to/folder": "FOLDER",
        "regions.path=DATA/f30k_precomp": "regions.path=RAW",
        "test_00061.jpg#2": "test_00000.jpg#0",
        "my-experiment:vse": "main:vse",
        "~/photos": str(photo.parent),
        "dog.jpg": "photo.jpg",
    }
