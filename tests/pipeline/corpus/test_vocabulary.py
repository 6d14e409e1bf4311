import json
from dataclasses import replace

import numpy as np
import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.vocabulary import (
    RESERVED,
    Vocabulary,
    content_digest,
    load_background,
    load_known_vectors,
    load_word_vectors,
)
from pipeline.corpus.words.matrix import build_vocabulary, count_words, frequent_words
from pipeline.corpus.words.sample import Background
from pipeline.corpus.words.vectors import WordVectors
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import WorkbenchError

SENTENCES = [["a", "dog", "and", "a", "cat"], ["a", "dog"], ["a", "zebra"]]
# By count, then alphabet: a 4, dog 2, and 1, cat 1, zebra 1.
VECTORS = WordVectors(
    3, {word: np.full(3, value, np.float32) for word, value in {"dog": 2, "cat": -4}.items()}
)


def built(sentences=SENTENCES, vectors=VECTORS, **changes):
    options = {"min_count": 1, "known_words_only": False, "sentence_markers": False, "seed": 0}
    counts = count_words(sentences)
    return build_vocabulary(counts, len(sentences), vectors, **(options | changes))


def test_min_count_and_known_words_count_what_they_leave_out():
    vocabulary = built(min_count=2).vocabulary
    assert vocabulary.tokens == ("<pad>", "<unk>", "a", "dog")
    assert vocabulary.counts == (0, 3, 4, 2)
    vocabulary = built(known_words_only=True).vocabulary
    assert vocabulary.tokens == ("<pad>", "<unk>", "dog", "cat")
    assert vocabulary.counts == (0, 6, 2, 1)


def test_sentence_markers_come_after_unk_and_around_captions():
    vocabulary = built(sentence_markers=True).vocabulary
    assert vocabulary.tokens[:5] == ("<pad>", "<unk>", "<start>", "<end>", "a")
    assert vocabulary.counts[:5] == (0, 0, 3, 3, 4)
    assert vocabulary.encode(["dog", "unseen"]) == [2, 5, 1, 3]
    assert vocabulary.encode([]) == [2, 3]


@pytest.mark.parametrize("sentence_markers", [True, False])
def test_words_spelt_like_reserved_tokens_are_unknown_words(sentence_markers):
    sentences = [*SENTENCES, ["<pad>", "<unk>", "<start>", "<end>", "dog"]]
    vocabulary = built(sentences, sentence_markers=sentence_markers).vocabulary
    assert len(set(vocabulary.tokens)) == len(vocabulary.tokens)
    assert vocabulary.counts[Vocabulary.UNK] == 4
    ids = vocabulary.encode(RESERVED)
    assert (ids[1:-1] if sentence_markers else ids) == [Vocabulary.UNK] * 4


@given(
    st.lists(st.lists(st.text(max_size=3), max_size=6), min_size=1, max_size=8),
    st.integers(1, 3),
    st.booleans(),
)
def test_encode_gives_the_ids_of_tokens_but_for_unknown_words(sentences, min_count, markers):
    counts = count_words(sentences)
    assert sum(counts.values()) == sum(map(len, sentences))
    try:
        words = frequent_words(counts, min_count)
    except WorkbenchError:
        assert all(counts[word] < min_count for word in counts if word not in RESERVED)
        return
    tokens = (*RESERVED[: 4 if markers else 2], *words)
    vocabulary = Vocabulary(tokens, (0,) * len(tokens), markers)
    assert len(set(words)) == len(words)
    for sentence in sentences:
        decoded = [tokens[i] for i in vocabulary.encode(sentence)]
        expected = [word if word in words else "<unk>" for word in sentence]
        assert decoded == (["<start>", *expected, "<end>"] if markers else expected)


def test_matrix_has_zero_padding_known_rows_and_random_rows_of_their_scale():
    generator = np.random.default_rng(1)
    known = {f"known{i}": generator.normal(0, 0.3, 50).astype(np.float32) for i in range(100)}
    sentences = [[*known, *(f"missing{i}" for i in range(100))]]
    result = built(sentences, WordVectors(50, known), sentence_markers=True)
    matrix, tokens = result.matrix, result.vocabulary.tokens
    assert matrix.dtype == np.float32
    assert matrix.shape == (204, 50)
    assert not matrix[Vocabulary.PAD].any()
    for row, token in zip(matrix[1:], tokens[1:], strict=True):
        if token in known:
            np.testing.assert_array_equal(row, known[token])
    drawn = matrix[[i for i, token in enumerate(tokens) if i and token not in known]]
    assert len(drawn) == 103
    assert len(np.unique(drawn, axis=0)) == 103
    assert drawn.std() == pytest.approx(0.3, rel=0.05)
    assert drawn.mean() == pytest.approx(0, abs=0.02)


def test_matrix_repeats_with_the_seed_only():
    np.testing.assert_array_equal(built().matrix, built().matrix)
    different = built(seed=1).matrix != built().matrix
    assert different.any(axis=1).tolist() == [False, True, True, False, True, False, True]


def test_vectors_of_none_of_the_words_are_a_plain_error():
    with pytest.raises(WorkbenchError, match=r"none of the 5 words .* among them a, dog, and"):
        built(vectors=WordVectors(3, {}))


MADE_FROM = {"source": "train", "seed": 0}


def test_written_folder_is_readable_and_read_back(tmp_path):
    result = built([*SENTENCES, ["naïve", "日本"]], sentence_markers=True)
    result.write(tmp_path, MADE_FROM)
    vocabulary = Vocabulary.load(tmp_path)
    assert vocabulary == result.vocabulary
    assert vocabulary.sha256 == result.vocabulary.sha256
    np.testing.assert_array_equal(load_word_vectors(tmp_path), result.matrix)
    assert load_word_vectors(tmp_path, dim=3).dtype == np.float32
    file = FeatureFile(tmp_path / "vectors.h5")
    assert file.ids == list(vocabulary.tokens)
    assert file.attributes["vocabulary_sha256"] == vocabulary.sha256
    values = json.loads((tmp_path / "vocabulary.json").read_text(encoding="utf-8"))
    assert values["made_from"] == MADE_FROM
    assert values["coverage"]["missing"] == {"a": 4, "and": 1, "naïve": 1, "zebra": 1, "日本": 1}
    assert '    "naïve": 1,\n' in (tmp_path / "vocabulary.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("sentence_markers", [True, False])
@pytest.mark.parametrize("known_words_only", [True, False])
def test_known_vectors_are_those_of_known_words(tmp_path, sentence_markers, known_words_only):
    vectors = WordVectors(3, VECTORS.rows | {"<unk>": np.ones(3, np.float32)})
    options = {"sentence_markers": sentence_markers, "known_words_only": known_words_only}
    result = built(vectors=vectors, **options)
    result.write(tmp_path, MADE_FROM)
    words, matrix = load_known_vectors(tmp_path)
    assert words == ["dog", "cat"]
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, [[2, 2, 2], [-4, -4, -4]])
    known = FeatureFile(tmp_path / "vectors.h5").load("known")
    assert known.dtype == np.uint8
    assert known.tolist() == [token in vectors.rows for token in result.vocabulary.tokens]


def with_background(**changes):
    others = Background(["Dog", "#3"], np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    return built(vectors=replace(VECTORS, background=others), **changes)


def test_the_background_is_kept_beside_the_vectors_and_not_longer_than_they(tmp_path):
    with_background().write(tmp_path, MADE_FROM)
    vectors = load_background(tmp_path)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, [[1, 2, 3], [4, 5, 6]])
    assert FeatureFile(tmp_path / "background.h5").ids == ["Dog", "#3"]
    for without in (built(), built(vectors=replace(VECTORS, background=Background([], vectors)))):
        with_background().write(tmp_path, MADE_FROM)
        without.write(tmp_path, MADE_FROM)
        assert load_background(tmp_path) is None
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["vectors.h5", "vocabulary.json"]


def test_vectors_of_another_width_or_vocabulary_are_refused(tmp_path):
    built().write(tmp_path / "a", MADE_FROM)
    with pytest.raises(WorkbenchError, match="have 3 dimensions, but 300 are asked for"):
        load_word_vectors(tmp_path / "a", dim=300)


def test_a_vocabulary_of_another_version_is_refused(tmp_path):
    built().write(tmp_path, MADE_FROM)
    path = tmp_path / "vocabulary.json"
    values = json.loads(path.read_text(encoding="utf-8")) | {"schema_version": 2}
    del values["sha256"]
    path.write_text(json.dumps(values | {"sha256": content_digest(values)}), encoding="utf-8")
    assert "schema_version 2" in refusal(Vocabulary.load, tmp_path)


def test_a_damaged_vocabulary_and_no_file_are_plain_errors(tmp_path):
    assert "vocabulary.json: no such file" in refusal(Vocabulary.load, tmp_path)
    built().write(tmp_path, MADE_FROM)
    path = tmp_path / "vocabulary.json"
    whole = path.read_bytes()
    for new in (b'"dog": 3', b'"dog":', b'"dog\xff": 2'):
        path.write_bytes(whole.replace(b'"dog": 2', new))
        assert "vocabulary.json: damaged" in refusal(Vocabulary.load, tmp_path)
