"""A miniature of Flickr30k Entities in its format: images, captions, marks, boxes and lists."""

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (40, 80, 220)}
WIDTH, HEIGHT = 96, 64
SPLITS = {"train": 16, "val": 4, "test": 4}

ANNOTATION = """<annotation>
	<filename>{name}.jpg</filename>
	<size><width>{width}</width><height>{height}</height><depth>3</depth></size>
{objects}	<object><name>{scene}</name><scene>1</scene><nobndbox>1</nobndbox></object>
</annotation>
"""
OBJECT = """	<object>{names}
		<bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax></bndbox>
	</object>
"""


def annotation(name, boxes, scene, width=WIDTH, height=HEIGHT):
    """The text of an annotation file; boxes: (chains, (xmin, ymin, xmax, ymax)) from pixel 1."""
    objects = "".join(
        OBJECT.format(*box, names="".join(f"<name>{chain}</name>" for chain in chains))
        for chains, box in boxes
    )
    return ANNOTATION.format(name=name, width=width, height=height, objects=objects, scene=scene)


def write_entities(raw, splits=SPLITS, seed=0):
    """Write `raw` as a folder of Flickr30k with Entities beside it; the boxes by image and chain.

    Every image has two coloured blocks; one chain is both of them, another has no box, a third
    cannot be seen.
    """
    rng, folder, truth = np.random.default_rng(seed), raw / "entities", {}
    for place in (raw / "images", folder / "Sentences", folder / "Annotations"):
        place.mkdir(parents=True)
    lines = ["image_name| comment_number| comment"]
    numbers = iter(range(1000001, 2000000))
    for split, count in splits.items():
        names = [str(next(numbers)) for _ in range(count)]
        (folder / f"{split}.txt").write_text("\n".join(names) + "\n")
        for name in names:
            first, second = rng.permutation(list(COLOURS))[:2]
            boxes = [_block(rng, 4), _block(rng, 52)]
            image = Image.new("RGB", (WIDTH, HEIGHT), (120, 120, 120))
            for colour, box in zip((first, second), boxes, strict=True):
                # from pixel 1, with the last one
                ImageDraw.Draw(image).rectangle([side - 1 for side in box], fill=COLOURS[colour])
            image.save(raw / "images" / f"{name}.jpg", quality=95)
            chains = [f"{name}1", f"{name}2", f"{name}3", f"{name}4"]
            one, two, both, scene = chains
            sentences = [
                f"[/EN#{one}/people A {first} block] is left of "
                f"[/EN#{two}/other a {second} block] .",
                f"[/EN#{both}/people/other Two blocks] stand in [/EN#{scene}/scene a room] .",
                f"[/EN#{two}/clothing A {second} block] in [/EN#0/notvisual front] .",
            ]
            (folder / "Sentences" / f"{name}.txt").write_text("\n".join(sentences))
            (folder / "Annotations" / f"{name}.xml").write_text(
                annotation(name, [((one, both), boxes[0]), ((two, both), boxes[1])], scene)
            )
            plain = [
                f"A {first} block is left of a {second} block .",
                "Two blocks stand in a room .",
                f"A {second} block in front .",
            ]
            lines += [f"{name}.jpg| {n}| {text}" for n, text in enumerate(plain)]
            truth[f"{name}.jpg"] = dict(zip((one, two), boxes, strict=True))
    (raw / "results.csv").write_text("\n".join(lines) + "\n")
    return truth


def _block(rng, left):
    x, y = left + int(rng.integers(0, 12)), 4 + int(rng.integers(0, 24))
    return x, y, x + 26, y + 26
