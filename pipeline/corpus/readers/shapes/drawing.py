"""Pixels of the built-in dataset: textured polygons with soft edges on a varied background."""

import numpy as np
from PIL import Image, ImageDraw

from pipeline.corpus.readers.shapes.scenes import Scene, Thing
from pipeline.corpus.readers.shapes.world import World

Mark = tuple[np.ndarray, np.ndarray]

SUPERSAMPLING = 4
STROKE = (0.03, 0.08)  # half lengths, shares of the side
SHARD = (0.015, 0.035)  # radii, shares of the side
WIDTH = (0.006, 0.014)  # half widths of strokes, shares of the side
REACH = 0.085  # of a mark's centre from the edges: no mark leaves the image
_GREY = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601 luma


def draw(scene: Scene, world: World, side: int, clutter: int = 0) -> Image.Image:
    """A scene as an RGB image of `side` x `side` pixels.

    Args:
        scene: its objects and background.
        world: how shapes, colours and textures look.
        side: of the image, in pixels.
        clutter: how many marks are behind the objects.

    Returns:
        The image, 8 bits a channel; objects lie over marks, and both over the background.
    """
    canvas = background(scene.background, side)
    for outline, colour in marks(scene.background, clutter, side):
        mask, (left, top) = polygon_mask(outline)
        height, width = mask.shape
        patch = canvas[top : top + height, left : left + width]
        patch += mask[..., None] * (colour - patch)
    for thing in scene.things:
        mask, (left, top) = polygon_mask(corners(thing, world, side))
        height, width = mask.shape
        patch = canvas[top : top + height, left : left + width]
        y, x = np.mgrid[top : top + height, left : left + width] + 0.5
        paint = _paint(thing, world, side=side, x=x, y=y)
        patch += mask[..., None] * (paint - patch)
    return Image.fromarray((canvas + 0.5).clip(0, 255).astype(np.uint8))


def corners(thing: Thing, world: World, side: int) -> np.ndarray:
    """The corners of an object's outline, (P, 2) x and y in pixels.

    Args:
        thing: the object.
        world: it has the outline of the object's shape.
        side: of the image, in pixels.

    Returns:
        (P, 2), in the order of the shape's outline, turned, scaled and moved.
    """
    turn = np.deg2rad(thing.turn)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    outline = world.shapes[thing.shape].points() @ rotation
    return (outline * thing.radius + [thing.x, thing.y]) * side


def box(thing: Thing, world: World, side: int) -> tuple[float, float, float, float]:
    """The tight box around an object: x1, y1, x2, y2 in pixels.

    Args:
        thing: the object.
        world: it has the outline of the object's shape.
        side: of the image, in pixels.

    Returns:
        The smallest and largest x and y of its corners.
    """
    points = corners(thing, world, side)
    x1, y1 = points.min(axis=0)
    x2, y2 = points.max(axis=0)
    return float(x1), float(y1), float(x2), float(y2)


def polygon_mask(points: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """How much of each pixel around a polygon (P, 2), x and y in pixels, it covers: (H, W) float32
    in 0..1, and the patch's left and top in pixels."""
    left, top = np.floor(points.min(axis=0)).astype(int)
    right, bottom = np.ceil(points.max(axis=0)).astype(int)
    size = ((right - left) * SUPERSAMPLING, (bottom - top) * SUPERSAMPLING)
    large = Image.new("L", size)
    # Pillow's corners are pixel centres: half a pixel less than the corner of a pixel.
    scaled = (points - [left, top]) * SUPERSAMPLING - 0.5
    ImageDraw.Draw(large).polygon([tuple(point) for point in scaled.tolist()], fill=255)
    mask = np.asarray(large.reduce(SUPERSAMPLING), dtype=np.float32) / 255
    return mask, (int(left), int(top))


def background(seed: int, side: int) -> np.ndarray:
    """A muted gradient between two greys with grain: (side, side, 3) of 0..255. Of stronger ones an
    untrained network sees little else (measured: rsum 57 against 121 after an epoch of VSE).

    Args:
        seed: of greys, direction and grain.
        side: of the image, in pixels.

    Returns:
        (side, side, 3) float32.
    """
    rng = np.random.default_rng(seed)
    level = rng.uniform(70, 130)
    first, second = (level + rng.uniform(-15, 15, (2, 3))).astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi)
    y, x = np.ogrid[0:side, 0:side]
    slope = ((x * np.cos(angle) + y * np.sin(angle)) / side + 0.5).astype(np.float32)
    grain = rng.standard_normal((side, side), dtype=np.float32) * rng.uniform(0, 3)
    return first + slope[..., None] * (second - first) + grain[..., None]


def marks(seed: int, count: int, side: int) -> list[Mark]:
    """Clutter: small strokes and shards behind the objects, which no caption names.

    Args:
        seed: of the scene's background, which near duplicates share.
        count: how many; a greater count leaves the first ones as they are.
        side: of the image, in pixels.

    Returns:
        Of each its corners (P, 2), x and y in pixels, and its colour (3,) of 0..255. Each is
        smaller than any object of the default world.
    """
    rng = np.random.default_rng([seed, 1])
    shapes = []
    for _ in range(count):
        outline = _stroke(rng) if rng.random() < 0.5 else _shard(rng)
        corners = (outline + rng.uniform(REACH, 1 - REACH, 2)) * side
        shapes.append((corners, rng.uniform(20, 255, 3).astype(np.float32)))
    return shapes


def _stroke(rng: np.random.Generator) -> np.ndarray:
    """Corners (4, 2) of a thin rectangle about the origin."""
    length = rng.uniform(*STROKE)
    width = rng.uniform(*WIDTH)
    turn = rng.uniform(0, np.pi)
    along = np.array([np.cos(turn), np.sin(turn)]) * length
    across = np.array([-np.sin(turn), np.cos(turn)]) * width
    return np.array([along + across, along - across, -along - across, across - along])


def _shard(rng: np.random.Generator) -> np.ndarray:
    """Corners (P, 2) of an irregular star-shaped polygon of four to six corners."""
    corners = int(rng.integers(4, 7))
    angles = (np.arange(corners) + rng.uniform(0, 0.8, corners)) * 2 * np.pi / corners
    return np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(*SHARD, (corners, 1))


def _paint(thing: Thing, world: World, side: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Colour (H, W, 3) of an object's patch: its colour, and where the pattern is, a second one.
    x, y: (H, W), the places of the patch's pixels."""
    colour = np.array(world.colours[thing.colour].rgb, dtype=np.float32) * thing.brightness
    # Light colours are patterned with a darker shade and dark ones with a lighter, to be seen.
    light = colour @ _GREY > 110
    second = colour * 0.5 if light else colour + 0.5 * (255 - colour)
    pattern = world.textures[thing.texture].pattern
    if pattern == "none":
        return np.broadcast_to(colour, (*x.shape, 3))
    turn = np.deg2rad(thing.turn)
    radius = thing.radius * side
    x = (x - thing.x * side) / radius
    y = (y - thing.y * side) / radius
    u = x * np.cos(turn) + y * np.sin(turn)
    v = y * np.cos(turn) - x * np.sin(turn)
    share = _pattern(pattern, u=u, v=v, radius=radius)[..., None]
    return colour + share * (second - colour)


def _pattern(name: str, u: np.ndarray, v: np.ndarray, radius: float) -> np.ndarray:
    """How much of the second colour shows, 0..1; u, v in units of the radius."""
    if name == "stripes":
        wave = np.sin(u * 2 * np.pi * 1.8) + 0.2
    elif name == "dots":
        wave = np.cos(u * 2 * np.pi * 1.6) + np.cos(v * 2 * np.pi * 1.6) - 0.55
    else:  # checks
        wave = np.sin(u * 2 * np.pi * 1.4) * np.sin(v * 2 * np.pi * 1.4)
    return (0.5 + wave * radius / 12).clip(0, 1)  # an edge about one pixel wide
