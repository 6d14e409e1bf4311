"""`vse analyse`: a trained model's files in, tables and pictures out."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import fail, run_command
from indexed import draw_weights, put_scores
from tiny_inputs import WORDS, write_vocabulary

from pipeline.corpus.tables import load_captions
from pipeline.evaluation.score_file import read_scores
from vse_workbench.commands.analyse import main


def analyse(*arguments):
    return run_command(main, *arguments)


def test_all_analyses_of_a_model(folder):
    result = analyse("vse", "--output", "analysis/vse")
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines()[-1].startswith("vse: separation, correlations, words, curve")
    written = {path.name: path.read_bytes() for path in (folder / "analysis/vse").iterdir()}
    assert set(written) == {
        *(f"{name}.tsv" for name in ("separation", "correlations", "words", "word_drops", "curve")),
        *(f"{name}.png" for name in ("separation", "correlations", "words", "curve")),
        *("separation.json", "correlations.json", "examples.txt"),
    }
    assert analyse("vse", "--output", "analysis/again").returncode == 0
    again = {path.name: path.read_bytes() for path in (folder / "analysis/again").iterdir()}
    assert again == written


@pytest.mark.parametrize("model", ["vse", "dual_path"])
def test_whole_captions_score_what_the_score_file_says(folder, model):
    """Unknown words are not left out. In slots what lies behind the last one has no effect."""
    known, slots = WORDS[2:], {"slots": 2} if model == "dual_path" else {}
    write_vocabulary(folder / "data", known)
    draw_weights(model, vocabulary_size=len(known) + 2, **slots)
    put_scores(model)
    assert analyse(model, "--output", "a", "--only", "words").returncode == 0
    drops = pd.read_csv("a/word_drops.tsv", sep="\t")
    split = read_scores(f"data/scores/{model}.h5", "test")
    scores = pd.DataFrame(split.scores, split.image_ids, split.caption_ids)
    pairs = zip(drops["image_id"], drops["caption_id"], strict=True)
    np.testing.assert_allclose(drops["score"], [scores.loc[pair] for pair in pairs], atol=1e-5)
    tokens = load_captions(Path("data/corpus/captions.parquet")).set_index("caption_id")["tokens"]
    places = {
        name: [place for place, word in enumerate(tokens[name]) if word in known]
        for name in split.caption_ids
    }
    found = drops.groupby("caption_id")["position"].apply(list).to_dict()
    assert found == {name: own for name, own in places.items() if len(own) > 1}
    assert drops["drop"].abs().max() > 0.01
    if slots:
        rows = zip(drops["caption_id"], drops["position"], strict=True)
        behind = np.array([places[name].index(place) >= 2 for name, place in rows])
        assert 0 < behind.sum() < len(behind)
        np.testing.assert_allclose(drops["drop"][behind], 0, atol=1e-6)


def test_other_score_files_stand_beside_it(folder):
    shutil.copy("data/scores/vse.h5", "before.h5")
    draw_weights("vse", 1)
    said = fail(main, folder, "vse", "--output", "a", "--only", "words")
    assert "not made with the weights of the checkpoint" in said
    put_scores("vse")
    result = analyse(
        "vse",
        "--output",
        "a",
        "--with",
        "before=before.h5",
        "--only",
        "separation",
        "--only",
        "correlations",
    )
    assert result.returncode == 0, result.stderr
    separated = json.loads((folder / "a/separation.json").read_text())
    assert list(separated) == ["vse", "before"]
    assert separated["vse"] != separated["before"]
    table = pd.read_csv("a/correlations.tsv", sep="\t")
    assert list(table.columns[2:]) == ["image features", "vse", "before"]
    split = read_scores("before.h5", "test")
    assert len(table) == len(split.image_ids) * (len(split.image_ids) - 1) / 2
    vectors = dict(zip(split.image_ids, split.image_embeddings, strict=True))
    pairs = zip(table["image"], table["other"], strict=True)
    expected = [np.corrcoef(vectors[one], vectors[other])[0, 1] for one, other in pairs]
    np.testing.assert_allclose(table["before"], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vse", "--with", "before"), "expected LABEL=RUN"),
        (("vse", "--with", "=x.h5"), "expected LABEL=RUN"),
        (("vse", "--with", "vse=x.h5"), "every label once"),
        (("vse", "--with", "a=none.h5"), "none.h5"),
        (("vse", "--with", "a=HEAD"), "'HEAD': neither a score file (.h5) nor REVISION:MODEL"),
        (("vse", "--with", "a=HEAD:vse"), "HEAD:vse: "),
        (("vse", "--split", "train"), "train"),
        (("nothing",), "model 'nothing': stage score of dvc.yaml has"),
        (("scan",), "not for scan\nchoose other analyses with --only"),
        (("scan", "--only", "words"), "not for scan\nchoose other analyses with --only"),
    ],
)
def test_what_does_not_fit_is_a_plain_line(folder, arguments, message):
    assert message in fail(main, folder, *arguments, "--output", "a")
    assert not (folder / "a").exists()
