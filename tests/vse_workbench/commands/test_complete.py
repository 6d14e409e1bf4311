"""`vse complete`: an old params.yaml made whole, other faults named."""

import shutil
from pathlib import Path

import pytest

from pipeline.runtime.yaml_text import read_yaml
from stages import params as stage_params
from stages.params import MOVED, Params, find_problems, load_params

ROOT = Path(__file__).resolve().parents[3]
WHOLE = (ROOT / "params.yaml").read_text()
OLD = WHOLE.replace("  k: 10\n", "").replace(WHOLE[WHOLE.index("# VSE:") :].split("\n\n")[0], "")
RUN = "vse complete"


@pytest.fixture
def workspace(tmp_path):
    """A repository whose params.yaml lacks a key and the section of a model."""
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    shutil.copytree(ROOT / "data/raw", tmp_path / "data/raw")
    (tmp_path / "params.yaml").write_text(OLD)
    return tmp_path


def test_the_reference_is_the_repositorys_params():
    """To change a default change params.yaml and copy it: cp params.yaml recipes/default.yaml"""
    assert (ROOT / "recipes/default.yaml").read_bytes() == (ROOT / "params.yaml").read_bytes()


def test_moved_keys_are_gone_and_their_places_are_there():
    def has(values, key):
        for name in key.split("."):
            if not isinstance(values, dict) or name not in values:
                return False
            values = values[name]
        return True

    reference = read_yaml(ROOT / "recipes/default.yaml")
    for old, places in MOVED.items():
        assert not has(reference, old)
        assert all(has(reference, place) for place in places)


def test_an_old_file_is_refused_with_the_way_out_and_completed(workspace, run_stage, run_vse):
    process = run_stage("check_params", "--output", "a.ok", cwd=workspace, check=False)
    assert process.returncode == 1
    assert "  inference.k: missing; every key must be given\n" in process.stderr
    assert process.stderr.splitlines()[-1].endswith(RUN)
    (workspace / "params.yaml").write_text(OLD.replace("loss: sum_margin", "loss: sum"))
    process = run_stage("check_params", "--output", "a.ok", cwd=workspace, check=False)
    assert process.stderr.splitlines()[-2].endswith(RUN)
    assert process.stderr.splitlines()[-1].startswith("undo with: ")  # the loss is no old key
    (workspace / "params.yaml").write_text(OLD)
    done = run_vse("complete", cwd=workspace)
    assert "inference.k = 10: inserted\n" in done.stdout
    assert "vse.training.precision = fp32: inserted\n" in done.stdout
    text = (workspace / "params.yaml").read_text()
    assert set(WHOLE.splitlines()) == set(text.splitlines())
    assert read_yaml(workspace / "params.yaml") == read_yaml(ROOT / "params.yaml")
    run_stage("check_params", "--output", "a.ok", cwd=workspace)
    again = run_vse("complete", cwd=workspace)
    assert again.stdout == "params.yaml has every key of recipes/default.yaml\n"
    assert (workspace / "params.yaml").read_text() == text


def test_what_it_cannot_mend_is_named(workspace, run_vse):
    phases = OLD.replace("    stop_below: 0.01\n", "")
    (workspace / "params.yaml").write_text(phases + "mine: 1\nlos: 2\n")
    process = run_vse("complete", cwd=workspace, check=False)
    assert process.returncode == 1
    assert "inference.k = 10: inserted\n" in process.stdout
    assert process.stderr == (
        "error: params.yaml is not valid yet:\n"
        "  dual_path.phases.0.stop_below: missing; every key must be given\n"
        "  mine = 1: unknown key\n"
        "  los = 2: unknown key; did you mean loss?\n"
        "undo with: touch params.yaml && git checkout params.yaml\n"
    )
    assert "  k: 10\n" in (workspace / "params.yaml").read_text()


def test_a_file_that_cannot_be_completed_stays(workspace, run_vse):
    content = OLD.replace("inference:\n", "inference: {k: 1}\nx:\n").encode()
    (workspace / "params.yaml").write_bytes(content)
    process = run_vse("complete", cwd=workspace, check=False)
    assert process.returncode == 1
    assert "no line can be put in or out for inference." in process.stderr
    assert "Traceback" not in process.stderr
    assert (workspace / "params.yaml").read_bytes() == content


@pytest.mark.parametrize(
    ("places", "words"),
    [(("vse.dim", "scan.dim"), "it is vse.dim, scan.dim now"), ((), "it is read no more")],
)
def test_a_key_that_has_moved_is_named(tmp_path, monkeypatch, places, words):
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(stage_params.MOVED, "ranking.width", places)
    text = WHOLE.replace("ranking:\n", "ranking:\n  width: 7\n")
    (tmp_path / "params.yaml").write_text(text)
    assert list(find_problems(read_yaml(tmp_path / "params.yaml"))) == [
        f"ranking.width = 7: unknown key; {words}"
    ]
    with pytest.raises(Exception, match=RUN):
        load_params(tmp_path / "params.yaml")


def test_every_section_has_a_default():
    assert set(read_yaml(ROOT / "recipes/default.yaml")) == set(Params.model_fields)
