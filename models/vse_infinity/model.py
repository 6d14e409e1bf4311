"""VSE-infinity as a system: regions and word ids in, a ranking loss, cosines out."""

from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.preparing import pair_job, set_first_weights
from models.base.scoring import score_vectors, split_scorer
from models.vse_infinity.network import VSEInfinity
from pipeline.inputs.batches import Batch
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs
from pipeline.training.processes import divided

NOT_SIZES = {"word_vectors", "standardise_images", "margin", "training"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, RegionInputs(inputs)
    architecture = opened.sizes | config.model_dump(exclude=NOT_SIZES)
    model, train = VSEInfinity(**architecture), opened.split("train")
    set_first_weights(model, config, opened, train)
    sides = opened, train, model, architecture
    return pair_job("vse_infinity", settings, *sides, scores_and_groups, score_vectors, device)


scorer = partial(split_scorer, RegionInputs, VSEInfinity)


def scores_and_groups(model: VSEInfinity, batch: Batch) -> tuple[torch.Tensor | None, ...]:
    """(B, B) cosines of a batch's images and captions, and which are no negatives."""
    sides = *batch.images.tensors, batch.captions, batch.lengths
    return model(*sides, divided), batch.groups, None, batch.related
