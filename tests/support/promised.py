"""What the promises of models are tested with: every file that a model may need, made once, and any
model of models/ in a few numbers, opened, started and led through its phases.

No model is named here. One that needs a file which no other needed must add it to `FILES`.
"""

import json
from collections import Counter
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dual_path_runs import write_world
from model_runs import PATHS
from text_networks import write_text_network
from tiny_inputs import CLASSES, COLOURS, NETWORK, NOUNS, REGIONS, SENTENCES, SIDE, write_regions
from tiny_inputs import write_sentences as write_counts
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from models.backbone.bert import sizes_of, weights_of
from models.base import Model, Run
from models.ranking import RankingConfig
from models.registry import load_model
from pipeline.corpus.tables import load_captions
from pipeline.features.checkpoint import Checkpoint, Description, read_checkpoint, write_checkpoint
from pipeline.features.data import Inputs, RetrievalData
from pipeline.features.feature_file import FeatureFile
from pipeline.features.groups import write_groups
from pipeline.features.sentences.encodings.transformer import Transformer
from pipeline.features.sentences.params import TransformerConfig
from pipeline.features.sentences.state import Material
from pipeline.features.split import Batch, Split
from pipeline.runtime.repeatable import seed_everything
from pipeline.runtime.section import AS_WRITTEN
from pipeline.training.process_group import ProcessGroup
from pipeline.training.trainer import Phase

STATES = "states.h5"
STATE_DIM = 5
# what dvc.yaml makes, and where it is here
FILES = {
    "data/features/image.h5": PATHS["features"],
    "data/features/regions.h5": REGIONS,
    "data/features/sentences.h5": SENTENCES,
    "data/features/token_states.h5": STATES,
    "data/features/pseudo_classes.h5": CLASSES,
    "data/vocabulary": PATHS["text"],
    "data/checkpoints/image_network.safetensors": NETWORK,
}
# keys of any section that make a model small; a section without them is as large as its defaults
SMALL = {
    "dim": 8,
    "hidden": 10,
    "word_dim": 6,
    "text_cnn": "resnet18",
    "text_width": 2,
    "slots": 12,
    "resize": SIDE,
    "crop": SIDE - 4,
    "candidates": 2,
}
BATCH = 8
STEPS = 3  # of a phase
RATE = 0.01
SEED = 3
ALONE = ProcessGroup()


def write_needed(folder: Path) -> None:
    """Every file of FILES, of one corpus of coloured images with one to three captions each."""
    write_world(folder)
    known = [*COLOURS, *NOUNS]
    # as wide as the image features, for models of two towers in one space
    width = FeatureFile(folder / PATHS["features"]).shape()[1]
    write_counts(folder, known + [f"unused{number}" for number in range(width - len(known))])
    write_regions(folder, known)
    table = load_captions(folder / PATHS["captions"])
    counts = table["tokens"].map(len).to_numpy(np.int64)
    states = np.random.default_rng(4).normal(size=(counts.sum(), STATE_DIM)).astype(np.float16)
    groups: dict[str, Any] = {
        "captions": {"ids": table["caption_id"].tolist(), "counts": counts},
        "tokens": {"states": states},
    }
    attributes = {"weights_sha256": "c" * 64}
    if find_spec("sentence_transformers"):  # the extra `text`
        attributes |= add_network(folder / "tiny", groups)
    write_groups(folder / STATES, groups, attributes)


def add_network(folder: Path, groups: dict[str, Any]) -> dict[str, str]:
    """Beside states also ids of tokens and a network that reads them, as encode_tokens writes them.

    Args:
        folder: Of the network.
        groups: Of the file; they are added to.

    Returns:
        What the file says of the network.
    """
    write_text_network(folder, NOUNS)
    network = Transformer.fit(Material(TransformerConfig(model=str(folder)), [], folder, 0))
    sizes = sizes_of(network.body, "tiny")
    known = json.loads(sizes)["vocab_size"]
    drawn = np.random.default_rng(5).integers(5, known, groups["captions"]["counts"].sum())
    groups["tokens"]["ids"] = drawn.astype(np.int32)
    groups["network"] = weights_of(network.body)
    return {"network": sizes}


def inputs_of(kind: type[Model], folder: Path) -> Inputs:
    """The tables, and the files that a model says it needs: no others."""
    needed = {option: folder / FILES[path] for option, path in kind.NEEDS.items()}
    tables = {name: folder / PATHS[name] for name in ("images", "captions")}
    return Inputs(**tables, **needed)


def small_config(kind: type[Model], **changes: Any) -> Any:
    """The default section of a model with the numbers of SMALL, and others as they are given."""
    values = kind.Config().model_dump(mode="json", context=AS_WRITTEN)
    chosen = SMALL | changes
    values |= {key: value for key, value in chosen.items() if key in kind.Config.model_fields}
    if "training" in values:
        values["training"]["batch_size"] = BATCH
    return kind.Config.model_validate(values)


@dataclass
class PhaseRecord:
    """What a few steps of a phase have left behind."""

    part: str
    phase: Phase
    frozen: set[str]  # names of parameters that the phase does not train
    losses: list[float] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)  # how often a gradient was not zero
    leaked: set[str] = field(default_factory=set)  # frozen ones with a gradient
    moved: set[str] = field(default_factory=set)  # tensors of frozen modules that have changed


@dataclass
class Made:
    """A model with its data, started."""

    name: str
    kind: type[Model]
    config: Any
    data: RetrievalData
    model: Model
    run: Run

    def split(self, name: str) -> Split:
        """A split as evaluation reads it."""
        return self.model.scored_split(self.data, name)

    def batch(self) -> Batch:
        """The first batch of the last part's last phase."""
        part = list(self.model.parts().values())[-1]
        return next(part.phases(self.data, self.run)[-1].batches.epoch(0))

    def checkpoint(self, path: Path) -> Checkpoint:
        """The model, written and read as a training and a scoring do."""
        description = Description(
            model=self.name,
            architecture=self.model.architecture(self.data.sizes),
            params=self.model.used(self.name, self.run),
            inputs=self.data.identity,
            epoch=1,
            val_rsum=1.0,
        )
        write_checkpoint(path, self.model.weights(), description)
        return read_checkpoint(path, self.name)


def make(name: str, folder: Path, loss: str = "max_margin", **changes: Any) -> Made:
    """A model of the registry with first weights.

    Args:
        name: Of the model.
        folder: After `write_needed`.
        loss: Of the run; max_margin has a warm-up.
        **changes: Of its section, where that has such a key.
    """
    seed_everything(SEED)
    kind = load_model(name)
    config = small_config(kind, **changes)
    data = kind.open_data(config, inputs_of(kind, folder))
    run = Run(loss, RankingConfig().model_dump(), SEED)
    model = kind(config, **data.sizes)
    model.start(data, run)
    return Made(name, kind, config, data, model, run)


def train(made: Made) -> list[PhaseRecord]:
    """Fit a model, or take some steps of gradient descent in every phase of its parts; no records
    of a model that is fitted."""
    if made.model.fit(made.data) is not None:
        return []
    records = []
    for name, part in made.model.parts().items():
        for phase in part.phases(made.data, made.run):
            part.train()
            part.enter(phase)
            if phase.begin is not None:
                phase.begin()
            records.append(take_steps(name, part, phase))
    return records


def take_steps(name: str, part: Model, phase: Phase) -> PhaseRecord:
    """Take STEPS steps of a phase.

    Args:
        name: Of the part.
        part: Which has entered the phase.
        phase: Whose batches are taken from as many epochs as are needed.
    """
    trained = {key for key, weight in part.named_parameters() if weight.requires_grad}
    record = PhaseRecord(name, phase, {key for key, _ in part.named_parameters()} - trained)
    before = {key: value.clone() for key, value in frozen_tensors(part).items()}
    for batch in islice(phase.batches.epoch(0), STEPS):
        part.zero_grad()
        loss = part.batch_loss(batch, phase, ALONE).value
        loss.backward()
        record.losses.append(loss.item())
        for key, weight in part.named_parameters():
            if weight.grad is None:
                continue
            if key in record.frozen:
                record.leaked.add(key)
            record.reached[key] += int(weight.grad.abs().max() > 0)
            with torch.no_grad():
                weight -= RATE * weight.grad.clamp(-1, 1)
    after = frozen_tensors(part)
    record.moved = {key for key, value in before.items() if not torch.equal(value, after[key])}
    return record


def frozen_tensors(part: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers of all modules that have weights of their own, all of them frozen."""
    found = {}
    for place, module in part.named_modules():
        weights = list(module.parameters(recurse=False))
        if weights and not any(weight.requires_grad for weight in weights):
            own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            found |= {f"{place}.{key}": value for key, value in own}
    return found


def leaves(rows: Any) -> list[Tensor]:
    """The tensors of embedded rows, or of a batch."""
    if isinstance(rows, Batch):
        rows = [getattr(rows, entry.name) for entry in fields(rows)]
    return [leaf for leaf in tree_leaves(rows) if isinstance(leaf, Tensor)]
