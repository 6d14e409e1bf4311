"""A few images with phrases, proposals and vectors, as the stages before training leave them, and
the training of a model of phrases on them, run in this process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from commands import succeed
from model_runs import ModelRuns

from pipeline.features.feature_file import write_features
from pipeline.phrases.tables import SIDES, PhraseTables
from stages.train_phrases import main as train_stage

FILES = {
    "phrases": "phrases",
    "proposals": "proposals.h5",
    "truth": "phrase_boxes.h5",
    "vectors": "phrases.h5",
}
IMAGES = {"train": 14, "val": 5, "test": 5}
THINGS, SHOWN, SLOTS, WIDTH = 6, 3, 8, 5


@dataclass(frozen=True)
class PhraseRuns(ModelRuns):
    """Trains a model of phrases in a folder; outputs are in `out` below it."""

    def run_training(self, folder: Path, **inputs: str) -> str:
        files = (self.inputs | inputs).items()
        words = [word for key, path in files for word in (f"--{key}", path)]
        outputs = ["--output", f"out/{self.name}.safetensors", "--curve", f"out/{self.name}.tsv"]
        return succeed(train_stage, folder, self.name, *words, *outputs)


def write_phrases(folder: Path) -> None:
    """Every image shows some of a few things, a box each; a phrase names one of them. Proposals are
    the boxes, a little off, among others that resemble some other thing."""
    generator = np.random.default_rng(0)
    things = generator.normal(size=(THINGS, WIDTH))
    names, phrases, boxes, truth, truth_ids, groups = [], [], [], [], [], []
    for split, count in IMAGES.items():
        for number in range(count):
            name = f"{split}{number}"
            names.append(name)
            corners = generator.integers(0, 40, (SLOTS, 2))
            proposed = np.hstack([corners, corners + generator.integers(8, 20, (SLOTS, 2))])
            looks = things[generator.integers(0, THINGS, SLOTS)]
            for place, thing in enumerate(generator.choice(THINGS, SHOWN, replace=False)):
                text, chain = ["a", f"thing{thing}"], f"{place}"
                phrases.append((f"{name}#{place}", f"{name}#0", name, split, text, chain, "other"))
                boxes.append((name, chain, *proposed[place]))
                looks[place] = things[thing]
                if split == "train":
                    truth_ids.append(f"{name}#{place}")
                    truth.append(things[thing] + generator.normal(0, 0.4, WIDTH))
            groups.append((proposed, looks + generator.normal(0, 0.4, looks.shape)))
    columns = ["phrase_id", "caption_id", "image_id", "split", "words", "chain", "type"]
    table = pd.DataFrame(boxes, columns=["image_id", "chain", *SIDES])
    tables = PhraseTables(pd.DataFrame(phrases, columns=columns), table)
    (folder / FILES["phrases"]).mkdir()
    tables.write(folder / FILES["phrases"])
    described = {"model": "test", "layer": "test", "weights_sha256": "a" * 64, "params": "{}"}
    arrays = {
        "features": np.array([looks for _, looks in groups], np.float16),
        "boxes": np.array([proposed for proposed, _ in groups], np.float32),
        "scores": np.full((len(names), SLOTS), 0.5, np.float32),
        "counts": np.full(len(names), SLOTS, np.int32),
        "sizes": np.full((len(names), 2), 64, np.int32),
    }
    write_features(folder / FILES["proposals"], names, arrays, described)
    vectors = np.array(truth, np.float16)
    write_features(folder / FILES["truth"], truth_ids, {"features": vectors}, described)
    texts = sorted({" ".join(row[4]) for row in phrases})
    vectors = generator.normal(size=(len(texts), WIDTH)).astype(np.float16)
    write_features(folder / FILES["vectors"], texts, {"features": vectors}, described)


OWN: dict[str, Any] = {
    "hidden": 12,
    "dim": 6,
    "dropout": 0.0,
    "training": {"epochs": 2, "batch_size": 7, "lr": 0.01, "lr_step": 2},
    "mining": {"epochs": 3, "batch_size": 8, "sampled": 2, "overlap": 0.9, "lr": 0.003},
}
PHRASES = PhraseRuns(
    "phrase_two_branch", FILES, {f"phrase_two_branch__{key}": value for key, value in OWN.items()}
)
