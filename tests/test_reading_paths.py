"""The reading paths of docs/layout.md, followed in programs that run: each step is called, in this
order, and no path has more files than it says."""

import re
import sys
from contextlib import contextmanager

from clone import ROOT
from commands import succeed
from indexed import make_world
from model_runs import VSE
from PIL import Image
from tiny_inputs import write_inputs, write_params

from stages import prepare_corpus
from vse_workbench.commands.search import main as search

# the most files that a reader may have to open
LIMITS = {
    "From `loss` in params.yaml to the gradient": 6,
    "From an image to its row in image.h5": 7,
    "From a caption to its rank": 8,
    "From a checkpoint to an answer": 7,
}
STEP = re.compile(r"^\d+\. `([\w/.]+\.py)` `([\w.]+)`: ", re.MULTILINE)


def paths():
    """By title the steps of each path: file and function."""
    page = (ROOT / "docs/layout.md").read_text(encoding="utf-8").split("\n## Reading paths\n")[1]
    parts = re.split(r"^### (.+)$", page, flags=re.MULTILINE)[1:]
    return {title: STEP.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


PATHS = paths()


@contextmanager
def following(steps):
    """Note the steps of a path as they are called, each after the one before it."""
    left = list(reversed(steps))
    codes = {(str(ROOT / file), name) for file, name in steps}

    def look(frame, event, _):
        if event == "call" and left:
            code = frame.f_code
            called = (code.co_filename, code.co_qualname)
            if called in codes and called == (str(ROOT / left[-1][0]), left[-1][1]):
                left.pop()

    sys.setprofile(look)
    try:
        yield left
    finally:
        sys.setprofile(None)


def test_all_four_are_there_and_none_has_more_files_than_it_may():
    files = {title: len({file for file, _ in steps}) for title, steps in PATHS.items()}
    assert files.keys() == LIMITS.keys()
    assert {title: count for title, count in files.items() if count > LIMITS[title]} == {}


def test_a_loss_is_followed_to_its_gradient(tmp_path):
    write_inputs(tmp_path)
    with following(PATHS["From `loss` in params.yaml to the gradient"]) as left:
        VSE.train(tmp_path, training__epochs=2)
    assert left == []


def test_an_image_is_followed_to_its_row_and_a_checkpoint_to_an_answer(tmp_path):
    with following(PATHS["From an image to its row in image.h5"]) as left:
        make_world(tmp_path, models=("vse",))
    assert left == []
    with following(PATHS["From a checkpoint to an answer"]) as left:
        succeed(search, tmp_path, "w1 w2", "--model", "vse")
    assert left == []


def test_a_caption_is_followed_to_its_rank(tmp_path):
    """Read, encoded, scored and ranked: three stages, each on small inputs of its own."""
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    lines = ["image,caption"]
    for number in range(12):
        Image.new("RGB", (20, 20), (20 * number, 0, 0)).save(photographs / f"{number}.png")
        lines.append(f"{number}.png,a red square with number {number}")
    (photographs / "captions.txt").write_text("\n".join(lines) + "\n")
    write_inputs(tmp_path)
    with following(PATHS["From a caption to its rank"]) as left:
        write_params(
            tmp_path,
            dataset="auto",
            raw=str(photographs),
            detector__weights="random",
            corpus__val_images=3,
            corpus__test_images=3,
        )
        succeed(prepare_corpus.main, tmp_path, "--output", tmp_path / "read")
        VSE.train(tmp_path, training__epochs=2)
        VSE.evaluate(tmp_path)
    assert left == []
