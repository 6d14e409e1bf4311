"""The classes of the instance loss: data/features/pseudo_classes.h5."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from models.dual_path.classes import KMEANS, by_group, write_pseudo_classes
from pipeline.corpus.tables import images_digest, in_split, load_images
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, seed_everything, set_threads
from pipeline.storage.features import FeatureFile
from stages.common import command, paths
from stages.params import load_params


@command
@paths("images", "features", exist=True)
@paths("output")
def main(images: Path, features: Path, output: Path) -> None:
    """Give every training image a class: its group, or a K-means cluster of the features."""
    params = load_params()
    settings = params.pseudo_classes
    train = in_split(load_images(images), "train")
    if settings.source == "instance":
        found = by_group(train)
    else:
        from models.dual_path.clusters import by_cluster  # and torch, which groups do without

        set_threads(params.runtime.threads)
        seed_everything(params.seed)
        found = by_cluster(
            train,
            FeatureFile(features),
            k=settings.k,
            seed=params.seed,
            device=pick_device(params.runtime.device),
        )
    made_with = json.dumps(settings.model_dump() | KMEANS)
    described = {"params": made_with, "corpus_sha256": images_digest(train)}
    write_pseudo_classes(output, found, described)
    sizes = found.sizes
    say(
        f"pseudo classes ({settings.source}): {len(train):,} training images in {len(found):,} "
        f"classes of {sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}"
    )
    if settings.source == "kmeans":
        say(clusters(found.attributes, found.inertia[0]))


def clusters(ended: Mapping[str, str | int | float], first: float) -> str:
    """One line on how the clustering went. ended: its attributes; first: inertia at the start."""
    stop = "converged" if ended["converged"] else "out of iterations"
    line = (
        f"k-means: {stop} after {ended['iterations']} iterations, inertia {first:,.6g} to "
        f"{ended['inertia']:,.6g}, {ended['reseeded']} empty clusters reseeded"
    )
    if ended["empty"]:
        line += (
            f"; {ended['empty']} of {ended['clusters']:,} stay empty: "
            f"{ended['distinct_vectors']:,} vectors differ"
        )
    return line


if __name__ == "__main__":
    main()
