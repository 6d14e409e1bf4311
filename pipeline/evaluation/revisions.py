"""Runs by a file of theirs, or a DVC or git revision, whose files come out of DVC's cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.evaluation.comparison import certificate_of, read_metrics
from pipeline.evaluation.figures import summary_of
from pipeline.evaluation.paired import (
    RESAMPLES,
    Difference,
    figures_of,
    paired_differences,
    shared_rows,
)
from pipeline.evaluation.paper_rows import PublishedConfig
from pipeline.evaluation.published import Measured, published_of
from pipeline.evaluation.rank_file import (
    QueryRanks,
    RankRecord,
    check_metrics,
    read_query_ranks,
    read_ranks,
)
from pipeline.evaluation.score_file import SplitScores, read_scores
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.graph import EVALUATING, GRAPH, SCORING, stage_of, stage_paths
from pipeline.runtime.process import name_user
from pipeline.runtime.yaml_text import read_yaml

PARAMS = Path("params.yaml")


@dataclass(frozen=True)
class LoadedRun:
    """A run's rank file under one criterion, and what its params.yaml says beside it.

    Attributes:
        ranks: what its queries reach.
        record: what else the rank file says.
        criterion: such as "naive".
        seed: in the params.yaml of a revision, None for a file.
        published: rows of papers' tables in that params.yaml; of a file, in the one here.
    """

    ranks: QueryRanks
    record: RankRecord
    criterion: str
    seed: int | None
    published: list[PublishedConfig]

    @property
    def measured(self) -> Measured:
        """What the run reaches, to stand beside published figures."""
        metrics = shared_rows([self.ranks])
        return Measured(
            model=self.record.name,
            criterion=self.criterion,
            figures=summary_of(figures_of(self.ranks, metrics), metrics),
            intervals=self.record.intervals.get(self.criterion),
            certificate=certificate_of(self.record),
        )


def load_run(name: str, model: str | None, criterion: str) -> LoadedRun:
    """What the queries of a run reach under one criterion.

    Args:
        name: a rank file (*.h5), a metrics file (*.json), or REVISION[:MODEL], a git revision or
            the name of an experiment.
        model: of a revision whose name has none.
        criterion: such as "naive".

    Returns:
        The run.

    Raises:
        WorkbenchError: no such file, revision or criterion.
    """
    path = Path(name)
    if path.suffix == ".json":
        path = _ranks_of(path)
    if path.suffix == ".h5":
        return _read_run(path, criterion, None, PARAMS)
    kinds = "a rank file (.h5), a metrics file (.json),"
    with _revision_file(name, model, EVALUATING, "ranks", kinds) as path:
        params = path.with_name(PARAMS.name)
        seed = read_yaml(params).get("seed") if params.exists() else None
        return _read_run(path, criterion, seed, params)


def _read_run(path: Path, criterion: str, seed: int | None, params: Path) -> LoadedRun:
    values = read_yaml(params) if params.is_file() else {}
    return LoadedRun(
        ranks=read_query_ranks(path, criterion),
        record=read_ranks(path),
        criterion=criterion,
        seed=seed,
        published=published_of(values, params.name),
    )


def load_runs(names: str, model: str | None, criterion: str) -> dict[str, LoadedRun]:
    """What the queries of one run reach, or those of a run for each seed.

    Args:
        names: one run as `load_run` takes it, several with commas between them, or a folder of rank
            files.
        model: of revisions whose names have none.
        criterion: such as "naive".

    Returns:
        By what pairs each with a run of another setting: the seed of a revision, the name of a file
        in a folder, else the place.

    Raises:
        WorkbenchError: no such run, none at all, or two of one seed.
    """
    path = Path(names)
    named = [(file.name, _read_run(file, criterion, None, PARAMS)) for file in path.glob("*.h5")]
    if not path.is_dir():
        for number, name in enumerate([names] if path.exists() else names.split(","), 1):
            run = load_run(name, model, criterion)
            named.append((f"no. {number}" if run.seed is None else f"seed {run.seed}", run))
    runs = dict(sorted(named, key=lambda pair: pair[0]))
    if len(runs) < len(named) or not runs:
        keys = listing([key for key, _ in named], 20) or "no rank file (.h5)"
        raise WorkbenchError(f"{names}: {keys}; expected are runs of different seeds")
    return runs


def _ranks_of(path: Path) -> Path:
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
    return paths["ranks"]


def load_scores(name: str, split: str) -> SplitScores:
    """What a run says about all pairs of a split: N images and M captions.

    Args:
        name: a score file (*.h5), or REVISION:MODEL, whose file comes out of DVC's cache.
        split: such as "test".

    Returns:
        Scores, ids and groups of the split.

    Raises:
        WorkbenchError: a file, split or revision that is not there, and another kind of file.
    """
    if Path(name).suffix == ".h5":
        return read_scores(name, split)
    with _revision_file(name, None, SCORING, "output", "a score file (.h5)") as path:
        return read_scores(path, split)


@contextmanager
def _revision_file(
    name: str, model: str | None, stages: tuple[str, ...], option: str, kinds: str
) -> Iterator[Path]:
    """A copy, while it is read, of the file that an option of the model's stage names."""
    revision, _, named = name.partition(":")
    model = named or model
    if not revision or not model:
        raise WorkbenchError(
            f"{name!r}: neither {kinds} nor REVISION:MODEL",
            "name the model as in HEAD:vse, or with --model",
        )
    from dvc.api import DVCFileSystem  # half a second, for revisions only
    from dvc.exceptions import DvcException

    name_user()
    with TemporaryDirectory() as folder:
        try:
            files = DVCFileSystem(rev=revision)
            graph = _fetched(files, GRAPH, Path(folder))
            if files.exists(PARAMS.as_posix()):  # values that its templates name
                _fetched(files, PARAMS, Path(folder))
            paths = stage_paths(stage_of(model, stages, graph), (option,), model, graph)
            yield _fetched(files, paths[option], Path(folder))
        except WorkbenchError as error:
            message = error.message.replace(f"{folder}/", "")
            raise WorkbenchError(f"{revision}:{model}: {message}", error.hint) from None
        except DvcException as error:
            raise WorkbenchError(
                f"{revision}:{model}: {error}",
                "revisions and experiments: git log --oneline, dvc exp list -A",
            ) from None


def _fetched(files: Any, path: Path, folder: Path) -> Path:
    copy = folder / path.name
    try:
        files.get_file(path.as_posix(), str(copy))
    except FileNotFoundError:
        raise WorkbenchError(
            f"{path}: not in that revision or not in DVC's cache",
            "get it with: dvc fetch --all-commits, or check that revision out and run: dvc repro",
        ) from None
    return copy


def compare_runs(
    a: Path | str,
    b: Path | str,
    criterion: str = "naive",
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Difference]:
    """The differences b - a of all figures, with intervals of a paired bootstrap.

    Args:
        a: a rank file (.h5), a metrics file (.json) of the dvc.yaml here, or REVISION:MODEL.
        b: another one, of the same queries.
        criterion: of inference, which both were evaluated with.
        resamples: draws of the test images, at least 100.
        confidence: share of the draws inside an interval, from 0.5 to below 1.
        seed: of the draws.

    Returns:
        A difference for each figure.

    Raises:
        WorkbenchError: a file that is none of these, a criterion that it lacks, two runs of other
            images, captions or protocols, a number out of its range.
    """
    if resamples < 100 or not 0.5 <= confidence < 1:
        text = f"resamples = {resamples}, confidence = {confidence:g}"
        raise WorkbenchError(f"{text}: allowed are 100 and more, and from 0.5 to below 1")
    first, second = (load_run(str(run), None, criterion).ranks for run in (a, b))
    return paired_differences(first, second, resamples, confidence, seed)
