"""Clones with a tiny dataset, the commands that are run in them, and what a fresh clone makes.

A clone has the code, `dvc.yaml` and DVC's settings as they are here, 24 images of noise with two
captions each, and settings with which a stage takes a second. The stages up to `LAST` are run.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path

import networkx
import numpy as np
from dvc.repo import Repo
from PIL import Image

from pipeline.runtime.yaml_text import read_yaml
from tests.sequences.kills import KILL, WHERE, Kill
from tests.support.clone import Clone
from tests.support.corpora import change_params

KILLED_DVC = Path(__file__).with_name("killed_dvc.py")
FIRST = "first"  # tag of the commit that every clone begins with
LAST = "evaluate@cca"
WARM = ("repro", "checkout", "gc", "exp")  # commands of DVC; those of its queue outlive who asks
LIMIT = 300  # seconds that a command may take
HUNG = "Traceback: hung"
WAITING = "in _transact"  # of diskcache, in which DVC keeps what it knows of files
SPLITS = ("train", "train", "val", "test")
WORDS = ("red", "green", "blue", "yellow", "dog", "cat", "house", "tree")
RAW, TABLE = "data/raw/tiny", "data/raw/tiny/captions.csv"
COMMENT = "\n# edited\n"
TINY = {
    "raw": RAW,
    "dataset": "captions_csv",
    "detector": {"weights": "random", "channels": 4, "hidden": 8},
    "vocabulary": {"dim": 8, "epochs": 1},
    "image_features": {
        "weights": "random",
        "layers": ["layer1"],
        "pool": "mean",
        "size": 32,
        "batch_size": 16,
        "workers": 0,
    },
    "sentences": {"encoding": "mean_vector"},
    "cca": {"dim": 4, "regularisation": 0.1},
    "evaluation": {"bootstrap": 20},
}
LEFT_OUT = ("benchmarks", "docs", "metrics", "recipes", "report", "tests")
LEFT_OUT += ("data/curves", "data/plots", "data/raw", "claims.yaml", "dvc.lock")


@dataclass(frozen=True)
class Ended:
    """Of a command: exit code, negative for a signal, and what it said."""

    code: int
    said: str

    @property
    def error(self) -> str:
        """The first line that says why not, or the last of all."""
        lines = self.said.splitlines() or [""]
        return next((line for line in lines if line.lower().startswith("error")), lines[-1])

    @property
    def waits_for_room(self) -> bool:
        """Whether DVC was killed as it tried, again and again, to write into its own database."""
        return HUNG in self.said and WAITING in self.said

    @property
    def fault(self) -> str:
        """What is wrong with a command that neither succeeded nor was killed nor said why not."""
        told = any(
            line.lower().startswith("error")
            or line.endswith("is invalid.")
            or "' validation failed" in line  # DVC's, of a file that it names before
            for line in self.said.splitlines()
        )
        if "Traceback" in self.said:
            return f"traceback: {self.said.strip().splitlines()[-1][:200]}"
        if self.code > 0 and not told:
            return f"exit code {self.code}: {' / '.join(self.said.splitlines()[-3:])[:300]}"
        return ""


Outputs = dict[str, str]  # digests by path


class Clones:
    """Clones in a folder, copies of one in which everything has been run once.

    Args:
        folder: for the clones.
        python: folder with the `python` of the stages.
        memory: folder that keeps what fresh clones made, a file for each state.
    """

    def __init__(self, folder: Path, python: Path, memory: Path) -> None:
        self.folder = folder
        self.python = python
        self.memory = memory
        self.fresh = 0  # clones that were made for what they say
        memory.mkdir(parents=True, exist_ok=True)
        source = Clone(folder / "source")
        for name in LEFT_OUT:
            path = source.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        change_params(source.folder, **{"runtime": {"device": "cpu", "threads": 1}}, **TINY)
        _write_images(source.folder / RAW)
        source.commit("first")
        self.outs = _outs(source.folder)
        self.first = Workbench(source.folder, self)
        ended = self.first.run("dvc", "repro", LAST)
        assert ended.code == 0, ended.said
        source.commit("run")
        source.run("git", "tag", FIRST)

    def copy(self, name: str) -> "Workbench":
        """A clone as it is after the first run."""
        shutil.copytree(self.first.folder, self.folder / name, symlinks=True)
        shutil.copytree(_cache(self.first.folder), _cache(self.folder / name))
        return Workbench(self.folder / name, self)

    def expected(self, of: "Workbench") -> Outputs | str:
        """What a fresh clone with params, code and data of another makes, or the error it ends
        with; with a cache of its own."""
        kept = self.memory / f"{of.state()}.json"
        if not kept.is_file():
            self.fresh += 1
            fresh = Workbench(self.folder / "fresh", self)
            for name in fresh.sources(of.folder):
                (fresh.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(of.folder / name, fresh.folder / name, follow_symlinks=False)
            fresh.run("git", "init", "--quiet")
            ended = fresh.run("dvc", "repro", LAST)
            assert ended.code >= 0, f"nobody kills a fresh clone: {ended.said}"
            made = ended.fault or ended.error if ended.code else fresh.outputs()
            fresh.remove()
            kept.write_text(json.dumps(made))
        found: Outputs | str = json.loads(kept.read_text())
        return found


class Workbench:
    """A clone in which commands are run, each of them in a group of processes of its own."""

    def __init__(self, folder: Path, clones: Clones) -> None:
        self.folder = folder
        self.clones = clones

    def remove(self) -> None:
        """Remove the clone and DVC's memory of it."""
        shutil.rmtree(self.folder)
        shutil.rmtree(_cache(self.folder), ignore_errors=True)

    def start(self, *words: str, kill: Kill | None = None) -> subprocess.Popen[str]:
        """Begin a command."""
        path = os.pathsep.join((str(self.clones.python), _scripts(), os.environ["PATH"]))
        environment = os.environ | {"PATH": path, "PYTHONPATH": str(self.folder)}
        environment |= {"DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": str(_cache(self.folder))}
        command = list(words)
        if kill and kill.module == "dvc":
            command = [sys.executable, str(KILLED_DVC), json.dumps(kill), *words[1:]]
        elif kill:
            environment |= {KILL: json.dumps(kill)}
        if (
            words[0] == "dvc"
            and words[1] in WARM
            and "--queue" not in words
            and command == [*words]
        ):
            command = [str(self.clones.python / "python"), "-m", *words]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def run(self, *words: str, kill: Kill | None = None) -> Ended:
        """Run a command, and what it has started, to the end."""
        return ended(self.start(*words, kill=kill))

    def sources(self, folder: Path) -> list[str]:
        """Paths of the files in a folder that no stage writes: params, code, data, settings."""
        listed = [
            path
            for name in ("pipeline", "models", "stages", RAW)
            for path in sorted((folder / name).rglob("*"))
        ]
        listed += sorted((folder / "data").rglob(".gitignore"))
        listed += [
            folder / name
            for name in ("params.yaml", "dvc.yaml", ".gitignore", ".dvcignore", ".dvc/config")
        ]
        return [
            path.relative_to(folder).as_posix()
            for path in listed
            if path.is_file() and "__pycache__" not in path.parts
        ]

    def state(self) -> str:
        """Digest of everything that may decide an output; a comment may not."""
        digest = hashlib.sha256()
        for name in self.sources(self.folder):
            content = (self.folder / name).read_bytes().replace(COMMENT.encode(), b"")
            if name == "params.yaml":
                content = json.dumps(read_yaml(self.folder / name), sort_keys=True).encode()
            digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
        return digest.hexdigest()[:32]

    def outputs(self) -> Outputs:
        """MD5 of every file that the stages have written, as it lies in the folder."""
        written = [self.folder / out for out in self.clones.outs]
        files = [file for path in written for file in (path, *path.rglob("*")) if file.is_file()]
        return {
            file.relative_to(self.folder).as_posix(): hashlib.md5(file.read_bytes()).hexdigest()
            for file in sorted(files)
        }

    def locked(self) -> Outputs:
        """MD5 of the outputs that are files, as dvc.lock has them."""
        stages = read_yaml(self.folder / "dvc.lock")["stages"].values()
        outs = {out["path"]: out["md5"] for stage in stages for out in stage["outs"]}
        return {out: md5 for out, md5 in outs.items() if out in self.clones.outs and "." not in md5}


def ended(process: subprocess.Popen[str]) -> Ended:
    """The end of a command, and of all that holds its output; after LIMIT seconds all is killed."""
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, WHERE)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)  # while what works for it prints its traceback
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return Ended(process.returncode, f"{HUNG}, killed after {LIMIT} seconds\n{said}")
    return Ended(process.returncode, said)


def differences(found: Outputs, expected: Outputs) -> list[str]:
    """Paths that are not the same, or missing, or too much."""
    return [
        name
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]


def _scripts() -> str:
    return str(Path(sys.executable).parent)


def _cache(folder: Path) -> Path:
    """DVC's memory of the digests of files, which it keeps outside of a clone."""
    return folder.with_name(f"{folder.name}.site")


def _write_images(raw: Path) -> None:
    """24 images of noise, and the table of their captions."""
    raw.mkdir(parents=True)
    generator = np.random.default_rng(0)
    lines = ["image,caption,split"]
    for number in range(24):
        write_image(raw / f"{number:02}.png", number)
        for _ in range(2):
            caption = " ".join(generator.choice(WORDS, 4))
            lines.append(f"{number:02}.png,{caption},{SPLITS[number % 4]}")
    (raw / "captions.csv").write_text("\n".join(lines) + "\n")


def write_image(path: Path, seed: int) -> None:
    """An image of 32 x 32 pixels of noise."""
    pixels = np.random.default_rng(seed).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _outs(folder: Path) -> list[str]:
    """Paths that LAST and the stages before it write."""
    with chdir(folder), Repo() as repo:
        graph = repo.index.graph
        last = next(stage for stage in graph if stage.addressing == LAST)
        needed = {last, *networkx.descendants(graph, last)}  # edges lead to what is read
        return sorted(out.def_path for stage in needed for out in stage.outs)
