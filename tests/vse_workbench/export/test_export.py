"""Exported models answer as the ones in the graph, anywhere, and say what is missing."""

import copy
import doctest
import io
import json
import os
import pickle
import re
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from clone import ROOT
from commands import run_command, succeed
from corpora import change_params
from indexed import NETWORKS, as_options, draw_weights, put_scores
from PIL import Image
from tiny_inputs import WORDS, write_vocabulary
from torch import nn
from torch.utils.data import DataLoader

import vse_workbench
from models.vse import VSE, VSEConfig
from pipeline.corpus.vocabulary import content_digest
from pipeline.evaluation.score_file import read_scores
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.split import Words
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.graph import stage_paths
from stages.encode_sentences import main as encode_sentences
from stages.evaluate import main as evaluate
from vse_workbench import Embedder
from vse_workbench.commands.export_model import main as export_model
from vse_workbench.commands.search import main as search
from vse_workbench.export.onnx import (
    BATCHES,
    LENGTHS,
    TOLERANCE,
    ImageSide,
    Traced,
    WordSide,
    open_sides,
    write_tower,
)

TOWERS = ["image_tower", "caption_tower"]
VECTORS = ("cca", "dual_path", "two_branch", "vse", "vse_infinity")


@pytest.fixture(scope="module")
def world(indexed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    shutil.copytree(indexed, folder, dirs_exist_ok=True)
    for name in NETWORKS:
        files = ["--metrics", f"metrics/{name}.json", "--ranks", f"data/ranks/{name}.h5"]
        succeed(evaluate, folder, "--scores", f"data/scores/{name}.h5", *files)
        succeed(export_model, folder, name, "--output", f"out/{name}")
    return folder


@pytest.fixture
def copied(world, tmp_path):
    return shutil.copytree(world / "out", tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_vectors_are_those_of_the_score_file(world, copied, name):
    scores = read_scores(world / f"data/scores/{name}.h5", "test")
    table = pd.read_parquet(world / "data/corpus/captions.parquet").set_index("caption_id")
    with chdir(copied):  # neither dvc.yaml nor params.yaml
        embedder = Embedder.load(name)
        images = embedder.images([world / image for image in scores.image_ids[:3]])
        captions = embedder.captions(table.loc[list(scores.caption_ids[:3]), "text"])
    assert embedder.model == name
    np.testing.assert_allclose(images, scores.image_embeddings[:3], atol=2e-3)
    np.testing.assert_allclose(captions, scores.caption_embeddings[:3], atol=2e-3)
    if name in VECTORS:
        np.testing.assert_allclose(images @ captions.T, scores.scores[:3, :3], atol=4e-3)


@pytest.mark.parametrize("name", ["vse", "cca", "scan"])
def test_search_finds_the_same_from_the_folder(world, name):
    question = ["w1 w2 w3", "--top", "4"]
    found = run_command(search, *question, "--model", name, folder=world)
    brought = run_command(search, *question, "--from", f"out/{name}", folder=world)
    assert brought.returncode == 0, brought.stderr
    assert brought.stdout == found.stdout != ""
    both = run_command(search, *question, "--from", "out/vse", "--model", name, folder=world)
    assert both.stderr.startswith("error: give either --model MODEL or --from FOLDER")


def documented(number, capsys):
    page = (ROOT / "docs/export.md").read_text()
    block = re.findall("```python\n(.*?)```", page, re.DOTALL)[number]
    exec(re.sub("(?i)a purple cross left of a tiny yellow box", "w1 strange w2", block), {})
    return float(re.fullmatch(r"\[\[(-?\d\.\d+)\]\]\n", capsys.readouterr().out)[1])


def test_an_export_takes_the_place_of_another_and_onnx_gives_the_same_score(
    world, tmp_path, monkeypatch, capsys, runtime
):
    folder = tmp_path / "exported"
    succeed(export_model, world, "cca", "--output", folder)
    said = succeed(export_model, world, "vse", "--output", folder, "--onnx")
    assert re.findall(r"(\w+).onnx: differs from the model by", said) == [*TOWERS, "image_network"]
    config = json.loads((folder / "config.json").read_text())
    listed = {entry["path"]: entry["sha256"] for entry in config["files"].values()}
    assert listed.keys() & {"model.safetensors", "image_network.safetensors", "features.h5"}
    assert config["beside"].keys() > {"README.md", "image_tower.onnx"}
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")}
    del there["config.json"]
    assert {name: sha256_file(path) for name, path in there.items()} == listed | config["beside"]
    shutil.copy(world / "test0.png", tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    assert documented(1, capsys) == pytest.approx(documented(0, capsys), abs=2e-3)
    done = run_command(export_model, "scan", "--output", tmp_path / "s", "--onnx", folder=world)
    assert done.stderr.startswith("error: scan: it reads regions, whose number differs")
    assert not (tmp_path / "s").exists()


def test_sorted_sums_are_not_written_as_onnx(world, tmp_path, monkeypatch):
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    draw_weights("vse", text_pool="gpo")
    checkpoint = read_checkpoint("data/checkpoints/vse.safetensors", "vse")
    with pytest.raises(WorkbenchError, match=r"vse\.text_pool = gpo: its sorting cannot"):
        open_sides("vse", checkpoint)


def test_the_examples_of_the_api_give_what_they_show(world, tmp_path, monkeypatch):
    """One after the other, in the folder of a run; every public name has a section and is used."""
    page = (ROOT / "docs/api.md").read_text()
    names = dir(vse_workbench)
    assert sorted(re.findall(r"^::: vse_workbench\.(\w+)$", page, re.MULTILINE)) == names
    blocks = re.findall("```pycon\n(.*?)```", page, re.DOTALL)
    shown = "\n".join(blocks)
    assert [name for name in names if not re.search(rf"\b{name}\b", shown)] == []
    assert len(names) > 30
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    (tmp_path / "out/vse").rename(tmp_path / "exported")
    (tmp_path / "test0.png").rename(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    for old, new in (("a purple cross", "w1 w2"), ('"two", "red", "circles"', '"w1", "w2"')):
        shown = shown.replace(old, new)
    example = doctest.DocTestParser().get_doctest(shown, {}, "api.md", "docs/api.md", 0)
    said = io.StringIO()
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.write)
    assert (result.failed, result.attempted > 60) == (0, True), said.getvalue()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_export_touches_no_file_of_the_user(world, copied):
    (copied / "vse/README.md").write_text("my card")
    (copied / "cca/notes").mkdir()
    (copied / "cca/notes/a.txt").write_text("mine")
    shutil.copy(copied / "cca/model.safetensors", copied / "model.safetensors")  # by no config
    for folder, name in (("vse", "README.md"), ("cca", "notes/a.txt"), (".", "model.safetensors")):
        before = contents(copied)
        done = run_command(export_model, "vse", "--output", copied / folder, folder=world)
        assert done.returncode == 1
        assert "holds files that no export wrote, or that changed since: " in done.stderr
        assert name in done.stderr
        assert contents(copied) == before


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("images", [], "an empty list: at least one path is needed"),
        ("images", "photo.jpg", "one path where a list is expected\nwrite ['photo.jpg']"),
        ("images", Path("photo.jpg"), "one path where a list is expected"),
        ("images", ["gone.jpg"], "gone.jpg: no such file"),
        ("captions", [], "an empty list: at least one text is needed"),
        ("captions", "w1 w2", "one text where a list is expected\nwrite ['w1 w2']"),
        ("captions", ["w1", float("nan")], "number 2 of the list is nan, not a text"),
        ("captions", ["w1", "of the sea"], "no word of the query is known to the vocabulary: of, "),
    ],
)
def test_what_cannot_be_embedded_is_said(world, method, given, said):
    with pytest.raises(WorkbenchError) as error:
        getattr(Embedder.load(world / "out/vse"), method)(given)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        (
            "images",
            [np.zeros((64, 64, 3), np.uint8)],
            "is an array of shape (64, 64, 3), not a path",
        ),
        ("images", [torch.zeros(3, 9, 9)], "is an array of shape (3, 9, 9), not a path"),
        (
            "images",
            [Image.new("RGB", (64, 32))],
            "is an opened image of 64 x 32 pixels, not a path",
        ),
        ("images", [b"x" * 9000], "is b'xxxxx"),
        ("images", b"a.jpg", "b'a.jpg' where a list is expected"),
        ("images", None, "None where a list is expected"),
        ("images", {"a": 1}, "{'a': 1} where a list is expected"),
        ("captions", [["a", "dog"] * 500], "is ['a', 'dog', "),
        ("of_image", np.zeros((9, 9, 3), np.uint8), "an array of shape (9, 9, 3), not an opened"),
    ],
)
def test_a_wrong_value_is_described_on_one_line(world, method, given, said):
    with pytest.raises(WorkbenchError) as error:
        getattr(Embedder.load(world / "out/vse"), method)(given)
    assert said in error.value.message
    assert "\n" not in error.value.message
    assert len(error.value.message) < 130


def test_opened_images_and_arrays_are_embedded_as_the_message_says(world, indexed):
    embedder, path = Embedder.load(world / "out/vse"), next(indexed.glob("test*.png"))
    (expected,) = embedder.images([path])
    image = Image.open(path).convert("RGB")
    np.testing.assert_array_equal(embedder.of_image(image), expected)
    np.testing.assert_array_equal(embedder.of_image(Image.fromarray(np.array(image))), expected)


class Vectors(torch.utils.data.Dataset):
    def __init__(self, embedder, texts):
        self.embedder, self.texts = embedder, texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, number):
        return self.embedder.captions([self.texts[number]])[0]


def test_a_model_of_more_models_is_exported_and_searched_like_the_others(indexed, tmp_path):
    shutil.copytree(indexed, tmp_path, dirs_exist_ok=True)
    with chdir(tmp_path):
        change_params(tmp_path, more_models={"adapter": {}}, vocabulary__dim=128)
        write_vocabulary(tmp_path, WORDS, dim=128)  # as wide as the image features
        shutil.rmtree("data/vocabulary")
        Path("vocabulary").rename("data/vocabulary")
        names = ("captions", "vocabulary", "output", "encoder")
        paths = stage_paths("encode_sentences", names)
        succeed(encode_sentences, tmp_path, *as_options(paths))
        draw_weights("adapter")
        put_scores("adapter")
        files = ["--metrics", "metrics/adapter.json", "--ranks", "data/ranks/adapter.h5"]
        succeed(evaluate, tmp_path, "--scores", "data/scores/adapter.h5", *files)
        succeed(export_model, tmp_path, "adapter", "--output", "out")
        scores = read_scores(Path("data/scores/adapter.h5"), "test")
        table = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")
        embedder = Embedder.load("out")
        images = embedder.images(scores.image_ids[:3])
        captions = embedder.captions(table.loc[list(scores.caption_ids[:3]), "text"])
        np.testing.assert_allclose(images @ captions.T, scores.scores[:3, :3], atol=4e-3)
        exported, own = (
            run_command(search, "w1 w2", *words, folder=tmp_path)
            for words in (["--from", "out"], ["--model", "adapter"])
        )
    assert exported.returncode == own.returncode == 0, exported.stderr + own.stderr
    assert exported.stdout == own.stdout != ""


@pytest.mark.parametrize("name", NETWORKS)
def test_an_embedder_is_pickled_and_copied(copied, name):
    embedder = Embedder.load(os.path.relpath(copied / name))
    content = pickle.dumps(embedder)
    assert len(content) < 1000
    for other in (pickle.loads(content), copy.deepcopy(embedder)):
        assert other.export_sha256 == embedder.export_sha256
        np.testing.assert_array_equal(other.captions(["w1 w2"]), embedder.captions(["w1 w2"]))
    config = copied / name / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(WorkbenchError, match="exported again since the embedder was pickled"):
        pickle.loads(content)


def test_started_processes_embed_as_this_one_does(copied):
    embedder, texts = Embedder.load(copied / "vse"), ["w1", "w2 w3"]
    loader = DataLoader(Vectors(embedder, texts), 2, num_workers=1, multiprocessing_context="spawn")
    (found,) = loader
    np.testing.assert_array_equal(found.numpy(), embedder.captions(texts))


def test_a_pointer_in_an_export_is_named(copied):
    path = copied / "vse/model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n")
    with pytest.raises(WorkbenchError, match=r"model\.safetensors: a pointer of git-lfs\n"):
        Embedder.load(copied / "vse")


def test_devices(world, capsys):
    with pytest.raises(WorkbenchError, match="device 'gpu': allowed are auto, cpu, cuda"):
        Embedder.load(world / "out/vse", "gpu")
    Embedder.load(world / "out/vse", "auto").captions(["w1 strange"])
    assert capsys.readouterr().err == "not in the vocabulary, read as <unk>: strange\n"


def test_the_card_has_data_metrics_and_digests(world):
    text = (world / "out/two_branch/README.md").read_text()
    config = json.loads((world / "out/two_branch/config.json").read_text())
    metrics = json.loads((world / "metrics/two_branch.json").read_text())
    front = text.split("---")[1]
    assert "license: Apache-2.0" in front
    assert "| test | 9 | 18 |" in text
    assert f"{metrics['naive']['rsum']:.1f}" in text
    assert " to " in text.split("## Metrics")[1]
    assert config["checkpoint_sha256"] in text
    for entry in config["files"].values():
        assert entry["sha256"] in text
    assert str(world) not in text


def test_what_is_missing_or_foreign_is_named(copied):
    file = copied / "vse/vocabulary/vocabulary.json"
    values = json.loads(file.read_text().replace('"w7"', '"stranger"'))
    del values["sha256"]
    file.write_text(json.dumps(values | {"sha256": content_digest(values)}))
    with pytest.raises(WorkbenchError, match=r"vocabulary.json: not the text that was exported"):
        Embedder.load(copied / "vse")
    (copied / "scan/model.safetensors").unlink()
    with pytest.raises(WorkbenchError, match=r"model.safetensors: no such file; config.json names"):
        Embedder.load(copied / "scan")
    shutil.copy(copied / "two_branch/model.safetensors", copied / "cca/model.safetensors")
    with pytest.raises(WorkbenchError, match="not the checkpoint that was exported"):
        Embedder.load(copied / "cca")
    with pytest.raises(WorkbenchError, match="no exported model"):
        Embedder.load(copied / "nowhere")


def test_hostile_configs_are_plain_errors(copied):
    path = copied / "vse/config.json"
    config = json.loads(path.read_text())
    config["files"]["image_network"]["path"] = "../cca/image_network.safetensors"
    for text, words in (
        (json.dumps(config), "files that no export has: image_network"),
        ("", "config.json"),
        ('{"format": 1}', "config.json"),
        ("[" * 10_000, "config.json"),
    ):
        path.write_text(text)
        with pytest.raises(WorkbenchError, match=words):
            Embedder.load(copied / "vse")


@pytest.mark.parametrize(("cell", "pool"), [("gru", "last"), ("gru", "mean"), ("lstm", "max")])
def test_padded_rows_give_what_packed_ones_give(cell, pool):
    """At any length and batch size, whatever stands in the padding."""
    network = drawn_vse(cell, pool)
    generator = torch.Generator().manual_seed(0)
    for batch in BATCHES:
        for length in LENGTHS:
            tokens = torch.randint(1, 11, (batch, length), generator=generator)
            lengths = torch.randint(1, length + 1, (batch,), generator=generator)
            lengths[0] = length
            with torch.inference_mode():
                torch.testing.assert_close(
                    network.text.forward_padded(tokens, lengths), network.text(tokens, lengths)
                )


def drawn_vse(cell="gru", pool="last"):
    torch.manual_seed(0)
    options = {"text_encoder": cell, "text_pool": pool}
    return VSE(VSEConfig(word_dim=6, hidden=5, dim=7, **options), 4, 11).eval()


@pytest.fixture
def runtime():
    """onnxruntime, where the extra `onnx` is installed."""
    return [pytest.importorskip(name) for name in ("onnx", "onnxruntime", "onnxscript")][1]


def test_a_recurrent_tower_in_onnx_at_sizes_that_were_not_traced(tmp_path, runtime):
    network = drawn_vse()
    inputs = {"tokens": torch.ones((2, 3), dtype=torch.int64), "lengths": torch.tensor([3, 2])}
    tower = Traced(WordSide(network), inputs, ("tokens",), ("lengths",), {"tokens": 11})
    assert write_tower(tmp_path / "t.onnx", tower) < TOLERANCE
    session = runtime.InferenceSession(str(tmp_path / "t.onnx"))
    tokens, lengths = np.array([[3, 9, 2, 0, 0, 0, 0], [1, 5, 4, 8, 2, 10, 7]]), np.array([3, 7])
    with torch.inference_mode():
        words = Words(torch.from_numpy(tokens), torch.from_numpy(lengths))
        ours = network.index(network.embed_captions(words))
    (theirs,) = session.run(None, {"tokens": tokens, "lengths": lengths})
    np.testing.assert_allclose(theirs, ours, atol=1e-6)


class Liar(nn.Module):
    def embed_images(self, images):
        return images * (2 if torch.compiler.is_exporting() else 1)

    def index(self, side):
        return side


def test_a_file_whose_numbers_differ_is_not_kept(tmp_path, runtime):
    tower = Traced(ImageSide(Liar()), {"images": torch.ones(2, 3)})
    with pytest.raises(WorkbenchError, match="its vectors differ from the model's by"):
        write_tower(tmp_path / "t.onnx", tower)
    assert not list(tmp_path.iterdir())
