"""A world so small that every stage of the graph takes a fraction of a second, and what it leaves.

The stages, their commands, what they read and write are those of dvc.yaml. Each runs in a process
forked from this one, which has loaded all libraries and computed nothing.
"""

import importlib
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from dvc.parsing import DataResolver
from dvc_objects.fs.local import LocalFileSystem

from models.phrases import PHRASE_MODELS
from models.registry import load_model, model_names
from pipeline.runtime.code import SOURCES, code_digest
from pipeline.runtime.yaml_text import read_yaml
from tests.support.corpora import change_params
from tests.support.forked import Child
from tests.support.warm_python import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
Files = dict[str, bytes]

PHASES = read_yaml(ROOT / "params.yaml")["dual_path"]["phases"]
for phase in PHASES:
    phase["epochs"] = 1
EPOCHS = {"epochs": 2, "batch_size": 16}
TINY = {
    "raw": "data/raw/shapes",
    "shapes": {
        "train": 24,
        "val": 6,
        "test": 6,
        "image_size": 32,
        "near_duplicates": 0.0,
        "captions_per_image": 2,
    },
    "vocabulary": {"dim": 8, "epochs": 1},
    "detector": {
        "channels": 4,
        "hidden": 8,
        "anchors": [[8.0], [12.0]],
        "proposals": 8,
        "training": {"epochs": 1, "images_per_epoch": None, "warmup": 2, "sampled": 8},
    },
    "image_features": {"size": 32, "batch_size": 16, "workers": 0, "layers": ["layer1", "layer2"]},
    "regions": {"boxes": 3, "workers": 0},
    "sentences": {"fisher": {"centres": 2, "ica": 4, "pca": 8, "iterations": 2}},
    "vse": {"dim": 8, "hidden": 8, "word_dim": 8, "training": EPOCHS},
    "two_branch": {"dim": 8, "hidden": 8, "training": EPOCHS},
    "cca": {"dim": 4, "regularisation": 0.1},
    "dual_path": {
        "dim": 8,
        "hidden": 8,
        "slots": 12,
        "word_dim": 8,
        "text_width": 4,
        "resize": 32,
        "crop": 28,
        "phases": PHASES,
        "training": {"batch_size": 12, "workers": 0},
    },
    "scan": {"dim": 8, "word_dim": 8, "training": EPOCHS},
    "vse_infinity": {"dim": 8, "word_dim": 8, "training": EPOCHS},
    "dp_rnn": {
        "dim": 8,
        "word_dim": 8,
        "candidates": 2,
        "training": {"epochs": {"matching": 1, "recurrent": 1, "all": 1}, "batch_size": 16},
    },
    "phrases": {"features": {"workers": 0}},
    "phrase_two_branch": {
        "dim": 8,
        "hidden": 8,
        "training": {"epochs": 2},
        "mining": {"epochs": 1, "sampled": 3},
    },
    "phrase_cca": {"dim": 4},
    "scoring": {"shortlist": 3},
    "evaluation": {"bootstrap": 20},
    "external": {"mine": {"folder": "mine", "scores": "mine.npy"}},
}


@dataclass(frozen=True)
class Stage:
    """A stage of the graph, or an item of one: its command, and files and folders it reads."""

    name: str
    module: str
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Ended:
    code: int
    said: str

    @property
    def is_refusal(self) -> bool:
        """Whether it ended as a user is to be told of a problem: plain lines, exit code 1."""
        lines = self.said.splitlines()
        told = any(line.startswith("error: ") for line in lines)
        return self.code == 1 and told and "Traceback" not in self.said

    @property
    def fault(self) -> str:
        """What is wrong with a process that neither succeeded nor was killed nor refused."""
        if "Traceback" in self.said:
            return f"traceback: {self.said.strip().splitlines()[-1][:120]}"
        return f"exit code {self.code}: {' / '.join(self.said.splitlines()[-3:])[:160]}"


class World:
    """The stages, and the files before and after each; made in `folder` as far as they are asked.

    last: stages that are made, with those that they read from; none for all.
    """

    def __init__(self, folder: Path, last: Sequence[str] = ()) -> None:
        self.folder, self.last = folder, last
        self.seconds: dict[str, float] = {}
        self._files: Files = {}
        self._after: dict[str, Files] = {}

    @cached_property
    def stages(self) -> dict[str, Stage]:
        self._begin()
        graph = self.folder / "dvc.yaml"
        repo = SimpleNamespace(fs=LocalFileSystem(), config={})
        resolved = DataResolver(repo, str(self.folder), read_yaml(graph)).resolve()["stages"]
        left = [_stage(name, found) for name, found in resolved.items()]
        ordered: list[Stage] = []
        while left:
            made = [output for stage in left for output in stage.outputs]
            ready = [stage for stage in left if not _any_touch(stage.inputs, made)]
            ordered += ready
            left = [stage for stage in left if stage not in ready]
        _load([stage.module for stage in ordered])
        kept: list[Stage] = []
        for stage in reversed(ordered):
            wanted = [path for one in kept for path in one.inputs]
            if stage.name in (self.last or [stage.name]) or _any_touch(stage.outputs, wanted):
                kept.append(stage)
        return {stage.name: stage for stage in reversed(kept)}

    def before(self, stage: Stage) -> Files:
        self._make(stage)
        return {
            name: content
            for name, content in self._files.items()
            if _any_touch((*ALWAYS, *stage.inputs), [name])
            and not _any_touch(stage.outputs, [name])
        }

    def after(self, stage: Stage) -> Files:
        self._make(stage)
        return self._after[stage.name]

    def everything(self) -> Files:
        self._make(list(self.stages.values())[-1])
        return self._files

    def _make(self, last: Stage) -> None:
        for stage in self.stages.values():
            if last.name in self._after:
                break
            if stage.name not in self._after:
                begun = time.monotonic()
                done = run(stage, self.folder)
                assert done.code == 0, (stage.name, done.said)
                self.seconds[stage.name] = time.monotonic() - begun
                self._files = files_of(self.folder)
                self._after[stage.name] = outputs_of(stage, self._files)

    def _begin(self) -> None:
        self.folder.mkdir()
        shutil.copytree(ROOT / "data/raw/shapes", self.folder / "data/raw/shapes")
        shutil.copy(ROOT / "dvc.yaml", self.folder)
        change_params(self.folder, **TINY)
        values = np.random.default_rng(0).normal(size=(6, 12)).astype(np.float32)
        (self.folder / "mine").mkdir()
        np.save(self.folder / "mine/mine.npy", values)


LATE = ("pyarrow.pandas_compat", "PIL.JpegImagePlugin", "PIL.BmpImagePlugin", "PIL.GifImagePlugin")
LATE += ("PIL.PpmImagePlugin", "matplotlib.backends.backend_svg", "lemminflect")
# read by every stage, or by those that read its table
ALWAYS = ("params.yaml", "dvc.yaml", "mine", "data/raw/shapes", "data/corpus/images")
CODE = ("pipeline/", "models/", "stages/")


def start(stage: Stage, folder: Path, first: Callable[[], object] = lambda: None) -> Child:
    """A child that runs a stage's command in a folder."""

    def command() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        first()
        main = importlib.import_module(stage.module).main
        main(list(stage.arguments), prog_name=stage.module)

    return Child(stage.name, command)


def run(stage: Stage, folder: Path, first: Callable[[], object] = lambda: None) -> Ended:
    return Ended(*start(stage, folder, first).end())


def files_of(folder: Path) -> Files:
    """All files below a folder by their paths in it, but what check_params keeps of sources."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    kept = (path for path in paths if path.name != SOURCES.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def outputs_of(stage: Stage, files: Files) -> Files:
    return {n: own for n, own in files.items() if _any_touch(stage.outputs, [n])}


def put(folder: Path, files: Files) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _load(modules: list[str]) -> None:
    """Load what the stages load, and read their sources, which each would read for its digest."""
    of_phrases = [module for module, _ in PHRASE_MODELS.values()]
    for name in (*LIBRARIES, *LATE, *of_phrases, *modules):
        importlib.import_module(name)
    for name in model_names():
        load_model(name)
    code_digest()


def _stage(name: str, resolved: dict[str, Any]) -> Stage:
    _, _, module, *arguments = shlex.split(resolved["cmd"])
    outputs = [
        next(iter(output)) if isinstance(output, dict) else output
        for kind in ("outs", "plots", "metrics")
        for output in resolved.get(kind, [])
    ]
    # of the files that one stage makes DVC is told one alone
    named = [
        path for path in arguments if path.startswith("data/") and not _any_touch([path], outputs)
    ]
    inputs = {path: None for path in (*resolved["deps"], *named) if not path.startswith(CODE)}
    return Stage(name, module, tuple(arguments), tuple(inputs), tuple(outputs))


def _any_touch(some: Iterable[str], others: Sequence[str]) -> bool:
    """Whether one of some paths is one of others, or in it, or holds it."""
    return any(
        f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
        for one in some
        for other in others
    )
