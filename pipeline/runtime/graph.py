"""Where the artefacts of a model lie: read from dvc.yaml, its templates filled in by DVC."""

import itertools
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pipeline.runtime.errors import WorkbenchError, first_line, listing
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import UNDO, read_yaml

if TYPE_CHECKING:
    from dvc.parsing import DataResolver

GRAPH = Path("dvc.yaml")
# of models, of averages of their scores, of other programs, of two models one after the other
EVALUATING = (
    "evaluate",
    "evaluate_more",
    "evaluate_average",
    "evaluate_external",
    "evaluate_reranked",
)
LOCALISING = "evaluate_phrases"  # of models of phrases, which have no scores of retrieval
SCORING = ("score", "score_more", "average_scores", "score_external")
MORE = "more_models"  # key of params.yaml: models that are none of the default run


def stage_items(stage: str, graph: Path = GRAPH) -> list[str]:
    """The items of a stage with `foreach`.

    Args:
        stage: its name in dvc.yaml.
        graph: the dvc.yaml, with params.yaml beside it.

    Returns:
        Sorted; [] for a stage without items.
    """
    keys = _resolver(graph).get_keys()
    return sorted(key.partition("@")[2] for key in keys if key.startswith(f"{stage}@"))


def stage_of(item: str, stages: tuple[str, ...], graph: Path = GRAPH) -> str:
    """Which of some stages with `foreach` has an item.

    Args:
        item: a model, an average, ...
        stages: names such as EVALUATING; the first that has it counts.
        graph: the dvc.yaml.

    Returns:
        The stage's name.

    Raises:
        WorkbenchError: none has it; the items of each are named.
    """
    items = {stage: stage_items(stage, graph) for stage in stages}
    for stage in stages:
        if item in items[stage]:
            return stage
    lists = [
        f"stage {stage} of {graph} has {listing(names)}" for stage, names in items.items() if names
    ]
    raise WorkbenchError(f"model {item!r}: {'; '.join(lists) or f'{graph} has none'}")


def stages_of_models(program: str) -> tuple[str, str]:
    """The stages that run a program for models: those of every run, those of `more_models`.

    Args:
        program: train, score or evaluate.

    Returns:
        Such as ("score", "score_more"), for `stage_of`.
    """
    return program, f"{program}_more"


def resolved_stage(stage: str, item: str | None = None, graph: Path = GRAPH) -> Values:
    """A stage as DVC reads it, its templates filled in.

    Args:
        stage: its name in dvc.yaml.
        item: of a stage with `foreach`, else None.
        graph: the dvc.yaml.

    Returns:
        `cmd`, `deps`, `params`, `outs`, ... of the stage.

    Raises:
        WorkbenchError: there is no such stage or item, or DVC cannot fill in its templates.
    """
    from dvc.exceptions import DvcException

    resolver = _resolver(graph)
    name = stage if item is None else f"{stage}@{item}"
    if not resolver.has_key(name):
        if item is None:
            raise WorkbenchError(f"{graph}: no stage {stage!r}")
        names = listing(stage_items(stage, graph)) or "none"
        raise WorkbenchError(f"model {item!r}: stage {stage} of {graph} has {names}")
    try:
        return dict(resolver.resolve_one(name)[name])
    except DvcException as error:
        raise WorkbenchError(f"{graph}, stage {name}: {first_line(error)}") from None


def resolved_stages(graph: Path = GRAPH) -> dict[str, Values]:
    """All stages as DVC reads them, those with `foreach` by names such as evaluate@vse."""
    resolver = _resolver(graph)
    return {name: dict(resolver.resolve_one(name)[name]) for name in resolver.get_keys()}


def stage_options(stage: str, item: str | None = None, graph: Path = GRAPH) -> dict[str, str]:
    """The options of a stage's command.

    Args:
        stage: its name in dvc.yaml.
        item: of a stage with `foreach`, else None.
        graph: the dvc.yaml.

    Returns:
        The value of each option by its name without dashes.

    Raises:
        WorkbenchError: there is no such stage or item.
    """
    pairs = itertools.pairwise(shlex.split(resolved_stage(stage, item, graph)["cmd"]))
    return {name.removeprefix("--"): value for name, value in pairs if name.startswith("--")}


def stage_paths(
    stage: str, names: tuple[str, ...], item: str | None = None, graph: Path = GRAPH
) -> dict[str, Path]:
    """Some options of a stage's command as paths.

    Args:
        stage: its name in dvc.yaml.
        names: of the options, without dashes.
        item: of a stage with `foreach`, else None.
        graph: the dvc.yaml.

    Returns:
        The paths by the names of their options, from the repository's root.

    Raises:
        WorkbenchError: there is no such stage or item, or its command lacks an option.
    """
    options = stage_options(stage, item, graph)
    lost = [f"--{name}" for name in names if name not in options]
    if lost:
        raise WorkbenchError(
            f"{graph}: the command of stage {stage} has no path for {listing(lost)}"
        )
    return {name: Path(options[name]) for name in names}


def _resolver(graph: Path) -> "DataResolver":
    """DVC's resolver, with the file system alone: a whole dvc.repo.Repo takes seconds to load."""
    from dvc.exceptions import DvcException
    from dvc.parsing import DataResolver
    from dvc_objects.fs.local import LocalFileSystem

    try:
        content = read_yaml(graph)
    except WorkbenchError as error:
        is_of_params = error.hint == UNDO
        hint = "run from the repository's root" if is_of_params else error.hint
        raise WorkbenchError(error.message, hint) from None
    if not isinstance(content.get("stages"), dict):
        raise WorkbenchError(f"{graph}: no stages", "run from the repository's root")
    repo = SimpleNamespace(fs=LocalFileSystem(), config={})
    try:
        return DataResolver(repo, str(graph.parent), content)
    except DvcException as error:
        raise WorkbenchError(f"{graph}: {first_line(error)}") from None
