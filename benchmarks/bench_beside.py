"""The heaviest stages beside a busy process on every core, and alone, in turn.

A laptop with a browser, a CI runner and a shared server are the normal case, two quiet cores are
not. Each stage runs on the artefacts of a default run, with fewer epochs: alone, beside processes
that count for ever, and both once more with the libraries' own way of waiting, which is active for
a long time (pipeline/runtime/threads.py).
"""

import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks.common import ROOT, Row, new_folder, size
from pipeline.runtime.kernels import PORTABLE
from pipeline.runtime.threads import WAITING

# of each stage what is made smaller, by its key in params.yaml
FEWER: dict[str, dict[str, Any]] = {
    "train_detector": {"detector.training.epochs": 1, "detector.training.images_per_epoch": 240},
    "train@dual_path": {"dual_path.phases.0.epochs": 2},
    "train@dp_rnn": {"dp_rnn.training.epochs": {"matching": 1, "recurrent": 1, "all": 0}},
    "train@scan": {"scan.training.epochs": 1},
    "train@vse": {"vse.training.epochs": 2},
    "train@vse_infinity": {"vse_infinity.training.epochs": 1},
    "extract_region_features": {},
    "extract_image_features": {},
}
STAGES = size(list(FEWER), [])
RUNS = size(3, 1)
LONGEST = 120.0  # seconds after which a run is ended
CORES = 2
PRELOADED = (
    "import torch, runpy, sys; sys.path.insert(0, ''); program = sys.argv[1]; "
    "sys.argv[1:] = sys.argv[2:]; runpy.run_module(program, run_name='__main__', alter_sys=True)"
)


def rows() -> Iterator[Row]:
    with new_folder() as folder:
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        if STAGES and not (ROOT / "data/corpus/images.parquet").is_file():
            subprocess.run([sys.executable, "-m", "dvc", "repro"], cwd=clone, check=True)
        elif STAGES:
            shutil.copytree(ROOT / "data", clone / "data", dirs_exist_ok=True)
        for stage in STAGES:
            yield from stage_rows(clone, stage)


def stage_rows(clone: Path, stage: str) -> Iterator[Row]:
    """Two rows of one stage: beside other work against alone, and alone against before."""
    command = prepared(clone, stage)
    alone, beside, before = [], [], []
    seconds(clone, command)  # compiles the sources of the clone and fills the disk's cache
    for _ in range(RUNS):
        alone.append(seconds(clone, command))
        before.append(seconds(clone, command, own_waiting=True))
        with busy(CORES):
            beside.append(seconds(clone, command))
    with busy(CORES):
        before_beside = seconds(clone, command, own_waiting=True)
    ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
    figure = (
        f"{ratio:.2f}x of alone ({statistics.median(beside):.1f} s, "
        f"{statistics.median(alone):.1f} s); with active waiting {shown(before_beside)}"
    )
    yield Row(f"`{stage}` beside {CORES} busy processes", figure, "<= 2.5x", ratio)
    ratio = statistics.median(a / b for a, b in zip(alone, before, strict=True))
    figure = f"{ratio:.2f}x of active waiting ({statistics.median(before):.1f} s)"
    yield Row(f"`{stage}` alone", figure, "<= 1.05x", ratio)


def shown(took: float) -> str:
    return f"over {LONGEST:.0f} s" if took >= LONGEST else f"{took:.1f} s"


def prepared(clone: Path, stage: str) -> list[str]:
    """The command of a stage, with params.yaml of fewer epochs."""
    yaml = YAML()
    params = yaml.load((ROOT / "params.yaml").read_text("utf-8"))
    for key, value in FEWER[stage].items():
        section, name = params, None
        for part in key.split("."):
            section = section if name is None else section[name]
            name = int(part) if part.isdigit() else part
        section[name] = value
    with open(clone / "params.yaml", "w", encoding="utf-8") as file:
        yaml.dump(params, file)
    lock = YAML(typ="safe").load((ROOT / "dvc.lock").read_text("utf-8"))
    return shlex.split(lock["stages"][stage]["cmd"])


def seconds(clone: Path, command: list[str], own_waiting: bool = False) -> float:
    """Seconds on the clock of a stage's command.

    Args:
        clone: the folder that it runs in, without unfinished work of a run before.
        command: `python -m stages.NAME` and its options.
        own_waiting: load torch first, so that it reads nothing of ours but the kernels.
    """
    shutil.rmtree(clone / "data/.work", ignore_errors=True)
    unset = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", *WAITING)
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {"CI": "1", "PYTHONPATH": str(clone)} | PORTABLE
    words = [sys.executable, *command[1:]]
    if own_waiting:
        words = [sys.executable, "-c", PRELOADED, *command[2:]]
    began = time.monotonic()
    try:
        done = subprocess.run(
            words, cwd=clone, env=environment, capture_output=True, text=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return LONGEST
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr[-2000:]}")
    return time.monotonic() - began


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Some processes that count for ever."""
    loop = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(loop) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
