"""One vector per caption, and the encoder that makes them; or vectors that were made elsewhere."""

import json
from importlib.metadata import version
from pathlib import Path

from pipeline.corpus.tables import captions_digest, load_captions
from pipeline.embeddings.job import import_job
from pipeline.embeddings.source import Wanted
from pipeline.runtime.code import code_digest
from pipeline.runtime.engines import Engine
from pipeline.runtime.files import fingerprint, sha256_file
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, say_quota, seed_everything, set_threads
from pipeline.sentences.encoder import chosen_settings, fit_encoder
from pipeline.sentences.job import encoder_job
from pipeline.storage.groups import write_groups
from pipeline.storage.shards import Plan
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
    params, table = load_params(), load_captions(captions, rows and range(*rows))
    settings, seed, shard = params.sentences, params.seed, params.runtime.extraction.shard
    if settings.encoding == "file":
        origin = {"encoding": "file"}
        wanted = Wanted(table, "caption_id", "sentences.file.other_ids")
        brought = import_job(settings.file, wanted, captions_digest(table), origin)
        brought.write(WORK / "sentences", output)
        write_groups(encoder, {}, origin)  # says that there is none
        say(f"sentences: {len(table):,} x {brought.width}, {brought.attributes['model']}")
        return
    say_quota(params.runtime.threads)
    set_threads(params.runtime.threads)
    seed_everything(seed)
    chosen = json.dumps(chosen_settings(settings) | {"seed": seed}, sort_keys=True)
    machine = [params.runtime.threads, *map(version, LIBRARIES), *loaded_kernels()]
    is_network = settings.encoding == "transformer"
    if is_network:
        device = pick_device(params.runtime.device)
        machine += [str(device), *map(version, OF_NETWORKS)]
    fitted = encoder
    if rows is None:
        described = {"params": chosen, "corpus_sha256": captions_digest(table)}
        words = {path.name: sha256_file(path) for path in sorted(vocabulary.iterdir())}
        key = fingerprint(described=described, words=words, source=code_digest(), machine=machine)
        fitted = WORK / "sentences" / f"encoder-{key}.h5"
        if not fitted.is_file():
            fit_encoder(settings, vocabulary, table, seed).write(fitted)
    job, model = encoder_job(fitted, settings.tfidf.wordnet_folder, table, chosen, machine)
    if is_network:
        model.to(device)
    paths = {"captions": captions, "vocabulary": vocabulary, "encoder": fitted}
    made_by = "stages.encode_sentences", paths, Engine(params.runtime, on_device=is_network)
    plan = Plan(shard, model.block, table, captions_digest, *made_by, "captions")
    job.make(WORK / "sentences", output, plan, rows is not None)
    if rows is None:
        model.write(encoder)  # the bytes of `fitted`, which may lie on another disk
        fitted.unlink()
        say(f"sentences: {len(table):,} x {model.dim}, {model}")


if __name__ == "__main__":
    main()
