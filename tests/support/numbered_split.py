"""A split whose rows are their numbers, so that batches show what they are made of."""

import numpy as np

from pipeline.features.split import Split


def numbered_split(described, groups, images, captions):
    """Of len(groups) images; described: of which image each caption is."""
    described = np.asarray(described)
    names = [f"i{i}" for i in range(len(groups))], list(groups)
    return Split(*names, [f"c{j}" for j in range(len(described))], described, images, captions)
