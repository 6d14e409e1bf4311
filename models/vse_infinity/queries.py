"""Queries of VSE-infinity: regions, and word ids or the token states of a transformer."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.base.queries import (
    Files,
    VectorQueries,
    found_regions,
    word_embedder,
    word_queries,
)
from models.base.texts import CaptionEmbedder, Tell, known_to
from models.vse_infinity.network import VSEInfinity
from pipeline.inputs.regions import RegionInputs, open_regions
from pipeline.inputs.states import StateRows, encoder_identity
from pipeline.storage.checkpoint import Checkpoint
from pipeline.storage.features import FeatureFile

BESIDE = ("detector", "token_encoder")


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    if "state_dim" not in checkpoint.description.architecture:
        return word_queries(
            VSEInfinity, files, checkpoint, device, opened=RegionInputs, image=found_regions
        )
    features, network, encoder = _opened(files, checkpoint)

    def text(words: Sequence[str], _: Path | None, tell: Tell) -> tuple[torch.Tensor, ...]:
        known_to(encoder(), words, tell)
        return _states(encoder(), [words])

    return VectorQueries(network, found_regions(files, features, device), text, device)


def embedder(files: Files, checkpoint: Checkpoint, device: torch.device) -> CaptionEmbedder:
    if "state_dim" not in checkpoint.description.architecture:
        return word_embedder(VSEInfinity, files, checkpoint, device, opened=RegionInputs)
    _, network, encoder = _opened(files, checkpoint)
    network.to(device)

    def embed(captions: Sequence[Sequence[str]]) -> np.ndarray:
        states, lengths = _states(encoder(), captions)
        with torch.inference_mode():
            return network.embed_captions(states.to(device), lengths).float().cpu().numpy()

    return CaptionEmbedder(embed, lambda word: bool(encoder().encoding.known([[word]])[0]))


def _opened(
    files: Files, checkpoint: Checkpoint
) -> tuple[FeatureFile, VSEInfinity, Callable[[], Any]]:
    """The regions' file, the trained network, and what reads the network of the tokens, once."""
    features = open_regions(files["features"], in_memory=False)
    checkpoint.require(encoder_identity(features, files["token_encoder"]))

    @cache
    def encoder() -> Any:
        from pipeline.sentences.encoder import read_encoder  # scikit-learn takes a second to load

        return read_encoder(files["token_encoder"])

    return features, checkpoint.build(VSEInfinity), encoder


def _states(encoder: Any, captions: Sequence[Sequence[str]]) -> tuple[torch.Tensor, ...]:
    """Token states (M, T, E) of M captions and their numbers (M,), rounded as the stored ones."""
    states, lengths = encoder.encoding.token_states(captions)
    return StateRows(states.astype(np.float16), lengths)(np.arange(len(captions)))
