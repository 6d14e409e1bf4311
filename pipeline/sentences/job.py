"""Sentence vectors as a job: a fitted encoder, and how it fills the file."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from pipeline.corpus.tables import captions_digest
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress
from pipeline.sentences.encoder import Captions, SentenceEncoder, blocks, read_encoder
from pipeline.storage.features import FeatureWriter
from pipeline.storage.shards import FeatureJob


def encoder_job(
    fitted: Path, wordnet: Path | None, captions: DataFrame, settings: str, machine: list[Any]
) -> tuple[FeatureJob, SentenceEncoder]:
    """The vectors of captions, and the encoder that makes them, read from its file, so that a
    continued run computes with the very same numbers. settings: what of params.yaml the vectors
    depend on; machine: what else."""
    encoder = read_encoder(fitted, wordnet)
    attributes: dict[str, str | int | float] = {
        "params": settings,
        "corpus_sha256": captions_digest(captions),
        "model": encoder.name,
        "weights_sha256": sha256_file(fitted),
        "layer": encoder.layer,
    }
    fill = partial(encode_missing, encoder, list(captions["tokens"]))
    datasets = {"features": ((encoder.dim,), "float16")}
    ids = captions["caption_id"].tolist()
    return FeatureJob(ids, datasets, attributes, machine, fill), encoder


def encode_missing(encoder: SentenceEncoder, captions: Captions, writer: FeatureWriter) -> None:
    """Write the rows of those blocks of captions that miss any."""
    missing, count = writer.missing, len(captions)
    with Progress("sentences", count, "captions", count - len(missing)) as progress:
        for start, block in blocks(captions, encoder.block):
            rows = np.arange(start, start + len(block))
            if np.isin(rows, missing).any():
                writer.write(rows, features=encoder.encode(block))
                progress.update(len(block))
