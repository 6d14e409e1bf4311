"""The file of token states: what a frozen transformer says of every token of every caption.

Captions differ in length, so it is a file of groups: `captions` has ids and counts (M,), `tokens`
the states (S, E) float16 of all their tokens, end to end.
"""

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from pandas import DataFrame

from pipeline.corpus.tables import captions_digest
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress
from pipeline.sentences.encoder import blocks
from pipeline.sentences.encodings.transformer import Transformer
from pipeline.storage.groups import write_groups
from pipeline.storage.layout import checked

STORED = np.dtype("<f2")


def write_token_states(
    path: Path,
    work: Path,
    table: DataFrame,
    network: Transformer,
    settings: dict[str, Any],
    encoder: Path,
) -> tuple[int, int]:
    """Write the states of the M captions of a table; returns S and E. work: folder of a nameless
    file, as large as the output, so that memory holds one block of captions alone; settings: what
    of params.yaml the states depend on; encoder: the file of the network."""
    ids, captions = table["caption_id"].tolist(), list(table["tokens"])
    counts, width = np.zeros(len(ids), np.int64), 0
    with (
        TemporaryFile(dir=work) as scratch,
        Progress("token states", len(ids), "captions") as progress,
    ):
        for start, block in blocks(captions, network.block):
            rows = slice(start, start + len(block))
            states, counts[rows] = network.token_states(block)
            width = states.shape[1]
            names = np.repeat(np.array(ids[rows], object), counts[rows])
            scratch.write(checked(str(path), states, STORED, names.tolist()).data)
            progress.update(len(block))
        scratch.flush()
        shape, total = (int(counts.sum()), width), counts.sum()
        # no file of length 0 can be mapped
        whole = np.memmap(scratch, STORED, "r", shape=shape) if total else np.zeros(shape, STORED)
        groups = {"captions": {"ids": ids, "counts": counts}, "tokens": {"states": whole}}
        attributes: dict[str, str | int | float] = {
            "model": settings["transformer"]["model"],
            "params": json.dumps(settings, sort_keys=True),
            "weights_sha256": sha256_file(encoder),
            "corpus_sha256": captions_digest(table),
        }
        write_groups(path, groups, attributes)
    return shape
