"""`vse search`: what it finds is what the scores say of the corpus's own captions and
images, and everything that does not fit is a plain error."""

import itertools
import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from commands import fail, run_command, succeed
from corpora import change_params
from indexed import (
    NETWORKS,
    as_options,
    describe_regions,
    draw_weights,
    files_of,
    lose_photographs,
    put_detector,
    put_scores,
    small_params,
)
from PIL import Image
from tiny_inputs import WORDS, write_vocabulary

from pipeline.evaluation.score_file import read_scores
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.graph import stage_paths
from stages import build_index, encode_sentences, extract_image_features
from vse_workbench.commands.search import main


def listed(result):
    assert result.returncode == 0, result.stderr
    rows = [line.split(None, 3) for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(rank) for rank in range(1, len(rows) + 1)]
    return [(row[2], float(row[1])) for row in rows]


def by_hand(ids, scores):
    """Brute force: every id with its score, sorted."""
    return sorted(zip(ids, scores.tolist(), strict=True), key=lambda pair: -pair[1])


def check_same(found, expected):
    """The same scores as printed, and the same order wherever scores differ by more than noise."""
    assert [score for _, score in found] == pytest.approx([s for _, s in expected], abs=2e-3)
    exact = dict(expected)
    order = [exact[name] for name, _ in found]
    assert all(a >= b - 1e-3 for a, b in itertools.pairwise(order))
    assert len({name for name, _ in found}) == len(expected)


def refused(arguments, *words):
    """At most two lines: one says why, another what to do."""
    said = fail(main, ".", *arguments)
    assert len(said.splitlines()) <= 2
    assert all(word in said for word in words), said


@pytest.mark.parametrize("model", NETWORKS)
def test_a_stored_caption_finds_what_its_column_says(folder, model):
    captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")
    for split in ("test", "val"):
        scores = read_scores(f"data/scores/{model}.h5", split)
        for column in (0, 3):
            text = captions.loc[scores.caption_ids[column], "text"]
            result = run_command(main, text, "--model", model, "--top", 50, "--split", split)
            expected = by_hand(scores.image_ids, scores.scores[:, column])
            assert np.ptp(scores.scores[:, column]) > 0.02  # else any order would do
            check_same(listed(result), expected)


@pytest.mark.parametrize("model", [model for model in NETWORKS if model != "cca"])
def test_a_stored_image_finds_what_its_row_says(folder, model):
    scores = read_scores(f"data/scores/{model}.h5", "test")
    shutil.copy(scores.image_ids[4], "elsewhere.png")
    result = run_command(main, "--image", "elsewhere.png", "--model", model, "--top", 50)
    check_same(listed(result), by_hand(scores.caption_ids, scores.scores[4]))
    captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")
    for line in result.stdout.splitlines():
        _, _, name, text = line.split(None, 3)
        assert text == f'"{captions.loc[name, "text"]}"'


@pytest.mark.parametrize("model", NETWORKS)
def test_unknown_words_are_named_on_standard_error(folder, model):
    text = f"{WORDS[3]} zebra {WORDS[5]} yak zebra"
    result = run_command(main, text, "--model", model, "--top", 3)
    assert len(listed(result)) == 3
    assert "zebra, yak\n" in result.stderr
    assert "zebra" not in result.stdout
    refused(["zebra yak", "--model", model], "no word of the query is known", "zebra, yak")
    quiet = run_command(main, WORDS[3], "--model", model)
    assert "unknown" not in quiet.stderr
    assert "<unk>" not in quiet.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["", "--model", "vse"], "the query is empty"),
        (["?!", "--model", "vse"], "'?!' has no words"),
        (["w1", "--image", "test0.png", "--model", "vse"], "either a text or --image"),
        (["w1", "--model", "gpt"], "model 'gpt': allowed are adapter, cca, dp_rnn, dual_path"),
        (["w1", "--model", "vse", "--split", "train"], "split 'train'"),
        (["--image", "params.yaml", "--model", "vse"], "params.yaml: not an image"),
        (["--image", "none.png", "--model", "vse"], "none.png: no such file"),
        (["--image", "long.png", "--model", "vse"], "times as long as wide"),
        (["--image", "long.png", "--model", "scan"], "times as long as wide"),
    ],
)
def test_queries_that_cannot_be_answered(folder, arguments, words):
    Image.new("RGB", (400, 3)).save("long.png")
    refused(arguments, words)


@pytest.mark.parametrize("model", ["scan", "dp_rnn"])
def test_the_model_orders_what_the_vectors_chose(folder, model):
    scores = read_scores(f"data/scores/{model}.h5", "test")
    captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")
    near = scores.image_embeddings @ scores.caption_embeddings.T
    column = int(
        np.argmin([np.corrcoef(*pair)[0, 1] for pair in zip(near.T, scores.scores.T, strict=True)])
    )
    chosen = np.argsort(-near[:, column])[:4]
    expected = by_hand([scores.image_ids[row] for row in chosen], scores.scores[chosen, column])
    text = captions.loc[scores.caption_ids[column], "text"]
    result = run_command(main, text, "--model", model, "--shortlist", 4, "--top", 3)
    check_same(listed(result), expected[:3])
    assert expected != by_hand(scores.image_ids, scores.scores[:, column])[:4]
    wide = run_command(main, text, "--model", model, "--shortlist", 1, "--top", 9)  # at least --top
    check_same(listed(wide), by_hand(scores.image_ids, scores.scores[:, column]))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("vse", "image.h5: not made by the network of"),
        ("scan", "regions.h5: not found by the detector of"),
    ],
)
def test_a_query_image_needs_the_network_of_the_features(folder, model, words):
    names = ("images", "detector", "output", "network")
    paths = stage_paths("extract_image_features", names)
    small_params(folder, layers=["layer2"])
    succeed(extract_image_features.main, folder, *as_options(paths | {"output": "o.h5"}))
    put_detector(1)
    question = ["--image", "test0.png", "--model", model]
    refused(question, words)
    assert run_command(main, "w1", "--model", model).returncode == 0  # a text does not need it
    if model == "scan":
        stage_paths("extract_region_features", ("detector",))["detector"].unlink()
        refused(question, "detector.safetensors: no such detector")


def test_regions_of_another_tool_answer_texts_alone(folder):
    said = FeatureFile(files_of("scan")["features"]).attributes["params"]
    settings = json.dumps(json.loads(said) | {"source": "tsv"})
    describe_regions(params=settings, model="imported from tsv")
    change_params(folder, regions={"source": "tsv", "path": "params.yaml"})
    draw_weights("scan")
    put_scores("scan")
    assert len(listed(run_command(main, "w1", "--model", "scan", "--top", 2))) == 2
    question = ["--image", "test0.png", "--model", "scan"]
    refused(question, "regions come from another tool (tsv)")


def test_parts_that_do_not_fit_each_other(folder):
    write_vocabulary(folder / "data", WORDS[::-1])
    refused(["w1", "--model", "vse"], "does not fit its inputs: vocabulary sha256")
    question = ["w1", "--model", "two_branch"]
    shutil.copy("data/scores/two_branch.h5", "data/features/sentence_encoder.h5")
    refused(question, "not the encoder of")
    (folder / "data/features/sentence_encoder.h5").unlink()
    refused(question, "sentence_encoder.h5: no such file")
    shutil.copy("data/scores/two_branch.h5", "data/scores/cca.h5")
    refused(["w1", "--model", "cca"], "not made with the weights of the checkpoint")


def test_an_index_is_built_and_searched_where_params_ask_for_one(folder, monkeypatch):
    """It brings all nine images, so that what is found is what exact search finds."""
    questions = [["w1 w2", "--model", "vse"], ["w1 w2", "--model", "scan", "--shortlist", 9]]
    exact = [listed(run_command(main, *question)) for question in questions]
    change_params(folder, search={"index": "hnsw", "models": ["vse", "scan"]})
    for question, expected in zip(questions, exact, strict=True):
        result, model = run_command(main, *question), question[2]
        assert listed(result) == expected
        line = "no index yet, all vectors are compared; build it with: dvc repro build_index@"
        assert f"{model}: {line}{model}\n" in result.stderr
        paths = stage_paths("build_index", ("scores", "output"), model)
        built = run_command(build_index.main, model, *as_options(paths))
        assert f"{model}: hnsw of 9 test images, of 18 queries recall@1 1.000" in built.stderr
        result = run_command(main, *question)
        assert "index" not in result.stderr
        check_same(listed(result), expected)
    few = run_command(main, "w1", "--model", "vse", "--shortlist", 2, "--top", 2)
    assert len(listed(few)) == 2
    monkeypatch.setitem(sys.modules, "faiss", None)
    refused(questions[0], "faiss is not installed", "pip install --editable '.[search]'")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    put_scores("vse")
    assert run_command(main, *questions[0]).returncode == 0  # the same scores again
    draw_weights("vse", 1)
    put_scores("vse")
    refused(questions[0], "an index of other image embeddings", "dvc repro build_index@vse")
    change_params(folder, search={"index": "flat", "models": []})
    assert run_command(main, *questions[0]).returncode == 0
    result = run_command(build_index.main, "vse", *as_options(paths))
    assert "exact search needs no index" in result.stderr


def test_the_best_model_searches_where_none_is_named(folder):
    chosen, best = run_command(main, "w1 w2", "--model", "scan"), run_command(main, "w1 w2")
    assert listed(best) == listed(chosen)
    assert best.stderr.startswith(
        "searching with scan, which has the largest validation rsum (2.0) of cca, dp_rnn, "
        "dual_path, scan, two_branch, vse, vse_infinity; --model chooses another\n"
    )


def test_a_query_shows_no_progress_of_its_encoder(folder):
    fisher = {"mixture": "gmm", "centres": 2, "ica": "none", "pca": "none", "iterations": 2}
    change_params(folder, sentences={"encoding": "fisher", "fisher": fisher})
    names = ("captions", "vocabulary", "output", "encoder")
    paths = stage_paths("encode_sentences", names)
    said = succeed(encode_sentences.main, folder, *as_options(paths))
    assert "Fisher table: " in said
    draw_weights("two_branch", sentence_dim=24)
    put_scores("two_branch")
    assert "Fisher" not in run_command(main, "w1 w2", "--model", "two_branch").stderr


def test_a_program_and_the_page_show_the_same(folder):
    question = ["w1 w2", "--model", "vse", "--top", 3]
    names = [name for name, _ in listed(run_command(main, *question, "--html", "out.html"))]
    found = json.loads(run_command(main, *question, "--json").stdout)
    assert [hit["id"] for hit in found] == names
    assert [hit["rank"] for hit in found] == [1, 2, 3]
    assert set(found[0]) == {"rank", "score", "id", "text", "path"}
    written = (folder / "out.html").read_text()
    assert [written.index(name) for name in names] == sorted(map(written.index, names))
    image = ["--image", folder / "test2.png", "--model", "vse", "--top", 2, "--html", "out.html"]
    assert len(listed(run_command(main, *image))) == 2
    written = (folder / "out.html").read_text()
    assert written.count('src="data:image/jpeg;base64,') == 3  # the query's own, too
    assert str(folder) not in written


def test_images_without_files_are_shown_by_their_ids(folder):
    lose_photographs()
    result = run_command(main, "w1 w2", "--model", "vse", "--top", 3, "--html", "out.html")
    names = [name for name, _ in listed(result)]
    assert len(names) == 3
    assert "out.html: 3 results\n" in result.stderr
    written = (folder / "out.html").read_text()
    assert all(name in written for name in names)
    assert "<img" not in written
    found = json.loads(run_command(main, "w1 w2", "--model", "vse", "--json").stdout)
    assert {hit["path"] for hit in found} == {""}
