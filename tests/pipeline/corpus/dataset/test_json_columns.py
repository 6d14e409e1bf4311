"""Tables that pandas writes as JSON in any of its forms have the rows of the table."""

import json

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import read_all, save_images

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.json_columns import records_of_columns
from pipeline.runtime.errors import WorkbenchError

IMAGES = [f"p{number}.jpg" for number in range(4)]
TEXTS = [f"Dog {number} runs." for number in range(4)]
LETTERS = st.text('a1é漢 "\\/\n{[:,', max_size=4)
TABLE = pd.DataFrame({"score": range(4), "caption": TEXTS, "image": IMAGES})


@pytest.mark.parametrize("orient", ["columns", "split", "records", "index", "table"])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_every_form_of_to_json_is_read(tmp_path, orient, is_filtered):
    folder = tmp_path / "raw"
    save_images(folder, *IMAGES)
    table = TABLE[TABLE["score"] != 1] if is_filtered else TABLE
    table.to_json(folder / "mine.json", orient=orient)
    rows = read_all("auto", folder).captions.sort_values("image_id")
    assert rows["image_id"].tolist() == table["image"].tolist()
    assert rows["text"].tolist() == table["caption"].tolist()


@pytest.mark.parametrize("columns", [["caption"], ["caption", "score"]])
def test_images_that_label_the_rows_are_a_column(tmp_path, columns):
    folder = tmp_path / "raw"
    save_images(folder, *IMAGES)
    TABLE.set_index("image")[columns].to_json(folder / "mine.json")
    rows = read_all("auto", folder).captions.sort_values("image_id")
    assert dict(zip(rows["image_id"], rows["text"], strict=True)) == dict(
        zip(IMAGES, TEXTS, strict=True)
    )


def test_a_missing_caption_is_named(tmp_path):
    folder = tmp_path / "raw"
    save_images(folder, *IMAGES)
    TABLE.assign(caption=[None, *TEXTS[1:]]).to_json(folder / "mine.json")
    with pytest.raises(WorkbenchError, match=r"p0\.jpg \(no caption\)"):
        read_all("auto", folder)


def test_a_column_of_another_name_is_named(tmp_path):
    folder = tmp_path / "raw"
    save_images(folder, *IMAGES)
    TABLE.rename(columns={"caption": "inhalt"}).to_json(folder / "mine.json")
    with pytest.raises(WorkbenchError, match="known among inhalt, image") as caught:
        read_all("auto", folder)
    assert "corpus.caption_field" in caught.value.hint
    own = {"image_field": "image", "caption_field": "inhalt", "annotations": "mine.json"}
    assert len(read_all("records_json", folder, **own).captions) == 4


@given(
    columns=st.dictionaries(
        LETTERS.filter(bool),
        st.lists(LETTERS | st.integers(0, 9), min_size=2, max_size=2),
        min_size=2,
    ),
    orient=st.sampled_from(["columns", "split"]),
)
@settings(deadline=None, max_examples=30)
def test_rows_are_those_of_the_table(tmp_path_factory, columns, orient):
    folder = tmp_path_factory.mktemp("raw")
    pd.DataFrame(columns).to_json(folder / "x.json", orient=orient)
    expected = [{name: own[place] for name, own in columns.items()} for place in (0, 1)]
    assert records_of_columns(list_folder(folder), "x.json") == expected


@pytest.mark.parametrize(
    "content",
    [
        {"1.jpg": {"caption": "A dog."}, "2.jpg": {"caption": "A cat."}},  # records of images
        {"0": {"image": "1.jpg"}, "1": {"image": "2.jpg"}},  # records that are numbered
        {"image": {"0": "1.jpg", "1": "2.jpg"}, "caption": {"0": "A dog."}},  # a row is lacking
        {"columns": ["image", "caption"], "data": [["1.jpg"]]},
        {"columns": "image", "data": [["1.jpg"]]},
        {"caption": {"0": "A dog."}},
        [],
    ],
)
def test_other_files_are_no_such_tables(tmp_path, content):
    (tmp_path / "x.json").write_text(json.dumps(content))
    assert not records_of_columns(list_folder(tmp_path), "x.json")
    (tmp_path / "x.json").write_text(json.dumps(content)[:-3])
    assert not records_of_columns(list_folder(tmp_path), "x.json")
