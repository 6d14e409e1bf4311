"""`python -m stages.train cca` and the scores of what it writes."""

import json

import numpy as np
import pytest
from model_runs import CCA
from tiny_inputs import DIM, SENTENCES, WORDS, write_sentences

from models.cca import BLOCK, fit_cca
from pipeline.corpus.tables import in_split, load_captions
from pipeline.evaluation.correlation import correlate
from pipeline.features.feature_file import FeatureFile
from pipeline.training.curve import validation_columns


def fit(folder, **changes):
    """What a run that must succeed printed; changes: keys of the section `cca`."""
    CCA.set_params(folder, **changes)
    return CCA.run_training(folder)


def fail(folder, **changes):
    CCA.set_params(folder, **changes)
    message = CCA.refused(folder)
    assert not (folder / "out").exists()
    return message


def rows_of(folder, split):
    """Captions table of a split, the vectors of its images and those of its captions."""
    images, captions = FeatureFile(folder / "image.h5"), FeatureFile(folder / SENTENCES)
    table = in_split(load_captions(folder / "corpus/captions.parquet"), split)
    x = images.read(images.rows(table["image_id"])).astype(np.float32)
    return table, x, captions.read(captions.rows(table["caption_id"])).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("power", [0.0, 1.0, 4.0])
def test_scores_are_the_cosines_of_the_canonical_space(folder, power):
    fit(folder, power=power, dim=5)
    CCA.score(folder)
    _, x, y = rows_of(folder, "train")
    fitted = fit_cca([(x, y)], 5, 0.0001, len(x))
    assert fitted.correlations[0] > fitted.correlations[4] + 0.05  # so that powers differ
    scales = fitted.correlations**power
    for split in ("val", "test"):
        table, x, y = rows_of(folder, split)
        images = unit((x - fitted.image_mean) @ fitted.image_weights * scales)
        captions = unit((y - fitted.sentence_mean) @ fitted.sentence_weights * scales)
        scores = CCA.scores(folder, split)
        assert list(scores.caption_ids) == table["caption_id"].tolist()
        row = [list(scores.image_ids).index(name) for name in table["image_id"]]
        np.testing.assert_allclose(scores.scores[row], images @ captions.T, atol=1e-5)


def test_how_alike_images_are_before_and_after(folder):
    """The mean size of Pearson's correlation of two different test images."""
    fit(folder, dim=5)
    metrics = json.loads(CCA.evaluate(folder))
    scores, features = CCA.scores(folder), FeatureFile(folder / "image.h5")
    given = features.read(features.rows(scores.image_ids)).astype(np.float64)
    for rows, part in ((scores.image_embeddings, "naive"), (given, "features")):
        expected = 100 * correlate(rows, scores.image_ids).summary()["mean_absolute"]
        assert metrics[part]["correlation"] == pytest.approx(expected, abs=1e-4)


def test_what_the_checkpoint_says_of_itself(folder):
    fit(folder, power=2.0)
    described = CCA.checkpoint(folder).description
    assert described.architecture == {"image_dim": DIM, "sentence_dim": len(WORDS), "dim": 4}
    assert described.params == {"cca": {"dim": 4, "power": 2.0, "regularisation": 0.0001}}
    assert described.inputs["sentences_model"] == "tfidf"
    assert described.inputs["features_model"] == "resnet18"
    CCA.score(folder)
    rsum = validation_columns(CCA.scores(folder, "val"))["val_rsum"]
    assert described.val_rsum == pytest.approx(rsum, rel=1e-6)


def test_the_line_it_prints(folder):
    printed, kept = fit(folder).splitlines()[-2:]
    _, x, y = rows_of(folder, "train")
    rho = fit_cca([(x, y)], 4, 0.0001, len(x)).correlations
    expected = f"{len(x)} pairs, correlations {rho[0]:.3f} to {rho[3]:.3f}; constant columns, which"
    expected += " get no weight: 0 of the images, 0 of the texts; validation rsum "
    assert printed.startswith(f"cca: 4 directions (cca.dim = 4) from {expected}")
    assert float(kept.split("rsum ")[1]) > 450  # of 600; 318 at chance


def test_the_regularisation_with_the_largest_validation_rsum_is_kept(folder):
    tried = [100.0, 0.0001, 0.5]
    alone = []
    for value in tried:
        fit(folder, regularisation=value)
        alone.append(CCA.checkpoint(folder))
    rsums = [checkpoint.description.val_rsum for checkpoint in alone]
    assert len(set(rsums)) == len(tried)
    best = int(np.argmax(rsums))
    printed = fit(folder, regularisation=tried)
    kept = CCA.checkpoint(folder)
    assert kept.description.epoch == best + 1
    for name, weight in alone[best].weights.items():
        np.testing.assert_array_equal(kept.weights[name], weight)
    assert f"validation rsum {rsums[best]:.1f} with regularisation {tried[best]:g}" in printed


@pytest.mark.parametrize("value", [[], -1.0, ["a"]])
def test_a_regularisation_that_is_none(folder, value):
    message = fail(folder, regularisation=value)
    assert "cca.regularisation" in message
    assert "must be a number from 0, or a list of such numbers" in message


def test_blocks_do_not_matter(folder, monkeypatch):
    fit(folder)
    first = (folder / "out/cca.safetensors").read_bytes()
    assert BLOCK > 24 * 4  # all pairs were in one block
    monkeypatch.setattr("models.cca.BLOCK", 7)
    fit(folder)
    assert (folder / "out/cca.safetensors").read_bytes() == first


def test_there_are_no_more_directions_than_columns(folder):
    printed = fit(folder, dim=11)
    assert f"cca: {DIM} directions (cca.dim = 11) from " in printed
    described = CCA.checkpoint(folder).description
    assert described.architecture["dim"] == DIM
    assert described.params["cca"]["dim"] == 11


def test_sentences_of_another_encoding_are_not_scored(folder):
    fit(folder)
    write_sentences(folder, model="fisher", weights_sha256="f" * 64, layer="pca 12")
    message = CCA.not_scored(folder)
    assert "cca.safetensors: does not fit its inputs" in message
    assert "sentences model fisher (trained with tfidf)" in message
    assert "sentences weights sha256 ffff" in message
    assert "sentences layer pca 12 (trained with none)" in message
