"""Queries of VSE-infinity: regions, and word ids or the states of a transformer's tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from models.base.queries import Files, VectorQueries, found_regions, word_embedder, word_queries
from models.base.texts import CaptionEmbedder, known_to, vocabulary_embedder
from models.vse_infinity.network import VSEInfinity
from pipeline.inputs.regions import RegionInputs, open_regions
from pipeline.inputs.states import ENCODER, StateRows
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.storage.checkpoint import Checkpoint, feature_identity

BESIDE = ("detector", "token_encoder")


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    if "state_dim" not in checkpoint.description.architecture:
        return word_queries(VSEInfinity, files, checkpoint, device, RegionInputs, found_regions)
    network, features, encoder = _opened(files, checkpoint)

    def text(words: Sequence[str], _: Any, tell: Any) -> tuple[torch.Tensor, ...]:
        known_to(encoder(), words, tell)
        return _rows([words], encoder())(np.array([0]))

    return VectorQueries(network, found_regions(files, features, device), text, device)


def embedder(files: Files, checkpoint: Checkpoint, device: torch.device) -> CaptionEmbedder:
    if "state_dim" not in checkpoint.description.architecture:
        return word_embedder(VSEInfinity, files, checkpoint, device, RegionInputs)
    network, _, encoder = _opened(files, checkpoint)
    base = vocabulary_embedder(network.to(device), encoder(), device, _rows)
    return replace(base, knows=lambda word: bool(encoder().encoding.known([[word]])[0]))


def _opened(files: Files, checkpoint: Checkpoint) -> tuple[VSEInfinity, Any, Callable[[], Any]]:
    """The trained network, the file of regions, and a function to the encoder of tokens, which is
    read once. WorkbenchError for files that are not those of the training."""
    path, features = files["token_encoder"], open_regions(files["features"], in_memory=False)
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", "make it with: dvc repro encode_tokens")
    checkpoint.require(feature_identity(features.attributes) | {ENCODER: sha256_file(path)})

    @cache
    def encoder() -> Any:
        from pipeline.sentences.encoder import read_encoder  # scikit-learn takes a second to load

        return read_encoder(path)

    return checkpoint.build(VSEInfinity), features, encoder


def _rows(captions: Sequence[Sequence[str]], encoder: Any) -> StateRows:
    """Token states of captions, rounded as the stored ones were."""
    states, lengths = encoder.encoding.token_states(captions)
    return StateRows(states.astype(np.float16), lengths)
