"""The built-in dataset: rendered scenes of coloured shapes with captions that can be checked, drawn
offline from world.yaml: same description, same seed, same bytes."""

import io
import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pipeline.corpus.dataset.processes import ordered_map
from pipeline.corpus.dataset.source import Options, Source
from pipeline.corpus.params import ShapesConfig
from pipeline.corpus.readers.shapes.drawing import box, draw
from pipeline.corpus.readers.shapes.grammar import Speaker
from pipeline.corpus.readers.shapes.mentions import plain
from pipeline.corpus.readers.shapes.scenes import Box, Scene, make_scenes
from pipeline.corpus.readers.shapes.spelling import misspell
from pipeline.corpus.readers.shapes.world import World, load_world
from pipeline.corpus.tables import BOXES as COLUMNS
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.disk import translating_write_errors

BOXES = True
JPEG_QUALITY = 92


class Task(NamedTuple):
    """One image to render: image_id, its scene, and the seed of its captions."""

    image_id: str
    scene: Scene
    seed: list[int]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Render the world of raw/world.yaml into out/images as JPEG files.

    Args:
        raw: the folder of world.yaml.
        out: the folder of the corpus.
        options: the section shapes, and how many processes render.

    Returns:
        The source; boxes carry the shape as object and colour, size and texture as attributes.

    Raises:
        WorkbenchError: a world that cannot be drawn.
    """
    world = world_of(raw, options.shapes)
    root = out / "images"
    root.mkdir(parents=True, exist_ok=True)
    tasks = scenes_of(world, options)
    work = partial(render, root=root, world=world, options=options.shapes)
    images = []
    captions = []
    rows = []
    rendered = ordered_map(work, tasks, workers=options.workers, title="rendering scenes")
    for task, (boxes, texts) in zip(tasks, rendered, strict=True):
        name = task.image_id
        images.append((name, name.partition("_")[0]))
        captions += [(f"{name}#{number}", name, text) for number, text in enumerate(texts)]
        for thing, corners in zip(task.scene.things, boxes, strict=True):
            rows.append((name, *corners, thing.shape, [thing.colour, thing.size, thing.texture]))
    return Source(
        root=root,
        images=pd.DataFrame(images, columns=["image_id", "split"]),
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        boxes=pd.DataFrame(rows, columns=COLUMNS.names),
    )


def render(
    task: Task, root: Path, world: World, options: ShapesConfig
) -> tuple[list[Box], list[str]]:
    """Draw one scene to its file.

    Args:
        task: the scene, and its file's name.
        root: the folder of the images.
        world: how things look and are spoken of.
        options: the section shapes.

    Returns:
        The boxes of its objects, x1, y1, x2, y2 in pixels, and its captions.
    """
    side = options.image_size
    boxes = [box(thing, world, side) for thing in task.scene.things]
    image = draw(task.scene, world, side=side, clutter=options.clutter)
    content = io.BytesIO()  # Pillow keeps silent about writes that fail
    image.save(content, "JPEG", quality=JPEG_QUALITY)
    path = root / task.image_id
    # beside the image of an earlier run, which stays until this one is whole; the folder is brought
    # to the disk once, by the stage
    temporary = path.with_name(f".{path.name}.part")
    with translating_write_errors(path, temporary, len(content.getbuffer())):
        try:
            temporary.write_bytes(content.getbuffer())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    captions = [plain(text) for text in spoken(task, boxes, world=world, options=options)]
    if options.misspelt:  # by a generator of its own: the captions are otherwise the same
        words = world.vocabulary()
        rng = np.random.default_rng([*task.seed, 4])
        captions = [misspell(text, options.misspelt, words=words, rng=rng) for text in captions]
    return boxes, captions


def spoken(task: Task, boxes: list[Box], world: World, options: ShapesConfig) -> list[str]:
    """The captions of a scene, spelt right, with marks around what stands for objects.

    Args:
        task: the scene, and the seed of its captions.
        boxes: of its objects, x1, y1, x2, y2 in pixels.
        world: the words.
        options: the section shapes.

    Returns:
        `options.captions_per_image` captions.
    """
    speaker = Speaker(
        world,
        side=options.image_size,
        rng=np.random.default_rng(task.seed),
        between=options.relations == "between",
    )
    return speaker.marked_captions(task.scene, boxes, options.captions_per_image)


def world_of(raw: Path, options: ShapesConfig) -> World:
    """The world of raw/world.yaml with the numbers of objects and the words that are asked for.

    Args:
        raw: the folder of world.yaml.
        options: the section shapes.

    Returns:
        The file's world with `options.objects` in place of its own range, where given, and all
        synonyms, where they are asked for.

    Raises:
        WorkbenchError: every problem of the file.
    """
    world = load_world(raw / "world.yaml")
    if options.objects is not None:
        world = world.model_copy(update={"objects": tuple(options.objects)})
    return world.saying_all() if options.synonyms else world


def scenes_of(world: World, options: Options) -> list[Task]:
    """The scenes of all splits, in the order of the corpus.

    Args:
        world: what there is to draw.
        options: the section shapes: its seed, and how many scenes a split has.

    Returns:
        A task per image: its name, such as train_00017.jpg, its scene, and the seed of its
        captions; splits in the order of SPLITS.
    """
    shapes = options.shapes
    tasks = []
    for number, split in enumerate(SPLITS):
        seed = [shapes.seed, number]
        scenes = make_scenes(
            world, getattr(shapes, split), near_duplicates=shapes.near_duplicates, seed=seed
        )
        for place, scene in enumerate(scenes):
            tasks.append(Task(f"{split}_{place:05d}.jpg", scene, [*seed, place, 3]))
    return tasks
