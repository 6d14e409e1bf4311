"""One vector per caption, and the encoder that makes them; or vectors that were made elsewhere."""

import json
from importlib.metadata import version
from pathlib import Path

import click
import numpy as np
from pandas import DataFrame

from pipeline.corpus.tables import captions_digest, load_captions
from pipeline.embeddings.job import import_job
from pipeline.runtime.files import fingerprint, sha256_file, source_digest
from pipeline.runtime.kernels import kernels
from pipeline.runtime.process import Progress, say, seed_everything, set_threads
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.sentences.encoder import blocks, chosen_settings, fit_encoder, read_encoder
from pipeline.storage.features import FeatureWriter
from pipeline.storage.groups import write_groups
from stages.common import WORK, command, existing, target
from stages.params import load_params

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")  # whose versions decide the last bits


@command
@click.option("--captions", type=existing, required=True, help="Captions table of the corpus.")
@click.option("--vocabulary", type=existing, required=True, help="Folder of the vocabulary.")
@click.option("--output", type=target, required=True, help="Feature file to write.")
@click.option("--encoder", type=target, required=True, help="File of the fitted encoder to write.")
def main(captions: Path, vocabulary: Path, output: Path, encoder: Path) -> None:
    """Fit an encoder on the training captions and encode all; a killed run continues."""
    params, table = load_params(), load_captions(captions)
    settings, seed = params.sentences, params.seed
    if settings.encoding == "file":
        return take_over(settings.file, table, output, encoder)
    set_threads(params.runtime.threads)
    seed_everything(seed)
    chosen = json.dumps(chosen_settings(settings) | {"seed": seed}, sort_keys=True)
    described = {"params": chosen, "corpus_sha256": captions_digest(table)}
    words = {path.name: sha256_file(path) for path in sorted(vocabulary.iterdir())}
    machine = [params.runtime.threads, *map(version, LIBRARIES), *kernels()]
    key = fingerprint(described=described, words=words, source=source_digest(), machine=machine)
    ids, tokens = table["caption_id"].tolist(), list(table["tokens"])
    fitted = (work := WORK / "sentences") / f"encoder-{key}.h5"
    if not fitted.is_file():
        fit_encoder(settings, vocabulary, table, seed).write(fitted)
    # read back, so that a run that was continued computes with the very same numbers
    made = read_encoder(fitted, settings.tfidf.wordnet_folder)
    attributes = described | {"model": made.name, "weights_sha256": sha256_file(fitted)}
    attributes["layer"] = f"pca {made.dim}" if made.projection else "none"
    datasets = {"features": ((made.dim,), "float16")}
    with FeatureWriter(work, key, ids, datasets, attributes) as writer:
        missing = writer.missing
        with Progress("sentences", len(ids), "captions", len(ids) - len(missing)) as progress:
            for start, block in blocks(tokens):
                rows = np.arange(start, start + len(block))
                if np.isin(rows, missing).any():
                    writer.write(rows, features=made.encode(block))
                    progress.update(len(block))
        writer.finish(output)
    made.write(encoder)  # the bytes of `fitted`, which may lie on another disk
    fitted.unlink()
    say(f"sentences: {len(ids):,} x {made.dim}, {made}")


def take_over(file: EmbeddingFileConfig, table: DataFrame, output: Path, encoder: Path) -> None:
    """Vectors that were made elsewhere, and a file that says that there is no encoder.

    Args:
        file: the section `sentences.file`.
        table: captions of the corpus.
        output: feature file to write.
        encoder: file to write in the place of the encoder.
    """
    ids = table["caption_id"].tolist()
    job = import_job(file, ids, captions_digest(table), {"encoding": "file"})
    key, work = fingerprint(attributes=job.attributes, source=source_digest()), WORK / "sentences"
    with FeatureWriter(work, key, ids, job.datasets, job.attributes) as writer:
        job.fill(writer)
        writer.finish(output)
    write_groups(encoder, {}, {"encoding": "file"})
    say(f"sentences: {len(ids):,} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
