"""A folder with all that runs of claims need on another machine (away.py), and the way back."""

import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint, sha256_file, write_json
from pipeline.runtime.graph import GRAPH, stage_paths
from pipeline.runtime.process import say
from pipeline.runtime.recipes import leaves
from pipeline.runtime.text import Values
from vse_workbench.claims.away import (
    INPUTS,
    LEDGER,
    ROWS,
    Done,
    Packed,
    Queue,
    Step,
    link_to,
    read_queue,
    runs_done,
    write_queue,
)
from vse_workbench.claims.keeping import keep_run
from vse_workbench.claims.ledger import (
    Ledger,
    resolved_setting,
    search_seeds_of,
    seeds_of,
)
from vse_workbench.claims.queue import TRAINING, Job, Plan, is_below, stages_with
from vse_workbench.claims.results import Kept, Row, write_rows
from vse_workbench.claims.runs import Folder

SETTINGS = "params.yaml"
VECTORS = "vectors.h5"  # of a vocabulary


def pack(
    ledger: Ledger, plans: Sequence[Plan], rows: Sequence[Row], folder: Path, home: Folder
) -> None:
    """Run here the stages that runs share, and write what the others need elsewhere.

    Args:
        ledger: the claims.
        plans: of the settings that are to be run, in the order in which they shall be; of those
            that one training serves the first is packed.
        rows: those that are kept; they are not run again.
        folder: that is written. Runs that have ended in it stay.
        home: where the shared stages run.

    Raises:
        WorkbenchError: a shared stage fails.
    """
    (folder / INPUTS).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(LEDGER, folder / LEDGER)
    packed = []
    inputs: dict[str, dict[str, str]] = {}  # settings often share them
    for plan, *_ in trained_alike(plans):
        stages = stages_with(plan.params)
        own = _of_model(plan, stages)
        of_seeds = {}
        for seed in (*search_seeds_of(ledger, *plan.place), *seeds_of(ledger, *plan.place)):
            params = plan.params | {"seed": seed}
            key = fingerprint(read=_read_by_shared(plan, stages, params), paths=_paths(own))
            if key not in inputs:
                inputs[key] = _pack_inputs(plan, params, _paths(own), home, folder)
            of_seeds[seed] = inputs[key]
        model = resolved_setting(ledger, plan.setting).model
        if plan.params[model].get("word_vectors") == "random":
            # no run reads them: those of one seed do for all
            first = next(iter(of_seeds.values()))
            unread = {path: copy for path, copy in first.items() if Path(path).name == VECTORS}
            of_seeds = {seed: files | unread for seed, files in of_seeds.items()}
        steps = tuple(_step(plan, name, body) for name, body in own.items())
        packed.append(Packed(plan, of_seeds, steps))
        say(f"{plan.setting} on {plan.dataset}: packed")
    write_queue(folder, Queue(home.commit, tuple(packed)))
    here = {plan.place for plan in plans}
    write_rows(folder / ROWS, [row for row in rows if row.place[:2] in here])
    wanted = {name for one in packed for own in one.inputs.values() for name in own.values()}
    for file in (folder / INPUTS).iterdir():
        if file.name not in wanted:
            file.unlink()


def trained_alike(plans: Iterable[Plan]) -> list[list[Plan]]:
    """Plans in groups, each of which one training serves: only what ranks its figures differs."""
    groups: dict[str, list[Plan]] = {}
    for plan in plans:
        key = fingerprint(params=plan.params, stage=plan.stage)
        groups.setdefault(key, []).append(plan)
    return [*groups.values()]


def unpack(folder: Path, kept: Kept, plans: Sequence[Plan]) -> list[Row]:
    """Keep the runs that have ended in a folder, with their ranks.

    Args:
        folder: that was packed, and worked through elsewhere.
        kept: where they are added; a run that it has already is left alone.
        plans: of all settings under today's code and settings.

    Returns:
        The new rows.

    Raises:
        WorkbenchError: a run was made with other code or settings than today's.
    """
    groups = {plan.place: group for group in trained_alike(plans) for plan in group}
    queue = read_queue(folder)
    packed = {one.plan.place: one for one in queue.packed}
    places = {row.place[:5] for row in kept.rows}
    new = []
    for place, done in runs_done(folder).items():
        row = done.row
        one = packed[row.place[:2]]
        group = groups.get(row.place[:2], [])
        if one.plan.key not in [plan.key for plan in group]:
            raise WorkbenchError(
                f"{place.name}: was packed with other code or settings than today's: not kept",
                "git checkout the commit that it was packed from, or pack and run it again",
            )
        jobs = [
            Job(plan, row.seed, row.point, None)
            for plan in group
            if (*plan.place, row.seed, row.point, plan.key) not in places
        ]
        if jobs:
            new += _keep(place, done, one, jobs, queue.commit, kept)
    kept.rows.extend(new)
    write_rows(kept.path, kept.rows)
    return new


def _keep(
    place: Path, done: Done, packed: Packed, jobs: Sequence[Job], commit: str, kept: Kept
) -> list[Row]:
    """The rows of a run, for which its files and its inputs are laid out as in a repository."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        shutil.copytree(place, home, dirs_exist_ok=True)
        for path, content in packed.inputs[done.row.seed].items():
            link_to(place.parents[1] / INPUTS / content, home / path)
        shutil.copyfile(GRAPH, home / GRAPH)
        write_json(home / SETTINGS, packed.plan.params)
        return [
            keep_run(
                job,
                folder=home,
                commit=commit,
                minutes=done.row.minutes,
                has_collapsed=done.has_collapsed,
                kept=kept,
            )
            for job in jobs
        ]


def _of_model(plan: Plan, stages: Values) -> Values:
    """Those of a plan's stages that are of a model, in their order."""
    own = {name: stages[name] for name in plan.stages if "@" in name}
    owners = {path: name for name, body in own.items() for path in _outputs(body)}
    needs = {
        name: [owners[path] for path in body["deps"] if path in owners]
        for name, body in own.items()
    }
    return {name: own[name] for name in TopologicalSorter(needs).static_order()}


def _step(plan: Plan, name: str, body: Values) -> Step:
    """A row is made from checkpoint and curve of a training and from what the last stage writes."""
    kept: list[str] = []
    ranks: list[str] = []
    if name.startswith(TRAINING):
        kept += _outputs(body, ("outs", "plots"))
    elif name == plan.stage:
        kept += _outputs(body, ("metrics",))
        ranks += _outputs(body, ("outs",))
    return Step(body["cmd"], tuple(kept), tuple(ranks))


def _outputs(body: Values, kinds: Iterable[str] = ("outs", "plots", "metrics")) -> Iterator[str]:
    for kind in kinds:
        for one in body.get(kind, ()):
            yield one if isinstance(one, str) else next(iter(one))


def _paths(own: Values) -> list[str]:
    """What commands of stages name that none of these stages writes, and the tables of a row."""
    tables = map(str, stage_paths("compare", ("images", "captions")).values())
    words = {word for body in own.values() for word in shlex.split(body["cmd"])}
    made = {path for body in own.values() for path in _outputs(body)}
    return sorted(word for word in {*words, *tables} - made if "/" in word)


def _read_by_shared(plan: Plan, stages: Values, params: Values) -> Values:
    """What decides, on one data set, the outputs of a plan's stages that are of no model."""
    names = [name for name in plan.stages if "@" not in name]
    keys = {key for name in names for key in stages[name].get("params", ())}
    values = {key: value for key, value in leaves(params) if is_below(key, keys)}
    return {"dataset": plan.dataset, "stages": names, "values": values}


def _pack_inputs(
    plan: Plan, params: Values, paths: Sequence[str], home: Folder, folder: Path
) -> dict[str, str]:
    """Make files, and copy them; the names of the copies, which are of their content, by path."""
    code, _ = home.make_shared(plan, params)
    if code:
        raise WorkbenchError(f"{plan.setting} on {plan.dataset}:\n{home.last_lines()}")
    found = [home.path / path for path in paths]
    files = {file for path in found for file in (path, *path.rglob("*")) if file.is_file()}
    copies = {}
    for file in sorted(files):
        content = sha256_file(file)[:16]
        copies[str(file.relative_to(home.path))] = content
        if not (folder / INPUTS / content).exists():
            shutil.copyfile(file, folder / INPUTS / content)
    return copies
