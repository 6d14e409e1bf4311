"""Scores and embeddings of other programs: as one command, and as items of params.yaml."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from corpora import ROOT, change_params
from report_world import CAPTIONS, IMAGES, OWNERS, made_scores, put_corpus

from pipeline.evaluation.score_file import read_scores, write_scores
from vse_workbench.commands.import_scores import paths_by_key

TABLES = ["--images", "data/corpus/images.parquet", "--captions", "data/corpus/captions.parquet"]


@pytest.fixture
def project(tmp_path):
    """A folder with params.yaml, dvc.yaml, a corpus where dvc.yaml has it, and a model's scores."""
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    change_params(tmp_path, evaluation__bootstrap=200, dataset="shapes")
    put_corpus(tmp_path)
    (tmp_path / "data/corpus").mkdir(parents=True)
    for table in ("images", "captions"):
        (tmp_path / f"{table}.parquet").rename(tmp_path / f"data/corpus/{table}.parquet")
    write_scores(tmp_path / "data/scores/scan.h5", {"test": made_scores(0.8)}, {"model": "scan"})
    return tmp_path


def test_one_command_prints_a_table_without_our_loss(project, run_vse):
    np.save(project / "my.npy", made_scores(0.8).scores)
    names = ("--criterion", "csls", "--criterion", "inverted_softmax")
    done = run_vse("import", "scores", "my.npy", "--name", "mine", *names, cwd=project)
    assert done.stderr.startswith(
        "my.npy, image_ids: no ids; the 12 rows are those of the test split in order\n"
        "my.npy, caption_ids: no ids; the 30 rows are those of the test split in order\n"
        "data/scores/mine.h5: test 12 x 30 (images x captions)\n"
    )
    found = read_scores(project / "data/scores/mine.h5", "test")
    np.testing.assert_array_equal(found.scores, made_scores(0.8).scores)
    assert found.caption_image_ids == made_scores(0.8).caption_image_ids
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Dataset shapes. Test split: 12 images, 30 captions, protocol full.")
    assert "Scores of other programs, no ranking loss of ours: mine." in lines
    assert "margin" not in done.stdout
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    assert rows[2:4] == ["mine", "chance"]
    assert sorted(rows[-2:]) == ["mine + csls", "mine + inverted_softmax"]
    assert sorted(p.name for p in (project / "data").iterdir()) == ["corpus", "scores"]


def test_an_item_of_params_is_evaluated_and_compared_beside_the_models(project, run_stage, run_vse):
    random = np.random.default_rng(0)
    images = random.standard_normal((IMAGES, 8))
    order = random.permutation(CAPTIONS)
    captions = (images[OWNERS] + 0.3 * random.standard_normal((CAPTIONS, 8)))[order]
    np.save(project / "i.npy", images)
    np.save(project / "c.npy", captions)
    (project / "c.ids.txt").write_text("".join(f"c{n}\n" for n in order))
    clip = {"folder": ".", "images": "i.npy", "captions": "c.npy"}
    change_params(project, external={"clip": clip})
    run_stage("score_external", "clip", *TABLES, "--output", "data/scores/clip.h5", cwd=project)
    for name in ("scan", "clip"):
        files = ["--scores", f"data/scores/{name}.h5", "--metrics", f"metrics/{name}.json"]
        run_stage("evaluate", *files, "--ranks", f"data/ranks/{name}.h5", cwd=project)
    assert json.loads((project / "metrics/clip.json").read_text())["external"] is True
    folders = ["--metrics", "metrics", "--ranks", "data/ranks"]
    page = ["--page", "page.html", *TABLES]
    run_stage("compare", *folders, *page, "--output", "table.md", cwd=project)
    table = (project / "table.md").read_text()
    assert "| clip " in table
    assert "| scan " in table
    for text in (table, (project / "page.html").read_text()):
        assert "Scores of other programs, no ranking loss of ours: clip." in text
    runs = ("metrics/scan.json", "metrics/clip.json")
    told = run_vse("compare", *runs, "--resamples", 100, cwd=project).stdout
    assert "B: metrics/clip.json, naive" in told
    run_vse("analyse", "clip", "--output", "a", "--only", "separation", cwd=project)
    refused = run_vse("analyse", "clip", "--output", "b", cwd=project, check=False)
    assert refused.stderr.startswith("error: clip is another program's: scores alone\n")


def test_arguments_are_the_keys_of_an_item():
    one, other = Path("a.npy"), Path("v.npy")
    assert paths_by_key((one,), None, None) == {"scores": one}
    assert paths_by_key((one,), other, None) == {"scores": one, "val_scores": other}
    assert paths_by_key((one, other), None, "dot") == {"images": one, "captions": other}


def test_one_folder_of_clip_retrieval_stands_for_both_files(tmp_path):
    for name in ("img_emb", "text_emb"):
        (tmp_path / name).mkdir()
    both = {"images": tmp_path, "captions": tmp_path}
    assert paths_by_key((tmp_path,), None, "dot") == both


WRONG = {
    "a model": (["my.npy", "--name", "scan"], "--name 'scan': a stage of dvc.yaml writes scan.h5"),
    "a path": (["my.npy", "--name", "../x"], "--name '../x': a name has letters, digits"),
    "three": (["my.npy"] * 3 + ["--name", "m"], "3 files"),
    "similarity": (["my.npy", "--name", "m", "--similarity", "dot"], "1 file with --similarity"),
    "val": (["my.npy", "my.npy", "--name", "m", "--val", "my.npy"], "2 files with --val"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_named(project, run_vse, case):
    arguments, words = WRONG[case]
    np.save(project / "my.npy", made_scores(0.8).scores)
    done = run_vse("import", "scores", *arguments, cwd=project, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {words}")
    assert [path.name for path in (project / "data/scores").iterdir()] == ["scan.h5"]
