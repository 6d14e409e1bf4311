"""Two `dvc repro` at once in one clone: both end, or one is told to wait; the bytes are right."""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

from ruamel.yaml import YAML

from pipeline.runtime.yaml_text import read_yaml
from tests.campaign.world import ROOT, TINY, Files, files_of, merged
from tests.support.clone import PLAIN_WORLD, Clone

STAGES = ("build_vocabulary", "train_detector")
MADE = ("data/corpus", "data/vocabulary", "data/checkpoints", "dvc.lock")
BUSY = ("lock", "is running already")


class WholeRuns:
    """The section about runs of the graph; folder: scratch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._expected: Files = {}
        self.sections = {"pairs of dvc repro": self.pair}

    def pair(self, draw: random.Random, number: int) -> str:
        """The second begins at any moment of the first, for the same stages or for others."""
        if not self._expected:
            clone = self._clone()
            clone.run("dvc", "repro", *STAGES)
            self._expected = _made(clone)
        clone = self._clone()
        first = _begun(clone, STAGES)
        time.sleep(draw.random() * 10)
        second = _begun(clone, draw.sample(STAGES, draw.randint(1, 2)))
        ended = []
        for process in (first, second):
            said = process.communicate()[0]
            is_told = any(word in said for word in BUSY) and "Traceback" not in said
            if process.returncode and not is_told:
                return f"exit code {process.returncode}: {said[-120:]}"
            ended.append(process.returncode)
        if all(ended):
            return "both refused"
        clone.run("dvc", "repro", *STAGES)
        if _made(clone) != self._expected:
            return "other bytes"
        return "told to wait" if any(ended) else "both ended"

    def _clone(self) -> Clone:
        shutil.rmtree(self.folder, ignore_errors=True)
        clone = Clone(self.folder)
        for name, changes in (("data/raw/shapes/world.yaml", PLAIN_WORLD), ("params.yaml", SMALL)):
            with open(clone.folder / name, "w", encoding="utf-8") as file:
                YAML(typ="safe", pure=True).dump(merged(read_yaml(ROOT / name), changes), file)
        clone.run("git", "init", "--quiet")
        return clone


SMALL = {name: section for name, section in TINY.items() if name != "external"}


def _begun(clone: Clone, stages: tuple[str, ...] | list[str]) -> subprocess.Popen[str]:
    environment = {"PATH": os.pathsep.join(clone.path), "PYTHONPATH": str(clone.folder)}
    return subprocess.Popen(
        ["dvc", "repro", *stages],
        cwd=clone.folder,
        env=os.environ | environment | {"DVC_NO_ANALYTICS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _made(clone: Clone) -> Files:
    return {name: content for name, content in files_of(clone.folder).items()
            if name.startswith(MADE)}  # fmt: skip
