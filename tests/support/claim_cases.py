"""Small ledgers and kept runs for the tests of claims.

`row` is a run as claims.tsv keeps it, `kept` a folder with such runs and their ranks, `state` which
runs one commit of the code has.
"""

import numpy as np

from vse_workbench.claims.ledger import FIGURES, Ledger
from vse_workbench.claims.queue import Plan
from vse_workbench.claims.ranks import KeptRanks, write_ranks
from vse_workbench.claims.results import Kept, Row, State

SEEDS = [1, 2, 3]
COMMIT = "e" * 12


def ledger(**claim):
    """Three settings of vse, one of cca, one claim `wider` that `claim` changes."""
    return Ledger.model_validate(content(**claim))


def content(**claim):
    return {
        "seeds": SEEDS,
        "search": {"factors": [0.5, 1.0, 3.0], "keys": {"two_branch": ["two_branch.lr"]}},
        "measures": {
            "r1": ["i2t.r1", "t2i.r1"],
            "less": ["t2i.r1", "-i2t.r1"],
            "map": ["i2t.mapr"],
        },
        "datasets": {"world": {"title": "the world", "has": {"train_images": 60, "words": "few"}}},
        "settings": {
            "narrow": {"model": "vse", "set": {"vse.dim": 8}},
            "wide": {"base": "narrow", "set": {"vse.dim": 16}},
            "csls": {"base": "wide", "criterion": "csls"},
            "cca": {"model": "cca"},
            "searched": {"model": "two_branch"},
        },
        "claims": {
            "wider": {
                "paper": "A paper",
                "place": "table 1",
                "says": "Wide is ahead.",
                "first": "wide",
                "second": "narrow",
                "measure": "r1",
                "datasets": ["world"],
                "published": {"on": "Flickr30k", "first": [35.0, 25.0], "second": [30.0, 20.0]},
            }
            | claim
        },
    }


def row(setting, seed, i2t=50.0, t2i=50.0, **changed):
    """A kept run; every figure but R@1 is the seed."""
    figures = dict.fromkeys(FIGURES, float(seed)) | {"i2t.r1": i2t, "t2i.r1": t2i}
    values = {"setting": setting, "dataset": "world", "seed": seed, "factor": 1.0}
    values |= {"regularisation": 0}
    values |= {"digest": setting[:12], "corpus": "c" * 12, "code": "d" * 12, "trained": ""}
    values |= {"commit": COMMIT}
    values |= {"minutes": 2.5, "val_rsum": 100.0, "best_epoch": 4, "last_epoch": 7, "cap": 30}
    return Row(**(values | {"outcome": "", "figures": figures} | changed))


def planned(setting, model="two_branch", **params):
    ends_in = "naive", f"evaluate@{model}", ()
    return Plan(setting, "world", params, *ends_in, setting[:12], "d" * 12, "t" * 12)


def state(*rows, commit=COMMIT):
    """The state of the code that made these runs."""
    return State(commit, frozenset(one.key for one in rows))


def kept(folder, rows, states=None):
    """Rows with ranks of their own beside them, all of one state of the code."""
    found = Kept(folder / "claims.tsv", list(rows), states or [state(*rows)])
    for one in rows:
        write_ranks(found.ranks / one.ranks, ranks(one.seed))
    return found


def ranks(seed, images=20, captions=2):
    """Drawn ranks of all test images and captions."""
    random = np.random.default_rng(seed)
    groups = {"i2t": np.arange(images), "t2i": np.repeat(np.arange(images), captions)}
    drawn = {way: random.integers(0, 15, len(own)) for way, own in groups.items()}
    return KeptRanks(drawn, groups)
