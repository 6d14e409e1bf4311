"""Where objects lie to each other: what a caption may say of their places."""

import numpy as np

from pipeline.readers.shapes.world import Relation

Box = tuple[float, float, float, float]

GAP = 0.1  # least distance for a direction, most off the line for between: shares of the side
MIDDLE = 0.25  # what lies between two others is this share of their distance from both at least


def holds(relation: Relation, first: Box, second: Box, side: int) -> bool:
    """Whether the first box (x1, y1, x2, y2 in pixels) lies clearly in the relation's direction
    from the second: by at least GAP of the side in that direction, and by no more across it."""
    dx = (first[0] + first[2] - second[0] - second[2]) / 2
    dy = (first[1] + first[3] - second[1] - second[3]) / 2
    along = {"left": -dx, "right": dx, "up": -dy, "down": dy}[relation.direction]
    across = abs(dy) if relation.direction in ("left", "right") else abs(dx)
    return along >= GAP * side and along >= across


def lies_between(middle: Box, first: Box, second: Box, side: int) -> bool:
    """Whether a box lies clearly between two others (all in pixels): its centre at most GAP of the
    side off the line through theirs, and along it MIDDLE of their distance or more from both."""
    centre, start, end = (
        np.array([box[0] + box[2], box[1] + box[3]]) / 2 for box in (middle, first, second)
    )
    line, out = end - start, centre - start
    length = float(np.hypot(*line))
    if length == 0:
        return False
    along = float(line @ out) / length
    off = abs(float(line[0] * out[1] - line[1] * out[0])) / length
    return off <= GAP * side and MIDDLE * length <= along <= (1 - MIDDLE) * length
