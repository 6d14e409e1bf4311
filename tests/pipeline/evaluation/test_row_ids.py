"""Images that stand in a file once for each caption, against the file where they stand once."""

import numpy as np
import pytest
from clip_retrieval_files import write_parts
from commands import refusal
from external_cases import a_corpus, written
from scipy.io import savemat

from pipeline.evaluation.external import Pairs

# 4 test images of 20 in all, five captions each: 20 rows may be either.
FIFTH = a_corpus({"train": 12, "val": 4, "test": 4}, per_image=5)
RANDOM = np.random.default_rng(1)
IMAGES = RANDOM.standard_normal((20, 6)).astype(np.float32)
CAPTIONS = RANDOM.standard_normal((100, 6)).astype(np.float32)


def scores_of(folder, images, captions, corpus=FIFTH, **settings):
    np.save(folder / "i.npy", images)
    np.save(folder / "c.npy", captions)
    return written(folder, corpus, images="i.npy", captions="c.npy", **settings)


def test_test_images_five_times_each_are_not_all_images(tmp_path, capsys):
    plain = scores_of(tmp_path, IMAGES[16:], CAPTIONS[80:])["test"].scores[:]
    repeated = scores_of(tmp_path, np.repeat(IMAGES[16:], 5, 0), CAPTIONS[80:])
    assert list(repeated) == ["test"]
    np.testing.assert_array_equal(repeated["test"].scores, plain)
    said = capsys.readouterr().err
    assert "i.npy, image_ids: 4 images stand there 5 times each in a row; taken once" in said
    every = scores_of(tmp_path, IMAGES, CAPTIONS)
    assert list(every) == ["test", "val"]
    np.testing.assert_array_equal(every["test"].scores, plain)
    assert "taken once" not in capsys.readouterr().err


def test_all_images_five_times_each(tmp_path):
    plain = scores_of(tmp_path, IMAGES, CAPTIONS)["val"].scores[:]
    repeated = scores_of(tmp_path, np.repeat(IMAGES, 5, 0), CAPTIONS)
    np.testing.assert_array_equal(repeated["val"].scores, plain)


def test_images_as_often_as_each_has_captions(tmp_path):
    kept = [*range(81), *range(82, 100)]  # the first test image has four captions
    captions = FIFTH.captions.iloc[kept].reset_index(drop=True)
    corpus = Pairs(FIFTH.images, captions)
    plain = scores_of(tmp_path, IMAGES[16:], CAPTIONS[80:99], corpus)["test"].scores[:]
    rows = np.repeat(IMAGES[16:], [4, 5, 5, 5], 0)
    found = scores_of(tmp_path, rows, CAPTIONS[80:99], corpus)["test"].scores
    np.testing.assert_array_equal(found, plain)


def test_rows_that_almost_repeat_are_refused(tmp_path, capsys):
    rows = np.repeat(IMAGES[16:], 5, 0)
    rows[7, 2] += 1e-3
    said = refusal(scores_of, tmp_path, rows, CAPTIONS)
    assert "i.npy, image_ids: 4 images stand there 5 times each in a row, but rows 6 and 7" in said
    rows[np.arange(20) % 5 > 1] += RANDOM.standard_normal((12, 6)).astype(np.float32)
    assert list(scores_of(tmp_path, rows, CAPTIONS)) == ["test", "val"]  # so they are all images
    assert "the 20 rows are those of the whole corpus in order" in capsys.readouterr().err
    said = refusal(scores_of, tmp_path, RANDOM.standard_normal((12, 6)), CAPTIONS)
    assert "12 rows without ids; the corpus has 4 in its test split and 20 in all" in said
    assert "they are not 4 images 3 times each, as rows 0 and 1 differ" in said


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("captions", [20, 100])
def test_scores_of_repeated_images(tmp_path, is_turned, captions):
    matrix = RANDOM.standard_normal((20, 100)).astype(np.float32)
    part = matrix[16:, -captions:]
    np.save(tmp_path / "s.npy", part)
    plain = written(tmp_path, FIFTH, scores="s.npy")["test"].scores[:]
    repeated = np.repeat(part, 5, 0)  # 20 x 20 with the captions of the test split: square
    np.save(tmp_path / "s.npy", repeated.T if is_turned else repeated)
    found = written(tmp_path, FIFTH, scores="s.npy")["test"].scores
    np.testing.assert_array_equal(found, plain)


def test_ids_that_stand_there_once_for_each_caption(tmp_path, capsys):
    ids = FIFTH.images["image_id"].tolist()[16:]
    plain = scores_of(tmp_path, IMAGES[16:], CAPTIONS[80:])["test"].scores[:]
    (tmp_path / "i.ids.txt").write_text("".join(f"/data/{name}\n" * 5 for name in ids[::-1]))
    rows = np.repeat(IMAGES[16:][::-1], 5, 0)
    found = scores_of(tmp_path, rows, CAPTIONS[80:])["test"].scores
    np.testing.assert_array_equal(found, plain)
    said = capsys.readouterr().err
    assert "ids are paths; 4 of 20 images found" in said
    assert "4 images stand there 5 times each" in said
    rows[3] += 1
    said = refusal(scores_of, tmp_path, rows, CAPTIONS[80:])
    assert "rows 2 and 3 (from 0) have the id test3.jpg, and differ" in said


@pytest.mark.parametrize("per_image", [1, 2])
def test_the_folder_of_clip_retrieval(tmp_path, per_image):
    """A row for each caption: with two an image stands there twice."""
    corpus = a_corpus(per_image=per_image)
    texts = [f"text {n}" for n in range(len(corpus.captions))]
    corpus = Pairs(corpus.images, corpus.captions.assign(text=texts))
    pictures = IMAGES[:12].astype(np.float16)
    vectors = CAPTIONS[: len(texts)].astype(np.float16)
    plain = scores_of(tmp_path, pictures, vectors, corpus)["test"].scores[:]
    order = RANDOM.permutation(12)
    rows = np.repeat(order * per_image, per_image) + np.tile(np.arange(per_image), 12)
    images = [f"/photos/{corpus.captions['image_id'][row]}" for row in rows]
    write_parts(
        tmp_path / "emb",
        images,
        np.repeat(pictures[order], per_image, 0),
        [texts[row] for row in rows],
        vectors[rows],
    )
    found = written(tmp_path / "emb", corpus, images="img_emb", captions="text_emb")
    np.testing.assert_array_equal(found["test"].scores, plain)


def test_a_mat_file_may_have_a_column_for_each_image(tmp_path):
    plain = scores_of(tmp_path, IMAGES, CAPTIONS)["test"].scores[:]
    savemat(tmp_path / "i.mat", {"feats": IMAGES.T})
    found = written(tmp_path, FIFTH, images="i.mat", captions="c.npy")["test"].scores
    np.testing.assert_array_equal(found, plain)
    savemat(tmp_path / "i.mat", {"feats": IMAGES[:, :4]})
    said = refusal(written, tmp_path, FIFTH, images="i.mat", captions="c.npy")
    assert "20 rows and 4 columns; either could be the image_ids" in said


def test_equal_scores_are_said(tmp_path, capsys):
    scores_of(tmp_path, np.ones((4, 6)) + 0 * IMAGES[:4], CAPTIONS[80:] * 0 + 1)
    assert "all scores of the test split are equal" in capsys.readouterr().err


def test_a_folder_of_other_things_is_named(tmp_path):
    (tmp_path / "emb").mkdir()
    np.save(tmp_path / "c.npy", CAPTIONS)
    said = refusal(written, tmp_path, FIFTH, images="emb", captions="c.npy")
    assert "emb: a folder without img_emb_0.npy" in said
