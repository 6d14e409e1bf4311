"""What an experiment of DVC was made of, from its dvc.lock alone: it holds the metrics of every
model, also of those it did not run; only the stages from the corpus to the metrics tell which."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint
from pipeline.runtime.graph import LOCALISING
from pipeline.runtime.yaml_text import plain_yaml
from vse_workbench.claims.ledger import evaluation, leaves

LOCK_BYTES = 1 << 22  # a dvc.lock of a hundred kilobytes is usual
CODE = ("stages/", "models/", "pipeline/")
CORPUS, PHRASES = "prepare_corpus", "prepare_phrases"
CHECK = "check_params"  # reads all of params.yaml, whatever a model reads of it


@dataclass(frozen=True)
class Recorded:
    """How the metrics of a model came about; digests have 12 hex digits."""

    params: dict[str, Any]  # what a stage on the way read, by dotted key
    corpus: str  # digest of the tables that the model was scored on
    code: str  # of all files of code on the way
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """An experiment: its revision, the commit it started from (12 hex digits), its dvc.lock."""

    name: str
    commit: str
    stages: dict[str, Any]
    revision: str

    def models(self) -> list[str]:
        names = (name.partition("@") for name in self.stages)
        return sorted(item for stage, _, item in names if stage in ("evaluate", LOCALISING))


def read_experiment(name: str, revision: str) -> Experiment:
    """An experiment by its commit; WorkbenchError when git has none or it has no dvc.lock."""
    commit = _git("rev-parse", "--short=12", f"{revision}^").decode().strip()
    stages = lock_stages(_git("show", f"{revision}:dvc.lock"), name)
    return Experiment(name, commit, stages, revision)


def lock_stages(text: bytes, name: str) -> dict[str, Any]:
    """The stages of a dvc.lock; WorkbenchError, beginning with `name`, when it is none."""
    try:
        lock = plain_yaml(text.decode(), name, "", LOCK_BYTES, LOCK_BYTES)
        return {stage: dict(entries) for stage, entries in lock["stages"].items()}
    except (WorkbenchError, KeyError, TypeError, ValueError, AttributeError):
        raise WorkbenchError(f"{name}: its dvc.lock cannot be read") from None


def recorded(experiment: Experiment, model: str) -> Recorded:
    """How the metrics of a model came about; WorkbenchError when stages had other values or files
    than the rest: it was not run as a whole."""
    last = evaluation(model)
    names = _on_the_way(experiment.stages, last)
    digests, params = dict[str, Any](), dict[str, Any]()
    for name in names:
        stage = experiment.stages[name]
        entries = [*stage.get("deps", []), *stage.get("outs", [])]
        files = [("file", digests, entry["path"], entry.get("md5", "")) for entry in entries]
        read = [leaves(v, k) for of in stage.get("params", {}).values() for k, v in of.items()]
        values = [("parameter", params, key, value) for pairs in read for key, value in pairs]
        for kind, found, key, value in [*files, *values]:
            if found.setdefault(key, value) != value:
                raise WorkbenchError(
                    f"{experiment.name}: {model} was not run anew: stage {name} had another "
                    f"{kind} {key} than the stages before it"
                )
    written = (out["path"] for out in experiment.stages[last]["outs"])
    path = next((path for path in written if path.endswith(".json")), None)
    if path is None:
        raise WorkbenchError(f"{experiment.name}: {last} wrote no metrics file")
    text = _git("show", f"{experiment.revision}:{path}")
    if hashlib.md5(text, usedforsecurity=False).hexdigest() != digests.get(path):
        raise WorkbenchError(f"{experiment.name}: {path} is not the one that its dvc.lock names")
    tables = _tables(experiment.stages, CORPUS, f"score@{model}")
    tables |= _tables(experiment.stages, PHRASES, last)
    if not tables:
        raise WorkbenchError(f"{experiment.name}: {model} was scored on no corpus")
    code = {key: value for key, value in digests.items() if key.startswith(CODE)}
    return Recorded(
        params, fingerprint(files=tables)[:12], fingerprint(files=code)[:12], json.loads(text)
    )


def _on_the_way(stages: Mapping[str, Any], last: str) -> list[str]:
    """Stages from which `last` follows, itself the last, each after those it depends on."""
    owners = {out["path"]: name for name, stage in stages.items() for out in stage.get("outs", [])}
    found: list[str] = []

    def add(name: str) -> None:
        if name in found or name == CHECK:
            return
        for dep in stages[name].get("deps", []):
            parts = dep["path"].split("/")
            above = ("/".join(parts[:n]) for n in range(len(parts), 0, -1))
            if owner := next((owners[path] for path in above if path in owners), None):
                add(owner)
        found.append(name)

    add(last)
    return found


def _tables(stages: Mapping[str, Any], writer: str, reader: str) -> dict[str, str]:
    """Digests of the tables that one stage wrote and another read: what is there may be newer."""
    folders = tuple(f"{out['path']}/" for out in stages.get(writer, {}).get("outs", []))
    deps = stages.get(reader, {}).get("deps", [])
    read = {dep["path"]: dep.get("md5", "") for dep in deps}
    return {path: digest for path, digest in read.items() if f"{path}/".startswith(folders)}


def _git(*words: str) -> bytes:
    run = subprocess.run(["git", *words], capture_output=True, check=False)
    if run.returncode:
        lines = run.stderr.decode(errors="replace").splitlines() or ["git failed"]
        raise WorkbenchError(f"git {' '.join(words)}: {lines[0]}", "run from the repository's root")
    return run.stdout
