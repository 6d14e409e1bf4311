"""Captions of the built-in dataset: each is true of its scene and mentions only part of it.

caption   = frame with one of
    object relation object [", and" object]
    object "between" object "and" object
    object "and" object | object "," object "and" object
    number objects "and" object | number objects "," object "and" object
object    = article [size] [texture] [colour] noun
"""

from collections.abc import Sequence
from itertools import permutations
from typing import TypeVar

import numpy as np

from pipeline.corpus.readers.shapes.mentions import capitalised, marked, plain
from pipeline.corpus.readers.shapes.scenes import Box, Focus, Scene, Thing, holds, lies_between
from pipeline.corpus.readers.shapes.world import Attribute, World

T = TypeVar("T")

# How often an attribute is spoken of; a plain texture goes nearly always without saying.
MENTION: dict[Attribute, float] = {"size": 0.6, "texture": 0.85, "colour": 0.97, "shape": 0.97}
MENTION_PLAIN = 0.04
FOCUS = 0.4  # share of captions that speak of what tells a scene from its near duplicate
BETWEEN = 0.5  # share of relations that are told of three objects, where they are told at all


class Speaker:
    """Draws captions for scenes of one world.

    Args:
        world: the words.
        side: of the image, in pixels, the unit of "clearly left of".
        rng: what words and objects are drawn by.
        between: whether captions also say what lies between two others.
    """

    def __init__(
        self, world: World, side: int, rng: np.random.Generator, between: bool = False
    ) -> None:
        self.world = world
        self.side = side
        self.rng = rng
        self.between = between

    def marked_captions(self, scene: Scene, boxes: Sequence[Box], count: int) -> list[str]:
        """Captions with marks around what stands for objects, different from each other as far as
        the scene has that many to say.

        Args:
            scene: what is spoken of.
            boxes: of each object x1, y1, x2, y2 in pixels.
            count: how many captions.

        Returns:
            `count` captions; one is repeated only after ten vain attempts at another.
        """
        captions: list[str] = []
        said: set[str] = set()
        for _ in range(count):
            caption = self.caption(scene, boxes)
            for _ in range(10):
                if plain(caption) not in said:
                    break
                caption = self.caption(scene, boxes)
            said.add(plain(caption))
            captions.append(caption)
        return captions

    def caption(self, scene: Scene, boxes: Sequence[Box]) -> str:
        """One caption with its marks, a capital letter and a full stop.

        Args:
            scene: what is spoken of.
            boxes: of each object x1, y1, x2, y2 in pixels.

        Returns:
            A sentence that tells two objects' relation, lists objects or counts them.
        """
        focus = scene.focus if self.rng.random() < FOCUS else None
        kind = self.rng.choice(["relation", "list", "count"], p=[0.5, 0.42, 0.08])
        text = ""
        if kind == "count" and focus is None:
            text = self._counted(scene)
        elif kind == "relation":
            if self.between and self.rng.random() < BETWEEN:
                text = self._in_the_middle(scene, boxes, focus)
            text = text or self._related(scene, boxes, focus)
        text = text or self._listed(scene, focus)
        text = self._pick(self.world.frames).replace("{}", text)
        return capitalised(text) + "."

    def _listed(self, scene: Scene, focus: Focus | None) -> str:
        order = self._order(len(scene.things), focus)[:3]
        text = _join([self._object(scene, n, _required(n, focus)) for n in order])
        return marked("several", order, text)

    def _related(self, scene: Scene, boxes: Sequence[Box], focus: Focus | None) -> str:
        """Two objects and how they lie, "" when no relation is clear."""
        things = scene.things
        true = [
            (first, second, relation)
            for first, second in permutations(range(len(things)), 2)
            for relation in self.world.relations.values()
            if (focus is None or focus[0] in (first, second))
            and holds(relation, first=boxes[first], second=boxes[second], side=self.side)
        ]
        if not true:
            return ""
        first, second, relation = self._pick(true)
        subject, other = (self._object(scene, n, _required(n, focus)) for n in (first, second))
        text = marked("relation", [first], f"{subject} {self._pick(relation.words)} {other}")
        rest = [n for n in range(len(things)) if n not in (first, second)]
        if rest and self.rng.random() < 0.75:
            text += f", and {self._object(scene, self._pick(rest))}"
        return text

    def _in_the_middle(self, scene: Scene, boxes: Sequence[Box], focus: Focus | None) -> str:
        """An object and the two that it lies between, "" when none does clearly."""
        true = [
            (middle, left, right)
            for middle, left, right in permutations(range(len(boxes)), 3)
            if (focus is None or focus[0] in (middle, left, right))
            and lies_between(boxes[middle], first=boxes[left], second=boxes[right], side=self.side)
        ]
        if not true:
            return ""
        three = self._pick(true)
        inner, first, second = (self._object(scene, n, _required(n, focus)) for n in three)
        text = f"{inner} {self._pick(self.world.between)} {first} and {second}"
        return marked("relation", three[:1], text)

    def _counted(self, scene: Scene) -> str:
        """How many objects share something, and one or two others; "" when none do, or too many."""
        things = scene.things
        model = self._pick(things)
        shareable: list[set[Attribute]] = [{"shape"}, {"colour"}, {"shape", "colour"}, {"size"}]
        if not self._is_plain(model):
            shareable += [{"texture"}, {"texture", "shape"}]
        groups = []
        for shared in shareable:
            traits = {name: getattr(model, name) for name in shared}.items()
            same = [thing for thing in things if traits <= vars(thing).items()]
            if 1 < len(same) < len(things) and len(same) - 2 < len(self.world.counts):
                groups.append((shared, same))
        if not groups:
            return ""
        shared, same = self._pick(groups)
        noun = self._noun(model, shared, plural=True)
        text = " ".join([self.world.counts[len(same) - 2], *self._adjectives(model, shared), noun])
        text = marked("several", [n for n, thing in enumerate(things) if thing in same], text)
        rest = [n for n, thing in enumerate(things) if thing not in same]
        order = self._order(len(rest), None)[: 1 + int(self.rng.random() < 0.5)]
        return _join([text, *(self._object(scene, rest[n]) for n in order)])

    def _object(self, scene: Scene, number: int, required: Attribute | None = None) -> str:
        thing = scene.things[number]
        chance = MENTION | ({"texture": MENTION_PLAIN} if self._is_plain(thing) else {})
        spoken = {name for name, share in chance.items() if self.rng.random() < share}
        spoken |= {required} if required else set()
        if not spoken & {"shape", "colour"}:
            spoken |= {"colour"}
        if len(spoken) == len(MENTION):  # never all there is to say
            spoken -= {"texture" if required == "size" else "size"}
        words = [*self._adjectives(thing, spoken), self._noun(thing, spoken, plural=False)]
        article = "an" if words[0][0] in "aeiou" else "a"
        return marked("object", [number], " ".join([article, *words]))

    def _is_plain(self, thing: Thing) -> bool:
        return self.world.textures[thing.texture].pattern == "none"

    def _adjectives(self, thing: Thing, spoken: set[Attribute]) -> list[str]:
        world = self.world
        words = {
            "size": world.sizes[thing.size].words,
            "texture": world.textures[thing.texture].words,
            "colour": world.colours[thing.colour].words,
        }
        return [self._pick(choices) for name, choices in words.items() if name in spoken]

    def _noun(self, thing: Thing, spoken: set[Attribute], plural: bool) -> str:
        nouns = self.world.shapes[thing.shape].words if "shape" in spoken else self.world.anything
        return self._pick(list(nouns.values()) if plural else list(nouns))

    def _order(self, count: int, focus: Focus | None) -> list[int]:
        order = self.rng.permutation(count).tolist()
        return order if focus is None else sorted(order, key=lambda n: n != focus[0])

    def _pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]


def _required(number: int, focus: Focus | None) -> Attribute | None:
    return focus[1] if focus is not None and focus[0] == number else None


def _join(objects: list[str]) -> str:
    return ", ".join(objects[:-1]) + " and " + objects[-1]
