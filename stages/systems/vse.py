"""VSE as a system: image features and word ids in, a ranking loss, cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.losses.ranking import RankingLoss
from models.vse import VSE
from pipeline.batches import Batch, PairBatches, Split, read_split
from pipeline.checkpoint import Checkpoint, feature_identity
from pipeline.feature_store import FeatureFile
from pipeline.phases import Schedule
from pipeline.score_file import SplitScores
from pipeline.scoring import score_vectors
from pipeline.sections import Params
from pipeline.sources import FeatureRows, encode_captions, feature_moments, open_vectors
from pipeline.vocabulary import Vocabulary, load_word_vectors
from stages.systems import Inputs, TrainingJob
from stages.systems.ranking import ranking_phases


def prepare_training(params: Params, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    own, training, ranking = params.vse, params.vse.training, params.ranking
    used: dict[str, Any] = {"loss": params.loss, "seed": params.seed}
    used |= {"ranking": ranking.model_dump(), "vse": own.model_dump()}
    vocabulary, features = Vocabulary.load(inputs.text), open_vectors(inputs.features)
    sizes = {"image_dim": features.shape()[1], "vocabulary_size": len(vocabulary)}
    sizes |= {"word_dim": own.word_dim, "hidden": own.hidden, "dim": own.dim}
    model = VSE(**sizes)
    if own.word_vectors == "pretrained":
        matrix = load_word_vectors(inputs.text, own.word_dim)
        model.initialise_words(torch.from_numpy(matrix))
    train, val = map(splits(inputs, vocabulary, features), ("train", "val"))
    if own.standardise_images:
        model.standardise_images(*feature_moments(FeatureRows(features, train.image_ids)))
    model.to(device)
    make_loss = partial(RankingLoss, **ranking.model_dump(exclude={"warmup_epochs"}))
    return TrainingJob(
        model=model,
        optimiser=torch.optim.Adam(model.parameters(), lr=training.lr),
        phases=ranking_phases(params.loss, ranking, training.epochs, make_loss, scores_and_groups),
        batches=PairBatches(train, training.batch_size, params.seed),
        score_validation=lambda: score_vectors(model, val, device),
        schedule=Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        architecture=sizes,
        params=used,
        inputs=identity(vocabulary, features),
    )


def prepare_scoring(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint."""
    vocabulary, features = Vocabulary.load(inputs.text), open_vectors(inputs.features)
    checkpoint.require(identity(vocabulary, features))
    model = checkpoint.build(VSE).to(device)
    split = splits(inputs, vocabulary, features)
    return lambda name: score_vectors(model, split(name), device)


def splits(inputs: Inputs, vocabulary: Vocabulary, features: FeatureFile) -> Callable[[str], Split]:
    """A function from a split's name to its images and captions, as features and word ids."""
    sources = partial(FeatureRows, features), partial(encode_captions, vocabulary)
    return lambda name: read_split(name, inputs.images, inputs.captions, *sources)


def identity(vocabulary: Vocabulary, features: FeatureFile) -> dict[str, str]:
    """What the weights cannot be used without."""
    return {"vocabulary_sha256": vocabulary.sha256} | feature_identity(features.attributes)


def scores_and_groups(model: VSE, batch: Batch) -> tuple[torch.Tensor, ...]:
    """(B, B) cosines of a batch's images and captions, and the (B,) groups of its pairs."""
    return model(batch.images, batch.captions, batch.lengths), batch.groups
