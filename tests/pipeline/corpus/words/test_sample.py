from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.words.sample import LONGEST_NAME, NEVER, WordSample
from pipeline.features.feature_file import FeatureFile, write_features


def drawn(entries, size, seed=0, excluded=()):
    """The sample of a list of (word, vector): what a reader does, without a file."""
    sample = WordSample(size, seed, excluded)
    while sample.next <= len(entries):
        sample.offer(*entries[sample.next - 1])
    return sample.result(len(entries[0][1]) if entries else 1)


def numbered(count):
    return [(f"w{i}", np.array([i, -i], np.float32)) for i in range(count)]


@given(st.integers(0, 60), st.integers(1, 70), st.integers(0, 9), st.sets(st.integers(0, 59)))
def test_as_many_as_qualify_and_each_with_its_own_vector(count, size, seed, excluded):
    entries = numbered(count)
    for i in range(0, count, 7):
        entries[i][1][i % 2] = [np.nan, np.inf, -np.inf][i % 3]
    names = {f"w{i}" for i in excluded}
    fitting = {word: row for word, row in entries if np.isfinite(row).all() and word not in names}
    found = drawn(entries, size, seed, names)
    assert len(set(found.names)) == len(found.names) == min(size, len(fitting))
    assert found.vectors.dtype == np.float32
    assert found.vectors.shape[0] == len(found.names)
    for word, row in zip(found.names, found.vectors, strict=True):
        np.testing.assert_array_equal(row, fitting[word])


@pytest.mark.parametrize("disqualified", [0, 6])
def test_every_pair_of_entries_is_equally_probable(disqualified):
    """5 of 12 entries, 8,000 seeds: a pair is drawn with probability (5 x 4) / (12 x 11)."""
    entries, seeds = numbered(12 + disqualified), 8_000
    excluded = {f"w{3 * i + 1}" for i in range(disqualified)}
    counts = {pair: 0 for pair in combinations([w for w, _ in entries if w not in excluded], 2)}
    for seed in range(seeds):
        order = {word: i for i, (word, _) in enumerate(entries)}
        names = sorted(drawn(entries, 5, seed, excluded).names, key=order.__getitem__)
        for pair in combinations(names, 2):
            counts[pair] += 1
    share = 5 * 4 / (12 * 11)
    limit = 4.5 * np.sqrt(seeds * share * (1 - share))
    np.testing.assert_allclose(list(counts.values()), seeds * share, rtol=0, atol=limit)


def test_few_entries_of_a_long_file_are_looked_at():
    """Li 1994: n (1 + log(N / n)) of N entries are expected, here 100 x 7.9."""
    sample, looked_at = WordSample(100, 0), 0
    while sample.next <= 100_000:
        sample.offer(f"w{sample.next}", np.zeros(2, np.float32))
        looked_at += 1
    assert 600 < looked_at < 1000


def test_no_sample_asks_for_nothing_and_the_seed_decides():
    assert WordSample(0, 0).next == NEVER
    entries = numbered(3000)
    first, again, other = (drawn(entries, 1500, seed) for seed in (1, 1, 2))
    assert first.names == again.names
    np.testing.assert_array_equal(first.vectors, again.vectors)
    assert set(first.names) != set(other.names)


def test_names_are_ids_of_a_feature_file_whatever_the_words_are(tmp_path):
    words = ["a", "", "a", "n\0l", "#2", "\udcff", "x" * (LONGEST_NAME + 1), "é", "a", "#x", " "]
    found = drawn([(word, np.full(2, i, np.float32)) for i, word in enumerate(words)], 20)
    expected = ["a", "#2", "#3", "#4", "#5", "#6", "#7", "é", "#9", "#x", " "]
    assert found.names == expected
    write_features(tmp_path / "b.h5", found.names, {"features": found.vectors}, {})
    assert FeatureFile(tmp_path / "b.h5").ids == expected
