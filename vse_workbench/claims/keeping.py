"""From the folder of a finished run to its rows and ranks."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

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
from pipeline.evaluation.truth import DIRECTIONS, group_codes
from pipeline.phrases.tables import load_phrases
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint, sha256_file
from pipeline.runtime.graph import GRAPH, LOCALISING, stage_paths
from pipeline.runtime.recipes import leaves
from pipeline.storage.features import FeatureFile
from vse_workbench.claims.ledger import FEATURES, FIGURES, SEARCHED
from vse_workbench.claims.queue import TRAINING, Job, Plan
from vse_workbench.claims.ranks import Ranks, write_ranks
from vse_workbench.claims.results import COLLAPSED, Kept, Row

COLLAPSE = "error: training has collapsed"  # what such a training ends with
NEAR_CHANCE = 1.5  # times the rsum of random rankings; below it a result is at chance level


def made_row(
    job: Job, folder: Path, commit: str, minutes: float, has_ended: bool, kept: Kept
) -> Row:
    """The row of a finished run, whose ranks are written. has_ended: by a collapse, so that it has
    no scores."""
    plan, criterion = job.plan, job.plan.criterion
    if has_ended and plan.stage.startswith(LOCALISING):
        raise WorkbenchError("a training of phrases has collapsed: its chance level is not known")
    images, captions = (_file(folder, "compare", name) for name in ("images", "captions"))
    tables = load_images(images), load_captions(captions)
    groups, epochs = tables[0].set_index("image_id")["group"], (0.0, 0, 0, 0)
    tested = [groups[in_split(table, "test")["image_id"]] for table in tables]
    chance = chance_level(tested[0], tested[1])
    results = rounded(chance) | {"separation": 100.0}
    if not has_ended:
        metrics = json.loads(_file(folder, plan.stage, "metrics").read_bytes())
        results, epochs = metrics[criterion], _epochs(folder, plan)
    measured = {key: float(value) for key, value in leaves(results) if key in FIGURES}
    figures = {key: value for key, value in measured.items() if math.isfinite(value)}
    at_chance = figures.get("rsum", math.inf) < NEAR_CHANCE * chance["rsum"]
    digests = [images_digest(tables[0]), captions_digest(tables[1])]
    if plan.stage.startswith(LOCALISING):
        digests += map(sha256_file, sorted(_file(folder, plan.stage, "phrases").glob("*.parquet")))
    row = Row(plan.setting, plan.dataset, job.seed, job.factor or 1.0, plan.digest,
              fingerprint(tables=digests)[:12], plan.code, plan.trained, commit,
              round(minutes, 1), *epochs, COLLAPSED if at_chance else "", figures)  # fmt: skip
    if job.seed != SEARCHED and not has_ended:
        by = "naive" if criterion == FEATURES else criterion
        write_ranks(kept.ranks / row.ranks, _ranks(folder, plan, by))
    return row


def _file(folder: Path, stage: str, option: str) -> Path:
    """What an option of a stage, such as train@vse, names in the folder."""
    name, _, item = stage.partition("@")
    return folder / stage_paths(name, (option,), item or None, folder / GRAPH)[option]


def _epochs(folder: Path, plan: Plan) -> tuple[float, int, int, int]:
    """Validation of the kept epoch, its number, that of the last one, and the most there might have
    been: all in its phase. Of an average of models those of the one that is nearest to its cap."""
    from pipeline.storage.checkpoint import read_checkpoint  # torch takes seconds to load

    trainings = []
    for stage in (name for name in plan.stages if name.startswith(TRAINING)):
        kept = read_checkpoint(_file(folder, stage, "output")).description
        curve = pd.read_csv(_file(folder, stage, "curve"), sep="\t")
        allowed = caps(plan.params[stage.partition("@")[2]], plan.params["loss"])
        of_phase = epochs_of_phase(curve, kept.epoch, allowed, plan.params["loss"])
        trainings.append((kept.val_rsum, *of_phase))
    _, best, last, most = max(trainings, key=lambda row: row[1] / max(row[3], 1))
    return round(fmean(row[0] for row in trainings), DECIMALS), best, last, most


def epochs_of_phase(
    curve: pd.DataFrame, kept: int, allowed: Mapping[str, int], loss: str
) -> tuple[int, int, int]:
    """Of the phase of the kept epoch (1 is the first of the curve): that epoch's number, the last
    one's, and the most there might have been: fewer than allowed where some were left out, as the
    learning rate fell early, and all others trained."""
    phases = curve["phase"].where(curve["phase"].isin(list(allowed)), loss)
    own = curve[phases == phases[kept - 1]]
    best, last, most = int((own.index < kept).sum()), len(own), allowed.get(phases[kept - 1], 0)
    is_whole = most and own["ended"].iloc[-1] == "epochs"  # CCA has no such column
    return best, last, min(last, most) if is_whole else most


def caps(section: Mapping[str, Any], loss: str) -> dict[str, int]:
    """The most epochs of each phase of a training by the section of its model, none for CCA; an
    earlier phase by another loss, as a warm-up, counts to that of `loss`."""
    epochs = section.get("training", {}).get("epochs", {})
    limits = dict(epochs) if isinstance(epochs, Mapping) else {loss: epochs}
    if not section.get("recurrent", True):  # dp_rnn: one phase, as long as both
        limits = {"matching": limits["matching"] + limits["all"]}
    limits |= {phase["name"]: phase["epochs"] for phase in section.get("phases", ())}
    later = {name: section.get(name, {}).get("epochs") for name in ("fine_tuning", "mining")}
    return limits | {name: count for name, count in later.items() if count}


def _ranks(folder: Path, plan: Plan, criterion: str) -> Ranks:
    if plan.stage.startswith(LOCALISING):
        file = FeatureFile(_file(folder, plan.stage, "output"))
        phrases = load_phrases(_file(folder, plan.stage, "phrases")).of_split("test")
        images, _ = pd.factorize(phrases.set_index("phrase_id")["image_id"][file.ids])
        return Ranks({"phrases": file.load("ranks")}, {"phrases": images})
    read = read_query_ranks(_file(folder, plan.stage, "ranks"), criterion)
    codes = group_codes(read.i2t.groups, read.t2i.groups)
    ranks = read.i2t.measured.ranks, read.t2i.measured.ranks
    return Ranks(*(dict(zip(DIRECTIONS, pair, strict=True)) for pair in (ranks, codes)))
