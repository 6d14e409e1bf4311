"""Classes of the instance loss from K-means clusters of features (Zheng et al. 2020, table 5)."""

import numpy as np
import pandas as pd
import torch

from models.dual_path.classes import KMEANS, PseudoClasses
from pipeline.features.feature_file import FeatureFile
from pipeline.features.statistics.kmeans import count_distinct, kmeans
from pipeline.runtime.errors import WorkbenchError


def cluster_classes(
    images: pd.DataFrame,
    features: FeatureFile,
    k: int,
    seed: int,
    device: torch.device,
) -> PseudoClasses:
    """A class per K-means cluster of the features of the training images.

    Clusters that stay empty, because fewer than k vectors differ, become no class; the attributes
    say how many.

    Args:
        images: N rows of the images table, the training split.
        features: A file of features, (N, D) for these images.
        k: How many clusters are looked for, at most N.
        seed: Decides the first centres.
        device: Where the clusters are found.

    Returns:
        The classes, with the centres of their clusters.

    Raises:
        WorkbenchError: k exceeds N, or the features are damaged.
    """
    if k > len(images):
        raise WorkbenchError(
            f"pseudo_classes.k = {k}, but there are {len(images):,} training images",
            f"set it to {len(images)} or less in params.yaml",
        )
    image_ids = images["image_id"].tolist()
    rows = features.rows(image_ids)
    features.verify("features")
    points = torch.from_numpy(features.read(rows)).to(device)
    clusters = kmeans(points, k, seed=seed, **KMEANS)
    distinct = {"distinct_vectors": count_distinct(points)} if clusters.empty else {}
    present, classes = np.unique(clusters.labels.cpu().numpy(), return_inverse=True)
    return PseudoClasses(
        image_ids=image_ids,
        classes=classes.astype(np.int64),
        centres=clusters.centres.cpu().numpy()[present],
        inertia=clusters.inertia,
        attributes={
            "source": "kmeans",
            "features_sha256": features.sha256,
            **distinct,
            "clusters": len(clusters.sizes),
            "empty": clusters.empty,
            "inertia": clusters.inertia[-1],
            "iterations": len(clusters.reseeded),
            "reseeded": sum(clusters.reseeded),
            "converged": int(clusters.converged),
        },
    )
