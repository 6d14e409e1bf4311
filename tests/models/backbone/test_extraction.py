"""The extraction loop: the same bytes for any number of workers and after any interruption; images
that changed or cannot be read are named."""

import hashlib
import os
import pickle
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from models.backbone.extraction import extract
from models.backbone.preprocessing import preprocessing_of
from models.backbone.weights import imagenet_state, read_state_dict
from pipeline.features.feature_file import FeatureFile, FeatureWriter
from pipeline.runtime.errors import WorkbenchError

SIDE, WIDTH = 32, 27


def world(folder: Path, count: int = 22) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        path = folder / f"{number}.png"
        values = rng.integers(0, 256, (SIDE + number % 3, SIDE + 9, 3), dtype=np.uint8)
        Image.fromarray(values).save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append((f"id{number}", str(path), SIDE + 9, SIDE + number % 3, digest))
    return pd.DataFrame(rows, columns=["image_id", "path", "width", "height", "sha256"])


def network(images: torch.Tensor) -> torch.Tensor:
    """(B, 3, S, S) to (B, 27): not symmetric under mirroring; refuses short batches."""
    assert images.shape == (4, 3, SIDE, SIDE)
    return images[:, :, :24, :].reshape(4, 3, 3, 8, SIDE).sum(3)[..., 0:30:10].flatten(1)


def writer_for(images: pd.DataFrame, work: Path) -> FeatureWriter:
    shapes = {"features": ((WIDTH,), np.float16)}
    return FeatureWriter(work, "f", images["image_id"].tolist(), shapes, {}, flush_seconds=0)


def run(
    images: pd.DataFrame, folder: Path, workers: int = 0, views: str = "flip", forward=network
) -> bytes:
    with writer_for(images, folder / "work") as writer:
        extract(
            images,
            forward,
            preprocessing_of("resnet18", SIDE, views),
            writer,
            batch_size=4,
            workers=workers,
            device=torch.device("cpu"),
        )
        writer.finish(folder / "out.h5")
    return (folder / "out.h5").read_bytes()


@pytest.mark.parametrize("views", ["center", "flip", "ten_crop"])
def test_features_are_the_mean_over_views_in_corpus_order(tmp_path: Path, views: str) -> None:
    images = world(tmp_path, 6)
    run(images, tmp_path, views=views)
    file, preprocessing = (
        FeatureFile(tmp_path / "out.h5"),
        preprocessing_of("resnet18", SIDE, views),
    )
    assert file.ids == images["image_id"].tolist()
    for row, path in enumerate(images["path"]):
        crops = torch.from_numpy(preprocessing.crops(Image.open(path)))[None]
        each = [network(v.expand(4, -1, -1, -1))[0] for v in preprocessing.inputs(crops)]
        expected = torch.stack(each).double().mean(0)
        np.testing.assert_allclose(file.read([row])[0], expected, rtol=2e-3, atol=2e-2)


def test_a_batch_that_is_partly_there_is_computed_whole(tmp_path: Path) -> None:
    """Its rows may depend on their company: here each feature holds the batch's mean."""
    images = world(tmp_path)

    def social(batch: torch.Tensor) -> torch.Tensor:
        return network(batch) + network(batch).mean(0)

    whole = run(images, tmp_path / "whole", forward=social)
    with writer_for(images, tmp_path / "part" / "work") as writer:
        done = FeatureFile(tmp_path / "whole" / "out.h5").read([5, 6, 17])
        writer.write([5, 6, 17], features=done)
    assert run(images, tmp_path / "part", forward=social) == whole


def test_an_interrupted_extraction_is_continued_byte_for_byte(tmp_path: Path) -> None:
    images, calls = world(tmp_path), []

    def stopping(batch: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return network(batch)

    with pytest.raises(KeyboardInterrupt):
        run(images, tmp_path / "cut", workers=1, forward=stopping)
    with writer_for(images, tmp_path / "cut" / "work") as writer:
        assert writer.missing.tolist() == list(range(16, 22))
    assert run(images, tmp_path / "cut") == run(images, tmp_path / "whole")


def test_it_is_said_once_that_the_memory_of_the_gpu_ran_out(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """cuDNN has gone on with another algorithm: there is no GPU here, torch's counter is set."""
    images, refused, calls = world(tmp_path), {"num_ooms": 0}, []

    def short_of_memory(batch: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        refused["num_ooms"] = int(len(calls) > 2)  # in the second batch
        return network(batch)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: refused)
    short = run(images, tmp_path / "short", forward=short_of_memory)
    assert capsys.readouterr().err.count("went on with another algorithm") == 1
    refused["num_ooms"] = 0
    assert run(images, tmp_path / "whole") == short
    assert "another algorithm" not in capsys.readouterr().err


def test_changed_and_unreadable_images_are_named_together(tmp_path: Path) -> None:
    images = world(tmp_path)
    shutil.copy(tmp_path / "1.png", tmp_path / "9.png")
    (tmp_path / "10.png").write_bytes(b"no image")
    (tmp_path / "11.png").unlink()
    with pytest.raises(WorkbenchError) as error:
        run(images, tmp_path, workers=1)
    for part in ("9.png: changed", "10.png", "11.png", "dvc repro -f prepare_corpus"):
        assert part in str(error.value)
    with writer_for(images, tmp_path / "work") as writer:
        assert writer.missing.tolist() == list(range(8, 22))


def test_extreme_shapes_are_refused_before_they_are_resized(tmp_path: Path) -> None:
    images = world(tmp_path, 3)
    images.loc[1, "width"] = 10**6
    with pytest.raises(WorkbenchError, match=r"50 times.*1\.png"):
        run(images, tmp_path)


def test_state_dicts_are_read_from_both_formats_and_from_checkpoints(tmp_path: Path) -> None:
    state = {"model.a": torch.arange(3.0), "b": torch.ones(2, 2)}
    save_file(state, tmp_path / "w.safetensors")
    others = {"optimizer": {"state": {}}, "iteration": 4, "__author__": "x"}
    contents = {
        "w.pt": state,
        "one.pth": {"model": state} | others,
        "two.pth": {"state_dict": state},
    }
    for name, content in contents.items():
        torch.save(content, tmp_path / name)
    for name in ("w.safetensors", *contents):
        found = read_state_dict(tmp_path / name)
        assert found.keys() == state.keys()
        assert all(torch.equal(found[key], state[key]) for key in state)
    plain = {"model": torch.ones(1), "state_dict": torch.ones(2)}  # tensors of these names
    torch.save(plain, tmp_path / "w.pth")
    assert read_state_dict(tmp_path / "w.pth").keys() == plain.keys()


def test_pickled_arrays_are_refused_with_the_way_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.array(4.0)}
    content = {"model": arrays, "__author__": "x", "matching_heuristics": True}
    (tmp_path / "in.pkl").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(WorkbenchError, match=r"in\.pkl: not a plain state dict") as error:
        read_state_dict("in.pkl")
    assert "name in.pkl.plain.safetensors instead: python -c" in error.value.hint
    program = shlex.split(error.value.hint.split("instead: ")[1])
    subprocess.run([sys.executable, *program[1:]], check=True)
    found = read_state_dict("in.pkl.plain.safetensors")
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in arrays.items()
    }


class Trap:
    """An object that would run code when unpickled."""

    def __reduce__(self) -> tuple:
        return (os.mkdir, ("trapped",))


@pytest.mark.parametrize("kind", ["object", "two", "list", "cut", "gone"])
def test_other_weights_files_are_refused_unopened(tmp_path, monkeypatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "w.pt"
    torch.save({"a": torch.ones(1000)}, path)
    inner = {"a": torch.ones(1)}
    values = {"object": Trap(), "two": {"state_dict": inner, "model": inner}, "list": [1]}
    if kind in values:
        torch.save(values[kind], path)
    elif kind == "cut":
        os.truncate(path, 700)
    elif kind == "gone":
        path.unlink()
    with pytest.raises(WorkbenchError, match=path.name):
        read_state_dict(path)
    assert not (tmp_path / "trapped").exists()


def test_offline_the_message_says_which_file_goes_where(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    seen = []

    def unreachable(*arguments: object, **named: object) -> None:
        seen.append(socket.getdefaulttimeout())
        raise URLError("no route")

    monkeypatch.setattr("torch.hub.urlopen", unreachable)
    with pytest.raises(WorkbenchError) as error:
        imagenet_state("resnet50")
    url = "https://download.pytorch.org/models/resnet50-0676ba61.pth"
    for part in (url, str(tmp_path / "checkpoints"), "resnet50-0676ba61.pth", "no route"):
        assert part in str(error.value)
    assert seen[0] is not None
    assert socket.getdefaulttimeout() is None
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_damaged_file_in_the_cache_is_not_used(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    torch.save({"a": torch.ones(1)}, tmp_path / "checkpoints" / "resnet50-0676ba61.pth")
    with pytest.raises(WorkbenchError, match="does not begin with 0676ba61"):
        imagenet_state("resnet50")
