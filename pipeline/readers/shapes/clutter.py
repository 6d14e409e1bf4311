"""Clutter of the built-in dataset: small marks behind the objects, which no caption names."""

import numpy as np

Mark = tuple[np.ndarray, np.ndarray]

STROKE, SHARD = (0.03, 0.08), (0.015, 0.035)  # half lengths and radii, shares of the side
WIDTH = (0.006, 0.014)  # half widths of strokes
REACH = 0.085  # of the centre from the edges: no mark leaves the image


def marks(seed: int, count: int, side: int) -> list[Mark]:
    """Strokes and shards, each smaller than any object of the default world: corners (P, 2), x and
    y in pixels, and colour (3,) of 0..255. seed: of the scene's background, which near duplicates
    share. A greater count leaves the first ones as they are. side: of the image, pixels."""
    rng = np.random.default_rng([seed, 1])
    shapes = []
    for _ in range(count):
        outline = _stroke(rng) if rng.random() < 0.5 else _shard(rng)
        corners = (outline + rng.uniform(REACH, 1 - REACH, 2)) * side
        shapes.append((corners, rng.uniform(20, 255, 3).astype(np.float32)))
    return shapes


def _stroke(rng: np.random.Generator) -> np.ndarray:
    """Corners (4, 2) of a thin rectangle about the origin."""
    length, width, turn = rng.uniform(*STROKE), rng.uniform(*WIDTH), rng.uniform(0, np.pi)
    along = np.array([np.cos(turn), np.sin(turn)]) * length
    across = np.array([-np.sin(turn), np.cos(turn)]) * width
    return np.array([along + across, along - across, -along - across, across - along])


def _shard(rng: np.random.Generator) -> np.ndarray:
    """Corners (P, 2) of an irregular star-shaped polygon of four to six corners."""
    corners = int(rng.integers(4, 7))
    angles = (np.arange(corners) + rng.uniform(0, 0.8, corners)) * 2 * np.pi / corners
    return np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(*SHARD, (corners, 1))
