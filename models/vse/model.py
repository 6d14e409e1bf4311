"""VSE as a system: image features and word ids in, a ranking loss, cosines out."""

from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.preparing import pair_job, set_first_weights
from models.base.scoring import score_vectors, split_scorer
from models.vse.network import VSE
from pipeline.inputs.batches import Batch
from pipeline.inputs.files import Inputs
from pipeline.inputs.words import WordInputs
from pipeline.training.processes import divided

SIZES = {"word_dim", "hidden", "dim", "text_encoder", "text_pool"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, WordInputs(inputs)
    architecture = opened.sizes | config.model_dump(include=SIZES)
    model, train = VSE(**architecture), opened.split("train")
    set_first_weights(model, config, opened, train)
    sides = opened, train, model, architecture
    return pair_job("vse", settings, *sides, scores_and_groups, score_vectors, device)


scorer = partial(split_scorer, WordInputs, VSE)


def scores_and_groups(model: VSE, batch: Batch) -> tuple[torch.Tensor | None, ...]:
    """(B, B) cosines of a batch's images and captions, and which are no negatives."""
    scores = model(batch.images, batch.captions, batch.lengths, divided)
    return scores, batch.groups, None, batch.related
