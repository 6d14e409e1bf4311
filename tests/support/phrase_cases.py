"""Random phrases with proposals: few places and few scores, so that boxes overlap and tie."""

import numpy as np
import pandas as pd

from pipeline.phrases.found import Searched


def random_boxes(rng, *shape):
    corners = rng.integers(0, 7, (*shape, 2))
    return np.concatenate([corners, corners + rng.integers(2, 6, (*shape, 2))], -1).astype("f4")


def random_search(seed, phrases=60, images=7, slots=12, texts=9):
    """Searched, and scores (Q, R) that are equal for the same phrase in the same image."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, slots + 1, images)
    boxes = random_boxes(rng, images, slots)
    boxes[np.arange(slots) >= counts[:, None]] = 0
    owners = np.append(np.arange(images), rng.integers(0, images, phrases - images))
    names = rng.integers(0, texts, phrases)
    table = rng.integers(0, 8, (texts, images, slots)).astype(float) / 4
    scores = table[names, owners]
    scores[np.arange(slots) >= counts[owners, None]] = -np.inf
    rows = pd.DataFrame({"text": [f"phrase {n}" for n in names]})
    rows["image_id"] = [f"image {n}" for n in owners]
    return Searched(rows, owners, boxes, counts, random_boxes(rng, phrases)), scores
