"""VSE-infinity on the token states of a transformer: their file, the training, and queries."""

import numpy as np
import pytest
import torch
from commands import fail, succeed
from model_runs import ModelRuns
from rankings import beyond_chance, rsum_of
from text_networks import write_clip, write_text_network
from tiny_inputs import PATHS, REGIONS, WORDS, write_tables

pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")

from models.vse_infinity.queries import embedder, queries
from pipeline.corpus.tables import load_captions
from pipeline.inputs.files import Inputs
from pipeline.inputs.states import StateInputs
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.groups import GroupFile
from stages.encode_tokens import main as encode_tokens
from vse_workbench.export.folder import finish, read_folder, write_folder

KNOWN = WORDS[:8]  # to the tokeniser: some captions have none of them
MADE = {"output": "states.h5", "encoder": "token_encoder.h5"}
STATES = {"words": "transformer", "sentences__transformer": {"model": "tiny", "batch_size": 7}}
MODEL = ModelRuns("vse_infinity", {"features": REGIONS, "states": MADE["output"]}, STATES)
CPU = torch.device("cpu")


def encode(folder, run=succeed):
    made = [word for name, path in MADE.items() for word in (f"--{name}", path)]
    return run(encode_tokens, folder, "--captions", PATHS["captions"], *made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    write_tables(folder)
    write_text_network(folder / "tiny", KNOWN)
    MODEL.set_params(folder)
    said = encode(folder)
    assert f"token states: {len(states_in(folder)[1]):,} x 16 of " in said
    return folder


def states_in(folder):
    """Tokens of each caption (M,), and the states of all (S, 16)."""
    file = GroupFile(folder / MADE["output"])
    return file.array("captions", "counts"), file.array("tokens", "states")


def bytes_in(folder):
    return [(folder / path).read_bytes() for path in MADE.values()]


@pytest.fixture(scope="module")
def trained(folder):
    """The files of queries, by their names, after a training and a scoring."""
    MODEL.train(folder, drop_words=0.3)
    MODEL.score(folder)
    others = {"token_encoder": MADE["encoder"], "checkpoint": "out/vse_infinity.safetensors"}
    return MODEL.paths(folder) | {key: folder / path for key, path in others.items()}


def test_the_file_has_the_library_s_token_embeddings_of_each_caption_alone(folder):
    from sentence_transformers import SentenceTransformer

    network = SentenceTransformer(str(folder / "tiny"), device="cpu", local_files_only=True)
    counts, stored = states_in(folder)
    assert (counts.min(), counts.max(), counts.sum()) == (0, 6, len(stored))
    captions = load_captions(folder / PATHS["captions"])["tokens"]
    for words, own in zip(captions, np.split(stored, counts.cumsum()[:-1]), strict=True):
        text = " ".join(word for word in words if word in KNOWN)
        expected = network.encode([text], output_value="token_embeddings")[0]
        np.testing.assert_allclose(own, expected[: len(own)], rtol=1e-3, atol=1e-3)
        assert len(own) == (len(expected) if text else 0)
    first = bytes_in(folder)
    encode(folder)
    assert first == bytes_in(folder)


def test_rows_are_padded_states_of_their_captions(folder):
    read = StateInputs(Inputs(**MODEL.paths(folder)))
    counts, stored = states_in(folder)
    table = load_captions(folder / PATHS["captions"])
    nothing = int(np.flatnonzero(counts == 0)[0])
    rows = [7, nothing, 5]
    padded, lengths = read.captions(table.iloc[rows])(np.array([2, 0, 1]))
    for own, length, row in zip(padded.numpy(), lengths, (5, 7, nothing), strict=True):
        start = counts[:row].sum()
        np.testing.assert_array_equal(own[:length], stored[start : start + counts[row]])
        assert not own[length:].any()
    assert read.captions(table.iloc[[nothing]])(np.array([0]))[0].shape == (1, 1, 16)
    with pytest.raises(WorkbenchError, match="no token states of nobody"):
        read.captions(table[:1].assign(caption_id="nobody"))


def test_a_training_changes_the_projection_and_learns(folder, trained):
    before = MODEL.prepared(folder).model.network.text.weight
    after = MODEL.checkpoint(folder).weights["text.weight"]
    assert before.shape == after.shape == (8, 16)
    assert (before.cpu() - after).abs().max() > 0.01
    scores = MODEL.scores(folder)
    assert rsum_of(scores) > beyond_chance(scores)


@pytest.mark.parametrize("exported", [False, True])
def test_a_query_equals_the_stored_caption(folder, trained, tmp_path, exported):
    """Of a corpus and, likewise, of an exported folder."""
    files, checkpoint = trained, MODEL.checkpoint(folder)
    if exported:
        finish(tmp_path, write_folder(tmp_path, trained, checkpoint))
        _, files, checkpoint = read_folder(tmp_path)
    scores, told = MODEL.scores(folder), []
    words = load_captions(folder / PATHS["captions"]).set_index("caption_id")["tokens"]
    made, of_many = (make(files, checkpoint, CPU) for make in (queries, embedder))
    rows = [row for row, name in enumerate(scores.caption_ids) if {*words[name]} & {*KNOWN}]
    stored = scores.caption_embeddings[rows]
    texts = [words[scores.caption_ids[row]] for row in rows]
    alone = np.stack([made.of_words(text, None, told.append).vector for text in texts])
    np.testing.assert_allclose(alone, stored, atol=2e-3)
    np.testing.assert_allclose(of_many.embed(texts), stored, atol=2e-3)
    assert any("unknown words, left out: w8" in line for line in told)
    assert (of_many.knows("w1"), of_many.knows("w9")) == (True, False)
    with pytest.raises(WorkbenchError, match="no word of the query is known"):
        made.of_words(["w9"], None)


def test_what_does_not_belong_is_refused(folder, trained, tmp_path):
    checkpoint = MODEL.checkpoint(folder)
    with pytest.raises(WorkbenchError, match="token encoder sha256"):
        queries(trained | {"token_encoder": folder / REGIONS}, checkpoint, CPU)
    with pytest.raises(WorkbenchError, match="no such file"):
        queries(trained | {"token_encoder": folder / "none.h5"}, checkpoint, CPU)
    before = bytes_in(folder)
    try:
        MODEL.set_params(folder, sentences__transformer={"model": "tiny", "batch_size": 8})
        assert "sentences.transformer.batch_size = 7 (params.yaml: 8)" in MODEL.refused(folder)
        write_clip(tmp_path / "clip")
        MODEL.set_params(folder, sentences__transformer={"model": str(tmp_path / "clip")})
        assert "clip: gives vectors of texts alone, none of tokens" in encode(folder, fail)
        MODEL.set_params(folder, words="gru")
        encode(folder)
        assert all(len(content) < 4096 for content in bytes_in(folder))
        MODEL.set_params(folder)
        assert "it was made with vse_infinity.words: gru" in MODEL.refused(folder)
    finally:
        for path, content in zip(MADE.values(), before, strict=True):
            (folder / path).write_bytes(content)
        MODEL.set_params(folder)
