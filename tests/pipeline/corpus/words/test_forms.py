"""Files of word vectors under names and settings that do not fit: the first bytes decide."""

import bz2
import gzip
import pickle
import shlex
import struct
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from commands import refusal
from gensim.models import FastText, KeyedVectors, Word2Vec
from gensim.models.fasttext import load_facebook_vectors, save_facebook_model
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.corpus.words.forms import form_of
from pipeline.corpus.words.vectors import WordVectors, read_vectors
from pipeline.runtime.errors import WorkbenchError

SENTENCES = [["red", "dog", "läuft", "schnell"], ["red", "cats", "日本"]] * 3
WORDS = sorted({word for sentence in SENTENCES for word in sentence})
OTHER = {"word2vec_bin": "word2vec_text", "word2vec_text": "word2vec_bin"}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n"


def vectors_of(words: list[str] = WORDS, dim: int = 8) -> KeyedVectors:
    values = np.random.default_rng(0).normal(size=(len(words), dim)).astype(np.float32)
    keyed = KeyedVectors(dim)
    keyed.add_vectors(words, values)
    return keyed


def assert_same(found: WordVectors, expected: KeyedVectors, tolerance: float = 0) -> None:
    assert found.rows.keys() == set(expected.index_to_key) & set(WORDS)
    for word, row in found.rows.items():
        assert row.dtype == np.float32
        np.testing.assert_allclose(row, expected[word], atol=tolerance)


def model(path: Path, **options: int) -> Path:
    """A file of fastText, by gensim's writer."""
    trained = FastText(
        SENTENCES,
        vector_size=6,
        min_count=1,
        epochs=1,
        workers=1,
        **{"bucket": 50, "min_n": 2, "max_n": 4} | options,
    )
    save_facebook_model(trained, str(path))
    return path


@pytest.mark.parametrize("source", sorted(OTHER))
@pytest.mark.parametrize("packed", ["", "gzip", "bzip2", "zip"])
@pytest.mark.parametrize("glove", [False, True])
def test_a_file_of_the_other_form_is_read_as_what_it_is(
    tmp_path: Path, capsys, source: str, packed: str, glove: bool
) -> None:
    expected, path = vectors_of(), tmp_path / "v.bin"
    is_binary = source == "word2vec_text"
    expected.save_word2vec_format(path, binary=is_binary)
    content = path.read_bytes()
    if glove and not is_binary:
        content = content.partition(b"\n")[2]
    if packed == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/", b"")
            archive.writestr("folder/README", "about these vectors\n")
            archive.writestr("folder/v.vec", content)
    else:
        pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "": bytes}[packed]
        path.write_bytes(pack(content))
    found = read_vectors(source, path, WORDS)
    assert_same(found, expected)
    assert found.form == OTHER[source]
    said = capsys.readouterr().err
    assert f"by its first bytes, not {source} as vocabulary.source says" in said
    assert ("read is folder/v.vec, vectors of 8 numbers" in said) == (packed == "zip")
    assert read_vectors(OTHER[source], path, WORDS).form == ""


@pytest.mark.parametrize("source", sorted(OTHER))
@pytest.mark.parametrize("options", [{}, {"bucket": 7}, {"max_n": 0}, {"min_n": 1}])
def test_fasttexts_own_file_is_read_as_gensim_reads_it(
    tmp_path: Path, capsys, source: str, options: dict[str, int]
) -> None:
    path = model(tmp_path / "cc.xx.6.bin", **options)
    theirs = load_facebook_vectors(path)
    found = read_vectors(source, path, [*WORDS, "absent"], background=3)
    assert_same(found, theirs, tolerance=1e-7)
    assert (found.dim, found.form) == (6, "fasttext")
    assert "fastText's .bin by its first bytes; words that it lacks have no vector" in (
        capsys.readouterr().err
    )
    some = read_vectors(source, path, ["red"], background=2, other_cases=True)
    assert some.background is not None
    for word, row in zip(some.background.names, some.background.vectors, strict=True):
        np.testing.assert_allclose(row, theirs[word], atol=1e-7)


def test_words_with_labels_behind_them(tmp_path: Path) -> None:
    """As `fasttext supervised` writes it, which gensim does not read."""
    rows = np.arange(12, dtype="<f4").reshape(4, 3)
    head = struct.pack("<2i12id", 793712314, 12, 3, *range(7), 2, 3, 3, 0, 0.0)
    words = b"".join(
        name + b"\0" + struct.pack("<qb", 1, kind)
        for name, kind in [(b"</s>", 0), (b"dog", 0), (b"__label__a", 1)]
    )
    counts = struct.pack("<3i2q", 3, 2, 1, 3, -1)
    path = tmp_path / "s.bin"
    path.write_bytes(head + counts + words + struct.pack("<?2q", False, 4, 3) + rows.tobytes())
    found = read_vectors("word2vec_bin", path, ["dog", "</s>", "__label__a"])
    np.testing.assert_array_equal(found.rows["</s>"], rows[0])
    assert found.rows.keys() == {"dog", "</s>"}
    assert any(np.allclose(found.rows["dog"], mean) for mean in means(rows))


def means(rows: np.ndarray) -> list[np.ndarray]:
    """Every mean of row 1 and the rows of three parts (<do, dog, og>), each in bucket 0 or 1."""
    picks = np.indices((2, 2, 2)).reshape(3, -1).T + 2
    return [rows[[1, *pick]].mean(0) for pick in picks]


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_model_is_a_plain_error_or_gives_finite_numbers(tmp_path_factory, data) -> None:
    path = tmp_path_factory.getbasetemp() / "whole.bin"
    if not path.exists():
        model(path)
    content = bytearray(path.read_bytes())
    size = data.draw(st.integers(0, len(content)))
    place = data.draw(st.integers(4, 200))
    content[place : place + 4] = data.draw(st.binary(min_size=4, max_size=4))
    damaged = path.with_name("damaged.bin")
    damaged.write_bytes(content[: max(size, 4)])
    with suppress(WorkbenchError):
        found = read_vectors("word2vec_bin", damaged, WORDS)
        assert all(np.isfinite(row).all() for row in found.rows.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((4, struct.pack("<i", 9)), "of version 9; 11 and 12 are read"),
        ((64, struct.pack("<i", 2_000_000_000)), "its sizes are not those of a model"),
        ((84, struct.pack("<q", 5)), "compressed (.ftz)"),
        ((8, struct.pack("<i", 300)), "numbers for 6 words and 50 parts of 300, or is cut short"),
    ],
)
def test_models_of_other_kinds_say_what_they_are(tmp_path: Path, change, said: str) -> None:
    path = model(tmp_path / "m.bin")
    content = bytearray(path.read_bytes())
    place, value = change
    content[place : place + len(value)] = value
    path.write_bytes(content)
    message = refusal(read_vectors, "word2vec_bin", path, WORDS)
    assert message.startswith(f"{path}: a model of fastText, ")
    assert said in message


def test_a_packed_model_says_how_to_unpack_it(tmp_path: Path) -> None:
    content = model(tmp_path / "m.bin").read_bytes()
    path = tmp_path / "cc.bin.gz"
    path.write_bytes(gzip.compress(content))
    said = refusal(read_vectors, "word2vec_bin", path, WORDS)
    assert said.startswith(f"{path}: packed by gzip, and in it a model of fastText (.bin)\n")
    subprocess.run(said.split("unpack it with: ")[1], shell=True, check=True)
    assert read_vectors("word2vec_bin", tmp_path / "cc.bin", WORDS).form == "fasttext"


def test_of_an_archive_the_file_of_the_wanted_length_is_read(tmp_path: Path, capsys) -> None:
    path = tmp_path / "glove.6B.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for dim in (4, 8):
            vectors_of(dim=dim).save_word2vec_format(tmp_path / "v", write_header=False)
            archive.write(tmp_path / "v", f"glove.6B.{dim}d.txt")
        archive.writestr("wiki.bin", model(tmp_path / "m").read_bytes())
    assert_same(read_vectors("word2vec_text", path, WORDS, dim=8), vectors_of(dim=8), 1e-6)
    assert "read is glove.6B.8d.txt" in capsys.readouterr().err
    said = refusal(read_vectors, "word2vec_text", path, WORDS, dim=100)
    assert "several files of word vectors, and their lengths: glove.6B.4d.txt (4), glove" in said
    command = said.split("or unpack it, and name a file of it: ")[1]
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    unpacked = tmp_path / "glove.6B/glove.6B.4d.txt"
    assert_same(read_vectors("word2vec_text", unpacked, WORDS), vectors_of(dim=4), 1e-6)


def test_archives_without_vectors_and_cut_ones(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    assert "without word vectors: readme.txt" in refusal(read_vectors, "word2vec_text", path, ["a"])
    vectors_of().save_word2vec_format(tmp_path / "v")
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "v", "v.txt")
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    assert str(path) in refusal(read_vectors, "word2vec_text", path, WORDS)
    path.write_bytes(content[:300])
    assert "cut off or damaged" in refusal(read_vectors, "word2vec_text", path, WORDS)


def saved(path: Path, kind: str) -> KeyedVectors:
    if kind == "KeyedVectors":
        keyed = vectors_of()
        keyed.save(str(path))
        return keyed
    if kind == "dict":
        keyed = vectors_of()
        path.write_bytes(pickle.dumps({word: keyed[word] for word in WORDS}))
        return keyed
    options = {"vector_size": 6, "min_count": 1, "epochs": 1, "workers": 1}
    trained = {"Word2Vec": Word2Vec, "FastText": FastText}[kind.partition(".")[0]](
        SENTENCES, **options
    )
    (trained.wv if kind.endswith(".wv") else trained).save(str(path))
    return trained.wv


@pytest.mark.parametrize("kind", ["KeyedVectors", "Word2Vec", "FastText", "FastText.wv", "dict"])
def test_the_command_saves_what_a_pickle_holds(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "my vectors.kv"
    expected = saved(path, kind)
    said = refusal(read_vectors, "word2vec_bin", path, WORDS)
    assert said.startswith(f"{path}: a pickle, which can run code when it is read\n")
    assert f"name {path}.bin instead" in said
    program, option, code = shlex.split("python -c" + said.split(": python -c")[1])
    assert (program, option) == ("python", "-c")
    exec(code, {})
    assert_same(read_vectors("word2vec_bin", Path(f"{path}.bin"), WORDS), expected, 1e-6)


def test_what_is_no_file_of_vectors_is_named(tmp_path: Path) -> None:
    contents = {
        "pointer of git-lfs": POINTER,
        "page of HTML": b"<!DOCTYPE html><html><head><title>Quota exceeded</title>",
        "empty file": b"",
        "packed by gzip, and in it a page of HTML": gzip.compress(b"<html>no</html>"),
        "packed by xz": b"\xfd7zXZ\0\0\4",
    }
    path = tmp_path / "GoogleNews-vectors-negative300.bin.gz"
    for title, content in contents.items():
        path.write_bytes(content)
        assert title in refusal(read_vectors, "word2vec_bin", path, ["a"])
    address = Path("https://example.org/v.bin")
    assert "an address: download it" in refusal(read_vectors, "word2vec_bin", address, ["a"])


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b"2 3\na 1 2 3\n", ("word2vec_text", 3)),
        (b"2 3\n. . . 1 2 3\n", ("word2vec_text", 3)),
        (b"2 3\na \0\0\0\0\1\2\3\4abcd", ("word2vec_bin", 3)),
        (b"the 0.1 -2 3e-05\n", ("word2vec_text", 3)),
        (b"2 3\na nan 2 3\n", None),
        (b"2 99999\na 1\n", None),
        (b"a b c\n", None),
        (b"", None),
        (b"the 0.1", None),
    ],
)
def test_forms_by_their_first_bytes(head: bytes, form: tuple[str, int] | None) -> None:
    assert form_of(head) == form
