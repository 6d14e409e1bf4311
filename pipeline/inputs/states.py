"""Inputs of a model that reads regions, and captions as the states of a transformer's tokens."""

import numpy as np
import pandas as pd

from pipeline.inputs.batches import CaptionSource
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionRows, open_regions
from pipeline.inputs.sources import OpenedInputs, TokenRows
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.storage.checkpoint import feature_identity
from pipeline.storage.groups import GroupFile

ENCODER = "token_encoder_sha256"  # of the network's file: in what weights cannot be used without


class StateRows(TokenRows):
    """Token states of M captions: rows (B,) to (B, T, E), padded with 0, and lengths (B,). states:
    (S, E), end to end; lengths: (M,), 0 for a caption without a known word."""

    def __init__(self, states: np.ndarray, lengths: np.ndarray) -> None:
        self.tokens, self.lengths = states, lengths
        self.starts = np.cumsum(lengths) - lengths


class StateInputs(OpenedInputs):
    """The regions of every image, and of every caption the token states in the file `states`."""

    def __init__(self, files: Inputs) -> None:
        self.files, self.features = files, open_regions(files.features)
        self.file = GroupFile(files.required("states"))
        if "tokens" not in self.file.layouts:
            raise WorkbenchError(
                f"{self.file.path}: made with vse_infinity.words: gru, it has no token states",
                "make it again with: dvc repro encode_tokens",
            )
        self.ids = pd.Index(self.file.texts("captions", "ids"))
        counts = self.file.array("captions", "counts")
        self.rows = StateRows(self.file.view("tokens", "states"), counts)

    @property
    def identity(self) -> dict[str, str]:
        encoder = {ENCODER: str(self.file.attributes.get("weights_sha256"))}
        return encoder | feature_identity(self.features.attributes)

    @property
    def sizes(self) -> dict[str, int]:
        states = {"vocabulary_size": 0, "state_dim": self.rows.tokens.shape[1]}
        return {"image_dim": self.features.shape()[-1]} | states

    def images(self, ids: list[str]) -> RegionRows:
        return RegionRows(self.features, ids)

    def captions(self, table: pd.DataFrame) -> CaptionSource:
        places = self.ids.get_indexer(pd.Index(table["caption_id"]))
        if len(lost := table["caption_id"][places < 0]):
            text = f"{self.file.path}: no token states of {listing(lost, 3)}"
            raise WorkbenchError(text, OUT_OF_STEP)
        return lambda rows: self.rows(places[rows])
