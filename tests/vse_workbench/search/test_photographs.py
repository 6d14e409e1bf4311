"""`vse search --images`: a folder is searched as the corpus is; hostile files cost nothing."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import fail, run_command
from PIL import Image

from pipeline.evaluation.score_file import read_scores
from pipeline.features.checkpoint import read_checkpoint
from vse_workbench.commands.search import main
from vse_workbench.export.embedder import Embedder
from vse_workbench.export.folder import write_config, write_folder
from vse_workbench.search.embedder import query_files

QUESTION = ("w1 w2 w3", "--from", "../vse", "--images", "photos", "--top", 50)


@pytest.fixture(scope="module")
def exported(read_only, tmp_path_factory):
    """Models as `vse export model` writes them, but for the card."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("vse", "scan"):
        files = query_files(name)
        (folder / name).mkdir()
        checkpoint = read_checkpoint(files["checkpoint"], name)
        write_config(folder / name, write_folder(folder / name, files, checkpoint))
    return folder


@pytest.fixture
def there(indexed, exported, tmp_path, monkeypatch):
    """A folder beside the exports, of no run: photos/ with the test images, some of them below."""
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    (tmp_path / "cwd/photos/trip/day 1").mkdir(parents=True)
    for number, path in enumerate(sorted(indexed.glob("test*.png"))):
        place = "trip/day 1" if number % 2 else "."
        shutil.copy(path, tmp_path / "cwd/photos" / place / path.name)
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def found(*question):
    """The scores of the images by their paths, in the order shown; standard error."""
    done = run_command(main, *question, "--json")
    assert done.returncode == 0, done.stderr
    hits = json.loads(done.stdout)
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    return {hit["path"]: hit["score"] for hit in hits}, done.stderr


def test_a_folder_is_scored_as_the_corpus_is(there, indexed):
    scores = read_scores(indexed / "data/scores/vse.h5", "test")
    table = pd.read_parquet(indexed / "data/corpus/captions.parquet").set_index("caption_id")
    text = table.loc[scores.caption_ids[3], "text"]
    hits, said = found(text, *QUESTION[1:])
    expected = dict(zip(scores.image_ids, scores.scores[:, 3].tolist(), strict=True))
    named = {Path(path).name: score for path, score in hits.items()}
    assert named == pytest.approx(expected, abs=4e-3)
    assert list(hits.values()) == sorted(hits.values(), reverse=True)
    assert "embed photos: 9/9 files" in said
    assert "vse: 9 images of photos searched in" in said
    assert os.listdir() == ["photos"]
    shown = run_command(main, text, *QUESTION[1:-1], 1, "--html", "a.html")
    assert shown.stdout.split() == ["1", f"{max(hits.values()):.3f}", *next(iter(hits)).split()]
    assert "The best images of photos by vse" in Path("a.html").read_text()


def test_an_image_finds_those_like_it(there):
    hits, _ = found("--image", "photos/test0.png", *QUESTION[1:])
    own, *others = Embedder.load("../vse").images(list(hits))
    assert list(hits.values()) == pytest.approx([1, *np.stack(others) @ own], abs=1e-5)
    assert next(iter(hits)) == "photos/test0.png"


def test_only_changed_files_are_embedded_again(there):
    first, _ = found(*QUESTION)
    path, before = Path("photos/test2.png"), os.stat("photos/test2.png")
    path.write_bytes(b"x" * before.st_size)  # nobody reads it: size and time stay
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    same, said = found(*QUESTION)
    assert (same, "embed" in said, "skipped" in said) == (first, False, False)
    os.utime(path, ns=(0, 0))
    fewer, said = found(*QUESTION)
    assert fewer == {name: score for name, score in first.items() if name != str(path)}
    assert "skipped 1 file: photos/test2.png (not an image)\n" in said
    (cache,) = (there / "cache/vse-workbench").iterdir()
    cache.write_bytes(cache.read_bytes()[:-1])
    again, said = found(*QUESTION)
    assert again == fewer
    assert "all images are embedded again: " in said
    (there / "cache/vse-workbench").rename(there / "moved")
    (there / "cache").rmdir()
    (there / "cache").touch()
    assert found(*QUESTION)[0] == fewer
    assert "the vectors are not kept: " in found(*QUESTION)[1]


def test_an_interrupted_search_keeps_what_it_has_embedded(there, monkeypatch):
    embed, calls = Embedder.of_image, []

    def interrupted(self, image):
        calls.append(image)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return embed(self, image)

    monkeypatch.setattr(Embedder, "of_image", interrupted)
    assert "interrupted; run the same command to continue" in fail(main, ".", *QUESTION)
    assert len(found(*QUESTION)[0]) == 9
    assert len(calls) == 5 + 5


def test_hostile_files_are_skipped_and_nothing_is_written_beside_them(there):
    expected, _ = found(*QUESTION)
    photos, whole = Path("photos"), Path("photos/test0.png").read_bytes()
    Image.new("RGB", (400, 3)).save(photos / "ribbon.png")
    Image.new("1", (20_000, 20_000)).save(photos / "bomb.png")
    (photos / "cut.jpg").write_bytes(whole[:-40])
    (photos / "notes.txt").write_text("no image")
    (photos / "empty.jpg").touch()
    (photos / "loop").symlink_to(".")
    (photos / "self.png").symlink_to("self.png")
    (photos / "gone.png").symlink_to("nowhere.png")
    os.mkfifo(photos / "pipe.png")
    (photos / os.fsdecode(b"\xff.png")).write_bytes(whole)
    (photos / ".thumbnail.png").write_bytes(whole)
    before = sorted(map(str, photos.rglob("*")))
    hits, said = found(*QUESTION)
    assert hits == expected
    assert "skipped 10 files: photos/loop (a link to a folder), " in said
    assert " and 7 more\n" in said
    assert sorted(map(str, photos.rglob("*"))) == before
    (photos / "right.txt").write_bytes(whole)  # the content counts, not the name
    assert len(found(*QUESTION)[0]) == 10


def test_photographs_of_phones_and_browsers(there):
    expected, _ = found(*QUESTION)
    photos = Path("photos")
    whole = Image.open(photos / "test0.png")
    whole.save(photos / "a.avif", quality=100)
    whole.save(photos / "b.jpg", "JPEG2000")
    (photos / "c.jpg").write_bytes(b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + bytes(2000))
    (photos / "d.jpg").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n")
    hits, said = found(*QUESTION)
    assert hits.keys() - expected.keys() == {"photos/a.avif", "photos/b.jpg"}
    assert hits["photos/b.jpg"] == hits["photos/test0.png"]
    assert "skipped 2 files: photos/c.jpg (not an image but a video), " in said
    assert "photos/d.jpg (not an image but a pointer of git-lfs)\n" in said


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            ["--image", "https://example.org/cat.jpg", *QUESTION[1:]],
            "https://example.org/cat.jpg: an address: download it first",
        ),
        (["w1", "--from", "../scan", "--images", "photos"], "scan has no vector of an image alone"),
        (["w1", "--images", "photos"], "--images FOLDER needs --from EXPORTED"),
        (["w1", *QUESTION[1:], "--split", "val"], "--split: of a search in the corpus, not with"),
        (["zebra", *QUESTION[1:]], "no word of the query is known to the vocabulary: zebra"),
        (["w1", "--from", "../vse", "--images", "no"], "no: no such folder"),
        (["w1", "--from", "../vse", "--images", "../cache"], "../cache: no image in it; JPEG, "),
        (["w1", "--from", "photos", "--images", "photos"], "no such file: no exported model"),
    ],
)
def test_what_is_refused(there, question, words):
    (there / "cache").mkdir()
    assert words in fail(main, ".", *question)
