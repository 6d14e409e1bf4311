"""The score file of another program's scores or embeddings."""

from pathlib import Path

import click
from threadpoolctl import threadpool_limits

from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.external import Pairs, write_external
from pipeline.runtime.process import say
from stages.common import command, paths, sizes_line
from stages.params import load_params


@command
@click.argument("name", metavar="EXTERNAL")
@paths("images", "captions", exist=True)
@paths("output")
def main(name: str, images: Path, captions: Path, output: Path) -> None:
    """Put what the files that params.yaml names say in the order of the corpus."""
    params = load_params()
    config = params.external[name]
    threadpool_limits(params.runtime.threads)  # it decides the last bits of products
    corpus = Pairs(load_images(images), load_captions(captions))
    sizes = write_external(output, config.files, config.similarity, corpus)
    say(f"{name}: read {sizes_line(sizes)}")


if __name__ == "__main__":
    main()
