import gzip
from itertools import combinations

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pipeline.corpus.words import files as vector_files
from pipeline.corpus.words.vectors import codings, read_vectors, train_vectors
from pipeline.runtime.errors import WorkbenchError

on_disk = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])

# What may stand in a file as a word: no blanks and no lone surrogates, but all scripts.
words = st.text(
    st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=12
)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw, word=words):
    dim = draw(st.integers(1, 6))
    named = draw(st.lists(word, min_size=1, max_size=12, unique=True))
    row = st.lists(finite, min_size=dim, max_size=dim)
    return {name: np.array(draw(row), np.float32) for name in named}


def binary(table, newline=b"", count=None):
    dim = len(next(iter(table.values())))
    entries = [
        name.encode() + b" " + row.astype("<f4").tobytes() + newline for name, row in table.items()
    ]
    return f"{count or len(table)} {dim}\n".encode() + b"".join(entries)


def text(table, header=True, end="\n"):
    dim = len(next(iter(table.values())))
    lines = [" ".join([name, *map(repr, row.tolist())]) for name, row in table.items()]
    return "".join(line + end for line in [f"{len(table)} {dim}"] * header + lines).encode()


FORMATS = ("bin", "bin.gz", "txt", "txt.gz", "glove", "glove.gz")


def write_as(form, table, path):
    kind, _, packed = form.partition(".")
    content = binary(table) if kind == "bin" else text(table, header=kind == "txt")
    path.write_bytes(gzip.compress(content) if packed else content)
    return "word2vec_bin" if kind == "bin" else "word2vec_text"


def assert_same(vectors, table):
    assert vectors.rows.keys() == table.keys()
    for name, row in table.items():
        assert vectors.rows[name].dtype == np.float32
        np.testing.assert_array_equal(vectors.rows[name], row)


def refuses(source, path, wanted=("a",), match=None):
    with pytest.raises(WorkbenchError, match=match) as error:
        read_vectors(source, path, wanted)
    assert str(path) in error.value.message


@pytest.fixture
def random_table():
    generator = np.random.default_rng(0)
    names = ["the", "naïve", "Paris", "paris", "日本", "new_york", *(f"w{i}" for i in range(200))]
    return {name: generator.normal(size=7).astype(np.float32) for name in names}


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("compressed", [True, False])
def test_same_rows_as_gensims_loader(tmp_path, random_table, is_binary, compressed, monkeypatch):
    """Both on a file by gensim; the buffer is small, so that entries lie across its ends."""
    monkeypatch.setattr(vector_files, "BUFFER", 61)
    kv = KeyedVectors(7)
    kv.add_vectors(list(random_table), np.stack(list(random_table.values())))
    path = tmp_path / ("vectors.gz" if compressed else "vectors")
    kv.save_word2vec_format(path, binary=is_binary)
    theirs = KeyedVectors.load_word2vec_format(path, binary=is_binary)
    wanted = ["the", "naïve", "paris", "日本", "w3", "w199", "absent", "The"]
    ours = read_vectors("word2vec_bin" if is_binary else "word2vec_text", path, wanted)
    assert ours.dim == 7
    assert_same(ours, {word: theirs[word] for word in wanted if word in theirs})


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_entries_may_lie_anywhere_in_the_buffer(tmp_path, random_table, newline, monkeypatch):
    path = tmp_path / "v.bin"
    path.write_bytes(binary(random_table, newline))
    for size in range(45, 100):
        monkeypatch.setattr(vector_files, "BUFFER", size)
        assert_same(read_vectors("word2vec_bin", path, random_table), random_table)


# GloVe 840B has words such as ". . ." and "at name@domain.com".
spaced = st.lists(words, min_size=1, max_size=3).map(" ".join)


def looks_numeric(word):
    return vector_files.NUMBER.fullmatch(word.rsplit(" ", 1)[-1].encode()) is not None


@on_disk
@given(table=tables(spaced), header=st.booleans(), end=st.sampled_from(["\n", " \n", "\r\n"]))
def test_text_round_trip_with_spaces_in_words(tmp_path, table, header, end):
    assume(header or not any(" " in word and looks_numeric(word) for word in table))
    first, row = next(iter(table.items()))
    assume(header or len(row) > 1 or not first[0].isdecimal())  # "3 5" is a header
    path = tmp_path / "v.txt"
    path.write_bytes(text(table, header=header, end=end))
    assert_same(read_vectors("word2vec_text", path, list(table)), table)


@on_disk
@given(table=tables(), source=st.sampled_from(["word2vec_bin", "word2vec_text"]), data=st.data())
def test_a_cut_file_never_passes_for_a_whole_one(tmp_path, table, source, data):
    content = binary(table) if source == "word2vec_bin" else text(table)
    path = tmp_path / "v"
    last_line = content.rstrip(b"\n").rfind(b"\n")
    # A text file cut inside its last number is a text file with another number.
    end = len(content) - 1 if source == "word2vec_bin" else last_line
    path.write_bytes(content[: data.draw(st.integers(0, end))])
    refuses(source, path, list(table))


@pytest.mark.parametrize("header", [b"", b"3\n", b"a b\n", b"0 3\n", b"3 0\n", b"1 99999\n"])
def test_a_header_without_sizes_is_refused(tmp_path, header):
    path = tmp_path / "v.bin"
    path.write_bytes(header)
    refuses("word2vec_bin", path)


@pytest.mark.parametrize("source", ["word2vec_bin", "word2vec_text"])
@pytest.mark.parametrize("header", [b"999999999999999999 300\n", b"3 10000\n"])
def test_sizes_beyond_the_file_are_refused_before_anything_is_read(tmp_path, source, header):
    path = tmp_path / "v"
    path.write_bytes(header + b"a 1.0 2.0\n")
    refuses(source, path, match=r"promises .* the file has \d+")


def test_too_many_and_too_few_words(tmp_path):
    table = {"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    path = tmp_path / "v"
    path.write_bytes(binary(table, count=1))
    refuses("word2vec_bin", path, match="goes on after the 1 words")
    path.write_bytes(gzip.compress(binary(table, count=9)))  # its size is not known beforehand
    refuses("word2vec_bin", path, match="word 3 of 9 is cut short")
    for count in (1, 3):
        path.write_bytes(text(table).replace(b"2 3", b"%d 3" % count))
        refuses("word2vec_text", path, match=f"has 2 words, but its first line promises {count}")


def test_a_word_without_end_is_refused(tmp_path):
    path = tmp_path / "v"
    path.write_bytes(b"2 4\n" + b"x" * 5000)
    refuses("word2vec_bin", path, match="a word after word 0 is longer than 2048 bytes")
    path.write_bytes(b"2 4\n" + b"x" * (vector_files.LONGEST_LINE + 1))
    refuses("word2vec_text", path, match="line 2 is longer")


def test_words_that_are_not_utf8_are_passed_over(tmp_path):
    values = np.ones(2, "<f4").tobytes()
    path = tmp_path / "v.bin"
    path.write_bytes(b"3 2\nna\xc3 " + values + b"\xff\xfe " + values + b"a " + values)
    assert read_vectors("word2vec_bin", path, ["a", "naÃ", "na"]).rows.keys() == {"a"}
    path.write_bytes(b"2 2\nna\xc3 1 1\na 1 1\n")
    assert read_vectors("word2vec_text", path, ["a", "na"]).rows.keys() == {"a"}


def test_the_first_of_equal_words_counts(tmp_path):
    one, two = np.ones(2, "<f4"), np.full(2, 2, "<f4")
    path = tmp_path / "v"
    path.write_bytes(b"2 2\na " + one.tobytes() + b"a " + two.tobytes())
    assert_same(read_vectors("word2vec_bin", path, ["a"]), {"a": one})
    path.write_bytes(b"2 2\na 1 1\na 2 2\n")
    assert_same(read_vectors("word2vec_text", path, ["a"]), {"a": one})


@pytest.mark.parametrize("form", FORMATS)
def test_the_first_spelling_that_the_file_has_wins(tmp_path, form):
    """All files with some of four spellings of a word, and all four asked for at once."""
    cases = ("ab", "aB", "Ab", "AB")
    for kept in [kept for count in range(1, 5) for kept in combinations(cases, count)]:
        table = {word: np.array([cases.index(word)], np.float32) for word in kept}
        source = write_as(form, table, tmp_path / "v")
        found = read_vectors(source, tmp_path / "v", cases, other_cases=True)
        expected = {}
        for word in cases:
            for spelling in (word.upper(), word.capitalize(), word.lower(), word):
                if spelling in table:
                    expected[word] = spelling
        assert_same(found, {word: table[spelling] for word, spelling in expected.items()})
        assert found.respelt == {word: s for word, s in expected.items() if word != s}
        assert not read_vectors(source, tmp_path / "v", cases).respelt


# What a file has, and the word of captions that it stands for.
CODINGS = {
    "l'": "l'",
    "dell\u2019": "dell'",
    "a\u0300": "\u00e0",
    "\u09ae\u09c7\u09df\u09c7": "\u09ae\u09c7\u09af\u09bc\u09c7",  # Bengali, its letter yya
    "\u0926\u094c\u095c\u0924\u093e": "\u0926\u094c\u0921\u093c\u0924\u093e",  # Hindi, rra
    '\u05e6\u05d4"\u05dc': "\u05e6\u05d4\u05f4\u05dc",  # Hebrew, gershayim
    "\u0434\u2019\u0430": "\u0434'\u0430",
}


@pytest.mark.parametrize("form", ["bin", "txt"])
def test_words_are_found_in_other_codes_for_the_same_letters(tmp_path, form):
    table = {word: np.array([number], np.float32) for number, word in enumerate(CODINGS, 2)}
    source = write_as(form, table, tmp_path / "v")
    found = read_vectors(source, tmp_path / "v", CODINGS.values())
    assert_same(found, {word: table[spelling] for spelling, word in CODINGS.items()})
    assert found.respelt == {w: spelling for spelling, w in CODINGS.items() if w != spelling}


def test_a_words_own_spelling_comes_first(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("4 1\nd\u2019 1\nd' 2\n\u2019s 3\n'S 4\n", encoding="utf-8")
    found = read_vectors("word2vec_text", path, ["d'", "'s"])
    assert_same(found, {"d'": np.array([2], np.float32)})  # English words as they always were


def test_only_the_spelling_that_is_taken_has_to_be_finite(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("4 2\nDOG nan 1\ndog 1 2\nCat nan 1\nCAT 3 4\n")
    found = read_vectors("word2vec_text", path, ["dog"], other_cases=True)
    np.testing.assert_array_equal(found.rows["dog"], [1, 2])
    with pytest.raises(WorkbenchError, match="in the vectors of cat\n"):
        read_vectors("word2vec_text", path, ["cat", "dog"], other_cases=True)


@on_disk
@given(
    table=tables(),
    form=st.sampled_from(FORMATS),
    size=st.integers(1, 14),
    seed=st.integers(0, 3),
    other_cases=st.booleans(),
    data=st.data(),
)
def test_the_background_is_other_words(tmp_path, table, form, size, seed, other_cases, data):
    wanted = data.draw(st.sets(st.sampled_from(list(table))))
    source = write_as(form, table, tmp_path / "v")
    options = {"other_cases": other_cases, "background": size, "seed": seed}
    found = read_vectors(source, tmp_path / "v", wanted, **options)
    cases = [{w, w.lower(), w.capitalize(), w.upper()} if other_cases else {w} for w in wanted]
    others = {f"#{i}": row for i, row in enumerate(table.values(), 1)} | table
    fitting = table.keys() - {coding for word in set().union(*cases) for coding in codings(word)}
    assert_same(found, {word: table[word] for word in wanted})
    assert len(set(found.background.names)) == min(size, len(fitting))
    for name, row in zip(found.background.names, found.background.vectors, strict=True):
        assert name in fitting or name[0] == "#"
        np.testing.assert_array_equal(row, others[name])
    assert read_vectors(source, tmp_path / "v", wanted).background is None


@pytest.mark.parametrize("form", ["bin", "txt"])
def test_unlisted_words_are_found_and_leave_the_background_alone(tmp_path, random_table, form):
    """What is fitted on the background does not depend on the captions that are tested with."""
    source = write_as(form, random_table, tmp_path / "v")
    words, unlisted = list(random_table)[:3], [*list(random_table)[3:9], "nowhere"]
    options = {"background": 20, "other_cases": True}
    alone, found = (
        read_vectors(source, tmp_path / "v", words, others, **options) for others in ((), unlisted)
    )
    assert found.rows.keys() == {*words, *unlisted[:-1]}
    assert alone.rows.keys() == set(words)
    assert all(np.array_equal(row, random_table[word]) for word, row in found.rows.items())
    assert found.background.names == alone.background.names
    assert found.background.vectors.tobytes() == alone.background.vectors.tobytes()


def test_the_background_leaves_out_what_is_not_finite_and_names_what_is_no_text(tmp_path):
    path = tmp_path / "v"
    path.write_text("5 2\na 1 1\nb nan 1\nc 1e39 1\nd 4 4\nd 5 5\n")
    found = read_vectors("word2vec_text", path, ["a"], background=9).background
    assert found.names == ["d", "#5"]
    np.testing.assert_array_equal(found.vectors, [[4, 4], [5, 5]])
    rows = [b"na\xc3 ", b" ", b"a ", b"n\0l ", b"na\xc3 "]
    values = [np.full(2, i, "<f4").tobytes() + b"\n" for i in range(5)]
    path.write_bytes(b"5 2\n" + b"".join(map(bytes.__add__, rows, values)))
    found = read_vectors("word2vec_bin", path, ["a"], background=9).background
    assert found.names == ["#1", "#2", "#4", "#5"]
    np.testing.assert_array_equal(found.vectors[:, 0], [0, 1, 3, 4])


@pytest.mark.parametrize("value", ["nan", "-inf", "1e39"])
def test_values_that_are_not_finite_name_their_words(tmp_path, value):
    path = tmp_path / "v.txt"
    path.write_text(f"3 2\ngood 1 2\nbad 1 {value}\nunwanted {value} 1\n")
    refuses("word2vec_text", path, ["good", "bad"], match="in the vectors of bad\n")
    row = np.array([1, np.float32(value)] if value != "1e39" else [1, np.inf], np.float32)
    path.write_bytes(binary({"good": np.ones(2, np.float32), "bad": row}))
    refuses("word2vec_bin", path, ["good", "bad"], match="in the vectors of bad\n")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("a 1 2 3\nb 1 2\n", "line 2 has fewer than 3 numbers"),
        ("b 1 2\na 1 2 3\n", "line 2 has more than 2 numbers"),
        ("b 1 2\na 1 x\n", "line 2: could not convert"),
        ("b 1 2\na 1 1_0\n", "line 2: '_' in a number"),
        ("", "an empty file"),
        ("\n", "first line has 0 numbers"),
    ],
)
def test_lines_of_another_width_are_refused(tmp_path, content, match):
    path = tmp_path / "v.txt"
    path.write_text(content)
    refuses("word2vec_text", path, match=match)


def test_a_table_divided_by_tabs_says_what_makes_blanks_of_them(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(b"dog\t1.0\t2.0\ncat\t3.0\t4.0\n")
    refuses("word2vec_text", path, match="divided by tabs: tr '.t' ' ' < OLD > NEW makes blanks")
    path.write_bytes(path.read_bytes().replace(b"\t", b" "))
    assert_same(read_vectors("word2vec_text", path, ["dog"]), {"dog": [1.0, 2.0]})


def test_a_missing_file_is_a_plain_error(tmp_path):
    refuses("word2vec_bin", tmp_path / "absent.bin", match="no such file")
    refuses("word2vec_text", tmp_path, match="no such file")


def test_training_repeats_byte_for_byte():
    """The sentences are longer than gensim's batches of 10,000 words: several workers would race.

    That other processes give these bytes, too, is tested with the stage.
    """
    sentences = [["a", "dog", "runs"], ["a", "cat", "sits", "rarely"], ["the", "dog", "sits"]]
    words = ["a", "dog", "runs", "cat", "sits", "the"]
    first, second = (
        train_vectors(sentences * 3000, words, dim=12, epochs=2, seed=1) for _ in range(2)
    )
    assert first.rows.keys() == set(words)
    assert all(first.rows[word].tobytes() == second.rows[word].tobytes() for word in words)


@pytest.mark.parametrize("header", [False, True])
def test_a_mark_of_utf_8_is_no_part_of_the_first_word(tmp_path, header):
    path = tmp_path / "v.txt"
    first = "2 2\n" if header else ""
    path.write_text(f"{first}a 0.5 1.0\nb 1.5 2.0\n", encoding="utf-8-sig")
    vectors = read_vectors("word2vec_text", path, ["a", "b"])
    assert vectors.rows["a"].tolist() == [0.5, 1.0]
    assert vectors.rows["b"].tolist() == [1.5, 2.0]
