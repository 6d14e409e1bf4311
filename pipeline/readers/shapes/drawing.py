"""Pixels of the built-in dataset: textured polygons with soft edges on a varied background."""

import numpy as np
from PIL import Image, ImageDraw

from pipeline.readers.shapes.clutter import marks
from pipeline.readers.shapes.scenes import Scene, Thing
from pipeline.readers.shapes.world import World

SUPERSAMPLING = 4
_GREY = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601 luma


def draw(scene: Scene, world: World, side: int, clutter: int = 0) -> Image.Image:
    """A scene as an RGB image of `side` x `side` pixels; clutter: marks behind the objects."""
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
        paint = _paint(thing, world, side, left, top, width, height)
        patch += mask[..., None] * (paint - patch)
    return Image.fromarray((canvas + 0.5).clip(0, 255).astype(np.uint8))


def corners(thing: Thing, world: World, side: int) -> np.ndarray:
    """The corners of an object's outline, (P, 2) x and y in pixels."""
    turn = np.deg2rad(thing.turn)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    outline = world.shapes[thing.shape].points() @ rotation
    return (outline * thing.radius + [thing.x, thing.y]) * side


def box(thing: Thing, world: World, side: int) -> tuple[float, float, float, float]:
    """The tight box around an object: x1, y1, x2, y2 in pixels."""
    points = corners(thing, world, side)
    (x1, y1), (x2, y2) = points.min(axis=0), points.max(axis=0)
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
    untrained network sees little else (measured: rsum 57 against 121 after an epoch of VSE)."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(70, 130)
    first, second = (level + rng.uniform(-15, 15, (2, 3))).astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi)
    y, x = np.ogrid[0:side, 0:side]
    slope = ((x * np.cos(angle) + y * np.sin(angle)) / side + 0.5).astype(np.float32)
    grain = rng.standard_normal((side, side), dtype=np.float32) * rng.uniform(0, 3)
    return first + slope[..., None] * (second - first) + grain[..., None]


def _paint(
    thing: Thing, world: World, side: int, left: int, top: int, width: int, height: int
) -> np.ndarray:
    """Colour (H, W, 3) of an object's patch: its colour, and where the pattern is, a second one."""
    colour = np.array(world.colours[thing.colour].rgb, dtype=np.float32) * thing.brightness
    # Light colours are patterned with a darker shade and dark ones with a lighter, to be seen.
    light = colour @ _GREY > 110
    second = colour * 0.5 if light else colour + 0.5 * (255 - colour)
    pattern = world.textures[thing.texture].pattern
    if pattern == "none":
        return np.broadcast_to(colour, (height, width, 3))
    turn, radius = np.deg2rad(thing.turn), thing.radius * side
    y, x = np.mgrid[top : top + height, left : left + width] + 0.5
    x, y = ((x - thing.x * side) / radius, (y - thing.y * side) / radius)
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    share = _pattern(pattern, u, v, radius)[..., None]
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
