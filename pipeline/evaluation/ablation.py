"""Many runs as one table: what `dvc exp show --csv` lists, by setting, over seeds."""

import io
from collections.abc import Sequence
from itertools import chain

import pandas as pd

from pipeline.evaluation.rank_file import COLUMNS, headings
from pipeline.runtime.errors import WorkbenchError, listing

FIGURES = tuple(".".join(column.keys) for column in COLUMNS)
SEED = "seed"


def read_experiments(text: str) -> pd.DataFrame:
    """The finished experiments in the output of `dvc exp show --csv`, a row each."""
    try:
        table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError):
        table = pd.DataFrame()
    wanted = {"Experiment", "typ", SEED}
    if not wanted <= set(table.columns):
        raise WorkbenchError(
            f"not a list of experiments: no columns {listing(sorted(wanted - set(table.columns)))}",
            "pipe in what `dvc exp show --csv` prints",
        )
    # commits and the workspace have a type of `baseline`, and experiments under way a state; DVC
    # leaves the column out where no experiment has one
    state = table["State"] if "State" in table else pd.Series("", table.index)
    finished = table[(table["typ"] != "baseline") & state.isin(["", "Success"])]
    if finished.empty:
        raise WorkbenchError(
            f"none of {len(table)} rows is a finished experiment", "see `dvc queue status`"
        )
    return finished.reset_index(drop=True)


def tabulate(
    experiments: pd.DataFrame, model: str, criteria: Sequence[str], by: Sequence[str]
) -> list[list[str]]:
    """What the settings of experiments reach, over their seeds.

    Args:
        experiments: as `read_experiments` gives.
        model: whose figures are shown.
        criteria: under which they are shown, a row each.
        by: keys of params.yaml in which the settings differ.

    Returns:
        A head, and for each setting and criterion a row with the values of `by`, the number of
        runs, mean and deviation (n - 1) of each figure, and last, seed by seed (runs of one seed
        share its features), the difference of rsum from the first row.

    Raises:
        WorkbenchError: a column or figure that is missing, and two runs of one setting and seed.
    """
    columns = {criterion: _columns(experiments, model, criterion) for criterion in criteria}
    every = list(chain.from_iterable(columns.values()))
    missing = [name for name in (*every, *by) if name not in experiments]
    if missing:
        raise WorkbenchError(
            f"the experiments have no column {listing(missing, 3)}",
            "check --model and --criterion, and that --by names keys of params.yaml",
        )
    figures = experiments[every].apply(pd.to_numeric, errors="coerce")
    without = experiments["Experiment"][figures.isna().any(axis=1)]
    if len(without):
        raise WorkbenchError(f"experiments without figures of {model}: {listing(without)}")
    several = ["criterion"] if len(columns) > 1 else []
    named = [*(name.split(".")[-1] for name in by), *several]
    rows = [[*named, "runs", *headings(), "rsum - first row"]]
    first: pd.Series | None = None
    for values, runs in experiments.groupby(list(by), sort=True):
        twice = runs["Experiment"][runs[SEED].duplicated(keep=False)]
        if len(twice):
            raise WorkbenchError(
                f"experiments {listing(twice)} have the same seed and the same {', '.join(by)}",
                "name the parameters in which they differ with --by",
            )
        by_seed = figures.loc[runs.index].set_axis(runs[SEED], axis=0)
        for criterion, names in columns.items():
            rsum = by_seed[names[-1]]
            first = rsum if first is None else first
            named = [*map(str, values), *([criterion] if several else [])]
            cells = [_spread(by_seed[name]) for name in names]
            rows.append([*named, str(len(runs)), *cells, _spread((rsum - first).dropna())])
    return rows


def _columns(experiments: pd.DataFrame, model: str, criterion: str) -> list[str]:
    endings = [f"/{model}.json:{criterion}.{figure}" for figure in FIGURES]
    columns = list(map(str, experiments))
    return [
        next((column for column in columns if column.endswith(ending)), ending[1:])
        for ending in endings
    ]


def _spread(values: pd.Series) -> str:
    """Mean and deviation as text; the mean alone of one value, a dash of none."""
    if values.empty:
        return "-"
    return f"{values.mean():.1f}" + (f" ± {values.std():.1f}" if len(values) > 1 else "")
