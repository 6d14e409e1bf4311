"""The reader of Flickr30k Entities on a miniature in its format, whole and damaged."""

import numpy as np
import pandas as pd
import pytest
from commands import refusal
from entities_cases import annotation, write_entities

from pipeline.corpus.tokens import tokenise
from pipeline.phrases.entities import read_boxes, read_entities
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture
def mini(tmp_path):
    """The folder, its truth, and the tables that a reader of captions makes of it."""
    truth = write_entities(tmp_path, {"train": 3, "val": 1, "test": 1})
    rows = [line.split("| ") for line in (tmp_path / "results.csv").read_text().splitlines()[1:]]
    captions = pd.DataFrame(
        [(f"{image}#{number}", image, tokenise(text)) for image, number, text in rows],
        columns=["caption_id", "image_id", "tokens"],
    )
    images = pd.DataFrame({"image_id": list(truth), "width": 96, "height": 64})
    images["split"] = ["train"] * 3 + ["val", "test"]
    return tmp_path, truth, images, captions


def read(mini, by_lists=True):
    folder, _, images, captions = mini
    return read_entities(folder, "entities", by_lists, images, captions)


def test_phrases_and_boxes_are_those_of_the_files(mini, capsys):
    tables = read(mini)
    truth = mini[1]
    assert len(tables.phrases) == 5 * 4
    assert tables.phrases["split"].value_counts().to_dict() == {"train": 12, "val": 4, "test": 4}
    for image, chains in truth.items():
        own = tables.phrases[tables.phrases["image_id"] == image]
        assert own["caption_id"].tolist() == [f"{image}#{n}" for n in (0, 0, 1, 2)]
        assert own["type"].tolist() == ["people", "other", "people/other", "clothing"]
        assert own["words"].tolist()[2] == ["two", "blocks"]
        # pixels from 0, and the last one inside
        boxes = {c: (b[0] - 1, b[1] - 1, b[2], b[3]) for c, b in chains.items()}
        found = tables.unions(own)
        left, right = boxes.values()
        np.testing.assert_array_equal(found[0], left)
        np.testing.assert_array_equal(found[1], right)
        union = [left[0], min(left[1], right[1]), right[2], max(left[3], right[3])]
        np.testing.assert_array_equal(found[2], union)
        both = tables.boxes[tables.boxes["chain"] == own["chain"].iloc[2]]
        assert len(both) == 2  # every box of a chain
    told = capsys.readouterr().err
    assert "left out: 5 phrases of what cannot be seen (chain 0)" in told
    assert "left out: 5 phrases of chains without a box" in told


def test_what_the_corpus_does_not_have_is_counted(mini, capsys):
    folder, _, images, captions = mini
    fewer = captions[~captions["caption_id"].str.endswith("#1")]
    tables = read_entities(folder, "entities", True, images[:4], fewer)
    assert len(tables.phrases) == 4 * 3
    told = capsys.readouterr().err
    assert "left out: 4 sentences that are no caption of the corpus" in told
    assert "left out: 1 annotation files of images that are not read" in told


def test_a_sentence_is_found_among_the_captions_in_another_order(mini):
    folder, _, images, captions = mini
    turned = captions.assign(caption_id=captions["caption_id"].str.replace("#0", "#9"))
    tables = read_entities(folder, "entities", True, images, turned)
    assert tables.phrases["caption_id"].str.endswith("#9").sum() == 5 * 2


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("Annotations/1000002.xml", "<width>96", "<width>90", "of an image of 90 x 64 pixels"),
        ("Annotations/1000002.xml", "</annotation>", "", "not valid XML"),
        ("Sentences/1000002.txt", "Two blocks]", "Two blocks", "line 2: brackets that are no mark"),
        ("train.txt", "1000003", "1000005", "images in more than one list (1): 1000005"),
        ("train.txt", "1000003\n", "", "1 images of the corpus in no list"),
    ],
)
def test_damaged_files_are_refused(mini, capsys, name, old, new, message):
    path = mini[0] / "entities" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    if "no list" in message:
        read(mini)
        assert message in capsys.readouterr().err
        return
    with pytest.raises(WorkbenchError, match=message.replace("(", r"\(").replace(")", r"\)")):
        read(mini)


def test_lists_that_contradict_the_corpus_are_refused(mini):
    mini[2]["split"] = ["train", "test", "train", "val", "test"]
    assert "1 images in another split of the corpus: 1000002" in refusal(read, mini)
    assert len(read(mini, by_lists=False).phrases) == 20


@pytest.mark.parametrize("lost", ["Sentences", "Annotations", "Sentences/1000001.txt", "val.txt"])
def test_what_is_missing_is_named(mini, lost):
    (mini[0] / "entities" / lost).rename(mini[0] / "elsewhere")
    with pytest.raises(WorkbenchError, match=lost.partition("/")[2] or lost):
        read(mini)


@pytest.mark.parametrize("box", [(0, 1, 5, 5), (1, 1, 97, 5), (9, 1, 5, 5)])
def test_boxes_outside_their_image_are_refused(tmp_path, box):
    path = tmp_path / "a.xml"
    path.write_text(annotation("a", [(("7",), box)], "9"))
    assert "is not inside the image of 96 x 64" in refusal(read_boxes, path, (96, 64))
    path.write_text(path.read_text().replace(f"<xmax>{box[2]}", "<xmax>x"))
    assert "without whole numbers" in refusal(read_boxes, path, (96, 64))
