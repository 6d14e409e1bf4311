"""A world so small that every stage of the graph takes a fraction of a second, and what it leaves.

The stages, their commands, what they read and write are those of dvc.yaml. Each runs in a process
forked from this one, which has loaded all libraries and computed nothing.
"""

import importlib
import os
import resource
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

# imported with a process's first optimiser, two seconds that every child would spend
import torch._dynamo  # noqa: F401
from dvc.parsing import DataResolver
from dvc_objects.fs.local import LocalFileSystem
from ruamel.yaml import YAML

from models.base.registry import model_names
from models.phrases.models import PHRASE_MODELS
from pipeline.runtime.code import code_digest
from pipeline.runtime.yaml_text import read_yaml
from stages.common import SOURCES
from tests.support.clone import PLAIN_WORLD
from tests.support.warm_python import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
Files = dict[str, bytes]

PHASES = read_yaml(ROOT / "params.yaml")["dual_path"]["phases"]
for phase in PHASES:
    phase["epochs"] = 1
EPOCHS = {"epochs": 2, "batch_size": 16}
TINY = {
    "runtime": {"threads": 1, "device": "cpu"},
    "shapes": {"train": 24, "val": 6, "test": 6, "image_size": 32, "near_duplicates": 0.0,
               "captions_per_image": 2},
    "vocabulary": {"dim": 8, "epochs": 1},
    "detector": {
        "channels": 4, "hidden": 8, "anchors": [[8.0], [12.0]], "proposals": 8,
        "training": {"epochs": 1, "images_per_epoch": None, "warmup": 2, "sampled": 8},
    },
    "image_features": {"size": 32, "batch_size": 16, "workers": 0, "layers": ["layer1", "layer2"]},
    "regions": {"boxes": 3, "workers": 0},
    "sentences": {"fisher": {"centres": 2, "ica": 4, "pca": 8, "iterations": 2}},
    "vse": {"dim": 8, "hidden": 8, "word_dim": 8, "training": EPOCHS},
    "two_branch": {"dim": 8, "hidden": 8, "training": EPOCHS},
    "cca": {"dim": 4, "regularisation": 0.1},
    "dual_path": {
        "dim": 8, "hidden": 8, "slots": 12, "word_dim": 8, "text_width": 4, "resize": 32,
        "crop": 28, "phases": PHASES, "training": {"batch_size": 12, "workers": 0},
    },
    "scan": {"dim": 8, "word_dim": 8, "training": EPOCHS},
    "dp_rnn": {
        "dim": 8, "word_dim": 8, "candidates": 2,
        "training": {"epochs": {"matching": 1, "recurrent": 1, "all": 1}, "batch_size": 16},
    },
    "phrases": {"features": {"workers": 0}},
    "phrase_two_branch": {"dim": 8, "hidden": 8, "training": {"epochs": 2},
                          "mining": {"epochs": 1, "sampled": 3}},
    "phrase_cca": {"dim": 4},
    "scoring": {"shortlist": 3},
    "evaluation": {"bootstrap": 20},
    "external": {"mine": {"folder": "mine", "scores": "mine.npy"}},
}  # fmt: skip


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
    """How a process ended."""

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
        """By name, each behind those whose outputs it reads."""
        self._begin()
        graph = self.folder / "dvc.yaml"
        repo = SimpleNamespace(fs=LocalFileSystem(), config={})
        resolved = DataResolver(repo, str(self.folder), read_yaml(graph)).resolve()["stages"]
        left = [_stage(name, found) for name, found in resolved.items()]
        made = {output for stage in left for output in stage.outputs}
        ordered: dict[str, Stage] = {}
        while left:
            there = {output for stage in ordered.values() for output in stage.outputs}
            waiting = [
                stage
                for stage in left
                if any(_touch(path, out) for path in stage.inputs for out in made - there)
            ]
            ordered |= {stage.name: stage for stage in left if stage not in waiting}
            left = waiting
        _load([stage.module for stage in ordered.values()])
        kept = {name: ordered[name] for name in self.last or ordered}
        for stage in reversed(ordered.values()):
            if any(_touch(path, out) for one in kept.values() for path in one.inputs
                   for out in stage.outputs):  # fmt: skip
                kept[stage.name] = stage
        return {name: stage for name, stage in ordered.items() if name in kept}

    def before(self, stage: Stage) -> Files:
        """The files that a stage reads, and params.yaml."""
        wanted = (*ALWAYS, *stage.inputs)
        return {
            name: content
            for name, content in self._made(stage).items()
            if any(_touch(path, name) for path in wanted)
            and not any(_touch(path, name) for path in stage.outputs)
        }

    def after(self, stage: Stage) -> Files:
        """The files that a stage leaves."""
        self.before(stage)
        return self._after[stage.name]

    def everything(self) -> Files:
        """All files of a finished run."""
        for stage in self.stages.values():
            self.after(stage)
        return dict(self._files)

    def _made(self, stage: Stage) -> Files:
        """All files once a stage and those before it have run."""
        stages = list(self.stages.values())
        for step in stages[: stages.index(stage) + 1]:
            if step.name in self._after:
                continue
            start = time.monotonic()
            done = run(step, self.folder)
            assert done.code == 0, (step.name, done.said)
            self.seconds[step.name] = time.monotonic() - start
            found = files_of(self.folder)
            self._after[step.name] = outputs_of(step, found)
            self._files = found
        return self._files

    def _begin(self) -> None:
        shutil.copytree(ROOT / "data/raw/shapes", self.folder / "data/raw/shapes")
        shutil.copy(ROOT / "dvc.yaml", self.folder)
        yaml = YAML(typ="safe", pure=True)
        for source, changes, target in (
            ("data/raw/shapes/world.yaml", PLAIN_WORLD, "data/raw/shapes/world.yaml"),
            ("params.yaml", TINY, "params.yaml"),
        ):
            (self.folder / target).unlink(missing_ok=True)
            with open(self.folder / target, "w", encoding="utf-8") as file:
                yaml.dump(merged(read_yaml(ROOT / source), changes), file)
        values = np.random.default_rng(0).normal(size=(6, 12)).astype(np.float32)
        (self.folder / "mine").mkdir()
        np.save(self.folder / "mine/mine.npy", values)


LATE = ("pyarrow.pandas_compat", "PIL.JpegImagePlugin", "PIL.BmpImagePlugin", "PIL.GifImagePlugin")
LATE += ("PIL.PpmImagePlugin", "matplotlib.backends.backend_svg", "lemminflect")
# read by every stage, or by those that read its table
ALWAYS = ("params.yaml", "dvc.yaml", "mine", "data/raw/shapes", "data/corpus/images")
CODE = ("pipeline/", "models/", "stages/")


def merged(old: object, new: object) -> object:
    """new, or the keys of old with those of new set where both are sections."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def run(
    stage: Stage,
    folder: Path,
    first: Callable[[], object] | None = None,
    kill_after: float | None = None,
) -> Ended:
    """Run a stage's command in a folder, in a child.

    kill_after: seconds until it is killed.
    """
    return finished(start(stage, folder, first), kill_after)


def start(stage: Stage, folder: Path, first: Callable[[], object] | None = None) -> tuple[int, int]:
    """A child that runs a stage, and the descriptor of what it says."""
    heard, says = os.pipe()
    pid = os.fork()
    if pid:
        os.close(says)
        return pid, heard
    try:
        os.close(heard)
        os.dup2(says, 1)
        os.dup2(says, 2)
        os.close(says)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        main = importlib.import_module(stage.module).main
        if first is not None:
            first()
        main(list(stage.arguments), prog_name=stage.module)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        _leave(code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _leave(1)
    _leave(0)
    raise AssertionError


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def finished(child: tuple[int, int], kill_after: float | None = None) -> Ended:
    """Wait for a child of `start`."""
    pid, heard = child
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    with open(heard, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    return Ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said)


def files_of(folder: Path) -> Files:
    """All files below a folder by their paths in it, but the locks of feature files, which stay."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    kept = (path for path in paths if path.name not in ("lock", SOURCES.name))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def outputs_of(stage: Stage, files: Files) -> Files:
    """Those files that a stage writes."""
    return {n: own for n, own in files.items() if any(_touch(out, n) for out in stage.outputs)}


def put(folder: Path, files: Files) -> None:
    """Make a folder hold these files and no others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    add(folder, files)


def add(folder: Path, files: Files) -> None:
    """Write files into a folder."""
    for name in {str(Path(name).parent) for name in files}:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        with open(folder / name, "wb", buffering=0) as file:
            file.write(content)


def largest_memory() -> int:
    """Most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _load(modules: list[str]) -> None:
    """Load what the stages load, and read their sources, which each would read for its digest."""
    models = [f"models.{name}.model" for name in model_names()]
    for name in (*LIBRARIES, *LATE, *models, *PHRASE_MODELS.entries().values(), *modules):
        importlib.import_module(name)
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
        path
        for path in arguments
        if path.startswith("data/") and not any(_touch(path, out) for out in outputs)
    ]
    inputs = {path: None for path in (*resolved["deps"], *named) if not path.startswith(CODE)}
    return Stage(name, module, tuple(arguments), tuple(inputs), tuple(outputs))


def _touch(one: str, other: str) -> bool:
    """Whether one path is the other, or in it."""
    return one == other or other.startswith(f"{one}/") or one.startswith(f"{other}/")
