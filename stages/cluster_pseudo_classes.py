"""The classes of the instance loss: data/features/pseudo_classes.h5."""

import json
from pathlib import Path

import numpy as np

from models.dual_path.classes import KMEANS, group_classes, write_pseudo_classes
from pipeline.corpus.tables import images_digest, in_split, load_images
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
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
        classes = group_classes(train)
    else:
        from models.dual_path.clusters import cluster_classes  # and torch, which groups do without

        device = setup_runtime(params.runtime, params.seed)
        file = FeatureFile(features)
        classes = cluster_classes(train, file, k=settings.k, seed=params.seed, device=device)
    made_with = json.dumps(settings.model_dump() | KMEANS)
    described = {"params": made_with, "corpus_sha256": images_digest(train)}
    write_pseudo_classes(output, classes, described)
    sizes = classes.sizes
    say(
        f"pseudo classes ({settings.source}): {len(train):,} training images in {len(classes):,} "
        f"classes of {sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}"
    )
    if settings.source == "kmeans":
        said = classes.attributes
        stop = "converged" if said["converged"] else "out of iterations"
        inertia = f"inertia {classes.inertia[0]:,.6g} to {said['inertia']:,.6g}"
        line = f"{inertia}, {said['reseeded']} empty clusters reseeded"
        if said["empty"]:
            line += f"; {said['empty']} of {said['clusters']:,} stay empty: "
            line += f"{said['distinct_vectors']:,} vectors differ"
        say(f"k-means: {stop} after {said['iterations']} iterations, {line}")


if __name__ == "__main__":
    main()
