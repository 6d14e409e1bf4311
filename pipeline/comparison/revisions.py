"""Runs by the names a person gives them: a file of theirs, or a DVC or git revision.

Files of a revision come out of DVC's cache; nothing in the workspace is touched or run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pipeline.comparison.results import read_metrics
from pipeline.evaluation.file import QueryRanks, check_metrics, read_query_ranks, read_ranks
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.graph import EVALUATING, GRAPH, SCORING, stage_of, stage_paths
from pipeline.scores.file import SplitScores, read_scores

if TYPE_CHECKING:
    from dvc.api import DVCFileSystem


PARAMS = Path("params.yaml")


def load_run(name: str, model: str | None, criterion: str) -> QueryRanks:
    """What the queries of a run reach under one criterion.

    Args:
        name: a rank file (*.h5); a metrics file (*.json), whose rank file dvc.yaml names; or
            REVISION[:MODEL], a git revision or the name of an experiment.
        model: for a REVISION alone.
        criterion: such as "naive".

    Raises:
        WorkbenchError: when there is no such file, revision or model, or when the ranks of the
            revision are not in the cache.
    """
    path = Path(name)
    if path.suffix not in (".h5", ".json"):
        return _of_revision(name, model, criterion)
    if not path.is_file():
        raise WorkbenchError(f"{name}: no such file", "write it with: dvc repro evaluate")
    if path.suffix == ".h5":
        return read_query_ranks(path, criterion)
    return _of_metrics(path, criterion)


def _of_metrics(path: Path, criterion: str) -> QueryRanks:
    content = read_metrics(path)
    stage = stage_of(path.stem, EVALUATING)
    paths = stage_paths(stage, ("metrics", "ranks"), path.stem)
    if paths["metrics"].resolve() != path.resolve():
        raise WorkbenchError(
            f"{path}: {GRAPH} has no rank file for it, only for {paths['metrics']}",
            "name a rank file instead",
        )
    if not paths["ranks"].is_file():
        raise WorkbenchError(
            f"{paths['ranks']}: no such file, the ranks of {path}", "get it with: dvc checkout"
        )
    check_metrics(path, content, paths["ranks"], read_ranks(paths["ranks"]).metrics_sha256)
    return read_query_ranks(paths["ranks"], criterion)


def _of_revision(name: str, model: str | None, criterion: str) -> QueryRanks:
    revision, _, own = name.partition(":")
    model = own or model
    if not revision or not model:
        raise WorkbenchError(
            f"{name!r}: neither a rank file (.h5), a metrics file (.json), nor REVISION:MODEL",
            "name the model as in HEAD:vse, or with --model",
        )
    with _revision_file(revision, model, EVALUATING, "ranks") as path:
        return read_query_ranks(path, criterion)


def load_scores(name: str, split: str) -> SplitScores:
    """What a run says about every image and caption of a split.

    Args:
        name: a score file (*.h5), or REVISION:MODEL as for load_run.
        split: such as "val".

    Raises:
        WorkbenchError: when there is no such file, revision, model or split, or when the scores of
            the revision are not in the cache.
    """
    if Path(name).suffix == ".h5":
        return read_scores(name, split)
    revision, _, model = name.partition(":")
    if not revision or not model:
        raise WorkbenchError(
            f"{name!r}: neither a score file (.h5) nor REVISION:MODEL",
            "name the model as in HEAD:vse",
        )
    with _revision_file(revision, model, SCORING, "output") as path:
        return read_scores(path, split)


@contextmanager
def _revision_file(
    revision: str, model: str, stages: tuple[str, ...], option: str
) -> Iterator[Path]:
    """A copy, while it is read, of the file that an option of the model's stage names."""
    with TemporaryDirectory() as folder, _plain_errors(f"{revision}:{model}", folder):
        files = _file_system(revision)
        graph = _fetched(files, GRAPH, Path(folder))
        if files.exists(PARAMS.as_posix()):  # values that its templates name
            _fetched(files, PARAMS, Path(folder))
        paths = stage_paths(stage_of(model, stages, graph), (option,), model, graph)
        yield _fetched(files, paths[option], Path(folder))


def _file_system(revision: str) -> "DVCFileSystem":
    from dvc.api import DVCFileSystem  # half a second, for revisions only

    return DVCFileSystem(rev=revision)


def _fetched(files: "DVCFileSystem", path: Path, folder: Path) -> Path:
    copy = folder / path.name
    try:
        files.get_file(path.as_posix(), str(copy))
    except FileNotFoundError:
        raise WorkbenchError(
            f"{path}: not in that revision or not in DVC's cache",
            "get it with: dvc fetch --all-commits, or check that revision out and run: dvc repro",
        ) from None
    return copy


@contextmanager
def _plain_errors(name: str, folder: str) -> Iterator[None]:
    """Errors of DVC as ours, and none that names the temporary folder."""
    from dvc.exceptions import DvcException

    try:
        yield
    except WorkbenchError as error:
        message = error.message.replace(f"{folder}/", "")
        raise WorkbenchError(f"{name}: {message}", error.hint) from None
    except DvcException as error:
        raise WorkbenchError(
            f"{name}: {error}", "revisions and experiments: git log --oneline, dvc exp list -A"
        ) from None
