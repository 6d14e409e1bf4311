"""Criteria of single queries are those of a set that holds one query more."""

import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from indexed import NETWORKS
from PIL import Image

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.score_file import read_scores
from pipeline.runtime.errors import WorkbenchError
from vse_workbench.search.searcher import Question, Reranker, Searcher, scored_models

CPU = torch.device("cpu")


CRITERIA = {
    "csls": Criterion("csls", k=3),
    "inverted_softmax": Criterion("inverted_softmax", beta=7.0),
}


def check_answer(found, ids, expected):
    """The hits have the expected scores (N,) of these ids, best first."""
    literal = dict(zip(ids, expected, strict=True))
    assert {hit.name: hit.score for hit in found} == pytest.approx(literal, abs=1e-4)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize(("kind", "model"), [("text", "vse"), ("text", "scan"), ("image", "vse")])
def test_a_query_is_one_query_more(read_only, kind, model, name):
    criterion, stored = CRITERIA[name], read_scores(f"data/scores/{model}.h5", "test")
    searcher = Searcher(model, CPU)
    if kind == "text":
        captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")
        ask = partial(searcher.of_text, captions.loc["val0.png#0", "text"])
        scores, ids = stored.scores.T, stored.image_ids
    else:
        ask = partial(searcher.of_image, Image.open("val1.png").convert("RGB"))
        scores, ids = stored.scores, stored.caption_ids
    own = {hit.name: hit.score for hit in ask(Question(top=50)).hits}
    queries = np.vstack([scores, [own[name] for name in ids]])
    found = ask(Question(top=50, criterion=criterion)).hits
    check_answer(found, ids, criterion.rescored(queries, "i2t")[-1])


def test_sets_are_not_assigned_by_single_queries(read_only):
    question = Question(criterion=Criterion("hungarian"))
    with pytest.raises(WorkbenchError, match="'hungarian': a single query is ranked by naive"):
        Searcher("vse", CPU).of_image(Image.open("val1.png").convert("RGB"), question)


def test_the_first_chooses_and_the_second_orders(read_only):
    vse, scan = Searcher("vse", CPU), Searcher("scan", CPU)
    both = Reranker("both", vse, scan, 4)
    texts = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")["text"]
    picture, every = Image.open("val1.png").convert("RGB"), Question(top=50)
    for ask in (
        lambda each, how: each.of_text(texts["val0.png#0"], how),
        lambda each, how: each.of_image(picture, how),
    ):
        chosen = {hit.name for hit in ask(vse, every).hits[:4]}
        literal = {hit.name: hit.score for hit in ask(scan, every).hits if hit.name in chosen}
        answer = ask(both, every)
        check_answer(answer.hits, literal.keys(), literal.values())
        assert answer.notes == ["both orders the best 4 of its first model, no more"]
        with pytest.raises(WorkbenchError, match="both reranks: criterion naive alone"):
            ask(both, Question(criterion=Criterion("csls")))
    with pytest.raises(WorkbenchError, match=r"model of vectors first .*, not scan and vse"):
        Reranker("x", scan, vse, 4)


def test_models_that_have_scored(read_only, tmp_path, monkeypatch):
    assert sorted(NETWORKS) == list(scored_models())
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(read_only / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkbenchError, match="no scores of cca"):
        scored_models()
