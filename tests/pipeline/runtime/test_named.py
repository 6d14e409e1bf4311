"""Files that params.yaml names: links to them that follow params.yaml, and their digests."""

import hashlib
import os
from pathlib import Path
from typing import Annotated

import pytest
from commands import refusal
from corpora import ROOT
from hypothesis import given
from hypothesis import strategies as st

import pipeline.runtime.named as module
from pipeline.runtime.named import check_named, link_files, named_digests, named_files
from pipeline.runtime.section import Name, NamesFile, PathOrNone, Section, Weights
from stages.params import whole_type


class Inner(Section):
    path: PathOrNone = None
    weights: Weights = "detector"


class Outer(Section):
    inner: Inner = Inner()
    model: Annotated[Name, NamesFile()] = "some/model"
    other: Name = "params.yaml"


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A repository, and beside it a folder with files of another program."""
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")
    folder = tmp_path / "their files"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.npy").write_text("a")
    (folder / "deep" / "b [1].npy").write_text("b")
    (folder / ".dvcignore").write_text("a.npy")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("c")
    return folder


def links(folder):
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_symlink()}


def test_named_are_paths_that_are_there_and_no_words(outside):
    here = str(outside / "a.npy")
    assert dict(named_files(Outer())) == {}
    Path("random").touch()  # a file called as one of the words is still none
    section = Outer(inner=Inner(path=here, weights="random"), model=str(outside))
    assert dict(named_files(section)) == {"inner.path": here, "model": str(outside)}
    section = Outer(inner=Inner(path="gone.npy", weights=here))
    assert dict(named_files(section)) == {"inner.weights": here}


def test_every_key_of_params_yaml_with_a_path_outside_is_marked(monkeypatch):
    """`raw` and the folders of `external` are dependencies; paths inside `raw` are with it."""
    monkeypatch.chdir(ROOT)
    inside = {"corpus.positives_path", "corpus.annotations", "corpus.images", "corpus.split_files"}
    inside |= {"phrases.path"}
    words = ("path", "paths", "vectors", "names", "folder", "wordnet", "stop_words")
    marked, likely = set(), set()

    def collect(section, prefix):
        for name, field in type(section).model_fields.items():
            value, key = getattr(section, name), f"{prefix}{name}"
            if isinstance(value, Section):
                collect(value, f"{key}.")
            elif any(isinstance(mark, NamesFile) for mark in field.metadata):
                marked.add(key)
            elif name.endswith(words) or value in ("detector", "imagenet", "random"):
                likely.add(key)

    collect(whole_type()(), "")
    choices = {"regions.source", "phrases.proposals.source", "phrases.features.source"}
    assert likely - inside - choices == {"dp_rnn.vectors"} | {
        key for key in likely if key.endswith("word_vectors")
    }
    assert marked == {
        "vocabulary.vectors",
        "sentences.file.path",
        "sentences.tfidf.stop_words",
        "sentences.tfidf.wordnet",
        "sentences.transformer.model",
        "image_features.file.path",
        "image_features.weights",
        "regions.path",
        "regions.network.weights",
        "detector.names",
        "detector.weights",
        "phrases.features.network.weights",
        "phrases.proposals.path",
    }


def test_links_follow_the_named_files(outside):
    folder = Path("data/named")
    link_files(folder, {})
    assert not folder.exists()
    link_files(folder, {"regions.path": str(outside), "x.path": str(outside / "a.npy")})
    (folder / ".gitignore").write_text("*")
    made = links(folder)
    assert set(made) == {"regions.path/a.npy", "regions.path/deep/b [1].npy", "x.path"}
    assert {name: path.read_text() for name, path in made.items()} == {
        "regions.path/a.npy": "a",
        "regions.path/deep/b [1].npy": "b",
        "x.path": "a",
    }
    link_files(folder, {"regions.path": str(outside / "deep"), "x.path": str(outside)})
    assert set(links(folder)) == {"regions.path/b [1].npy", "x.path/a.npy", "x.path/deep/b [1].npy"}
    link_files(folder, {"regions.path": str(outside / "a.npy")})
    assert {name: path.read_text() for name, path in links(folder).items()} == {"regions.path": "a"}
    (outside / "a.npy").unlink()  # moved away: the link leads nowhere
    link_files(folder, {})
    assert [path.name for path in folder.rglob("*")] == [".gitignore"]
    assert (outside / "deep" / "b [1].npy").read_text() == "b"


def test_a_relative_path_moves_with_the_repository(outside):
    Path("mine.npy").write_text("mine")
    link_files(Path("data/named"), {"x.path": "mine.npy", "y.path": "../their files/a.npy"})
    root = Path.cwd()
    moved = root.rename(root.with_name("elsewhere"))
    assert (moved / "data/named/x.path").read_text() == "mine"
    assert (moved / "data/named/y.path").read_text() == "a"
    assert not os.path.isabs(os.readlink(moved / "data/named/x.path"))


def test_a_digest_is_that_of_the_content_and_read_once(outside, monkeypatch):
    memory, read = Path("memory.json"), []
    real = module.sha256_file
    monkeypatch.setattr(module, "sha256_file", lambda path: read.append(path) or real(path))
    files = {"x.path": str(outside / "a.npy"), "regions.path": str(outside)}
    found = named_digests(files, memory)
    assert found["x.path"] == hashlib.sha256(b"a").hexdigest()
    assert len(read) == 2
    assert named_digests(files, memory) == found
    assert len(read) == 2
    memory.write_text("{")
    assert named_digests(files, memory) == found
    other = outside / "deep" / "b [1].npy"
    other.write_text("c")
    os.utime(other, ns=(1, 1))
    changed = named_digests(files, memory)
    assert changed["x.path"] == found["x.path"]
    assert changed["regions.path"] != found["regions.path"]
    other.rename(outside / "deep" / "renamed.npy")
    assert named_digests(files, memory)["regions.path"] != changed["regions.path"]


def test_a_folder_that_was_not_meant_is_refused(outside, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 1)
    said = refusal(link_files, Path("data/named"), {"regions.path": str(outside)})
    assert said.startswith(f"regions.path = {str(outside)!r}: more than 1 files\n")


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["f", "d", "d/e", "d/e/g"])))
def test_whatever_was_named_before_the_links_are_those_of_now(tmp_path_factory, files):
    folder = tmp_path_factory.getbasetemp() / "named_of_hypothesis"
    data = folder / "data"
    (data / "d/e").mkdir(parents=True, exist_ok=True)
    for name in ("f", "d/h", "d/e/g"):
        (data / name).write_text(name)
    link_files(folder / "links", {key: str(data / name) for key, name in files.items()})
    wanted = {}
    for key, name in files.items():
        path = data / name
        below = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        for file in below:
            wanted[os.path.normpath(f"{key}/{file.relative_to(path)}")] = file.read_text()
    assert {name: path.read_text() for name, path in links(folder / "links").items()} == wanted


@pytest.fixture
def listed(outside):
    """A list that names a file and a folder, as check_params leaves it, and what it asks for."""
    files = {"one.path": str(outside / "a.npy"), "all.path": str(outside)}
    named, memory, listing = Path("named"), Path("memory.json"), Path("list")
    link_files(named, files)
    digests = named_digests(files, memory)
    lines = ["models/vse.py 0123456789abcdef", *(f"{key} {digests[key]}" for key in files)]
    listing.write_text("".join(f"{line}\n" for line in lines))
    return listing, named, memory


@pytest.mark.parametrize("with_memory", [True, False])
def test_named_files_that_are_as_they_were_are_taken(outside, listed, with_memory):
    if not with_memory:
        listed[-1].unlink()
    check_named(*listed)
    os.utime(outside / "a.npy", (1, 1))  # of another time, with the same content
    (outside / ".hidden").write_text("new")
    check_named(*listed)
    listed[0].unlink()  # not run by DVC
    check_named(*listed)


@pytest.mark.parametrize(("name", "key"), [("a.npy", "one.path"), ("deep/b [1].npy", "all.path")])
def test_named_files_that_were_written_since_are_refused(outside, listed, name, key):
    """DVC would keep what is made of them as made of those that check_params has listed."""
    (outside / name).write_text("other")
    said = refusal(check_named, *listed)
    assert said.startswith(f"{key}: ")
    assert "was written after check_params had looked at it" in said
