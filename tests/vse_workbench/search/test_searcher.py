"""Criteria of single queries are those of a set that holds one query more."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from indexed import NETWORKS
from PIL import Image

from pipeline.evaluation.criterion import Criterion
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import read_scores
from vse_workbench.search.searcher import Question, Reranker, Searcher, scored_models

CPU = torch.device("cpu")


def csls(scores, k):
    """Equation 6 of the kNN-margin paper, (queries, items), by loops in float64."""
    scores = scores.astype(np.float64)
    queries = [np.sort(row)[-k:].mean() for row in scores]
    items = [np.sort(column)[-k:].mean() for column in scores.T]
    rows, columns = scores.shape
    return np.array(
        [[2 * scores[q, i] - queries[q] - items[i] for i in range(columns)] for q in range(rows)]
    )


def inverted_softmax(scores, beta):
    exponents = np.exp(beta * scores.astype(np.float64))
    return np.log(exponents / exponents.sum(0))


CASES = {
    "csls": (Criterion("csls", k=3), lambda scores: csls(scores, 3)),
    "inverted_softmax": (
        Criterion("inverted_softmax", beta=7.0),
        lambda scores: inverted_softmax(scores, 7.0),
    ),
}


def check_answer(found, ids, expected):
    """The hits have the expected scores (N,) of these ids, best first."""
    literal = dict(zip(ids, expected, strict=True))
    assert {hit.name: hit.score for hit in found} == pytest.approx(literal, abs=1e-4)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.mark.parametrize(("model", "name"), [("vse", "inverted_softmax"), ("scan", "csls")])
def test_a_text_is_one_query_more(read_only, model, name):
    criterion, literal = CASES[name]
    searcher, stored = Searcher(model, CPU), read_scores(f"data/scores/{model}.h5", "test")
    captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")
    text = captions.loc["val0.png#0", "text"]
    own = {hit.name: hit.score for hit in searcher.of_text(text, Question(top=50)).hits}
    queries = np.vstack([stored.scores.T, [own[name] for name in stored.image_ids]])
    found = searcher.of_text(text, Question(top=50, criterion=criterion)).hits
    check_answer(found, stored.image_ids, literal(queries)[-1])


@pytest.mark.parametrize("name", CASES)
def test_an_image_is_one_query_more(read_only, name):
    criterion, literal = CASES[name]
    searcher, stored = Searcher("vse", CPU), read_scores("data/scores/vse.h5", "test")
    image = Image.open("val1.png").convert("RGB")
    own = {hit.name: hit.score for hit in searcher.of_image(image, Question(top=50)).hits}
    queries = np.vstack([stored.scores, [own[name] for name in stored.caption_ids]])
    found = searcher.of_image(image, Question(top=50, criterion=criterion)).hits
    check_answer(found, stored.caption_ids, literal(queries)[-1])


def test_sets_are_not_assigned_by_single_queries(read_only):
    question = Question(criterion=Criterion("hungarian"))
    with pytest.raises(WorkbenchError, match="'hungarian': a single query is ranked by naive"):
        Searcher("vse", CPU).of_image(Image.open("val1.png").convert("RGB"), question)


def test_the_first_chooses_and_the_second_orders(read_only):
    vse, scan = Searcher("vse", CPU), Searcher("scan", CPU)
    both = Reranker("both", vse, scan, 4)
    texts = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")["text"]
    picture, every = Image.open("val1.png").convert("RGB"), Question(top=50)
    for ask in (lambda each, how: each.of_text(texts["val0.png#0"], how),
                lambda each, how: each.of_image(picture, how)):  # fmt: skip
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
