"""Phrases of the built-in dataset: its captions name objects, and where these are is known."""

from functools import partial
from pathlib import Path

import pandas as pd

from pipeline.dataset.params import ShapesConfig
from pipeline.dataset.processes import ordered_map
from pipeline.dataset.source import Options
from pipeline.phrases.tables import PHRASES, SIDES, PhraseTables
from pipeline.readers.shapes import Task, scenes_of, spoken, world_of
from pipeline.readers.shapes.drawing import box
from pipeline.readers.shapes.mentions import Mention, mentions
from pipeline.readers.shapes.scenes import Box
from pipeline.readers.shapes.world import World


def read_world(raw: Path, captions: pd.DataFrame, options: Options) -> PhraseTables:
    """The phrases of the rendered captions, their scenes drawn again: objects, several of them, and
    relations ("a red circle above a square" stands for the circle)."""
    world = world_of(raw, options.shapes)
    tasks = scenes_of(world, options)
    work = partial(tell, world=world, options=options.shapes)
    results = ordered_map(work, tasks, options.workers, "phrases of scenes")
    words = dict(zip(captions["caption_id"], captions["tokens"], strict=True))
    phrases: list[tuple[object, ...]] = []
    boxes: dict[tuple[object, ...], None] = {}  # in order, each once
    for task, (places, said) in zip(tasks, results, strict=True):
        split = task.image_id.partition("_")[0]
        for number, spans in enumerate(said):
            caption = f"{task.image_id}#{number}"
            if caption not in words:  # corpus.max_captions left it out
                continue
            tokens = words[caption]
            for index, span in enumerate(spans):
                chain = "+".join(map(str, sorted(span.numbers)))
                phrase_words = tokens[span.first : span.last]
                phrase = f"{caption}/{index}", caption, task.image_id
                phrases.append((*phrase, split, phrase_words, chain, span.kind))
                keys = [(task.image_id, chain, *places[thing]) for thing in sorted(span.numbers)]
                boxes |= dict.fromkeys(keys)
    columns = ["image_id", "chain", *SIDES]
    return PhraseTables(
        pd.DataFrame(phrases, columns=PHRASES.names), pd.DataFrame(list(boxes), columns=columns)
    )


def tell(task: Task, world: World, options: ShapesConfig) -> tuple[list[Box], list[list[Mention]]]:
    """Boxes of a scene's objects, and the mentions of each caption."""
    boxes = [box(thing, world, options.image_size) for thing in task.scene.things]
    return boxes, list(map(mentions, spoken(task, boxes, world, options)))
