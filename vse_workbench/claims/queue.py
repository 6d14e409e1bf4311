"""What is to be run: the settings of claims under today's code, and which of their runs lack."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from pipeline.runtime.code import SOURCES, Sources
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint, write_json, write_text
from pipeline.runtime.graph import EVALUATING, GRAPH, LOCALISING, resolved_stages
from pipeline.runtime.process import say
from pipeline.runtime.recipes import leaves
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import read_yaml
from stages.code import code_list, stage_lists
from stages.common import CODE
from stages.params import default_values, find_problems, whole_type, with_defaults
from vse_workbench.claims.carrying import RERUNS_NEEDED, Codes, key_of
from vse_workbench.claims.ledger import (
    AS_IT_IS,
    SEARCH_SEEDS,
    Claim,
    Ledger,
    Point,
    is_tried,
    resolved_setting,
    search_seeds_of,
    seeds_of,
    setting_params,
)
from vse_workbench.claims.results import Row, Run, searched, shown_point

RECIPES = Path("recipes")
ALONE = {"threads": 1, "processes": 1}  # of `runtime`: how a run uses the machine
CHECK = "check_params"  # reads all of params.yaml, whatever a model reads of it
TRAINING = ("train@", "train_more@", "train_phrases@")  # how the names of stages that train begin
# What a run's figures do not depend on: where it takes place, how wide intervals are drawn, and by
# which other criteria its scores were ranked.
WITHOUT_EFFECT = (
    "seed",
    "runtime",
    "evaluation.bootstrap",
    "evaluation.confidence",
    "inference.criteria",
)


@dataclass(frozen=True, eq=False)
class Plan:
    """How a setting on a dataset is run today, as its search finds it and with any seed."""

    setting: str
    dataset: str
    params: Values
    criterion: str  # what ranks its figures, or ledger.FEATURES
    stage: str  # the last one, such as evaluate@vse
    stages: tuple[str, ...]  # from which it follows, and itself
    digest: str  # of what the stages read, as in Row
    code: str  # as in Row
    trained: str  # as in Row

    @property
    def key(self) -> str:
        return f"{self.digest}.{self.code}"

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from other plans of today."""
        return self.setting, self.dataset


class Planner:
    """Plans by the code, the graph and the recipes in the folder of a repository."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.defaults = default_values()
        self.lists = stage_lists(read_yaml(GRAPH))
        self.sources = Sources(Path.cwd(), SOURCES)
        self.plan = cache(self._plan)

    def plans(self, claims: Mapping[str, Claim]) -> list[Plan]:
        """Of all that claims compare, each once; not where a premise is not met."""
        compared = (
            (side, dataset)
            for claim in claims.values()
            for dataset in claim.datasets
            if is_tried(self.ledger, claim, dataset)
            for side in (claim.first, claim.second)
        )
        return [self.plan(setting, dataset) for setting, dataset in dict.fromkeys(compared)]

    def params(self, setting: str, dataset: str, point: Point = AS_IT_IS) -> Values:
        """The params.yaml of a setting.

        Args:
            setting: its name.
            dataset: on which it runs.
            point: of its search; by default the setting as it is.

        Returns:
            Nested values of every key.
        """
        return setting_params(self.ledger, setting, dataset, self.defaults, RECIPES, point)

    def _plan(self, setting: str, dataset: str) -> Plan:
        """The plan of a setting; the data need not be there."""
        entry = resolved_setting(self.ledger, setting)
        params = self.params(setting, dataset)
        values = without_data(params)
        problems = "\n  ".join(find_problems(values))
        if problems:
            raise WorkbenchError(f"claims.yaml, setting {setting} on {dataset}:\n  {problems}")
        whole = stages_with(values)
        ends = (f"{stage}@{entry.model}" for stage in (*EVALUATING, LOCALISING))
        last = next((end for end in ends if end in whole), None)
        if last is None:
            raise WorkbenchError(f"claims.yaml, setting {setting}: no model {entry.model}")
        stages = _upstream_stages(whole, [last])
        training = _upstream_stages(whole, [name for name in stages if name.startswith(TRAINING)])
        typed = whole_type().model_validate(with_defaults(values))
        lists = {
            name: code_list(self.sources, name, self.lists[name], typed)
            for name in _code_lists(stages)
        }
        free = WITHOUT_EFFECT if entry.criterion != "naive" else (*WITHOUT_EFFECT, "inference")
        counting = {key: value for key, value in leaves(params) if not is_below(key, free)}
        read = {
            stage: {
                key: value
                for key, value in counting.items()
                if is_below(key, body.get("params", ()))
            }
            for stage, body in stages.items()
        }
        commands = {stage: body["cmd"] for stage, body in stages.items()}  # the shortlist, say
        parts = {"read": read, "commands": commands, "criterion": entry.criterion}
        return Plan(
            setting=setting,
            dataset=dataset,
            params=params,
            criterion=entry.criterion,
            stage=last,
            stages=tuple(stages),
            digest=fingerprint(**parts)[:12],
            code=fingerprint(lists=list(lists.values()))[:12],
            trained=fingerprint(lists=[lists[name] for name in _code_lists(training)])[:12],
        )


@dataclass(frozen=True)
class Job:
    """A run of a setting."""

    plan: Plan
    seed: int
    point: Point | None  # None: the search must choose it first
    minutes: float | None  # of a processor, as kept runs took; None: not known

    @property
    def name(self) -> str:
        what = "search, " if self.is_of_search else ""
        point = "" if self.point is None else f", {shown_point(self.point)}"
        return f"{self.plan.setting} on {self.plan.dataset}, {what}seed {self.seed}{point}"

    @property
    def is_of_search(self) -> bool:
        return self.seed in SEARCH_SEEDS

    def row(
        self,
        minutes: float,
        val_rsum: float,
        epochs: tuple[int, int, int] = (0, 0, 0),
        outcome: str = "",
        corpus: str = "",
        commit: str = "",
        figures: Mapping[str, float] | None = None,
    ) -> Row:
        """The row of this run.

        Args:
            minutes: of a processor.
            val_rsum: of the kept epoch.
            epochs: best_epoch, last_epoch and cap of Row; a search reads neither these nor what
                follows.
            outcome: as in Row.
            corpus: as in Row.
            commit: as in Row.
            figures: as in Row; None: none.

        Returns:
            The row.
        """
        point = self.point or AS_IT_IS
        best, last, cap = epochs
        return Row(
            setting=self.plan.setting,
            dataset=self.plan.dataset,
            seed=self.seed,
            factor=point.factor,
            regularisation=point.regularisation,
            digest=self.plan.digest,
            corpus=corpus,
            code=self.plan.code,
            trained=self.plan.trained,
            commit=commit,
            minutes=minutes,
            val_rsum=val_rsum,
            best_epoch=best,
            last_epoch=last,
            cap=cap,
            outcome=outcome,
            figures=figures or {},
        )


def without_data(params: Values) -> Values:
    """A params.yaml that is valid also where raw data and a model of words are not there."""
    words = params["vocabulary"]
    has_model = {"vectors": "."} if words["source"] == "transformer" else {}
    return dict(params) | {"raw": ".", "vocabulary": words | has_model}


def stages_with(params: Values) -> dict[str, Values]:
    """All stages of dvc.yaml as DVC reads them beside a params.yaml."""
    with tempfile.TemporaryDirectory() as name:
        graph = Path(name, GRAPH.name)
        write_text(graph, GRAPH.read_text(encoding="utf-8"))
        write_json(Path(name, "params.yaml"), params)
        return resolved_stages(graph)


def with_data_present(plans: Iterable[Plan]) -> list[Plan]:
    """The plans whose raw data are there; those of other datasets are named and left out."""
    raw = {plan: Path(plan.params["raw"]) for plan in plans}
    lost = {plan.dataset: path for plan, path in raw.items() if not path.exists()}
    for dataset, path in lost.items():
        say(f"{dataset} is left out: {path} is not there")
    return [plan for plan in raw if plan.dataset not in lost]


def lacking_jobs(
    ledger: Ledger, plans: Iterable[Plan], rows: Sequence[Row], codes: Codes | None = None
) -> list[Job]:
    """What lacks: first the searches, then the seeds. Settings that differ in their criterion alone
    share their trainings through the cache of DVC.

    Args:
        ledger: the claims.
        plans: of the settings.
        rows: what is kept.
        codes: older code whose rows count (carrying.equal_codes).

    Returns:
        The jobs in their order.
    """
    jobs: list[Job] = []
    codes = codes or {}
    for plan in plans:
        key = f"{plan.digest}.{codes.get(plan.code, plan.code)}"
        matching = [
            row for row in rows if row.place[:2] == plan.place and key_of(row, codes) == key
        ]
        kept = {(row.seed, row.point) for row in matching}
        minutes = _expected_minutes(ledger, plan, rows)
        search = searched(ledger, plan.setting, plan.dataset, matching)
        seeds = search_seeds_of(ledger, plan.setting, plan.dataset)
        runs: list[tuple[int, Point | None]] = [
            (seed, point) for point in search.lacking for seed in seeds
        ]
        runs += [(seed, search.chosen) for seed in seeds_of(ledger, plan.setting, plan.dataset)]
        jobs += [
            Job(plan, seed, point, minutes) for seed, point in runs if (seed, point) not in kept
        ]
    return sorted(jobs, key=lambda job: not job.is_of_search)


def carrying_jobs(
    ledger: Ledger, plans: Iterable[Plan], rows: Sequence[Row], codes: Codes | None = None
) -> list[Job]:
    """The shortest runs that would carry rows of older code to today's: RERUNS_NEEDED of each
    older list of code, less what was made again.

    Args:
        ledger: the claims.
        plans: of the settings.
        rows: what is kept.
        codes: older code whose rows count already.

    Returns:
        The jobs, the shortest first.
    """
    codes = codes or {}
    jobs: dict[tuple[str, str], dict[Run, Job]] = {}
    made = {row.run: row.code for row in rows}  # by the code that made it last
    for plan in plans:
        seeds = seeds_of(ledger, plan.setting, plan.dataset)
        for row in rows:
            older = codes.get(row.code, row.code)
            is_of_plan = row.place[:2] == plan.place and row.seed in seeds
            is_older = row.digest == plan.digest and plan.code not in (older, row.code)
            if is_of_plan and is_older:
                job = Job(plan, row.seed, row.point, row.minutes)
                jobs.setdefault((older, plan.code), {})[row.run] = job
    lacking: list[Job] = []
    for (_, code), own in jobs.items():
        left = {run: job for run, job in own.items() if made[run] != code}
        shortest = sorted(left.values(), key=lambda job: job.minutes or 0)
        lacking += shortest[: max(0, RERUNS_NEEDED - (len(own) - len(left)))]
    return sorted(lacking, key=lambda job: job.minutes or 0)


def _expected_minutes(ledger: Ledger, plan: Plan, rows: Sequence[Row]) -> float | None:
    """The median of what kept runs took: of the setting, else of its model on the dataset."""
    model = resolved_setting(ledger, plan.setting).model
    alike = [name for name in ledger.settings if resolved_setting(ledger, name).model == model]
    near = [row for row in rows if row.dataset == plan.dataset and row.setting in alike]
    exact = [row for row in near if row.setting == plan.setting]
    return median(row.minutes for row in exact or near) if near else None


def cost_text(jobs: Sequence[Job]) -> str:
    """How long jobs take, as text."""
    known = [job.minutes for job in jobs if job.minutes is not None]
    lost = len(jobs) - len(known)
    return f"{sum(known) / 60:.1f} hours" + (f" and {lost} runs of unknown cost" if lost else "")


def _upstream_stages(stages: Values, last: Sequence[str]) -> Values:
    """Stages from which some follow, and these themselves, by name in sorted order."""
    owners = {out: name for name, stage in stages.items() for out in stage.get("outs", ())}
    needed: Values = {}
    ahead = [*last]
    while ahead:
        name = ahead.pop()
        if name in needed or name == CHECK:
            continue
        needed[name] = stages[name]
        ahead += [owners[path] for path in stages[name].get("deps", ()) if path in owners]
    return dict(sorted(needed.items()))


def _code_lists(stages: Values) -> list[str]:
    """The names of the lists of code that stages depend on, sorted."""
    deps = {Path(path) for stage in stages.values() for path in stage["deps"]}
    return sorted(path.name for path in deps if path.parent == CODE)


def is_below(key: str, names: Iterable[str]) -> bool:
    """Whether a key of params.yaml is one of some, or in a section that is.

    Args:
        key: dotted.
        names: dotted, too.

    Returns:
        True where it is.
    """
    return f"{key}.".startswith(tuple(f"{name}." for name in names))
