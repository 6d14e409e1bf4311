"""Small ledgers and kept runs for the tests of claims."""

from vse_workbench.claims.ledger import FIGURES, Ledger, setting_digest
from vse_workbench.claims.results import Row


def ledger(**claim):
    """Three settings of vse, one of cca, one claim `wider` that `claim` changes."""
    return Ledger.model_validate(content(**claim))


def content(**claim):
    return {
        "measures": {"rsum": ["rsum"], "less": ["t2i.r1", "-i2t.r1"]},
        "datasets": {"world": {"title": "the world"}},
        "settings": {
            "narrow": {"model": "vse", "set": {"vse.dim": 8}},
            "wide": {"base": "narrow", "set": {"vse.dim": 16}},
            "csls": {"base": "wide", "criterion": "csls", "set": {"inference.criteria": ["csls"]}},
            "cca": {"model": "cca"},
        },
        "claims": {
            "wider": {
                "paper": "A paper",
                "place": "table 1",
                "says": "Wide is ahead.",
                "first": "wide",
                "second": "narrow",
                "measure": "rsum",
                "published": {"on": "Flickr30k", "first": [320.0], "second": [310.0]},
            }
            | claim
        },
    }


def row(setting, seed, rsum, *, ledger_=None, dataset="world", **changed):
    """A kept run; every figure but rsum is the seed."""
    figures = dict.fromkeys(FIGURES, float(seed)) | {"rsum": float(rsum)}
    digest = setting_digest(ledger_ or ledger(), setting, dataset)
    values = {"setting": setting, "dataset": dataset, "seed": seed, "digest": digest}
    values |= {"corpus": "c" * 12, "code": "d" * 12, "commit": "e" * 12, "figures": figures}
    return Row(**(values | changed))


def lock(dim=16, seed=0, corpus="c", features="f", code="v", metrics="", trained_on=None):
    """A dvc.lock of vse: corpus, features, training, scores, evaluation; digests by a letter."""
    tables = [
        {"path": f"data/corpus/{name}.parquet", "md5": corpus} for name in ("images", "captions")
    ]

    def file(path, md5):
        return {"path": path, "md5": md5}

    def stage(deps, outs, **params):
        return {"deps": deps, "outs": outs, "params": {"params.yaml": params}}

    return {
        "check_params": stage([], [file("data/.checks/params.ok", "k")], seed=77, vse={"dim": 77}),
        "prepare_corpus": stage(
            [file("data/.checks/params.ok", "k"), file("pipeline/readers", "r")],
            list(tables),
            **{"seed": seed, "shapes.seed": 0},
        ),
        "extract": stage(
            [*tables, file("pipeline/storage", "s")], [file("data/image.h5", features)], seed=seed
        ),
        "train@vse": stage(
            [*tables, file("data/image.h5", trained_on or features), file("models/vse", code)],
            [file("data/checkpoint", "m")],
            vse={"dim": dim},
            seed=seed,
        ),
        "score@vse": stage([*tables, file("data/checkpoint", "m")], [file("data/scores", "s")]),
        "evaluate@vse": stage(
            [file("data/scores", "s")], [file("metrics/vse.json", metrics)], seed=seed
        ),
        "train@scan": stage([], [file("data/scan", "x")], scan={"dim": 1}, seed=99),
    }
