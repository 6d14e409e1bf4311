"""The two-branch network through `stages.train` and `stages.score`."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from model_runs import TWO_BRANCH as RUN
from sklearn.preprocessing import StandardScaler
from tiny_inputs import PATHS, SENTENCES

from models.two_branch import TwoBranch
from pipeline.corpus.tables import in_split, load_captions
from pipeline.features.feature_file import FeatureFile


@pytest.fixture(scope="module")
def baseline(world, tmp_path_factory):
    folder = shutil.copytree(world, tmp_path_factory.mktemp("baseline"), dirs_exist_ok=True)
    return kept_weights(folder)


@pytest.mark.parametrize("branches", ["linear", "nonlinear"])
def test_scores_are_the_models_cosines(folder, branches):
    RUN.train(folder, branches=branches, training__epochs=1, training__warmup_epochs=0)
    RUN.score(folder)
    model = TwoBranch.from_checkpoint(RUN.checkpoint(folder), "two_branch")
    assert (len(model.image_branch) == 1) == (branches == "linear")
    images, sentences = FeatureFile(folder / "image.h5"), FeatureFile(folder / SENTENCES)
    for split in ("val", "test"):
        scores = RUN.scores(folder, split)
        table = in_split(load_captions(folder / "corpus/captions.parquet"), split)
        assert list(scores.caption_ids) == table["caption_id"].tolist()
        assert list(scores.image_ids) == list(dict.fromkeys(scores.caption_image_ids))
        one = torch.from_numpy(images.read(images.rows(scores.image_ids))).float()
        other = torch.from_numpy(sentences.read(sentences.rows(scores.caption_ids))).float()
        with torch.inference_mode():
            x, y = model.embed_images(one), model.embed_captions(other)
        expected = torch.cosine_similarity(x[:, None], y[None], dim=2)
        np.testing.assert_allclose(scores.scores, expected, atol=1e-5)


@pytest.mark.parametrize("sides", [(True, False), (False, True)])
def test_constants_of_the_training_split_travel_with_the_weights(folder, sides):
    standardised = {"standardise_images": sides[0], "standardise_sentences": sides[1]}
    weights = kept_weights(folder, **standardised)
    for name, path, used in zip(("image", "sentence"), ("image.h5", SENTENCES), sides, strict=True):
        file = FeatureFile(folder / path)
        ids = [name for name in file.ids if name.startswith("train")]
        oracle = StandardScaler().fit(file.read(file.rows(ids)).astype(np.float64))
        mean, scale = (oracle.mean_, oracle.scale_) if used else (0.0, 1.0)
        np.testing.assert_allclose(weights[f"{name}_standardise.mean"], mean, atol=1e-6)
        np.testing.assert_allclose(weights[f"{name}_standardise.scale"], scale, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("margin", 0.3),
        ("structure_k", 1),
        ("dropout", 0.1),
        ("batch_norm", False),
        ("weights__sentence_sentence", 0.5),
        ("training__optimiser", "sgd"),
        ("training__weight_decay", 0.1),
        ("ranking__k", 1),
        ("training__reduction", "mean"),
    ],
)
def test_what_is_read_decides_the_weights(folder, baseline, change, value):
    found = kept_weights(folder, **{change: value})
    shared = baseline.keys() & found.keys()
    assert any(not torch.equal(baseline[name], found[name]) for name in shared)


LINEAR = {"branches": "linear"}


@pytest.mark.parametrize(
    ("corpus", "settings", "change"),
    [
        ("as it is", LINEAR, {"hidden": 9}),
        ("as it is", LINEAR, {"dropout": 0.1}),
        ("as it is", LINEAR, {"batch_norm": False}),
        ("as it is", {}, {"weights__image_image": 0.5}),
        ("one caption", {}, {"weights__sentence_sentence": 0.5}),
    ],
)
def test_keys_do_nothing_where_params_yaml_says_so(folder, corpus, settings, change):
    rewrite_corpus(folder, corpus)
    first = kept_weights(folder, **settings)
    second = kept_weights(folder, **settings, **change)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("corpus", "change"),
    [
        ("as it is", {"dropout": 0.1}),
        ("two images", {"weights__image_image": 0.5}),
        ("as it is", {"weights__sentence_sentence": 0.5}),
    ],
)
def test_they_do_something_elsewhere(folder, corpus, change):
    rewrite_corpus(folder, corpus)
    first = kept_weights(folder)
    second = kept_weights(folder, **change)
    assert any(not torch.equal(first[name], second[name]) for name in first)


def rewrite_corpus(folder, corpus):
    """The world's corpus as it is, with one caption of each image, or two images in a group."""
    table = PATHS["captions"] if corpus == "one caption" else PATHS["images"]
    schema, rows = pq.read_schema(folder / table), pq.read_table(folder / table).to_pandas()
    if corpus == "one caption":
        rows = rows.drop_duplicates("image_id")
    if corpus == "two images":
        rows["group"] = np.where(np.arange(len(rows)) % 2, rows["group"].shift(), rows["group"])
    pq.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False), folder / table)


def kept_weights(folder, **changes):
    """Weights of the better of two epochs, the first with sum_margin, then knn_margin."""
    return RUN.weights(folder, **{"loss": "knn_margin", "training__epochs": 2, **changes})
