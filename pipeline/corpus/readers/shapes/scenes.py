"""What is in a scene of the built-in dataset: objects that do not overlap, and near duplicates; and
how objects lie to each other, as a caption may say it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.corpus.readers.shapes.world import ATTRIBUTES, Attribute, Relation, World
from pipeline.runtime.errors import WorkbenchError

Focus = tuple[int, Attribute]  # an object's number, and one of its attributes
Box = tuple[float, float, float, float]

MARGIN = 0.02  # free space around an object, as a share of the image's side

GAP = 0.1  # least distance for a direction, most off the line for between: shares of the side
MIDDLE = 0.25  # what lies between two others is this share of their distance from both at least


@dataclass(frozen=True)
class Thing:
    """One object: its attributes by name, its centre (y downwards) and radius as shares of the
    image's side, its turn in degrees, and a factor of its brightness."""

    shape: str
    colour: str
    size: str
    texture: str
    x: float
    y: float
    radius: float
    turn: float
    brightness: float


@dataclass(frozen=True)
class Scene:
    """Objects before a background, which is the seed of its look. focus: the object (by number) and
    the attribute in which the scene differs from its near duplicate, None when it has none."""

    things: tuple[Thing, ...]
    background: int
    focus: Focus | None = None


def make_scenes(world: World, count: int, near_duplicates: float, seed: list[int]) -> list[Scene]:
    """Draw scenes, each from a generator of its own.

    Args:
        world: what there is to draw.
        count: how many scenes.
        near_duplicates: share (0..1) of the scenes that have a twin, equal but for one attribute of
            one object: half are originals, half changed copies.
        seed: of all.

    Returns:
        `count` scenes; originals and changed copies lie anywhere among them.
    """
    scenes = [make_scene(world, np.random.default_rng([*seed, n])) for n in range(count)]
    pairs = round(near_duplicates * count / 2)
    order = np.random.default_rng([*seed, count, 1]).permutation(count)[: 2 * pairs]
    for original, copy in order.reshape(pairs, 2):
        rng = np.random.default_rng([*seed, int(copy), 2])
        scenes[original], scenes[copy] = twins(world, scenes[original], rng)
    return scenes


def make_scene(world: World, rng: np.random.Generator) -> Scene:
    """One scene of independent objects, fewer than drawn when there is no room left.

    Args:
        world: what there is to draw.
        rng: what it is drawn by.

    Returns:
        The scene, with the seed of its background.

    Raises:
        WorkbenchError: there is no room for the fewest objects.
    """
    fewest, most = world.objects
    wanted = int(rng.integers(fewest, most + 1))
    for _ in range(200):
        things: list[Thing] = []
        for _ in range(wanted):
            thing = _place(_draw(world, rng), things, rng)
            if thing is not None:
                things.append(thing)
        if len(things) >= fewest:
            return Scene(tuple(things), int(rng.integers(2**31)))
    raise WorkbenchError(
        f"world.yaml: no room for {fewest} objects in a scene", "make the sizes smaller"
    )


def twins(world: World, scene: Scene, rng: np.random.Generator) -> tuple[Scene, Scene]:
    """A scene and a copy with one attribute of one object changed, both with that focus.

    Args:
        world: the values that an attribute may have.
        scene: the original.
        rng: what the change is drawn by.

    Returns:
        The original and the changed copy; the focus is the object's place and the attribute's name.

    Raises:
        WorkbenchError: no attribute can be changed.
    """
    changes = [
        (number, attribute, value)
        for number, thing in enumerate(scene.things)
        for attribute in ATTRIBUTES
        for value in world.choices(attribute)
        if value != getattr(thing, attribute)
    ]
    for pick in rng.permutation(len(changes)):
        number, attribute, value = changes[pick]
        changed: dict[str, Any] = {attribute: value}
        if attribute == "size":
            changed["radius"] = _radius(world, value, rng)
        thing = replace(scene.things[number], **changed)
        others = [*scene.things[:number], *scene.things[number + 1 :]]
        if _fits(thing, others):
            things = (*scene.things[:number], thing, *scene.things[number + 1 :])
            focus = (number, attribute)
            return replace(scene, focus=focus), replace(scene, things=things, focus=focus)
    raise WorkbenchError("world.yaml: no attribute can be changed", "give shapes and colours")


def _draw(world: World, rng: np.random.Generator) -> Thing:
    """An object without a place yet."""
    shape, colour, size = (str(rng.choice(world.choices(name))) for name in ATTRIBUTES[:3])
    weights = np.array([texture.weight for texture in world.textures.values()])
    texture = str(rng.choice(world.choices("texture"), p=weights / weights.sum()))
    return Thing(
        shape=shape,
        colour=colour,
        size=size,
        texture=texture,
        x=0.5,
        y=0.5,
        radius=_radius(world, size, rng),
        turn=float(rng.uniform(-world.rotation, world.rotation)),
        brightness=float(rng.uniform(0.9, 1.1)),
    )


def _radius(world: World, size: str, rng: np.random.Generator) -> float:
    return float(rng.uniform(*world.sizes[size].radius))


def _place(thing: Thing, others: list[Thing], rng: np.random.Generator) -> Thing | None:
    """An object at a free place; None where some tries find none."""
    reach = thing.radius + MARGIN
    for x, y in rng.uniform(reach, 1 - reach, (40, 2)):
        placed = replace(thing, x=float(x), y=float(y))
        if _fits(placed, others):
            return placed
    return None


def _fits(thing: Thing, others: list[Thing]) -> bool:
    """Whether an object lies inside the image and away from others."""
    reach = thing.radius + MARGIN
    inside = all(reach <= centre <= 1 - reach for centre in (thing.x, thing.y))
    return inside and all(
        np.hypot(thing.x - other.x, thing.y - other.y) >= reach + other.radius for other in others
    )


def holds(relation: Relation, first: Box, second: Box, side: int) -> bool:
    """Whether a box lies clearly in a direction from another: by at least GAP of the side in that
    direction, and by no more across it.

    Args:
        relation: its direction, from the second to the first.
        first: x1, y1, x2, y2 in pixels.
        second: the other box, in pixels.
        side: of the image, in pixels.

    Returns:
        True where it clearly does; False also where the boxes are too near each other to tell.
    """
    dx = (first[0] + first[2] - second[0] - second[2]) / 2
    dy = (first[1] + first[3] - second[1] - second[3]) / 2
    along = {"left": -dx, "right": dx, "up": -dy, "down": dy}[relation.direction]
    across = abs(dy) if relation.direction in ("left", "right") else abs(dx)
    return along >= GAP * side and along >= across


def lies_between(middle: Box, first: Box, second: Box, side: int) -> bool:
    """Whether a box lies clearly between two others: its centre at most GAP of the side off the
    line through theirs, and along it MIDDLE of their distance or more from both.

    Args:
        middle: x1, y1, x2, y2 in pixels.
        first: one of the others, in pixels.
        second: the other one, in pixels.
        side: of the image, in pixels.

    Returns:
        True where it clearly does; never where the centres of the two others meet.
    """
    centre, start, end = (
        np.array([box[0] + box[2], box[1] + box[3]]) / 2 for box in (middle, first, second)
    )
    line = end - start
    out = centre - start
    length = float(np.hypot(*line))
    if length == 0:
        return False
    along = float(line @ out) / length
    off = abs(float(line[0] * out[1] - line[1] * out[0])) / length
    return off <= GAP * side and MIDDLE * length <= along <= (1 - MIDDLE) * length
