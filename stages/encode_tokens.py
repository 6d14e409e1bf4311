"""States of the tokens of every caption, and the network that makes them, for vse_infinity."""

from pathlib import Path
from typing import Any

from pipeline.corpus.tables import load_captions
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import settle
from pipeline.storage.groups import write_groups
from stages.common import WORK, command, paths
from stages.params import load_params


@command
@paths("captions", exist=True)
@paths("output", "encoder")
def main(captions: Path, output: Path, encoder: Path) -> None:
    """Encode the tokens of all captions by the network of sentences.transformer."""
    params: Any = load_params()
    if params.vse_infinity.words != "transformer":
        for path in (output, encoder):  # say that there are none: the same bytes in all such runs
            write_groups(path, {}, {"words": params.vse_infinity.words})
        return
    from pipeline.sentences.encoder import fit_encoder  # scikit-learn takes a second to load
    from pipeline.sentences.encodings.transformer import Transformer
    from pipeline.sentences.token_states import write_token_states

    device, table = settle(params.runtime), load_captions(captions)
    chosen = params.sentences.model_copy(update={"encoding": "transformer"})
    made = fit_encoder(chosen, captions, table, 0)  # nothing is fitted
    made.write(encoder)
    assert isinstance(made.encoding, Transformer)
    made.to(device)
    settings = {"transformer": Transformer.depends_on(chosen.transformer)}
    WORK.mkdir(parents=True, exist_ok=True)
    count, width = write_token_states(output, WORK, table, made.encoding, settings, encoder)
    say(f"token states: {count:,} x {width} of {len(table):,} captions")


if __name__ == "__main__":
    main()
