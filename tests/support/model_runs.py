"""A model's stages on the inputs of `tiny_inputs`, run in this process."""

from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
from commands import fail, succeed
from tiny_inputs import PATHS, REGIONS, SENTENCES, options, write_params

from models.registry import load_model
from pipeline.evaluation.score_file import SplitScores, read_scores
from pipeline.features.checkpoint import Checkpoint, read_checkpoint
from pipeline.features.data import Inputs
from pipeline.runtime.repeatable import seed_everything
from stages.evaluate import main as evaluate_stage
from stages.params import load_params, run_of, whole_type
from stages.score import main as score_stage
from stages.train import main as train_stage

SHORTLIST = 4  # of the 9 test images


@dataclass(frozen=True)
class ModelRuns:
    """Trains, scores and evaluates one model in a folder; outputs are in `out` below it.

    inputs: those that differ from `tiny_inputs.PATHS`; params: changes of params.yaml in all runs;
    scoring: options of the scoring alone.
    """

    name: str
    inputs: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    scoring: tuple[str, ...] = ()

    def paths(self, folder: Path) -> dict[str, Path]:
        return {key: folder / path for key, path in (PATHS | self.inputs).items()}

    def prepared(self, folder: Path) -> SimpleNamespace:
        """The parts of a training with the parameters as they are, before its first step."""
        with chdir(folder):
            params = load_params(models=None)
            run = run_of(params)
            seed_everything(params.seed)
            kind, config = load_model(self.name), getattr(params, self.name)
            data = kind.open_data(config, Inputs(**self.paths(folder)))
            model = kind(config, **data.sizes)
            model.start(data, run)
            phases = model.phases(data, run)
        architecture = model.architecture(data.sizes)
        return SimpleNamespace(
            model=model, data=data, run=run, phases=phases, architecture=architecture
        )

    def training_command(self, **inputs: str) -> list[str]:
        outputs = ["--output", f"out/{self.name}.safetensors", "--curve", f"out/{self.name}.tsv"]
        return [self.name, *options(**self.inputs | inputs), *outputs]

    def scoring_command(self, **inputs: str) -> list[str]:
        paths = ["--checkpoint", f"out/{self.name}.safetensors", "--output", f"out/{self.name}.h5"]
        return [self.name, *options(**self.inputs | inputs), *paths, *self.scoring]

    def set_params(self, folder: Path, **changes: Any) -> None:
        """Write params.yaml; changes: keys of the model's section, `__` for a dot, or of others."""
        others = whole_type().model_fields.keys() - {"training"}  # the model's own
        named = {
            key if key.split("__")[0] in others else f"{self.name}__{key}": value
            for key, value in (self.params | changes).items()
        }
        write_params(folder, **named)

    def train(self, folder: Path, **changes: Any) -> list[bytes]:
        self.set_params(folder, **changes)
        self.run_training(folder)
        return self.results(folder)

    def run_training(self, folder: Path, **inputs: str) -> str:
        return succeed(train_stage, folder, *self.training_command(**inputs))

    def refused(self, folder: Path, *arguments: str, **inputs: str) -> str:
        """The message of a training that must fail; arguments: beside those of the command."""
        return fail(train_stage, folder, *self.training_command(**inputs), *arguments)

    def results(self, folder: Path) -> list[bytes]:
        names = (f"{self.name}.safetensors", f"{self.name}.tsv")
        return [(folder / "out" / name).read_bytes() for name in names]

    def curve(self, folder: Path) -> pd.DataFrame:
        return pd.read_csv(folder / f"out/{self.name}.tsv", sep="\t")

    def checkpoint(self, folder: Path) -> Checkpoint:
        return read_checkpoint(folder / f"out/{self.name}.safetensors", self.name)

    def weights(self, folder: Path, **changes: Any) -> dict[str, Any]:
        self.train(folder, **changes)
        return self.checkpoint(folder).weights

    def score(self, folder: Path, **inputs: str) -> None:
        succeed(score_stage, folder, *self.scoring_command(**inputs))

    def not_scored(self, folder: Path, *arguments: str) -> str:
        message = fail(score_stage, folder, *self.scoring_command(), *arguments)
        assert not (folder / f"out/{self.name}.h5").exists()
        return message

    def scores(self, folder: Path, split: str = "test") -> SplitScores:
        return read_scores(folder / f"out/{self.name}.h5", split)

    def evaluate(self, folder: Path, **inputs: str) -> bytes:
        self.score(folder, **inputs)
        outputs = ["--metrics", f"out/{self.name}.json", "--ranks", f"out/{self.name}_ranks.h5"]
        succeed(evaluate_stage, folder, "--scores", f"out/{self.name}.h5", *outputs)
        return (folder / f"out/{self.name}.json").read_bytes()


VSE = ModelRuns("vse")
TWO_BRANCH = ModelRuns("two_branch", {"text": SENTENCES})
CCA = ModelRuns("cca", {"text": SENTENCES})
SCAN = ModelRuns("scan", {"features": REGIONS})
VSE_INFINITY = ModelRuns("vse_infinity", {"features": REGIONS})
DP_RNN = ModelRuns("dp_rnn", {"features": REGIONS}, scoring=("--shortlist", str(SHORTLIST)))
