"""What the dual path refuses to train on, and what it tells of its captions."""

import pandas as pd
from commands import fail, succeed
from dual_path_runs import FEATURES, RUN, stage_1
from tiny_inputs import NETWORK, NOUNS, PATHS, write_vocabulary

from stages.extract_image_features import main as extract
from stages.train import main


def test_clipped_captions_and_unknown_words_are_told(folder):
    write_vocabulary(folder, ["a", "red", "green", "blue", "yellow", "black", "white", *NOUNS])
    RUN.set_params(folder, slots=3, phases=[stage_1(1)])
    message = RUN.run_training(folder)
    captions = pd.read_parquet(folder / PATHS["captions"])
    count = (captions["split"] == "train").sum()
    assert f"{count} of {count} training captions are clipped to 3 words, " in message
    assert f"{count} unknown words are left out" in message


def test_features_of_another_network_are_refused(folder):
    other = [word if word != NETWORK else "other.safetensors" for word in FEATURES]
    RUN.set_params(folder, image_features__pool="max")
    succeed(extract, folder, *other)
    RUN.set_params(folder)
    assert "network.safetensors: not the network that made image.h5" in RUN.refused(folder)


def test_an_input_that_was_not_given_is_named(folder):
    command = RUN.training_command()
    place = command.index("--classes")
    message = fail(main, folder, *command[:place], *command[place + 2 :])
    assert "this model needs the option --classes" in message
