"""Texts, paths and names in a file tell when its ids are numbers that count its rows."""

import numpy as np
import pandas as pd
import pytest
from commands import refusal

from pipeline.evaluation.external import Pairs, write_external
from pipeline.features.imports import Wanted
from pipeline.features.vector_files import open_source
from pipeline.runtime.section import EmbeddingFileConfig

NAMES = [f"{number}.jpg" for number in range(8)]
CAPTIONS = pd.DataFrame(
    {
        "caption_id": [str(number) for number in range(16)],  # as Karpathy's sentids
        "image_id": [NAMES[number // 2] for number in range(16)],
        "text": [f"Dog {number % 15} runs." for number in range(16)],  # one text twice
    }
)
IMAGES = Wanted(pd.DataFrame({"image_id": NAMES}), "image_id", "file.other_ids")
TEXTS = Wanted(CAPTIONS, "caption_id", "file.other_ids")
OTHER = np.random.default_rng(3).permutation(16)
LISTS = {
    "texts": lambda rows: rows["text"].str.lower().str.rstrip("."),
    "image_names": lambda rows: "/data/" + rows["image_id"],
}


def opened(path, wanted, **settings):
    return open_source(EmbeddingFileConfig(path=str(path), other_ids="error", **settings), wanted)


@pytest.mark.parametrize("name", LISTS)
def test_captions_that_are_counted_are_told_by_their_texts_and_images(tmp_path, name):
    path = tmp_path / "t.npz"
    vectors = np.ones((16, 3), np.float32)
    beside = LISTS[name](CAPTIONS).to_numpy(str)
    np.savez(path, features=vectors, ids=np.arange(16), **{name: beside})
    assert opened(path, TEXTS).places.tolist() == list(range(16))
    np.savez(path, features=vectors, ids=np.arange(16), **{name: beside[OTHER]})
    said = refusal(opened, path, TEXTS)
    assert f"by {name}\nname the array that is right" in said
    # ids that are right, in the same order as the texts
    np.savez(path, features=vectors, ids=OTHER, **{name: beside[OTHER]})
    assert opened(path, TEXTS).places.tolist() == OTHER.tolist()


@pytest.mark.parametrize("beside", ["inside", "list"])
def test_images_that_are_counted_are_told_by_their_paths(tmp_path, beside):
    path = tmp_path / "i.npz"
    paths = np.array([f"C:\\data\\{name}" for name in NAMES])[OTHER[OTHER < 8]]
    arrays = {"features": np.ones((8, 3), np.float32), "paths": paths}
    if beside == "inside":
        arrays["ids"] = np.arange(8)
    else:
        (tmp_path / "i.ids.txt").write_text("\n".join(map(str, range(8))))
    np.savez(path, **arrays)
    said = refusal(opened, path, IMAGES)
    assert "by paths\nname the array that is right as `file.ids`" in said
    (tmp_path / "i.ids.txt").unlink(missing_ok=True)
    assert opened(path, IMAGES, ids="paths").places.tolist() == OTHER[OTHER < 8].tolist()


@pytest.mark.parametrize("values", [["dog", "cat"] * 4, [*NAMES[:3], "a", "b", "c", "d", "e"]])
def test_other_texts_say_nothing_of_the_rows(tmp_path, values):
    path = tmp_path / "i.npz"
    arrays = {"features": np.ones((8, 3), np.float32), "ids": np.array(NAMES[::-1])}
    np.savez(path, **arrays, label=np.array(values))
    assert opened(path, IMAGES).places.tolist() == list(range(8))[::-1]


def test_scores_of_embeddings_whose_ids_count_the_rows(tmp_path):
    images = pd.DataFrame({"image_id": NAMES, "split": "test", "group": NAMES, "sha256": "0" * 64})
    captions = CAPTIONS.assign(split="test", tokens=[["dog"]] * 16)
    random = np.random.default_rng(4)
    np.savez(tmp_path / "i.npz", ids=np.array(NAMES), features=random.standard_normal((8, 3)))
    texts = captions["text"].to_numpy(str)[OTHER]
    path = tmp_path / "t.npz"
    np.savez(path, ids=np.arange(16), texts=texts, features=random.standard_normal((16, 3)))
    files = {"images": tmp_path / "i.npz", "captions": path}
    said = refusal(write_external, tmp_path / "o.h5", files, "dot", Pairs(images, captions))
    assert "by texts\ntake the list that is wrong out of the file" in said
