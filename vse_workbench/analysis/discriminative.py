"""Which words a model relies on: leave one word out of a caption and see what its image scores.

The image is fixed; where the score of the caption with its own image drops most, the word is
discriminative (Zheng et al. 2017, section "Does Text CNN learn discriminative words?", figure 11).
"""

import numpy as np
import pandas as pd

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from vse_workbench.search.embedder import QueryEmbedder

BLOCK = 32  # captions looked at in one go, with as many shorter ones as they have words
TOP = 3  # words of a caption that count as its discriminative ones, as in figure 11


def word_drops(
    embedder: QueryEmbedder, captions: pd.DataFrame, images: np.ndarray, block: int = BLOCK
) -> pd.DataFrame:
    """Leave every known word out of every caption of at least two known words, one at a time.

    Args:
        embedder: of the model's captions.
        captions: M rows of the captions table.
        images: (M, K) unit vectors of their images.
        block: captions looked at in one go.

    Returns:
        A row per word: caption_id, image_id, position (from 0), word, score (cosine of the whole
        caption with its image), drop (score minus that without the word), place (1 for the largest
        drop of its caption).

    Raises:
        WorkbenchError: no caption has two words that the model knows.
    """
    parts = []
    with Progress("leaving words out", len(captions), "captions") as progress:
        for start in range(0, len(captions), block):
            rows = captions.iloc[start : start + block]
            part = _drops_of(embedder, rows, images[start : start + len(rows)])
            parts += [part] if len(part) else []
            progress.update(len(rows))
    if not parts:
        raise WorkbenchError(
            "no caption has two words that the model knows: there is nothing to leave out",
            "is the vocabulary that of the corpus? bring both up to date with: dvc repro",
        )
    drops = pd.concat(parts, ignore_index=True)
    order = (-drops["drop"]).groupby(drops["caption_id"], sort=False)
    return drops.assign(place=order.rank(method="first").astype(np.int64))


def by_word(drops: pd.DataFrame) -> pd.DataFrame:
    """Drops by word, largest mean first: word, times (how often it was left out), drop (mean),
    spread (standard deviation), top (share of times among its caption's three largest drops)."""
    grouped = drops.assign(top=drops["place"] <= TOP).groupby("word")
    columns = {"times": grouped.size(), "drop": grouped["drop"].mean()}
    columns |= {"spread": grouped["drop"].std(ddof=0), "top": grouped["top"].mean()}
    table = pd.DataFrame(columns).reset_index().astype({"word": object})
    return table.sort_values(["drop", "word"], ascending=[False, True], ignore_index=True)


def _drops_of(embedder: QueryEmbedder, captions: pd.DataFrame, images: np.ndarray) -> pd.DataFrame:
    """The rows of some captions, each caption whole and shortened embedded in one call."""
    texts: list[list[str]] = []
    owners: list[int] = []
    rows: list[tuple[int, str, int]] = []
    for owner, words in enumerate(captions["tokens"]):
        known = [position for position, word in enumerate(words) if embedder.knows(word)]
        if len(known) > 1:
            rows += [(position, words[position], len(texts)) for position in known]
            texts += [list(words), *([*words[:p], *words[p + 1 :]] for p in known)]
            owners += [owner] * (1 + len(known))
    if not texts:
        return pd.DataFrame()
    scores = np.einsum("ck,ck->c", embedder.embed_texts(texts), images[owners])
    table = pd.DataFrame(rows, columns=["position", "word", "whole"])
    whole = table.pop("whole")
    left = np.setdiff1d(np.arange(len(texts)), whole)  # the texts that lack a word
    ids = captions[["caption_id", "image_id"]].iloc[np.array(owners)[left]].reset_index(drop=True)
    return ids.join(table).assign(score=scores[whole], drop=scores[whole] - scores[left])
