"""`vse attention`, and what scoring keeps for the report: real models, with regions that are there
or lack their boxes."""

from pathlib import Path

import numpy as np
import pytest
from commands import fail, run_command
from corpora import change_params
from indexed import describe_regions, draw_weights, files_of, lose_photographs
from PIL import Image

from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.score_file import read_scores
from pipeline.features.groups import GroupFile
from pipeline.report.attention import attention_figures
from pipeline.report.attention_pairs import choose_pairs, read_attention
from pipeline.report.shelf import CorpusLookup
from stages.record_attention import main as record_attention
from vse_workbench.commands.attention import main


@pytest.mark.parametrize("model", ["scan", "dp_rnn"])
def test_any_caption_and_image_of_the_test_split_is_drawn(folder, model):
    for arguments in ([], ["--image", "test0.png"], ["--image", "test3.png"]):
        command = [model, "--caption", "test0.png#0", *arguments, "--output", "out.png"]
        result = run_command(main, *command)
        assert result.returncode == 0, result.stderr
        shown = arguments[1] if arguments else "test0.png"
        assert f"out.png: {model}, image {shown}, caption test0.png#0" in result.stderr
        with Image.open("out.png") as picture, Image.open(shown) as image:
            near = np.abs(np.array(picture).astype(int) - image.getpixel((31, 0))).sum(2) < 20
        assert near.sum() > 10000  # the image itself
    again = (folder / "out.png").read_bytes()
    run_command(main, *command)
    assert (folder / "out.png").read_bytes() == again


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scan", "--caption", "val0.png#0"], "caption 'val0.png#0': not in the split"),
        (["vse", "--caption", "test0.png#0"], "model 'vse' has no attention; dp_rnn, scan have"),
        (["gpt", "--caption", "test0.png#0"], "model 'gpt': stage score of dvc.yaml has cca, dp_"),
        (["scan", "--caption", "test0.png#0", "--output", "out.jpg"], "written as .png"),
    ],
)
def test_what_cannot_be_drawn(folder, arguments, words):
    assert words in fail(main, folder, "--output", "out.png", *arguments)
    assert not (folder / "out.png").exists()


def test_parts_that_do_not_fit(folder):
    draw_weights("scan", position_gate=False)  # a gate needs boxes itself
    for changed, words in (
        ({"has_boxes": 0}, "a picture of attention needs the boxes"),
        ({"weights_sha256": "d" * 64}, "does not fit its inputs: features weights sha256"),
    ):
        describe_regions(**changed)
        said = fail(main, folder, "scan", "--caption", "test0.png#0", "--output", "out.png")
        assert words in said


def test_what_is_kept_for_the_report(folder):
    change_params(folder, seed=7)
    files = files_of("scan")
    files["scores"] = files.pop("output")

    def record(name):
        options = [word for kind, path in files.items() for word in (f"--{kind}", path)]
        assert run_command(record_attention, "scan", *options, "--output", name).returncode == 0
        return read_attention(name)

    found = record("one.h5")
    record("two.h5")
    assert (folder / "one.h5").read_bytes() == (folder / "two.h5").read_bytes()
    scores = read_scores("data/scores/scan.h5", "test")
    words = load_captions(Path("data/corpus/captions.parquet")).set_index("caption_id")["tokens"]
    assert len(found) == len(choose_pairs(scores, 7)) > 4
    for pair in found:
        own = pair.attention
        row, column = scores.image_ids.index(own.image_id), scores.caption_ids.index(own.caption_id)
        assert own.score == pytest.approx(scores.scores[row, column], abs=1e-5)
        assert own.words == list(words[own.caption_id])
        assert pair.place == 1 + (scores.scores[:, column] > scores.scores[row, column]).sum()
        assert np.allclose(own.weights.sum(1), 1, atol=1e-5)
    describe_regions(has_boxes=0)
    draw_weights("scan", position_gate=False)
    assert record("none.h5") == []


def test_an_image_without_a_file_is_not_drawn(folder):
    """In the report its figures are left out."""
    files = files_of("scan")
    files["scores"] = files.pop("output")
    options = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    assert run_command(record_attention, "scan", *options, "--output", "own.h5").returncode == 0
    weights = GroupFile(Path("own.h5")).attributes["checkpoint_sha256"]
    images, captions = (load(files[name]) for name, load in LOADERS.items())
    assert attention_figures(Path("own.h5"), weights, CorpusLookup(images, captions))
    lookup = CorpusLookup(images.assign(path=""), captions)
    assert attention_figures(Path("own.h5"), weights, lookup) == []
    lose_photographs()
    said = fail(main, folder, "scan", "--caption", "test0.png#0", "--output", "out.png")
    assert "image test0.png: the corpus has no photograph of it, only features" in said
    assert not (folder / "out.png").exists()


LOADERS = {"images": load_images, "captions": load_captions}
