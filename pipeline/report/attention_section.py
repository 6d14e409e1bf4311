"""The attention that a model's file kept, as the page shows it: checked against page and corpus."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.attention.pairs import RankedPair, read_attention
from pipeline.report.attention import AttentionFigure, attention_figure
from pipeline.report.shelf import REMEDY, Shelf
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.groups import GroupFile


def attention_figures(path: Path, weights: str | None, shelf: Shelf) -> list[AttentionFigure]:
    """Pictures of the true pairs of an attention file and of one wrong pair that ranked first.
    weights: digest of the checkpoint that made the model's scores, and must have made the file."""
    if GroupFile(path).attributes.get("checkpoint_sha256") != weights:
        raise WorkbenchError(f"{path}: made with other weights than the model's scores", REMEDY)
    pairs = shown_pairs(read_attention(path))
    images = [pair.attention.image_id for pair in pairs]
    captions = [pair.attention.caption_id for pair in pairs]
    shelf.check(path, images, captions)
    return [
        attention_figure(pair, shelf.path(image), shelf.caption(caption).text)
        for pair, image, caption in zip(pairs, images, captions, strict=True)
    ]


def shown_pairs(pairs: Sequence[RankedPair]) -> list[RankedPair]:
    """The true pairs, and the last of the wrong ones that rank first before its caption's own."""
    failed = [pair for pair in pairs if not pair.is_true and pair.place == 1][-1:]
    shown = [pair for pair in pairs if pair.is_true]
    for wrong in failed:
        captions = [pair.attention.caption_id for pair in shown]
        own = wrong.attention.caption_id
        shown.insert(captions.index(own) if own in captions else len(shown), wrong)
    return shown
