"""States of the tokens of every caption, and the network that gives them, for vse_infinity:
data/features/token_states.h5."""

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from pipeline.corpus.tables import captions_digest, load_captions
from pipeline.features.groups import Groups, write_groups
from pipeline.features.layout import cast_finite
from pipeline.features.sentences.encoder import SentenceEncoder, blocks, check_known
from pipeline.features.sentences.state import Material
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress, say
from pipeline.runtime.repeatable import setup_runtime
from stages.common import WORK, command, paths
from stages.params import load_params


@command
@paths("captions", exist=True)
@paths("output", "encoder")
def main(captions: Path, output: Path, encoder: Path) -> None:
    """Encode the tokens of all captions by the network of sentences.transformer."""
    params: Any = load_params()
    settings = params.sentences.transformer
    words = params.vse_infinity["words"]  # as it stands: this stage runs no model
    if words != "transformer":
        for path in (output, encoder):  # the same bytes whatever else is set
            write_groups(path, {}, {"words": words})
        return
    from pipeline.features.sentences.encodings.transformer import Transformer  # loads torch

    device = setup_runtime(params.runtime)
    table = load_captions(captions)
    ids = table["caption_id"].tolist()
    texts = list(table["tokens"])
    network = Transformer.fit(Material(settings, captions=[], vocabulary=captions, seed=0))
    model = SentenceEncoder("transformer", network, None)
    check_known(ids, texts, model, params.sentences.unknown)
    model.write(encoder)
    model.to(device)
    described = {
        "params": json.dumps({"transformer": Transformer.depends_on(settings)}, sort_keys=True),
        "weights_sha256": sha256_file(encoder),
        "corpus_sha256": captions_digest(table),
    }
    WORK.mkdir(parents=True, exist_ok=True)
    counts = np.zeros(len(ids), np.int64)  # tokens of each caption
    width = 0
    with TemporaryFile(dir=WORK) as file, Progress("tokens", len(ids), "captions") as progress:
        for start, block in blocks(texts, network.block):  # memory holds one, the file all
            rows = slice(start, start + len(block))
            states, counts[rows] = network.token_states(block)
            names = np.repeat(np.array(ids[rows], object), counts[rows]).tolist()
            file.write(cast_finite("token states", states, np.float16, names).data)
            width = states.shape[1]
            progress.update(len(block))
        file.flush()
        if not counts.any():
            raise WorkbenchError(
                f"no caption has a word that {settings.model} knows",
                "choose another sentences.transformer.model",
            )
        states = np.memmap(file, "<f2", "r", shape=(int(counts.sum()), width))
        groups: Groups = {
            "captions": {"ids": ids, "counts": counts},
            "tokens": {"states": states},
        }
        write_groups(output, groups, described)
    say(f"token states: {len(states):,} x {width} of {len(table):,} captions")


if __name__ == "__main__":
    main()
