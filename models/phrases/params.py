"""Sections of params.yaml of the models that localise phrases."""

from typing import Annotated

from pydantic import Field

from models.cca.params import CCAConfig
from models.two_branch.params import TermWeightsConfig, VectorBranchesConfig
from pipeline.runtime.section import Count, Natural, Positive, Section, Share
from pipeline.training.params import TrainingConfig


class MiningConfig(Section):
    """Fine-tuning with proposals that lie nearer to a phrase than its own boxes."""

    epochs: Natural = 3
    batch_size: Annotated[int, Field(ge=2)] = 64
    negatives: Count = 50
    sampled: Count = 10
    overlap: Share = 1.0
    lr: Positive = 0.0003


class PhraseTwoBranchConfig(VectorBranchesConfig):
    weights: TermWeightsConfig = TermWeightsConfig(image_image=0.1, sentence_sentence=0.1)
    training: TrainingConfig = TrainingConfig(
        epochs=4, batch_size=256, lr=0.001, lr_step=6, clip=0.0
    )
    mining: MiningConfig = MiningConfig()


class PhraseCCAConfig(CCAConfig):
    """Canonical correlation analysis of regions and phrases."""
