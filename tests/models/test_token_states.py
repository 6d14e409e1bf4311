"""VSE-infinity on the token states of a transformer: their file, the training, and queries."""

import numpy as np
import pytest
import torch
from commands import fail, succeed
from model_runs import ModelRuns
from safetensors.torch import load_file, save_file
from text_networks import write_clip, write_text_network
from tiny_inputs import PATHS, REGIONS, WORDS, write_tables

pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")


from pipeline.corpus.tables import load_captions
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError
from stages.encode_tokens import main as encode_tokens
from vse_workbench.export.folder import read_folder, write_config, write_folder
from vse_workbench.search.embedder import QueryEmbedder

KNOWN = WORDS[:8]  # to the tokeniser: some captions have none of them
MADE = {"output": "states.h5", "encoder": "token_encoder.h5"}
CHOSEN = {"words": "transformer", "sentences__transformer": {"model": "tiny", "batch_size": 7}}
MODEL = ModelRuns("vse_infinity", {"features": REGIONS, "states": MADE["output"]}, CHOSEN)
CPU = torch.device("cpu")


def encode(folder, run=succeed):
    made = [word for name, path in MADE.items() for word in (f"--{name}", path)]
    return run(encode_tokens, folder, "--captions", PATHS["captions"], *made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """After `encode_tokens`, by a network whose states tell words apart, and a training."""
    folder = tmp_path_factory.mktemp("states")
    write_tables(folder)
    path = write_text_network(folder / "tiny", KNOWN) / "model.safetensors"
    weights = load_file(path)
    for name in (name for name in weights if "LayerNorm" in name):
        weights[name].fill_(float(name.endswith("weight")))
    save_file(weights, path, {"format": "pt"})
    MODEL.set_params(folder)
    assert "x 16 of " in encode(folder)
    MODEL.train(folder, loss="sum_margin", drop_words=0.3, training__epochs=8)
    MODEL.score(folder)
    return folder


def test_the_file_has_the_library_s_token_embeddings_of_each_caption_alone(folder):
    from sentence_transformers import SentenceTransformer

    network = SentenceTransformer(str(folder / "tiny"), device="cpu", local_files_only=True)
    file = GroupFile(folder / MADE["output"])
    counts, states = file.array("captions", "counts"), file.array("tokens", "states")
    assert (counts.min(), counts.max(), counts.sum()) == (0, 6, len(states))
    captions = load_captions(folder / PATHS["captions"])
    assert file.texts("captions", "ids") == list(captions["caption_id"])
    for words, own in zip(captions["tokens"], np.split(states, counts.cumsum()[:-1]), strict=True):
        text = " ".join(word for word in words if word in KNOWN)
        (expected,) = network.encode([text], output_value="token_embeddings")
        assert len(own) == (len(expected) if text else 0)
        np.testing.assert_allclose(own, expected[: len(own)], rtol=1e-3, atol=1e-4)


def test_a_training_changes_the_projection_and_learns(folder):
    before, losses = MODEL.prepared(folder).model.text.weight, MODEL.curve(folder)["loss"]
    assert (before - MODEL.checkpoint(folder).weights["text.weight"]).abs().max() > 0.01
    assert losses.iloc[-1] < 0.8 * losses.iloc[0]


@pytest.mark.parametrize("exported", [False, True])
def test_a_query_equals_the_stored_caption(folder, tmp_path, exported):
    checkpoint, scores, told = MODEL.checkpoint(folder), MODEL.scores(folder), []
    files = {"checkpoint": checkpoint.path, "token_encoder": folder / MADE["encoder"]}
    files |= MODEL.paths(folder)
    if exported:
        write_config(tmp_path, write_folder(tmp_path, files, checkpoint))
        _, files, checkpoint = read_folder(tmp_path)
    table = load_captions(folder / PATHS["captions"]).set_index("caption_id")
    texts = list(table["tokens"][scores.caption_ids])
    known = np.array([not {*KNOWN}.isdisjoint(words) for words in texts])
    stored, asked = scores.caption_embeddings, QueryEmbedder("vse_infinity", files, checkpoint, CPU)
    alone = [asked.of_words(texts[row], None, told.append).vector for row in np.flatnonzero(known)]
    np.testing.assert_allclose(alone, stored[known], atol=2e-3)
    assert not stored[~known].any()
    assert "unknown words, left out: w8" in told
    with pytest.raises(WorkbenchError, match="no word of the query is known"):
        asked.of_words(["w9"], None)
    of_many = QueryEmbedder("vse_infinity", files, checkpoint, CPU)
    np.testing.assert_allclose(of_many.embed_texts(texts), stored, atol=2e-3)
    assert (of_many.knows("w1"), of_many.knows("w9")) == (True, False)
    for wrong, says in (("features", "token encoder sha256"), ("none", "no such file")):
        others = files | {"token_encoder": files.get(wrong, tmp_path / wrong)}
        with pytest.raises(WorkbenchError, match=says):
            QueryEmbedder("vse_infinity", others, checkpoint, CPU)


def test_states_of_other_settings_and_networks_without_any_are_refused(folder, tmp_path):
    before = [(folder / path).read_bytes() for path in MADE.values()]
    MODEL.set_params(folder, sentences__transformer={"model": "tiny", "batch_size": 8})
    assert "sentences.transformer.batch_size = 7 (params.yaml: 8)" in MODEL.refused(folder)
    MODEL.set_params(folder, sentences__transformer={"model": str(write_clip(tmp_path / "clip"))})
    assert "clip: gives vectors of texts alone, none of tokens" in encode(folder, fail)
    MODEL.set_params(folder, words="gru")
    encode(folder)
    MODEL.set_params(folder)
    assert "words: gru, it has no token states" in MODEL.refused(folder)
    encode(folder)
    assert before == [(folder / path).read_bytes() for path in MADE.values()]
