"""Captions that fit other images are not pushed away from them, whatever the model."""

import pandas as pd
import pytest
from dual_path_runs import RUN as DUAL_PATH
from dual_path_runs import stage_1, write_world
from model_runs import DP_RNN, SCAN, TWO_BRANCH, VSE
from tiny_inputs import write_tables

from pipeline.corpus.tables import CAPTIONS, load_captions, load_images, write_table

RANKING = {"ranking": 1.0, "image_instance": 0.0, "text_instance": 0.0}
# of each model one epoch of nothing but its ranking loss
ONE = {"training__epochs": 1, "training__warmup_epochs": 0}
LAST = {"training__epochs": {"matching": 0, "recurrent": 0, "all": 1}}
ALONE = {"weights": {"sentence_sentence": 0.0, "image_image": 0.0}}
RUNS = {
    "vse": (VSE, ONE),
    "scan": (SCAN, ONE),
    "dp_rnn": (DP_RNN, ONE | LAST),
    "two_branch": (TWO_BRANCH, ONE | ALONE),
    "dual_path": (DUAL_PATH, {"phases": [stage_1(1, weights=RANKING)]}),
}


def put_fits(folder, fits):
    path = folder / "corpus/captions.parquet"
    captions = load_captions(path)
    own = zip(captions["image_id"], captions["split"], strict=True)
    captions["fits"] = [fits(image) if split == "train" else [] for image, split in own]
    write_table(path, pd.DataFrame(captions), CAPTIONS)


@pytest.mark.parametrize("name", RUNS)
def test_pairs_that_fit_are_no_negatives(tmp_path, name):
    run, changes = RUNS[name]
    (write_world if name == "dual_path" else write_tables)(tmp_path)
    images = load_images(tmp_path / "corpus/images.parquet")
    training = sorted(images["image_id"][images["split"] == "train"])

    def loss():
        run.train(tmp_path, loss="sum_margin", **changes)
        return run.curve(tmp_path)["loss"].tolist()

    plain = loss()
    assert plain[-1] > 0  # of all networks
    put_fits(tmp_path, lambda own: training[:3])
    some = loss()
    assert 0 < some[-1] < plain[-1]
    put_fits(tmp_path, lambda own: training)
    assert set(loss()) == {0}
