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
    """What params.yaml says to a model.

    Attributes:
        config: its own section.
        loss: the ranking loss of all models, a name of models.ranking.LOSSES.
        ranking: the settings of the ranking losses, a models.ranking.params.RankingConfig.
        seed: of the run.
    """

    config: Any
    loss: str
    ranking: Section
    seed: int

    def used(self, name: str, unread: Any = None) -> dict[str, Any]:
        """What decides the weights of a model that learns by the ranking loss, for its checkpoint.

        name: of the model; unread: keys of its section that decide no result.
        """
        used: dict[str, Any] = {"loss": self.loss, "seed": self.seed}
        used["ranking"] = self.ranking.model_dump()
        return used | {name: self.config.model_dump(mode="json", exclude=unread)}


@dataclass(frozen=True)
class TrainingJob:
    """A training that can begin, and what goes into the checkpoint beside its weights.

    Attributes:
        run: trains and returns the outcome, given where an interrupted training keeps its state.
        architecture: as in pipeline.storage.checkpoint.Description.
        params: likewise.
        inputs: likewise.
        kept: the weights whose names begin so go into the checkpoint, without that beginning.
    """

    run: "Callable[[ResumeFile], Fitted]"
    architecture: dict[str, Any]
    params: dict[str, Any]
    inputs: dict[str, str]
    kept: str = ""
