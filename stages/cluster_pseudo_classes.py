"""The classes of the instance loss: data/features/pseudo_classes.h5."""

import json
from pathlib import Path

import numpy as np

from models.dual_path.classes import KMEANS, group_classes, write_pseudo_classes
from pipeline.corpus.tables import images_digest, in_split, load_images
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
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
        classes = group_classes(train)
    else:
        from models.dual_path.clusters import cluster_classes  # and torch, which groups do without

        classes = cluster_classes(
            train,
            FeatureFile(features),
            k=settings.k,
            seed=params.seed,
            device=setup_runtime(params.runtime, params.seed),
        )
    described = {
        "params": json.dumps(settings.model_dump() | KMEANS),
        "corpus_sha256": images_digest(train),
    }
    write_pseudo_classes(output, classes, described)
    sizes = classes.sizes
    say(
        f"pseudo classes ({settings.source}): {len(train):,} training images in {len(classes):,} "
        f"classes of {sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}"
    )
    if settings.source == "kmeans":
        found = classes.attributes
        end = "converged" if found["converged"] else "out of iterations"
        line = (
            f"k-means: {end} after {found['iterations']} iterations, inertia "
            f"{classes.inertia[0]:,.6g} to {found['inertia']:,.6g}, {found['reseeded']} empty "
            "clusters reseeded"
        )
        if found["empty"]:
            line += (
                f"; {found['empty']} of {found['clusters']:,} stay empty: "
                f"{found['distinct_vectors']:,} vectors differ"
            )
        say(line)


if __name__ == "__main__":
    main()
