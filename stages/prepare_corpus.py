"""Read captioned images of any supported format into the corpus tables."""

import os
from pathlib import Path

import click

from pipeline.corpus.dataset.folder import unchanged
from pipeline.corpus.dataset.read import read_corpus
from pipeline.corpus.dataset.source import Options
from pipeline.corpus.scripts import describe_captions
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import counted
from pipeline.runtime.process import say
from stages.common import command, paths
from stages.params import load_params


@command
@paths("raw", required=False)
@paths("output")
def main(raw: Path | None, output: Path) -> None:
    """Read and check the captioned images below RAW, by default `raw` of params.yaml; write the
    corpus tables to OUTPUT."""
    params = load_params()
    folder = Path(params.raw) if raw is None else raw
    options = Options(params.seed, params.corpus, params.shapes, params.runtime.threads)
    with unchanged(folder, output):  # to the end, behind which DVC looks at it
        corpus = read_corpus(params.dataset, folder, output, options)
        os.sync()  # the images, before tables speak of them
        corpus.write(output)
        for line in describe_captions(corpus.captions):
            say(line)
    images, captions = (table["split"].value_counts() for table in (corpus.images, corpus.captions))
    parts = [
        f"{split} {counted(images[split], 'image')} {counted(captions[split], 'caption')}"
        for split in SPLITS
    ]
    click.echo(f"corpus: {', '.join(parts)}; {counted(len(corpus.rejects), 'reject')}")


if __name__ == "__main__":
    main()
