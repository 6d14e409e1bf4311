"""What every model is given by params.yaml, and what it gives to the training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.runtime.section import Section

if TYPE_CHECKING:  # for annotations alone: check_params reads Settings and needs no torch
    from pipeline.training.phases import Fitted
    from pipeline.training.resume import ResumeFile


@dataclass(frozen=True)
class Settings:
    config: Any  # its own section
    loss: str  # the ranking loss of all models, a name of models.ranking.LOSSES
    ranking: Section  # of the ranking losses, a models.ranking.RankingConfig
    seed: int  # of the run

    def used(self, name: str, unread: Any = None) -> dict[str, Any]:
        """What decides the weights of a model that learns by the ranking loss, for its checkpoint.
        unread: keys of its section that decide no result."""
        used: dict[str, Any] = {"loss": self.loss, "seed": self.seed}
        used["ranking"] = self.ranking.model_dump()
        return used | {name: self.config.model_dump(mode="json", exclude=unread)}


@dataclass(frozen=True)
class TrainingJob:
    """A training that can begin, and what goes into the checkpoint beside its weights."""

    run: "Callable[[ResumeFile], Fitted]"  # given where an interrupted training keeps its state
    architecture: dict[str, Any]  # as in pipeline.storage.checkpoint.Description
    params: dict[str, Any]  # likewise
    inputs: dict[str, str]  # likewise
    kept: str = ""  # weights whose names begin so go into the checkpoint, without that beginning
