"""Exported models answer as the ones in the graph, anywhere, and say what is missing."""

import json
import re
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from commands import run_command, succeed
from indexed import NETWORKS
from torch import nn

from models.base.towers import BATCHES, LENGTHS, ImageTower, Tower
from models.vse.network import VSE
from models.vse.towers import PaddedCaptions
from pipeline.corpus.vocabulary import content_digest
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import read_scores
from stages.evaluate import main as evaluate
from vse_workbench.commands.export_model import main as export_model
from vse_workbench.commands.search import main as search
from vse_workbench.export import Embedder
from vse_workbench.export.onnx import TOLERANCE, write_tower

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ("cca", "dual_path", "two_branch", "vse")


@pytest.fixture(scope="module")
def world(indexed, tmp_path_factory):
    """Every model, evaluated and exported."""
    folder = tmp_path_factory.mktemp("exported")
    shutil.copytree(indexed, folder, dirs_exist_ok=True)
    for name in NETWORKS:
        files = ["--metrics", f"metrics/{name}.json", "--ranks", f"data/ranks/{name}.h5"]
        succeed(evaluate, folder, "--scores", f"data/scores/{name}.h5", *files)
        succeed(export_model, folder, name, "--output", f"out/{name}")
    return folder


@pytest.fixture
def copied(world, tmp_path):
    """The exports alone, elsewhere."""
    shutil.copytree(world / "out", tmp_path, dirs_exist_ok=True)
    return tmp_path


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


def test_the_documented_lines_run(world, copied, capsys):
    block = re.search("```python\n(.*?)```", (ROOT / "docs/export.md").read_text(), re.DOTALL)[1]
    shutil.move(copied / "vse", copied / "exported")
    shutil.copy(world / "test0.png", copied / "photo.jpg")
    with chdir(copied):
        exec(block.replace("two red circles above a square", "w1 w2"), {})
    assert re.fullmatch(r"\[\[-?\d\.\d+\]\]\n", capsys.readouterr().out)


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
    tower = PaddedCaptions(network)
    generator = torch.Generator().manual_seed(0)
    for batch in BATCHES:
        for length in LENGTHS:
            tokens = torch.randint(1, 11, (batch, length), generator=generator)
            lengths = torch.randint(1, length + 1, (batch,), generator=generator)
            lengths[0] = length
            with torch.inference_mode():
                torch.testing.assert_close(
                    tower(tokens, lengths), network.embed_captions(tokens, lengths)
                )


def drawn_vse(cell="gru", pool="last"):
    torch.manual_seed(0)
    return VSE(4, 11, 6, 5, 7, cell, pool).eval()


@pytest.fixture
def runtime():
    """onnxruntime, where the extra `onnx` is installed."""
    return [pytest.importorskip(name) for name in ("onnx", "onnxruntime", "onnxscript")][1]


def test_a_recurrent_tower_in_onnx_at_sizes_that_were_not_traced(tmp_path, runtime):
    network = drawn_vse()
    inputs = {"tokens": torch.ones((2, 3), dtype=torch.int64), "lengths": torch.tensor([3, 2])}
    tower = Tower(PaddedCaptions(network), inputs, ("tokens",), ("lengths",), {"tokens": 11})
    assert write_tower(tmp_path / "t.onnx", tower) < TOLERANCE
    session = runtime.InferenceSession(str(tmp_path / "t.onnx"))
    tokens, lengths = np.array([[3, 9, 2, 0, 0, 0, 0], [1, 5, 4, 8, 2, 10, 7]]), np.array([3, 7])
    with torch.inference_mode():
        ours = network.embed_captions(torch.from_numpy(tokens), torch.from_numpy(lengths))
    (theirs,) = session.run(None, {"tokens": tokens, "lengths": lengths})
    np.testing.assert_allclose(theirs, ours, atol=1e-6)


def test_both_towers_are_exported_and_a_model_without_is_told(world, tmp_path, runtime):
    said = succeed(export_model, world, "two_branch", "--output", tmp_path / "o", "--onnx")
    assert said.count("differs from the model by") == 2
    assert {file.name for file in (tmp_path / "o").glob("*.onnx")} == {
        "image_tower.onnx", "caption_tower.onnx",
    }  # fmt: skip
    done = run_command(export_model, "scan", "--output", tmp_path / "s", "--onnx", folder=world)
    assert done.stderr.startswith("error: --onnx: scan has no vector of each side alone; cca, dual")
    assert not (tmp_path / "s").exists()


class Liar(nn.Module):
    """Computes something else once it is exported."""

    def embed_images(self, images):
        return images * (2 if torch.compiler.is_exporting() else 1)


def test_a_file_whose_numbers_differ_is_not_kept(tmp_path, runtime):
    tower = Tower(ImageTower(Liar()), {"images": torch.ones(2, 3)})
    with pytest.raises(WorkbenchError, match="its vectors differ from the model's by"):
        write_tower(tmp_path / "t.onnx", tower)
    assert not list(tmp_path.iterdir())
