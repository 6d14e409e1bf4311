"""Score files from other programs' files against plain numpy, and what does not fit the corpus."""

import tracemalloc

import numpy as np
import pytest
from commands import refusal
from external_cases import a_corpus, written

from pipeline.evaluation import digits, external
from pipeline.evaluation.external import write_external
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError

RANDOM = np.random.default_rng(7)


CORPUS = a_corpus()
WHOLE = RANDOM.standard_normal((12, 24)).astype(np.float32)
PICTURES = RANDOM.standard_normal((12, 6))
TEXTS = RANDOM.standard_normal((24, 6))
TEST, VAL = (slice(8, 12), slice(16, 24)), (slice(5, 8), slice(10, 16))


def save_ids(path, table, key, order):
    path.write_text("".join(f"{table[key].iat[n]}\n" for n in order))


@pytest.mark.parametrize("block", [1, 200, 1 << 20])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("has_ids", [False, True])
def test_either_side_comes_first_in_any_order(tmp_path, monkeypatch, block, is_turned, has_ids):
    monkeypatch.setattr("pipeline.features.arrays.file.BLOCK_BYTES", block)
    rows, columns = np.arange(12), np.arange(24)
    if has_ids:
        rows, columns = RANDOM.permutation(rows), RANDOM.permutation(columns)
        save_ids(tmp_path / "my.image_ids.txt", CORPUS.images, "image_id", rows)
        save_ids(tmp_path / "my.caption_ids.txt", CORPUS.captions, "caption_id", columns)
    matrix = WHOLE[np.ix_(rows, columns)]
    np.save(tmp_path / "my.npy", matrix.T if is_turned else matrix)
    found = written(tmp_path, scores="my.npy")
    np.testing.assert_array_equal(found["test"].scores, WHOLE[TEST])
    np.testing.assert_array_equal(found["val"].scores, WHOLE[VAL])


def test_a_matrix_of_the_validation_split_of_its_own(tmp_path):
    np.save(tmp_path / "my.npy", WHOLE[TEST].astype(np.float64))
    assert list(written(tmp_path, scores="my.npy")) == ["test"]
    np.save(tmp_path / "val.npy", WHOLE[VAL].T)
    found = written(tmp_path, scores="my.npy", val_scores="val.npy")
    assert found["test"].image_ids == [f"test{n}.jpg" for n in range(4)]
    assert found["test"].caption_image_ids == [f"test{n // 2}.jpg" for n in range(8)]
    np.testing.assert_array_equal(found["test"].scores, WHOLE[TEST])
    np.testing.assert_array_equal(found["val"].scores, WHOLE[VAL])
    np.save(tmp_path / "my.npy", WHOLE)
    with pytest.raises(WorkbenchError, match="has the validation split, too"):
        written(tmp_path, scores="my.npy", val_scores="val.npy")


def test_equal_numbers_are_images_by_captions(tmp_path, capsys):
    corpus = a_corpus({"test": 4}, per_image=1)
    np.save(tmp_path / "my.npy", WHOLE[:4, :4])
    found = written(tmp_path, corpus, scores="my.npy")
    np.testing.assert_array_equal(found["test"].scores, WHOLE[:4, :4])
    assert (
        "my.npy: 4 images by as many captions: the shape does not say which are the rows; taken as "
        "images. Transpose it if they are captions"
    ) in capsys.readouterr().err


@pytest.mark.parametrize("tile", [1, 3, 1024])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_embeddings_are_compared_as_numpy_does(tmp_path, monkeypatch, similarity, tile):
    monkeypatch.setattr(external, "TILE", tile)
    order = RANDOM.permutation(24)
    np.save(tmp_path / "i.npy", PICTURES)
    np.savez(
        tmp_path / "c.npz", x=TEXTS[order], ids=CORPUS.captions["caption_id"].to_numpy(str)[order]
    )
    found = written(tmp_path, images="i.npy", captions="c.npz", similarity=similarity)
    images, texts = PICTURES, TEXTS
    if similarity == "cosine":
        images = images / np.linalg.norm(images, axis=1, keepdims=True)
        texts = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    for split, part in (("test", TEST), ("val", VAL)):
        wanted = (images @ texts.T)[part]
        np.testing.assert_allclose(found[split].scores, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[split].image_embeddings, images[part[0]], rtol=1e-6)
        np.testing.assert_allclose(found[split].caption_embeddings, texts[part[1]], rtol=1e-6)


def compared(folder, images=PICTURES, **settings):
    np.save(folder / "i.npy", images)
    np.save(folder / "c.npy", TEXTS)
    return written(folder, images="i.npy", captions="c.npy", **settings)


def test_the_file_has_the_same_bytes_again(tmp_path):
    compared(tmp_path)
    before = (tmp_path / "out.h5").read_bytes()
    compared(tmp_path)
    assert (tmp_path / "out.h5").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.npy", "i.npy", "out.h5"]


WRONG_IDS = [
    ([8, 9, 10, 10], ["more than once (1): test2.jpg", "are missing (1): test3.jpg"]),
    ([0, 1], ["ids of the test split that are missing (4): test0.jpg"]),
    ([-1, 9, 10, 11], ["ids that the corpus does not have (1): x.jpg"]),
    ([5, 8, 9, 10, 11], ["ids of the val split that are missing (2): val1.jpg"]),
]


@pytest.mark.parametrize(("rows", "words"), WRONG_IDS)
def test_ids_that_do_not_fit_are_named_at_once(tmp_path, rows, words):
    """-1 is an image of another corpus."""
    ids = ["x.jpg" if row < 0 else CORPUS.images["image_id"][row] for row in rows]
    (tmp_path / "i.ids.txt").write_text("\n".join(ids))
    said = refusal(compared, tmp_path, PICTURES[rows])
    assert all(word in said for word in words)
    assert said.endswith("\nids are those of the corpus, such as 'train0.jpg'")
    assert not (tmp_path / "out.h5").exists()


def test_shapes_that_do_not_fit_are_named(tmp_path):
    np.save(tmp_path / "my.npy", WHOLE[:7])
    said = refusal(written, tmp_path, scores="my.npy")
    assert "my.npy: shape (7, 24); expected are 4 or 12 images by 8 or 24 captions" in said
    words = "7 rows without ids; the corpus has 4 in its test split and 12 in all"
    assert words in refusal(compared, tmp_path, PICTURES[:7])
    (tmp_path / "i.ids.txt").write_text("test1.jpg\n")
    assert "i.npy, image_ids: 1 ids for 7 rows" in refusal(compared, tmp_path, PICTURES[:7])
    with pytest.raises(WorkbenchError, match=r"i.npy is 5 wide, .*c.npy 6"):
        compared(tmp_path, PICTURES[:, :5])


def test_a_row_of_zeros_has_no_cosine(tmp_path):
    pictures = PICTURES.copy()
    pictures[9] = 0
    assert "row 9 (from 0) is all zeros" in refusal(compared, tmp_path, pictures)
    found = compared(tmp_path, pictures, similarity="dot")
    assert not found["test"].scores[1].any()


def test_scores_that_are_all_equal_are_said(tmp_path, capsys):
    compared(tmp_path)
    assert "are equal, which counts against them" not in capsys.readouterr().err
    compared(tmp_path, np.zeros_like(PICTURES), similarity="dot")
    assert "all scores of the test split are equal" in capsys.readouterr().err


LOGITS = 18 + 5 * WHOLE.astype(np.float64)
EACH = np.arange(288).reshape(12, 24)[:, RANDOM.permutation(24)]  # sorted rows are refused


@pytest.mark.parametrize(
    ("values", "mended"),
    [
        (1 / (1 + np.exp(-LOGITS)), LOGITS),
        (LOGITS + 1e9, LOGITS + 1e9 - (LOGITS + 1e9).mean()),
        ((1 << 40) + EACH, EACH - EACH.mean()),
    ],
)
@pytest.mark.parametrize("block", [1, 400, 1 << 20])
def test_digits_that_float32_does_not_hold(tmp_path, monkeypatch, values, mended, block):
    monkeypatch.setattr("pipeline.features.arrays.file.BLOCK_BYTES", block)
    np.save(tmp_path / "my.npy", values)
    said = refusal(written, tmp_path, scores="my.npy")
    assert "the best two scores become equal in 12 of 12 rows and 24 of 24 columns, and" in said
    assert "the logits that they were made of, of others scores - scores.mean()" in said
    np.save(tmp_path / "my.npy", mended)
    found = written(tmp_path, scores="my.npy")
    np.testing.assert_allclose(found["test"].scores, mended[TEST], rtol=1e-5, atol=1e-5)


def test_a_few_digits_that_are_lost_are_said(tmp_path, capsys):
    corpus = a_corpus({"test": 150}, per_image=2)
    values = RANDOM.permutation(150 * 300).reshape(150, 300).astype(np.float64)
    values[3, 7] = values.max() + 1
    values[3, 9] = values[3, 7] + 1e-9
    np.save(tmp_path / "my.npy", values)
    written(tmp_path, corpus, scores="my.npy")
    said = capsys.readouterr().err
    assert "the best two scores become equal in 1 of 150 rows and 0 of 300 columns" in said
    np.save(tmp_path / "my.npy", values.astype(np.float32))
    written(tmp_path, corpus, scores="my.npy")
    assert "become equal" not in capsys.readouterr().err


@pytest.mark.parametrize("lines", [1, 1024])
def test_tied_queries_are_counted_in_both_directions(tmp_path, monkeypatch, lines):
    monkeypatch.setattr(digits, "LINES", lines)
    scores = WHOLE[TEST].copy()
    scores[0] = 1.0  # image 0 and, unless another image is better, its two captions
    scores[1:, :2] = [-1.0, 1.0]
    np.save(tmp_path / "my.npy", scores)
    written(tmp_path, scores="my.npy")
    assert GroupFile(tmp_path / "out.h5").attributes["tied"] == pytest.approx(100 * 2 / 12)


def test_memory_does_not_grow_with_the_matrix(tmp_path):
    """A matrix of 48 MB, doubles, in another order; a block of both sides takes less."""
    corpus = a_corpus({"test": 1500}, per_image=4)
    values = RANDOM.standard_normal((1500, 6000)).astype(np.float64)
    np.save(tmp_path / "my.npy", values)
    save_ids(tmp_path / "my.image_ids.txt", corpus.images, "image_id", RANDOM.permutation(1500))
    tracemalloc.start()
    write_external(tmp_path / "out.h5", {"scores": tmp_path / "my.npy"}, "cosine", corpus)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes / 2


NAMES_OF_TURNED = ["scores_t2i", "logits_per_text", "text2image", "cap_to_img", "t2i_sims"]


@pytest.mark.parametrize("name", NAMES_OF_TURNED)
@pytest.mark.parametrize("inside", [False, True])
def test_a_name_says_the_side_of_a_square_matrix(tmp_path, name, inside, capsys):
    corpus = a_corpus(per_image=1)
    if inside:
        np.savez(tmp_path / "s.npz", **{name: SQUARE.T})
        found = written(tmp_path, corpus, scores="s.npz")
    else:
        np.save(tmp_path / f"{name}.npy", SQUARE.T)
        found = written(tmp_path, corpus, scores=f"{name}.npy")
    np.testing.assert_array_equal(found["test"].scores, SQUARE)
    assert "by its name, its rows are captions" in capsys.readouterr().err


SQUARE = RANDOM.standard_normal((4, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.argsort(WHOLE), "each row has every number from 0 to 23 once, as argsort gives them"),
        (np.sort(WHOLE), "every row is sorted, as faiss and topk give the scores of the best"),
        (-np.sort(WHOLE), "every row is sorted"),
    ],
)
def test_places_and_sorted_scores_are_no_matrix_of_scores(tmp_path, values, reason):
    np.save(tmp_path / "s.npy", values)
    said = refusal(written, tmp_path, scores="s.npy")
    assert reason in said
    assert "save the matrix of scores before it is sorted" in said


@pytest.mark.parametrize("values", [np.ones((12, 24)), np.round(WHOLE * 100).astype(int)])
def test_equal_scores_and_whole_numbers_are_scores(tmp_path, values):
    np.save(tmp_path / "s.npy", values)
    assert written(tmp_path, scores="s.npy")["test"].scores.shape == (4, 8)


def test_embeddings_that_are_called_the_other_way_round_are_refused(tmp_path):
    np.save(tmp_path / "image_embeds.npy", PICTURES)
    np.save(tmp_path / "text_embeds.npy", TEXTS)
    written(tmp_path, images="image_embeds.npy", captions="text_embeds.npy")
    said = refusal(written, tmp_path, images="text_embeds.npy", captions="image_embeds.npy")
    assert "they are called the other way round" in said


def test_ids_of_one_side_in_another_order_are_said(tmp_path, capsys):
    np.save(tmp_path / "s.npy", WHOLE[TEST])
    images = CORPUS.images["image_id"].tolist()[-4:]
    (tmp_path / "s.image_ids.txt").write_text("\n".join(images))
    written(tmp_path, scores="s.npy")
    line = "caption_ids: no ids, so they are taken in the order of the corpus, though the image_ids"
    assert line not in capsys.readouterr().err
    (tmp_path / "s.image_ids.txt").write_text("\n".join(images[::-1]))
    written(tmp_path, scores="s.npy")
    assert line in capsys.readouterr().err
