"""Inputs of a model that reads regions, and captions as the states of a transformer's tokens."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionRows, open_regions
from pipeline.inputs.sources import OpenedInputs, TokenRows
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.storage.checkpoint import feature_identity
from pipeline.storage.features import FeatureFile
from pipeline.storage.groups import GroupFile

ENCODER = "token_encoder_sha256"  # of the network's file, among what weights cannot be used without


class StateRows(TokenRows):
    """States of the tokens of M captions: rows (B,) to float32 (B, T, E), zeros beyond the lengths
    (B,). states: (S, E); lengths: (M,), 0 for a caption without a known word; starts: (M,) the row
    of each caption's first token, None where the captions follow each other."""

    def __init__(
        self, states: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None = None
    ) -> None:
        self.tokens, self.lengths = states, lengths
        self.starts = np.cumsum(lengths) - lengths if starts is None else starts

    def __call__(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        states, lengths = super().__call__(rows)
        return states.float(), lengths


class StateInputs(OpenedInputs):
    """The regions of every image, and of every caption the token states in the file `states`."""

    def __init__(self, files: Inputs) -> None:
        self.files, self.features = files, open_regions(files.features)
        path = files.required("states")
        self.file = GroupFile(path)
        if "tokens" not in self.file.layouts:
            raise WorkbenchError(
                f"{path}: has no token states: it was made with vse_infinity.words: gru",
                "make it again with: dvc repro encode_tokens",
            )
        self._ids = pd.Index(self.file.texts("captions", "ids"))
        # paged in batch by batch, its digest compared here
        self._rows = StateRows(
            self.file.view("tokens", "states"), self.file.array("captions", "counts")
        )

    @property
    def identity(self) -> dict[str, str]:
        return identity_of(self.features, str(self.file.attributes.get("weights_sha256")))

    @property
    def sizes(self) -> dict[str, int]:
        states = {"vocabulary_size": 0, "state_dim": self._rows.tokens.shape[1]}
        return {"image_dim": self.features.shape()[-1]} | states

    def images(self, ids: list[str]) -> RegionRows:
        return RegionRows(self.features, ids)

    def captions(self, table: pd.DataFrame) -> StateRows:
        rows = self._ids.get_indexer(pd.Index(table["caption_id"]))
        if len(lost := table["caption_id"][rows < 0]):
            text = f"{self.file.path}: no token states of {listing(lost, 3)}"
            raise WorkbenchError(text, OUT_OF_STEP)
        whole = self._rows
        return StateRows(whole.tokens, whole.lengths[rows], whole.starts[rows])


def encoder_identity(features: FeatureFile, encoder: Path) -> dict[str, str]:
    """What StateInputs.identity is of the states that the network in a file makes."""
    if not encoder.is_file():
        raise WorkbenchError(f"{encoder}: no such file", "make it with: dvc repro encode_tokens")
    return identity_of(features, sha256_file(encoder))


def identity_of(features: FeatureFile, encoder_sha256: str) -> dict[str, str]:
    return feature_identity(features.attributes) | {ENCODER: encoder_sha256}
