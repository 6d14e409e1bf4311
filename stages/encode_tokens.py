"""States of the tokens of every caption, and the network that gives them, for vse_infinity:
data/features/token_states.h5. Where the network is to be trained, ids in place of states."""

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
    section = params.vse_infinity  # as it stands: this stage runs no model
    words = section["words"]
    if words != "transformer":
        for path in (output, encoder):  # the same bytes whatever else is set
            write_groups(path, {}, {"words": words})
        return
    from pipeline.features.sentences.encodings.transformer import Transformer  # loads torch

    device = setup_runtime(params.runtime)
    table = load_captions(captions)
    ids = table["caption_id"].tolist()
    texts = list(table["tokens"])
    is_trained = section.get("train_words", {}).get("epochs", 0) > 0
    # a training begins with the weights as they are; its own precision decides how it computes
    read = settings.model_copy(update={"precision": "fp32"}) if is_trained else settings
    network = Transformer.fit(Material(read, captions=[], vocabulary=captions, seed=0))
    model = SentenceEncoder("transformer", network, None)
    check_known(ids, texts, model, params.sentences.unknown)
    model.write(encoder)
    described = {
        "params": json.dumps({"transformer": Transformer.depends_on(settings)}, sort_keys=True),
        "weights_sha256": sha256_file(encoder),
        "corpus_sha256": captions_digest(table),
    }
    if is_trained:
        write_ids(output, ids, texts, model, described)
        return
    model.to(device)
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
            raise no_word_known(settings.model)
        states = np.memmap(file, "<f2", "r", shape=(int(counts.sum()), width))
        groups: Groups = {
            "captions": {"ids": ids, "counts": counts},
            "tokens": {"states": states},
        }
        write_groups(output, groups, described)
    say(f"token states: {len(states):,} x {width} of {len(table):,} captions")


def write_ids(
    output: Path,
    names: list[str],
    texts: list[list[str]],
    model: SentenceEncoder,
    described: dict[str, str],
) -> None:
    """Write the ids of tokens, beside a copy of the network, which a training begins with.

    Args:
        output: The file.
        names: M ids of captions.
        texts: Their words.
        model: The network.
        described: What the file says of itself.

    Raises:
        WorkbenchError: The network is none that can be trained, or knows no word.
    """
    from models.backbone.bert import sizes_of, weights_of

    network: Any = model.encoding
    name = network.state().settings["model"]
    sizes = sizes_of(network.body, name)
    ids, counts = network.token_ids(texts)
    if not counts.any():
        raise no_word_known(name)
    groups: Groups = {
        "captions": {"ids": names, "counts": counts},
        "tokens": {"ids": ids},
        "network": weights_of(network.body),
    }
    write_groups(output, groups, described | {"network": sizes})
    say(f"token ids: {len(ids):,} of {len(names):,} captions")


def no_word_known(model: str) -> WorkbenchError:
    """That a network reads no word of any caption."""
    return WorkbenchError(
        f"no caption has a word that {model} knows", "choose another sentences.transformer.model"
    )


if __name__ == "__main__":
    main()
