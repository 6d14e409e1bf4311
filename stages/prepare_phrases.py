"""Phrases of the captions and the boxes that they stand for: data/phrases."""

from pathlib import Path

from pipeline.corpus.dataset.folder import unchanged
from pipeline.corpus.dataset.source import Options
from pipeline.corpus.tables import SPLITS, load_captions, load_images, require_files
from pipeline.phrases.read import read_phrases
from pipeline.runtime.process import say
from stages.common import command, paths
from stages.params import load_params


@command
@paths("images", "captions", exist=True)
@paths("raw", required=False)
@paths("output")
def main(raw: Path | None, images: Path, captions: Path, output: Path) -> None:
    """Read the phrases of the corpus's captions, below RAW or `raw` of params.yaml, and write their
    tables to OUTPUT."""
    params = load_params(models=[])
    folder = Path(params.raw) if raw is None else raw
    table = load_images(images)
    if params.phrases.source == "flickr30k_entities":
        require_files(table, "phrases.source: flickr30k_entities", "set phrases.source: none")
    options = Options(params.seed, params.corpus, params.shapes, params.runtime.threads)
    with unchanged(folder, output):  # to the end, behind which DVC looks at it
        tables = read_phrases(
            params.phrases,
            params.dataset,
            folder,
            table,
            load_captions(captions),
            options,
        )
        tables.write(output)
    counts = tables.phrases["split"].value_counts()
    parts = [f"{split} {counts.get(split, 0):,}" for split in SPLITS]
    say(f"phrases: {', '.join(parts)}; {len(tables.boxes):,} boxes")


if __name__ == "__main__":
    main()
