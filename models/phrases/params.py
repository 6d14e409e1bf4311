"""Sections of params.yaml of the models that localise phrases."""

from typing import Annotated

from pydantic import Field

from models.cca.params import CCAConfig
from models.two_branch.params import VectorBranchesConfig
from pipeline.runtime.section import Count, Natural, Positive, Section, Share


class MiningConfig(Section):
    """Fine-tuning with proposals that lie nearer to a phrase than its own boxes."""

    epochs: Natural
    batch_size: Annotated[int, Field(ge=2)]
    negatives: Count
    sampled: Count
    overlap: Share
    lr: Positive


class PhraseTwoBranchConfig(VectorBranchesConfig):
    """The two-branch network on regions and phrases."""

    regions_per_phrase: Count
    mining: MiningConfig


class PhraseCCAConfig(CCAConfig):
    """Canonical correlation analysis of regions and phrases."""

    regions_per_phrase: Count
