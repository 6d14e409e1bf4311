"""Extended positives from dense matrices, and slow orders of them."""

import numpy as np

from pipeline.evaluation.truth import Relevance


def relevance_from(grades, i2t=None, t2i=None):
    """Of a dense matrix (N, M) of grades, 0 for false pairs; by direction which of them count."""
    images, captions = np.nonzero(grades)
    both = {"i2t": i2t, "t2i": t2i}
    counts = {
        way: np.ones(len(images), bool) if own is None else own[images, captions]
        for way, own in both.items()
    }
    return Relevance(images, captions, grades[images, captions], counts, grades.shape, "mine")


def sorted_grades(scores, grades):
    """Slowest form: the grades of a query's items from first to last, of equal scores falling
    behind each other the better they are."""
    order = sorted(range(len(scores)), key=lambda item: (-scores[item], grades[item]))
    return [float(grades[item]) for item in order]
