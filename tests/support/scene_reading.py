"""A second reading of the built-in dataset's grammar, from the words of world.yaml alone."""

import re
from itertools import permutations
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

from pipeline.corpus.readers.shapes.drawing import box
from pipeline.corpus.readers.shapes.world import load_world

RAW = Path(__file__).resolve().parents[2] / "data" / "raw" / "shapes"
TEXT = (RAW / "world.yaml").read_text()
PLAIN = YAML(typ="safe", pure=True).load(TEXT)
WORLD = load_world(RAW / "world.yaml")
SIDE = 128

KINDS = {"object": "shapes", "colour": "colours", "size": "sizes", "texture": "textures"}


def meanings(*lists):
    """(kind, name) by word of these lists of an entry, singular and plural."""
    return {
        word: (kind, name)
        for kind, table in KINDS.items()
        for name, entry in PLAIN[table].items()
        for words in map(entry.get, lists)
        for word in [*words, *(words.values() if isinstance(words, dict) else [])]
    }


MEANING = meanings("words", "synonyms")
NUMBERS = {"a": None, "an": None} | {word: n for n, word in enumerate(PLAIN["counts"], 2)}
RELATIONS = {
    phrase: entry["direction"] for entry in PLAIN["relations"].values() for phrase in entry["words"]
} | dict.fromkeys(PLAIN["between"], "between")
ANYTHING = {*PLAIN["anything"], *PLAIN["anything"].values()}
FRAMES = ("a picture of ", "an image with ", "we see ")
KNOWN = {*MEANING, *NUMBERS, *ANYTHING, *" ".join((*RELATIONS, *FRAMES)).split(), "and"}


def parse(text):
    """Phrases (number or None, {kind: name}) and the direction between the first two, or None."""
    assert text[0].isupper()
    assert text.endswith(".")
    words = text[:-1].lower()
    for frame in FRAMES:
        words = words.removeprefix(frame)
    direction = None
    for phrase in sorted(RELATIONS, key=len, reverse=True):
        if f" {phrase} " in words:
            direction = RELATIONS[phrase]
            words = words.replace(f" {phrase} ", " and ")
            break
    phrases = []
    for part in re.split(r", and | and |, ", words):
        number, *rest = part.split()
        facts = dict(MEANING[word] for word in rest if word not in ANYTHING)
        phrases.append((NUMBERS[number], facts))
    return phrases, direction


def fits(thing, facts):
    return all(thing[kind] == name for kind, name in facts.items())


def lies(direction, first, *others):
    if direction == "between":
        return in_the_middle(first, *others[:2])
    (dx, dy) = centre(first) - centre(others[0])
    along, across = {"left": (-dx, dy), "right": (dx, dy), "up": (-dy, dx), "down": (dy, dx)}[
        direction
    ]
    return along > 5 and along >= abs(across) - 1e-6


def in_the_middle(thing, one, other):
    """Whether a point of the middle half of the line between two is near: a tenth of the side."""
    points = centre(one) + np.linspace(0.25, 0.75, 201)[:, None] * (centre(other) - centre(one))
    return np.hypot(*(points - centre(thing)).T).min() <= 0.1 * SIDE + 0.3


def centre(thing):
    return np.array([thing["x1"] + thing["x2"], thing["y1"] + thing["y2"]]) / 2


def is_true(text, things):
    """Whether distinct objects of the scene are what the caption says."""
    phrases, direction = parse(text)
    single = [facts for number, facts in phrases if number is None]
    rest = things
    for number, facts in phrases:
        if number is not None:
            if sum(fits(thing, facts) for thing in things) != number:
                return False
            rest = [thing for thing in things if not fits(thing, facts)]
    return any(
        all(fits(thing, facts) for thing, facts in zip(chosen, single, strict=True))
        and (direction is None or lies(direction, *chosen))
        for chosen in permutations(rest, len(single))
    )


def corrected(text):
    """The text with every unknown word as the only known one that is an edit away."""

    def one(found):
        word = found[0].lower()
        if word in KNOWN:
            return found[0]
        (meant,) = [known for known in KNOWN if one_edit_apart(word, known)]
        return meant.capitalize() if found[0][0].isupper() else meant

    return re.sub("[A-Za-z]+", one, text)


def one_edit_apart(one, other):
    """Whether a letter more, less, changed, or two neighbours exchanged make one word of another.

    What two words share at both ends is taken off: the rest tells.
    """
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    lengths = sorted((len(one), len(other)))
    return lengths in ([0, 1], [1, 1]) or (lengths == [2, 2] and one == other[::-1])


def facts(scene):
    return [
        {"object": t.shape, "colour": t.colour, "size": t.size, "texture": t.texture}
        | dict(zip(("x1", "y1", "x2", "y2"), box(t, WORLD, SIDE), strict=True))
        for t in scene.things
    ]


def scene_things(source):
    columns = ["colour", "size", "texture"]
    table = source.boxes.assign(
        **{name: source.boxes["attributes"].str[n] for n, name in enumerate(columns)}
    )
    return {image: rows.to_dict("records") for image, rows in table.groupby("image_id")}
