"""From the folder of a finished run to its rows and ranks."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pandas as pd

from pipeline.corpus.tables import (
    captions_digest,
    images_digest,
    in_split,
    load_captions,
    load_images,
)
from pipeline.evaluation.figures import DECIMALS, chance_level, rounded
from pipeline.evaluation.rank_file import read_query_ranks
from pipeline.evaluation.truth import group_codes
from pipeline.features.feature_file import FeatureFile
from pipeline.phrases.tables import load_phrases
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint, sha256_file
from pipeline.runtime.graph import GRAPH, LOCALISING, stage_paths
from pipeline.runtime.recipes import leaves
from pipeline.runtime.text import Values
from vse_workbench.claims.ledger import FEATURES, FIGURES
from vse_workbench.claims.queue import TRAINING, Job, Plan
from vse_workbench.claims.ranks import KeptRanks, write_ranks
from vse_workbench.claims.results import COLLAPSED, Kept, Row

COLLAPSE = "error: training has collapsed"  # what such a training ends with
NEAR_CHANCE = 1.5  # times the rsum of random rankings; below it a result is at chance level


def keep_run(
    job: Job, folder: Path, commit: str, minutes: float, has_collapsed: bool, kept: Kept
) -> Row:
    """The row of a finished run, whose ranks are written.

    Args:
        job: the run.
        folder: of its repository.
        commit: that it started from, 12 hex digits.
        minutes: of a processor, that it took.
        has_collapsed: the training has, so that there are no scores.
        kept: where its ranks are written to; the row is not added.

    Returns:
        The row.

    Raises:
        WorkbenchError: a training of phrases has collapsed, whose chance level is not known.
    """
    plan = job.plan
    is_of_phrases = plan.stage.startswith(LOCALISING)
    if has_collapsed and is_of_phrases:
        raise WorkbenchError("a training of phrases has collapsed: its chance level is not known")
    images = load_images(_path_in(folder, "compare", "images"))
    captions = load_captions(_path_in(folder, "compare", "captions"))
    groups = images.set_index("image_id")["group"]
    tested = [groups[in_split(table, "test")["image_id"]] for table in (images, captions)]
    chance = chance_level(tested[0], tested[1])
    if has_collapsed:
        results = rounded(chance) | {"separation": 100.0}
        val_rsum = 0.0
        best = last = cap = 0
    else:
        metrics = json.loads(_path_in(folder, plan.stage, "metrics").read_bytes())
        results = metrics[plan.criterion]
        val_rsum, best, last, cap = _read_epochs(folder, plan)
    measured = {key: float(value) for key, value in leaves(results) if key in FIGURES}
    figures = {key: value for key, value in measured.items() if math.isfinite(value)}
    at_chance = figures.get("rsum", math.inf) < NEAR_CHANCE * chance["rsum"]
    digests = [images_digest(images), captions_digest(captions)]
    if is_of_phrases:
        tables = sorted(_path_in(folder, plan.stage, "phrases").glob("*.parquet"))
        digests += map(sha256_file, tables)
    row = job.row(
        minutes=round(minutes, 1),
        val_rsum=val_rsum,
        epochs=(best, last, cap),
        outcome=COLLAPSED if at_chance else "",
        corpus=fingerprint(tables=digests)[:12],
        commit=commit,
        figures=figures,
    )
    if not job.is_of_search and not has_collapsed:
        criterion = "naive" if plan.criterion == FEATURES else plan.criterion
        write_ranks(kept.ranks / row.ranks, _read_ranks_of_run(folder, plan, criterion))
    return row


def _path_in(folder: Path, stage: str, option: str) -> Path:
    """What an option of a stage, such as train@vse, names in the folder."""
    name, _, item = stage.partition("@")
    return folder / stage_paths(name, (option,), item or None, folder / GRAPH)[option]


def _read_epochs(folder: Path, plan: Plan) -> tuple[float, int, int, int]:
    """Validation of the kept epoch, its number, that of the last one, and the most there might have
    been: all in its phase. Of several trainings those of the one that is nearest to its cap."""
    from pipeline.features.checkpoint import read_checkpoint  # torch takes seconds to load

    rsums = []
    reached = []
    for stage in (name for name in plan.stages if name.startswith(TRAINING)):
        kept = read_checkpoint(_path_in(folder, stage, "output")).description
        curve = pd.read_csv(_path_in(folder, stage, "curve"), sep="\t")
        allowed = epoch_limits(plan.params[stage.partition("@")[2]], plan.params["loss"])
        rsums.append(kept.val_rsum)
        for rows, best in trainings_of(curve, kept.epoch):
            reached.append(epochs_of_phase(rows, best, allowed, plan.params["loss"]))
    best, last, most = max(reached, key=lambda row: row[0] / max(row[2], 1))
    return round(fmean(rsums), DECIMALS), best, last, most


def trainings_of(curve: pd.DataFrame, kept: int) -> list[tuple[pd.DataFrame, int]]:
    """The trainings that a curve is of: several where networks were trained one after the other.

    Args:
        curve: a row for each epoch; of several networks with `part`, and a last row for all.
        kept: the epoch that the checkpoint names.

    Returns:
        The rows of each, and its kept epoch.
    """
    if "part" not in curve:
        return [(curve, kept)]
    epochs = curve.iloc[:-1]  # the last row is for all networks together
    parts = [rows.reset_index(drop=True) for _, rows in epochs.groupby("part", sort=False)]
    return [(rows, int(rows["best"].iloc[-1])) for rows in parts]


def epochs_of_phase(
    curve: pd.DataFrame, kept: int, allowed: Mapping[str, int], loss: str
) -> tuple[int, int, int]:
    """How far the phase of the kept epoch came.

    Args:
        curve: a row for each epoch, with `phase` and `ended`.
        kept: the epoch, 1 is the first of the curve.
        allowed: the most epochs of each phase, as of `epoch_limits`.
        loss: the phase of rows that name none of these.

    Returns:
        The number of the kept epoch in its phase, of the last one, and the most there might have
        been: fewer than allowed where some were left out, as the learning rate fell early, and all
        others trained.
    """
    phases = curve["phase"].where(curve["phase"].isin(list(allowed)), loss)
    own = curve[phases == phases[kept - 1]]
    best = int((own.index < kept).sum())
    last = len(own)
    most = allowed.get(phases[kept - 1], 0)
    is_whole = most and own["ended"].iloc[-1] == "epochs"  # CCA has no such column
    return best, last, min(last, most) if is_whole else most


def epoch_limits(section: Values, loss: str) -> dict[str, int]:
    """The most epochs of each phase of a training; an earlier phase by another loss, as a warm-up,
    counts to that of `loss`.

    Args:
        section: of the model, in params.yaml.
        loss: the name of the phase that is none of the section's.

    Returns:
        By phase; empty for CCA, which has no epochs.
    """
    epochs = section.get("training", {}).get("epochs", {})
    limits = dict(epochs) if isinstance(epochs, Mapping) else {loss: epochs}
    if not section.get("recurrent", True):  # dp_rnn: one phase, as long as both
        limits = {"matching": limits["matching"] + limits["all"]}
    limits |= {phase["name"]: phase["epochs"] for phase in section.get("phases", ())}
    later = {name: section.get(name, {}).get("epochs") for name in ("fine_tuning", "mining")}
    return limits | {name: count for name, count in later.items() if count}


def _read_ranks_of_run(folder: Path, plan: Plan, criterion: str) -> KeptRanks:
    if plan.stage.startswith(LOCALISING):
        file = FeatureFile(_path_in(folder, plan.stage, "output"))
        phrases = load_phrases(_path_in(folder, plan.stage, "phrases")).of_split("test")
        images, _ = pd.factorize(phrases.set_index("phrase_id")["image_id"][file.ids])
        return KeptRanks({"phrases": file.load("ranks")}, {"phrases": images})
    read = read_query_ranks(_path_in(folder, plan.stage, "ranks"), criterion)
    codes = group_codes(read.i2t.groups, read.t2i.groups)
    return KeptRanks(
        ranks={"i2t": read.i2t.measured.ranks, "t2i": read.t2i.measured.ranks},
        images={"i2t": codes[0], "t2i": codes[1]},
    )
