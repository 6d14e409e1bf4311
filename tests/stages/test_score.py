"""`python -m stages.score vse`: the scores, where the sizes come from, and what must fit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from commands import invoke
from tiny_inputs import (
    DIM,
    IMAGES,
    WORDS,
    options,
    write_image_features,
    write_inputs,
    write_vocabulary,
)

from models.base.registry import models_with
from models.vse.network import VSE
from pipeline.corpus.tables import in_split, load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.evaluation.file import read_query_ranks
from pipeline.runtime.yaml_text import read_yaml
from pipeline.scores.file import EMBEDDINGS, TEXTS, read_scores
from pipeline.storage.checkpoint import Description, feature_identity, write_checkpoint
from pipeline.storage.features import FeatureFile
from pipeline.storage.groups import GroupFile
from stages.evaluate import main as evaluate
from stages.score import main

ROOT = Path(__file__).resolve().parents[2]

COMMAND = ["vse", *options(), "--checkpoint", "vse.safetensors", "--output", "vse.h5"]
SIZES = {"image_dim": DIM, "vocabulary_size": len(WORDS) + 2}
SIZES |= {"word_dim": 6, "hidden": 5, "dim": 7}


@pytest.fixture
def folder(tmp_path):
    """Inputs, and a checkpoint with drawn weights."""
    write_inputs(tmp_path)
    torch.manual_seed(0)
    inputs = {"vocabulary_sha256": Vocabulary.load(tmp_path / "vocabulary").sha256}
    inputs |= feature_identity(FeatureFile(tmp_path / "image.h5").attributes)
    description = Description(
        model="vse", architecture=SIZES, params={}, inputs=inputs, epoch=1, val_rsum=1.0
    )
    write_checkpoint(tmp_path / "vse.safetensors", VSE(**SIZES).state_dict(), description)
    return tmp_path


def test_scores_are_the_models_cosines(folder):
    assert invoke(main, folder, *COMMAND)[0] == 0
    torch.manual_seed(0)
    model, file = VSE(**SIZES).eval(), FeatureFile(folder / "image.h5")
    words = Vocabulary.load(folder / "vocabulary")
    captions = load_captions(folder / "corpus/captions.parquet")
    for split in ("val", "test"):
        scores = read_scores(folder / "vse.h5", split)
        table = in_split(captions, split)
        assert list(scores.image_ids) == [f"{split}{i}" for i in range(IMAGES[split])]
        assert list(scores.caption_ids) == table["caption_id"].tolist()
        assert list(scores.caption_image_ids) == table["image_id"].tolist()
        assert scores.scores.dtype == np.float32
        for row, image in enumerate(scores.image_ids):
            features = torch.from_numpy(file.read(file.rows([image]))).float()
            for column, caption in enumerate(table["tokens"]):
                tokens = torch.tensor([words.encode(caption)])
                with torch.no_grad():
                    one = model(features, tokens, torch.tensor([len(caption)])).item()
                assert scores.scores[row, column] == pytest.approx(one, abs=1e-6)
        product = scores.image_embeddings @ scores.caption_embeddings.T
        np.testing.assert_allclose(scores.scores, product, atol=1e-6)


def test_kept_embeddings_are_evaluated_as_the_scores_are(folder):
    for kind in ("scores", "embeddings"):
        arguments = [word.replace("vse.h5", f"{kind}/vse.h5") for word in COMMAND]
        assert invoke(main, folder, *arguments, "--keep", kind)[0] == 0
        files = ["--metrics", f"{kind}.json", "--ranks", f"{kind}-ranks/vse.h5"]
        code, message = invoke(evaluate, folder, "--scores", f"{kind}/vse.h5", *files)
        assert code == 0, message
    held, kept = (read_scores(folder / f"{k}/vse.h5", "test") for k in ("scores", "embeddings"))
    assert GroupFile(folder / "embeddings/vse.h5").names("test") == {*TEXTS, *EMBEDDINGS}
    np.testing.assert_array_equal(held.scores, kept.matrix)
    assert (folder / "scores.json").read_bytes() == (folder / "embeddings.json").read_bytes()
    found = [read_query_ranks(folder / f"{kind}-ranks/vse.h5", "inverted_softmax").t2i.measured
             for kind in ("scores", "embeddings")]  # fmt: skip
    np.testing.assert_array_equal(found[0].ranks, found[1].ranks)


def test_the_models_of_vectors_are_those_that_dvc_hands_the_choice():
    models = read_yaml(ROOT / "dvc.yaml")["stages"]["train"]["foreach"]
    handed = [name for name, item in models.items() if "keep" in item["scoring"]]
    assert handed == models_with("model", "score_vectors")
    assert {models[name]["scoring"]["keep"] for name in handed} == {"${scoring.keep}"}


def test_another_vocabulary_is_refused(folder):
    write_vocabulary(folder, WORDS[::-1])
    code, message = invoke(main, folder, *COMMAND)
    assert code == 1
    assert "does not fit its inputs: vocabulary sha256" in message


def test_features_of_another_network_are_refused(folder):
    ids = FeatureFile(folder / "image.h5").ids
    values = np.ones((len(ids), DIM), np.float16)
    write_image_features(folder, ids, values, layer="layer2", weights_sha256="c" * 64)
    code, message = invoke(main, folder, *COMMAND)
    assert code == 1
    assert "features layer layer2 (trained with layer1)" in message
    assert "features weights sha256 cccc" in message


def test_missing_checkpoint(folder):
    (folder / "vse.safetensors").unlink()
    code, message = invoke(main, folder, *COMMAND)
    assert code == 1
    assert "vse.safetensors: no such checkpoint" in message
