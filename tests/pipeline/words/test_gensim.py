import os
import pickle
import shutil

import numpy as np
import pytest
from gensim.models import KeyedVectors, Word2Vec

from pipeline.runtime.errors import WorkbenchError
from pipeline.words.gensim import read_keyed_vectors
from pipeline.words.vectors import read_vectors


@pytest.fixture
def vectors():
    generator = np.random.default_rng(0)
    kv = KeyedVectors(5)
    kv.add_vectors(["the", "naïve", "dog"], generator.normal(size=(3, 5)).astype(np.float32))
    return kv


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sep_limit": 1},
        {"pickle_protocol": 2},
        {"pickle_protocol": 3},
        {"pickle_protocol": 5},
        {"separately": ["vectors"]},
    ],
)
def test_reads_what_gensim_saves_and_loads(tmp_path, vectors, options):
    path = tmp_path / "v.kv"
    vectors.fill_norms()
    vectors.save(str(path), **options)
    theirs = KeyedVectors.load(str(path))
    words, matrix = read_keyed_vectors(path)
    assert words == theirs.index_to_key
    np.testing.assert_array_equal(matrix, theirs.vectors)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_reads_every_float_type_and_order(tmp_path, vectors, dtype, order, protocol):
    path = tmp_path / "v.kv"
    vectors.vectors = np.asarray(vectors.vectors, dtype, order=order)
    vectors.save(str(path), pickle_protocol=protocol)
    np.testing.assert_array_equal(read_keyed_vectors(path)[1], vectors.vectors)


@pytest.mark.parametrize("sep_limit", [1, 10**9])
def test_reads_the_vectors_of_a_whole_model(tmp_path, sep_limit):
    path = tmp_path / "word2vec.model"
    model = Word2Vec([["a", "dog", "runs"]] * 5, vector_size=4, min_count=1)
    model.save(str(path), sep_limit=sep_limit)
    found = read_vectors("gensim", path, ["dog", "absent"])
    assert found.rows.keys() == {"dog"}
    np.testing.assert_array_equal(found.rows["dog"], model.wv["dog"])


def test_values_that_are_not_finite_name_their_words(tmp_path, vectors):
    path = tmp_path / "v.kv"
    vectors.vectors[2, 1] = np.nan
    vectors.save(str(path))
    with pytest.raises(WorkbenchError, match="in the vectors of dog\n"):
        read_vectors("gensim", path, ["the", "dog"])
    assert read_vectors("gensim", path, ["the"]).rows.keys() == {"the"}


def test_the_first_of_equal_words_counts(tmp_path, vectors):
    vectors.index_to_key = ["dog", "the", "dog"]
    vectors.save(str(tmp_path / "v.kv"))
    found = read_vectors("gensim", tmp_path / "v.kv", ["dog"])
    np.testing.assert_array_equal(found.rows["dog"], vectors.vectors[0])


class Hostile:
    """Touches a file when it is unpickled."""

    def __init__(self, path, call=os.system):
        self.path, self.call = path, call

    def __reduce__(self):
        return self.call, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("call", [os.system, eval, exec])
def test_a_hostile_pickle_is_refused_and_not_run(tmp_path, vectors, protocol, hidden, call):
    path, harmed = tmp_path / "v.kv", tmp_path / "harmed"
    hostile = Hostile(harmed, call)
    if hidden:
        vectors.norms = hostile
        vectors.save(str(path), pickle_protocol=protocol)
    else:
        path.write_bytes(pickle.dumps(hostile, protocol=protocol))
    with pytest.raises(
        WorkbenchError, match=r"asks to run \w+\.(system|eval|exec).*nothing was run"
    ):
        read_keyed_vectors(path)
    assert not harmed.exists()


def test_the_hostile_pickle_is_one(tmp_path):
    """Without this the test above could pass for a pickle that does nothing."""
    harmed = tmp_path / "harmed"
    pickle.loads(pickle.dumps(Hostile(harmed)))
    assert harmed.exists()


def test_calls_into_allowed_packages_are_not_run_either(tmp_path):
    """numpy.testing has a function that runs text: the name may pass, but nothing is called."""
    harmed, path = tmp_path / "harmed", tmp_path / "v.kv"
    call = b"cnumpy.testing\nrunstring\n"
    content = b"\x80\x02" + call + f"(Vopen({str(harmed)!r}, 'w').close()\n}}tR.".encode()
    pickle.loads(content)
    assert harmed.exists(), "the pickle is meant to do harm"
    harmed.unlink()
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match="not a file of gensim's KeyedVectors"):
        read_keyed_vectors(path)
    assert not harmed.exists()


# 60 tuples, each of the one before twice: to hash the last would take longer than anyone has.
DOUBLING = b"".join(b"h%ch%c\x86\x94" % (i, i) for i in range(60))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        b"\x80\x04.",
        b"\x80\x04N.",
        b"\x80\x04]\x94.",
        b"\x80\x04]r\xff\xff\xff\x7f.",  # memo place 2**31
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x0f.",  # 2**60 bytes announced
        b"\x80\x04" + b"(" * 10_000 + b"t" * 10_000 + b".",  # deep nesting
        b"\x80\x04)\x94" + DOUBLING + b"}h\x3cNs.",
    ],
)
def test_other_pickles_are_refused(tmp_path, content):
    path = tmp_path / "v.kv"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match="not a file of gensim's KeyedVectors"):
        read_keyed_vectors(path)


def test_a_matrix_that_does_not_fit_its_words_is_refused(tmp_path, vectors):
    path = tmp_path / "v.kv"
    for matrix in (np.ones((2, 5), np.float32), np.ones(3, np.float32), np.ones((3, 5), np.int64)):
        vectors.vectors = matrix
        vectors.save(str(path))
        with pytest.raises(WorkbenchError, match="not a file of gensim's KeyedVectors"):
            read_keyed_vectors(path)


def test_a_missing_or_wrong_file_beside_is_refused(tmp_path, vectors):
    path, beside = tmp_path / "v.kv", tmp_path / "v.kv.vectors.npy"
    vectors.save(str(path), sep_limit=1)
    whole = beside.read_bytes()
    for content in (b"", whole[:50], whole[:-1], pickle.dumps(Hostile(tmp_path / "harmed"))):
        beside.write_bytes(content)
        with pytest.raises(WorkbenchError, match=r"v\.kv\.vectors\.npy: not a readable"):
            read_keyed_vectors(path)
    np.save(beside, np.array([Hostile(tmp_path / "harmed")], object), allow_pickle=True)
    with pytest.raises(WorkbenchError, match=r"v\.kv\.vectors\.npy: not a readable"):
        read_keyed_vectors(path)
    assert not (tmp_path / "harmed").exists()
    beside.unlink()
    with pytest.raises(WorkbenchError, match=r"v\.kv\.vectors\.npy: no such file"):
        read_keyed_vectors(path)


def test_a_renamed_file_looks_beside_itself_only(tmp_path, vectors):
    """The name of the matrix file comes from the path given, never from the pickle."""
    vectors.save(str(tmp_path / "v.kv"), sep_limit=1)
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.copy(tmp_path / "v.kv", tmp_path / "elsewhere" / "w.kv")
    with pytest.raises(WorkbenchError, match=r"elsewhere/w\.kv\.vectors\.npy: no such file"):
        read_keyed_vectors(moved)
