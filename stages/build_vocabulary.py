"""Words of the training captions, their ids, and a vector for each."""

from pathlib import Path

from pipeline.corpus.tables import in_split, load_captions
from pipeline.corpus.vocabulary import RESERVED
from pipeline.corpus.words.matrix import build_vocabulary, count_words, frequent_words
from pipeline.corpus.words.vectors import WINDOW, read_vectors, train_vectors
from pipeline.runtime.process import say
from stages.common import command, paths
from stages.params import load_params


@command
@paths("captions", exist=True)
@paths("output")
def main(captions: Path, output: Path) -> None:
    """Count the words of the training captions and give each an id and a vector."""
    params = load_params()
    settings = params.vocabulary
    seed = params.seed
    table = load_captions(captions)
    sentences = [list(tokens) for tokens in in_split(table, "train")["tokens"]]
    counts = count_words(sentences)
    words = frequent_words(counts, settings.min_count)
    unlisted = None
    if settings.words == "all_captions":
        unlisted = sorted(set(count_words(table["tokens"])).difference(words, RESERVED))
    if settings.source == "train":
        vectors = train_vectors(
            sentences, words, dim=settings.dim, epochs=settings.epochs, seed=seed
        )
    else:
        vectors = read_vectors(
            settings.source,
            Path(settings.vectors or ""),
            words,
            unlisted or (),
            other_cases=settings.other_cases,
            background=settings.background,
            seed=seed,
            dim=settings.dim,
        )
    built = build_vocabulary(
        counts,
        captions=len(sentences),
        vectors=vectors,
        unlisted=unlisted,
        min_count=settings.min_count,
        known_words_only=settings.known_words_only,
        sentence_markers=settings.sentence_markers,
        seed=seed,
    )
    own: dict[str, object] = {"dim": vectors.dim, "seed": seed}
    if settings.source == "train":
        unused = {"vectors", "words", "other_cases", "background"}
        own["window"] = WINDOW
    else:
        unused = {"vectors", "epochs"}
        own["vectors"] = Path(settings.vectors or "").name  # a path would tie it to this machine
    if vectors.sha256:
        own["sha256"] = vectors.sha256
    if vectors.form:
        own["form"] = vectors.form
    built.write(output, settings.model_dump(exclude=unused) | own)
    say(
        f"vocabulary: {len(built.vocabulary):,} tokens from {len(sentences):,} training captions, "
        f"vectors of {vectors.dim} dimensions ({vectors.form or settings.source})"
    )
    say(f"coverage: {built.coverage}")
    if built.unlisted and unlisted:
        count = len(built.unlisted.names)
        say(f"unlisted: {count:,} of {len(unlisted):,} other words of all captions have a vector")
    if vectors.background:
        kept = len(vectors.background.names)
        wanted = settings.background
        ending = "" if kept == wanted else "; the file has no more"
        say(f"background: {kept:,} of {wanted:,} other words{ending}")


if __name__ == "__main__":
    main()
