"""`python -m stages.score vse`: the scores, where the sizes come from, and what must fit."""

import numpy as np
import pytest
from commands import succeed
from corpora import ROOT
from model_runs import VSE
from tiny_inputs import DIM, WORDS, write_image_features, write_inputs, write_vocabulary

from models.registry import model_names, models_that
from pipeline.evaluation.rank_file import read_query_ranks
from pipeline.evaluation.score_file import EMBEDDINGS, TEXTS, read_scores
from pipeline.features.feature_file import FeatureFile
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml
from stages.evaluate import main as evaluate
from stages.score import likeness, main


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    VSE.train(tmp_path)
    return tmp_path


def test_kept_embeddings_are_evaluated_as_the_scores_are(folder):
    for kind in ("scores", "embeddings"):
        arguments = [word.replace("out/vse.h5", f"{kind}/vse.h5") for word in VSE.scoring_command()]
        succeed(main, folder, *arguments, "--keep", kind)
        files = ["--metrics", f"{kind}.json", "--ranks", f"{kind}-ranks/vse.h5"]
        succeed(evaluate, folder, "--scores", f"{kind}/vse.h5", *files)
    held, kept = (read_scores(folder / f"{k}/vse.h5", "test") for k in ("scores", "embeddings"))
    assert GroupFile(folder / "embeddings/vse.h5").names("test") == {*TEXTS, *EMBEDDINGS}
    np.testing.assert_array_equal(held.scores, kept.matrix)
    assert (folder / "scores.json").read_bytes() == (folder / "embeddings.json").read_bytes()
    found = [
        read_query_ranks(folder / f"{kind}-ranks/vse.h5", "inverted_softmax").t2i.measured
        for kind in ("scores", "embeddings")
    ]
    np.testing.assert_array_equal(found[0].ranks, found[1].ranks)


def test_damaged_features_are_refused_though_only_their_correlation_is_needed(folder):
    succeed(main, folder, *VSE.scoring_command())
    features, split = folder / "image.h5", read_scores(folder / "out/vse.h5", "test")
    assert likeness(features, split).keys() == {"feature_correlation", "correlation"}
    content = bytearray(features.read_bytes())
    content[FeatureFile(features).layouts["features"].offset] ^= 1
    features.write_bytes(content)
    with pytest.raises(WorkbenchError, match="'features' do not match their sha256"):
        likeness(features, split)


def test_the_models_of_vectors_are_those_that_dvc_hands_the_choice():
    stages = read_yaml(ROOT / "dvc.yaml")["stages"]
    models = stages["train"]["foreach"]
    handed = [name for name, item in models.items() if "keep" in item["scoring"]]
    assert "--keep ${scoring.keep}" in stages["score_more"]["do"]["cmd"]
    more = set(model_names()) - set(models)
    assert {*handed, *more} == set(models_that(lambda kind: kind.VECTORS))
    assert {models[name]["scoring"]["keep"] for name in handed} == {"${scoring.keep}"}


def test_inputs_that_it_was_not_trained_with_are_refused(folder):
    ids = FeatureFile(folder / "image.h5").ids
    values = np.ones((len(ids), DIM), np.float16)
    write_image_features(folder, ids, values, layer="layer2", weights_sha256="c" * 64)
    message = VSE.not_scored(folder)
    assert "features layer layer2 (trained with layer1)" in message
    assert "features weights sha256 cccc" in message
    write_vocabulary(folder, WORDS[::-1])
    assert "does not fit its inputs: vocabulary sha256" in VSE.not_scored(folder)
    (folder / "out/vse.safetensors").unlink()
    assert "vse.safetensors: no such checkpoint" in VSE.not_scored(folder)
