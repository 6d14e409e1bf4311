"""What is in a scene of the built-in dataset: objects that do not overlap, and near duplicates."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.readers.shapes.world import ATTRIBUTES, Attribute, World
from pipeline.runtime.errors import WorkbenchError

Focus = tuple[int, Attribute]  # an object's number, and one of its attributes
MARGIN = 0.02  # free space around an object, as a share of the image's side


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
    """Draw scenes, each from a generator of its own. near_duplicates: share of the scenes that have
    a twin, equal but for one attribute of one object (half are originals, half changed copies)."""
    scenes = [make_scene(world, np.random.default_rng([*seed, n])) for n in range(count)]
    pairs = round(near_duplicates * count / 2)
    order = np.random.default_rng([*seed, count, 1]).permutation(count)[: 2 * pairs]
    for original, copy in order.reshape(pairs, 2):
        rng = np.random.default_rng([*seed, int(copy), 2])
        scenes[original], scenes[copy] = twins(world, scenes[original], rng)
    return scenes


def make_scene(world: World, rng: np.random.Generator) -> Scene:
    """One scene of independent objects, fewer than drawn when there is no room left."""
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
    """The scene and a copy with one attribute of one object changed, both with that focus;
    WorkbenchError where no attribute can be changed."""
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
    shape, colour, size = (str(rng.choice(world.choices(name))) for name in ATTRIBUTES[:3])
    weights = np.array([texture.weight for texture in world.textures.values()])
    texture = str(rng.choice(world.choices("texture"), p=weights / weights.sum()))
    return Thing(
        *(shape, colour, size, texture, 0.5, 0.5),
        radius=_radius(world, size, rng),
        turn=float(rng.uniform(-world.rotation, world.rotation)),
        brightness=float(rng.uniform(0.9, 1.1)),
    )


def _radius(world: World, size: str, rng: np.random.Generator) -> float:
    return float(rng.uniform(*world.sizes[size].radius))


def _place(thing: Thing, others: list[Thing], rng: np.random.Generator) -> Thing | None:
    reach = thing.radius + MARGIN
    for x, y in rng.uniform(reach, 1 - reach, (40, 2)):
        placed = replace(thing, x=float(x), y=float(y))
        if _fits(placed, others):
            return placed
    return None


def _fits(thing: Thing, others: list[Thing]) -> bool:
    reach = thing.radius + MARGIN
    inside = all(reach <= centre <= 1 - reach for centre in (thing.x, thing.y))
    return inside and all(
        np.hypot(thing.x - other.x, thing.y - other.y) >= reach + other.radius for other in others
    )
