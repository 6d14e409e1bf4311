"""One vector per caption, and the encoder that makes them; or vectors that were made elsewhere."""

import json
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from pipeline.corpus.tables import captions_digest, load_captions
from pipeline.features.groups import write_groups
from pipeline.features.imports import IMPORTS, Wanted
from pipeline.features.kept_rows import RowStore
from pipeline.features.sentences.encoder import chosen_settings, encoder_job, fit_encoder
from pipeline.features.shards import Plan
from pipeline.runtime.code import code_digest
from pipeline.runtime.engines import Engine
from pipeline.runtime.files import fingerprint, sha256_file
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import (
    name_of,
    pick_device,
    say_quota,
    seed_everything,
    set_threads,
)
from pipeline.runtime.section import EmbeddingFileConfig
from stages.common import WORK, command, paths, shard_rows
from stages.params import load_params

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")  # whose versions decide the last bits
OF_NETWORKS = ("sentence-transformers", "transformers", "tokenizers")


@command
@paths("captions", "vocabulary", exist=True)
@paths("output", "encoder")
@shard_rows
def main(
    captions: Path, vocabulary: Path, output: Path, encoder: Path, rows: tuple[int, int] | None
) -> None:
    """Fit an encoder on the training captions and encode all; a killed run continues."""
    params = load_params()
    settings = params.sentences
    table = load_captions(captions, rows and range(*rows))
    if settings.encoding in IMPORTS:
        return import_vectors(settings.encoding, settings.file, table, output, encoder)
    say_quota(params.runtime.threads)
    set_threads(params.runtime.threads)
    seed_everything(params.seed)
    chosen = json.dumps(chosen_settings(settings) | {"seed": params.seed}, sort_keys=True)
    machine = [params.runtime.threads, *map(version, LIBRARIES), *loaded_kernels()]
    is_network = settings.encoding == "transformer"
    if is_network:
        device = pick_device(params.runtime.device)
        machine += [name_of(device), *map(version, OF_NETWORKS)]
    fitted = encoder  # of a shard: what the process that asked for it has fitted
    if rows is None:
        key = fingerprint(
            described={"params": chosen, "corpus_sha256": captions_digest(table)},
            words={path.name: sha256_file(path) for path in sorted(vocabulary.iterdir())},
            source=code_digest(),
            machine=machine,
        )
        fitted = WORK / "sentences" / f"encoder-{key}.h5"
        if not fitted.is_file():
            fit_encoder(settings, vocabulary, table, params.seed).write(fitted)
    job, model = encoder_job(fitted, settings.tfidf.wordnet_folder, table, chosen, machine)
    if is_network:
        model.to(device)
    plan = Plan(
        size=params.runtime.extraction.shard,
        batch=model.block,
        table=table,
        digest=captions_digest,
        module="stages.encode_sentences",
        paths={"captions": captions, "vocabulary": vocabulary, "encoder": fitted},
        engine=Engine(params.runtime, on_device=is_network),
        store=RowStore(WORK / "rows", params.runtime.extraction.kept_gb),
        unit="captions",
    )
    job.make(WORK / "sentences", output, plan, rows is not None)
    if rows is None:
        model.write(encoder)  # the bytes of `fitted`, which may lie on another disk
        fitted.unlink()
        say(f"sentences: {len(table):,} x {model.dim}, {model}")


def import_vectors(
    source: str, settings: EmbeddingFileConfig, table: pd.DataFrame, output: Path, encoder: Path
) -> None:
    """Store vectors of captions that were made elsewhere, and that there is no encoder.

    Args:
        source: which of IMPORTS reads them.
        settings: where they lie.
        table: of the corpus's captions.
        output: the feature file.
        encoder: the file that says that there is no encoder.

    Raises:
        WorkbenchError: for files that are damaged or do not fit the corpus.
    """
    described = {"encoding": source}
    wanted = Wanted(table, "caption_id", "sentences.file.other_ids")
    job = IMPORTS.load(source)(settings, wanted, captions_digest(table), described)
    job.write(WORK / "sentences", output)
    write_groups(encoder, {}, described)
    say(f"sentences: {len(table):,} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
