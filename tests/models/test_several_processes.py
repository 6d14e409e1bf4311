"""Two processes that share every batch take the steps that one takes, of every model and loss."""

import json

import pytest
import torch
from dual_path_runs import RUN as DUAL_PATH
from dual_path_runs import stage_1, stage_2, write_world
from fine_tuning_runs import PHASE, write_own_sentences
from fine_tuning_runs import RUN as FINE_TUNED
from forked import run_script
from model_runs import DP_RNN, SCAN, TWO_BRANCH, VSE, VSE_INFINITY
from phrase_runs import PHRASES, write_phrases
from tiny_inputs import PATHS, write_tables

from models.ranking import LOSSES

pytestmark = pytest.mark.slow

# batches of seven for two processes: their shares differ, and an epoch's last batch is smaller
SIZE = {"training__batch_size": 7}
FEATURES = stage_1(4)
FEATURES["weights"]["ranking"] = 0.5
# From 20 steps on in all. What is drawn differs in several processes, and positions are float32.
CHANGES = {
    "vse": {"text_pool": "mean", "training__epochs": 3},
    "two_branch": {"dropout": 0.0, "weights__image_image": 0.1, "training__epochs": 3},
    # margin: with a small one rounding decides which negatives are too near
    "dual_path": {"dropout": 0.0, "margin": 1.0, "phases": [FEATURES, stage_2(1)]},
    "scan": {},
    "vse_infinity": {"drop_regions": 0.0},
    "dp_rnn": {
        "position_gate": False,
        "training__epochs": {"matching": 1, "recurrent": 1, "all": 1},
    },
}
RUNS = {run.name: run for run in (VSE, TWO_BRANCH, DUAL_PATH, SCAN, DP_RNN, VSE_INFINITY)}
# Every loss on one score of a pair and on that of cross attention, every model with one loss.
EVERY_LOSS = ("vse", "scan")
CASES = [f"{model}-{loss}" for model in EVERY_LOSS for loss in LOSSES]
CASES += [f"{model}-knn_margin" for model in RUNS if model not in EVERY_LOSS]
# with the image CNN in front, which no loss knows of
RUNS["fine_tuned"] = FINE_TUNED
CHANGES["fine_tuned"] = {"dropout": 0.0, "fine_tuning": PHASE | {"batch_size": 7, "flip": True}}
CHANGES["fine_tuned"] |= {"training__lr": 0.0001}  # so that the second phase is the better one
CASES.append("fine_tuned-knn_margin")
RUNS["accumulated"] = DUAL_PATH
CHANGES["accumulated"] = {"phases": [stage_1(4)], "dropout": 0.0, "training__accumulate": 2}
CASES.append("accumulated-sum_margin")
# codes of images and captions come from both processes, and decide the order
RUNS["dp_rnn_random"] = DP_RNN
CHANGES["dp_rnn_random"] = CHANGES["dp_rnn"] | {"order": "random"}
CASES.append("dp_rnn_random-sum_margin")
# of each epoch the hard negatives that the first process has found
RUNS["phrases"] = PHRASES
CHANGES["phrases"] = {}
CASES.append("phrases-sum_margin")
COLOURED = ("dual_path", "fine_tuned", "accumulated")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    plain, coloured = folder / "plain", folder / "coloured"
    for name in ("plain", "coloured", "alone", "together"):
        (folder / name).mkdir()
    write_tables(plain)
    write_phrases(plain)
    write_world(coloured)
    write_own_sentences(coloured)
    for case in CASES:
        model, loss = case.split("-")
        own = folder / "cases" / case
        own.mkdir(parents=True)
        RUNS[model].set_params(own, loss=loss, **SIZE, **CHANGES[model])
        world = coloured if model in COLOURED else plain
        described = {"model": RUNS[model].name, "world": str(world)}
        described |= {"inputs": PATHS | RUNS[model].inputs}
        (own / "case.json").write_text(json.dumps(described))
    run_script("trained_together.py", folder)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_processes_end_with_the_weights_of_one(folder, case):
    alone, together = (torch.load(folder / kind / f"{case}.pt") for kind in ("alone", "together"))
    assert alone["losses"] == pytest.approx(together["losses"], rel=1e-5)
    torch.testing.assert_close(together["weights"], alone["weights"], rtol=1e-5, atol=1e-5)


def test_what_is_random_differs_between_the_processes_and_not_after_them(folder):
    (first, next_first), (second, next_second) = (
        torch.load(folder / f"together/dropped{number}.pt") for number in (0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
    assert next_first == next_second


def test_large_integers_are_gathered_exactly(folder):
    for number in (0, 1):
        codes, gathered = torch.load(folder / f"together/codes{number}.pt")
        assert gathered.dtype == codes.dtype == torch.int64
        assert torch.equal(gathered, codes)


def test_processes_of_different_trainings_are_told_apart(folder):
    for number in (0, 1):
        message = (folder / f"together/refused{number}").read_text()
        assert message.startswith("process 1 has other params than process 0")
