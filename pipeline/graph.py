"""Where the artefacts of a model lie: read from dvc.yaml, the only place that names their paths."""

import itertools
import re
import shlex
from pathlib import Path
from typing import Any

from pipeline.errors import WorkbenchError, listing
from pipeline.params import read_yaml

GRAPH = Path("dvc.yaml")


def stage_options(stage: str, item: str | None = None, graph: Path = GRAPH) -> dict[str, str]:
    """The options of a stage's command, by name without dashes; ${key} and ${item.x} filled in.

    item: which one of a stage with `foreach`. Raises WorkbenchError when the file has no such stage
    or item, naming the items there are, or when the command cannot be read.
    """
    stages = _read(graph).get("stages")
    found = stages.get(stage) if isinstance(stages, dict) else None
    values: dict[str, str] = {}
    if item is not None and isinstance(found, dict):
        items = found.get("foreach")
        if not isinstance(items, dict) or item not in items:
            there = listing(sorted(items)) if isinstance(items, dict) else "none"
            raise WorkbenchError(f"model {item!r}: stage {stage} of {graph} has {there}")
        values = {"key": item, **{f"item.{name}": str(v) for name, v in _mapping(items[item])}}
        found = found.get("do")
    command = found.get("cmd") if isinstance(found, dict) else None
    if not isinstance(command, str):
        raise WorkbenchError(f"{graph}: no stage {stage!r} with a command")
    words = [_filled(word, values) for word in _words(command, f"{graph}, stage {stage}")]
    pairs = itertools.pairwise(words)
    return {name.removeprefix("--"): value for name, value in pairs if name.startswith("--")}


def stage_paths(
    stage: str, names: tuple[str, ...], item: str | None = None, graph: Path = GRAPH
) -> dict[str, Path]:
    """Some options of a stage's command, as paths.

    Raises WorkbenchError as stage_options does, and when one is missing or still a ${variable}.
    """
    options = stage_options(stage, item, graph)
    lost = [f"--{name}" for name in names if "${" in options.get(name, "${")]
    if lost:
        raise WorkbenchError(
            f"{graph}: the command of stage {stage} has no path for {listing(lost)}"
        )
    return {name: Path(options[name]) for name in names}


def _read(graph: Path) -> dict[str, Any]:
    try:
        return read_yaml(graph)
    except WorkbenchError as error:  # its hint is about params.yaml
        raise WorkbenchError(error.message, "run from the repository's root") from None


def _mapping(item: Any) -> Any:
    return item.items() if isinstance(item, dict) else ()


def _words(command: str, where: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise WorkbenchError(f"{where}: command cannot be read: {error}") from None


def _filled(word: str, values: dict[str, str]) -> str:
    """Placeholders whose value is not known stay as they are."""
    return re.sub(r"\$\{(.+?)\}", lambda match: values.get(match[1], match[0]), word)
