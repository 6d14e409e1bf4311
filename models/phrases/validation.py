"""What is said of every epoch: how many phrases of the validation split are found."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from models.phrases.data import OpenedPhrases
from models.phrases.scoring import phrase_scores
from pipeline.phrases.found import first_ranks, recalls, search_of
from pipeline.training.phases import EpochVerdict, Row

EQUAL = 1e-3  # deviation of a phrase's scores: nothing is told apart


class PhraseValidation:
    """The validation split, searched by a network as it is."""

    def __init__(self, network: Any, opened: OpenedPhrases, device: torch.device) -> None:
        self.network, self.opened, self.device = network, opened, device
        self.searched = search_of(opened.tables, "val", opened.proposals)
        self.hits = self.searched.hits()

    def __call__(self) -> np.ndarray:
        """Scores (Q, R) of the proposals."""
        files = self.opened.proposals, self.opened.vectors
        return phrase_scores(self.network, self.searched, *files, self.device)

    def judged(self, scores: Any, history: Sequence[Row]) -> EpochVerdict:
        """The largest sum of R@1, R@5 and R@10 of scores (Q, R) is the best."""
        recalled = recalls(first_ranks(scores, self.hits))
        spread = float(np.mean([row[np.isfinite(row)].std() for row in scores]))
        total = sum(recalled.values())
        columns = {"val_rsum": total} | {f"val_{name}": v for name, v in recalled.items()}
        columns["val_spread"] = spread
        collapsed = f"the scores of a phrase's regions are equal (deviation {spread:.2g})"
        note = f"validation R@1 {recalled['r1']:.1f}, R@1 + R@5 + R@10 {total:.1f}"
        return EpochVerdict(columns, note, total, collapsed if spread < EQUAL else "")
