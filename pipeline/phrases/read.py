"""From the phrases section of params.yaml to the tables of phrases, whatever they come from.

Those of the built-in dataset are told again with its scenes: its captions name objects, and where
these are is known. Those of Flickr30k are files (pipeline.phrases.entities).
"""

from functools import partial
from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.processes import ordered_map
from pipeline.corpus.dataset.source import Options
from pipeline.corpus.params import ShapesConfig
from pipeline.corpus.readers.shapes import Task, scenes_of, spoken, world_of
from pipeline.corpus.readers.shapes.drawing import box
from pipeline.corpus.readers.shapes.mentions import Mention, mentions
from pipeline.corpus.readers.shapes.scenes import Box
from pipeline.corpus.readers.shapes.world import World
from pipeline.phrases.entities import read_entities
from pipeline.phrases.params import PhrasesConfig
from pipeline.phrases.tables import PHRASE_BOXES, PHRASES, PhraseTables
from pipeline.runtime.process import say


def read_phrases(
    settings: PhrasesConfig,
    dataset: str,
    raw: Path,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    options: Options,
) -> PhraseTables:
    """The phrases of the corpus, none for a dataset that has none of its own.

    Args:
        settings: the section `phrases`.
        dataset: name of the corpus's reader.
        raw: folder that it read.
        images: the corpus's table.
        captions: the corpus's table.
        options: what the reader depended on.

    Returns:
        The tables of phrases and boxes; empty ones with the same columns where there are none.

    Raises:
        WorkbenchError: files of phrases that are missing, damaged or contradict the corpus.
    """
    if settings.source == "flickr30k_entities":
        by_lists = settings.splits == "lists"
        tables = read_entities(
            raw, settings.path, by_lists=by_lists, images=images, captions=captions
        )
    elif settings.source == "corpus" and dataset == "shapes":
        tables = read_world(raw, captions, options)
    else:
        say(f"phrases.source = {settings.source}: the dataset {dataset} has no phrases with boxes")
        no_phrases = pd.DataFrame(columns=PHRASES.names)
        return PhraseTables(no_phrases, pd.DataFrame(columns=PHRASE_BOXES.names))
    return tables if settings.train_images is None else first_images(tables, settings.train_images)


def first_images(tables: PhraseTables, number: int) -> PhraseTables:
    """The tables without the phrases of some training images; other splits stay whole.

    Args:
        tables: of the whole corpus.
        number: training images that stay, the first in the table's order.

    Returns:
        The tables, rows numbered from 0; those of before where no training image is dropped.
    """
    phrases = tables.phrases
    training = phrases["image_id"][phrases["split"] == "train"].drop_duplicates()
    dropped = set(training[number:])
    if not dropped:
        return tables
    say(f"left out: phrases of {len(dropped):,} training images (phrases.train_images)")

    def kept_rows(table: pd.DataFrame) -> pd.DataFrame:
        return table[~table["image_id"].isin(dropped)].reset_index(drop=True)

    return PhraseTables(kept_rows(phrases), kept_rows(tables.boxes))


def read_world(raw: Path, captions: pd.DataFrame, options: Options) -> PhraseTables:
    """The phrases of the built-in dataset's captions, its scenes drawn again as the reader drew
    them: objects, several of them, and relations ("a red circle above a square" stands for the
    circle).

    Args:
        raw: folder of the dataset.
        captions: the corpus's table.
        options: what the reader depended on: sizes, splits, number of processes.

    Returns:
        A phrase per mention of a caption that the corpus has, and each box once per chain: the
        boxes of all objects that the phrase stands for, in pixels.
    """
    world = world_of(raw, options.shapes)
    tasks = scenes_of(world, options)
    work = partial(mentions_in_scene, world=world, options=options.shapes)
    results = ordered_map(work, tasks, workers=options.workers, title="phrases of scenes")
    tokens = dict(zip(captions["caption_id"], captions["tokens"], strict=True))
    phrases: list[dict[str, object]] = []
    boxes: list[tuple[object, ...]] = []
    for task, (places, told) in zip(tasks, results, strict=True):
        for number, spans in enumerate(told):
            caption = f"{task.image_id}#{number}"
            if caption not in tokens:  # corpus.max_captions left it out
                continue
            for index, span in enumerate(spans):
                things = sorted(span.numbers)
                chain = "+".join(map(str, things))
                phrases.append(
                    {
                        "phrase_id": f"{caption}/{index}",
                        "caption_id": caption,
                        "image_id": task.image_id,
                        "split": task.image_id.partition("_")[0],
                        "words": tokens[caption][span.first : span.last],
                        "chain": chain,
                        "type": span.kind,
                    }
                )
                boxes += [(task.image_id, chain, *places[thing]) for thing in things]
    unique_boxes = list(dict.fromkeys(boxes))
    return PhraseTables(
        pd.DataFrame(phrases, columns=PHRASES.names),
        pd.DataFrame(unique_boxes, columns=PHRASE_BOXES.names),
    )


def mentions_in_scene(
    task: Task, world: World, options: ShapesConfig
) -> tuple[list[Box], list[list[Mention]]]:
    """Boxes of a scene's objects, and the mentions of each caption.

    Args:
        task: the scene, and the seeds of its captions.
        world: what the scene's words stand for.
        options: size of the image, and what may be told.

    Returns:
        x1, y1, x2, y2 of each object in pixels, in the scene's order; and a list of mentions for
        each caption.
    """
    boxes = [box(thing, world, options.image_size) for thing in task.scene.things]
    return boxes, list(map(mentions, spoken(task, boxes, world=world, options=options)))
