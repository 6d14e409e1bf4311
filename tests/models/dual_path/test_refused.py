"""What the dual path refuses to train and to score, and what it tells of its captions."""

import shutil

import pandas as pd
import pytest
from commands import fail, succeed
from dual_path_runs import FEATURES, PSEUDO, RUN, remove, stage_1, stage_2
from tiny_inputs import NETWORK, NOUNS, PATHS, SIDE, write_vocabulary

from stages.check_params import main as check_params
from stages.cluster_pseudo_classes import main as cluster
from stages.extract_image_features import main as extract
from stages.train import main


def test_clipped_captions_and_unknown_words_are_told(folder):
    write_vocabulary(folder, ["a", "red", "green", "blue", "yellow", "black", "white", *NOUNS])
    RUN.set_params(folder, slots=3)
    message = RUN.run_training(folder)
    captions = pd.read_parquet(folder / PATHS["captions"])
    count = (captions["split"] == "train").sum()
    assert f"{count} of {count} training captions are clipped to 3 words, " in message
    assert f"{count} unknown words are left out" in message


def test_captions_without_a_known_word_are_named(folder):
    write_vocabulary(folder, ["red", "green", "black"])
    message = RUN.refused(folder)
    assert "captions have no word of the vocabulary: train" in message
    assert "vocabulary.min_count" in message


def test_a_group_without_caption_is_named(folder):
    remove(folder, "captions", "train5")
    RUN.set_params(folder)
    assert "1 groups of training images have no caption: train5" in RUN.refused(folder)


def test_a_checkpoint_of_another_vocabulary_is_not_scored(folder):
    RUN.train(folder)
    write_vocabulary(folder, ["a", "and", *NOUNS, "red", "blue"])
    message = RUN.not_scored(folder)
    assert "dual_path.safetensors: does not fit its inputs: vocabulary sha256 " in message


@pytest.mark.parametrize("change", [{"seed": 1}, {"image_features__pool": "max"}])
def test_features_of_another_network_are_refused(folder, change):
    """Of other weights, and of the same ones pooled in another way."""
    other = [word if word != NETWORK else "other.safetensors" for word in FEATURES]
    RUN.set_params(folder, **change)
    succeed(extract, folder, *other)
    RUN.set_params(folder)
    assert "network.safetensors: not the network that made image.h5" in RUN.refused(folder)


def test_images_changed_since_the_corpus_are_named(folder):
    RUN.set_params(folder)
    shutil.copy(folder / "train0.png", folder / "train7.png")
    message = RUN.refused(folder)
    assert "train7.png: changed since the corpus was prepared" in message
    assert "epoch 2 (stage_1)" in message  # cached features need no file


@pytest.mark.parametrize("option", ["network", "classes"])
def test_an_input_that_was_not_given_is_named(folder, option):
    command = RUN.training_command()
    place = command.index(f"--{option}")
    message = fail(main, folder, *command[:place], *command[place + 2 :])
    assert f"this model needs the option --{option}" in message


def test_classes_of_another_corpus_are_refused(folder):
    whole = (folder / PATHS["images"]).read_bytes()
    remove(folder, "images", "train3")
    succeed(cluster, folder, *PSEUDO)
    (folder / PATHS["images"]).write_bytes(whole)
    assert "no pseudo class for train3" in RUN.refused(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"phases": [stage_2()]}, "'stage_2' comes first and trains image_cnn while the other"),
        ({"phases": [stage_1(0), stage_2()]}, "'stage_2' comes first and trains image_cnn"),
        ({"crop": SIDE + 1}, "dual_path.crop = 33: must not exceed dual_path.resize = 32"),
    ],
)
def test_impossible_parameters_are_refused_before_anything_runs(folder, change, words):
    RUN.set_params(folder, **change)
    assert words in fail(check_params, folder, "--output", "params.ok")
    assert not (folder / "params.ok").exists()
