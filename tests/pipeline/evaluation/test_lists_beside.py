"""Lists of ids that lie beside a matrix, or in its file, under other names: read or refused."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import refusal
from external_cases import a_corpus, written

from pipeline.evaluation.external import Pairs

RANDOM = np.random.default_rng(11)
CORPUS = a_corpus()
TEXTS = CORPUS.captions.assign(text=[f"dog {n // 2 * 3 % 7} of {n}" for n in range(24)])
CORPUS = Pairs(CORPUS.images, TEXTS)
IMAGES = CORPUS.images["image_id"].tolist()[8:]
CAPTIONS = CORPUS.captions["caption_id"].tolist()[16:]
SCORES = RANDOM.standard_normal((4, 8)).astype(np.float32)
PICTURES = RANDOM.standard_normal((4, 6)).astype(np.float32)
WORDS = RANDOM.standard_normal((8, 6)).astype(np.float32)
OTHER = [2, 0, 3, 1]
OTHERS = [3, 1, 0, 2, 7, 6, 5, 4]


def put(path, lines):
    if path.suffix == ".npy":
        np.save(path, np.array(lines))
    else:
        path.write_text("\n".join(lines))


def shuffled(names, order):
    return [names[place] for place in order]


@pytest.mark.parametrize(
    "name", ["image_ids.txt", "s_image_ids.txt", "filenames.npy", "s.ids.txt", "test.csv"]
)
def test_images_beside_scores_are_refused_under_another_name(tmp_path, name):
    np.save(tmp_path / "s.npy", SCORES[OTHER])
    lines = shuffled(IMAGES, OTHER)
    put(tmp_path / name, ["image", *lines] if name == "test.csv" else lines)
    said = refusal(written, tmp_path, CORPUS, scores="s.npy")
    assert f"in another order than the corpus: {name} (images); read are s.image_ids.txt" in said


@pytest.mark.parametrize("column", ["caption_id", "text"])
def test_captions_beside_scores_are_refused_by_ids_and_texts(tmp_path, column):
    np.savez(tmp_path / "s.npz", scores=SCORES[:, OTHERS], image_ids=np.array(IMAGES))
    column_of_test = CORPUS.captions[column].tolist()[16:]
    put(tmp_path / "captions.txt", shuffled(column_of_test, OTHERS))
    said = refusal(written, tmp_path, CORPUS, scores="s.npz")
    what = "captions" if column == "caption_id" else "captions' texts, not their ids"
    assert f"captions.txt ({what}); read are s.caption_ids.txt" in said


TABLE = CORPUS.captions[["image_id", "text", "caption_id"]].iloc[16:].reset_index(drop=True)
FORMS = {
    "pairs.csv": lambda rows, path: rows.to_csv(path, index=False),
    "indexed.csv": lambda rows, path: rows.to_csv(path),
    "no_head.tsv": lambda rows, path: rows.to_csv(path, sep="\t", index=False, header=False),
    "bars.txt": lambda rows, path: rows.to_csv(path, sep="|", index=False),
    "test.token": lambda rows, path: path.write_text(
        "\n".join(f"{row.image_id}#0\t{row.text}" for row in rows.itertuples())
    ),
    "records.json": lambda rows, path: rows.to_json(path, orient="records"),
    "lists.json": lambda rows, path: path.write_text(json.dumps(rows.to_dict(orient="list"))),
    "places.json": lambda rows, path: path.write_text(
        json.dumps({name: place for place, name in enumerate(rows["caption_id"])})
    ),
    "rows.json": lambda rows, path: path.write_text(
        json.dumps({str(place): name for place, name in enumerate(rows["caption_id"])})
    ),
    "records.jsonl": lambda rows, path: rows.to_json(path, orient="records", lines=True),
    "names.parquet": lambda rows, path: rows.to_parquet(path),
    "names.npz": lambda rows, path: np.savez(path, captions=rows["text"].to_numpy(str)),
}


@pytest.mark.parametrize("name", FORMS)
def test_lists_of_every_form_are_seen(tmp_path, name):
    np.savez(tmp_path / "s.npz", scores=SCORES)
    FORMS[name](TABLE, tmp_path / name)
    written(tmp_path, CORPUS, scores="s.npz")  # in the corpus's order
    plain = TABLE.assign(text=TABLE["text"].str.upper() + " !").iloc[OTHERS]
    FORMS[name](plain.reset_index(drop=True), tmp_path / name)
    said = refusal(written, tmp_path, CORPUS, scores="s.npz")
    assert f"in another order than the corpus: {name} (" in said


@pytest.mark.parametrize("content", ["[[1, 2]]", '{"a": 5}', "[" * 5000, '"a', "", '[{"a": 1}, 2]'])
@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.csv", "x.npz", "x.parquet"])
def test_files_beside_that_are_no_lists_are_passed_over(tmp_path, name, content):
    np.save(tmp_path / "s.npy", SCORES)
    (tmp_path / name).write_text(content + " " * 20)
    assert written(tmp_path, CORPUS, scores="s.npy")["test"].scores.shape == SCORES.shape


def test_lists_beside_embeddings(tmp_path):
    np.save(tmp_path / "i.npy", PICTURES)
    np.save(tmp_path / "c.npy", WORDS)
    put(tmp_path / "i_ids.txt", shuffled(IMAGES, OTHER))
    said = refusal(written, tmp_path, CORPUS, images="i.npy", captions="c.npy")
    assert "i.npy: lists beside it" in said
    assert "i_ids.txt (images); read are i.ids.txt" in said
    (tmp_path / "i_ids.txt").rename(tmp_path / "i.ids.txt")
    put(tmp_path / "names_of_captions.txt", shuffled(IMAGES, [0, 2, 1, 3]) * 2)
    said = refusal(written, tmp_path, CORPUS, images="i.npy", captions="c.npy")
    assert "names_of_captions.txt (images); read are c.ids.txt" in said


def test_lists_that_tell_no_other_order_stay_where_they_are(tmp_path, capsys):
    """In the corpus's order, of other images, of another number, and of another matrix."""
    np.save(tmp_path / "s.npy", SCORES)
    put(tmp_path / "image_ids.txt", IMAGES)
    put(tmp_path / "captions.txt", CORPUS.captions["text"].tolist()[16:])
    put(tmp_path / "others.txt", ["a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    put(tmp_path / "all.txt", shuffled(CORPUS.images["image_id"].tolist(), RANDOM.permutation(12)))
    np.save(tmp_path / "other.npy", SCORES)
    put(tmp_path / "other.image_ids.txt", shuffled(IMAGES, OTHER))
    found = written(tmp_path, CORPUS, scores="s.npy")
    np.testing.assert_array_equal(found["test"].scores, SCORES)
    said = capsys.readouterr().err
    assert "image_ids: no ids; the 4 rows are those of the test split in order" in said
    assert "caption_ids: no ids; the 8 rows are those of the test split in order" in said


def numbered():
    """The corpus with the numbers of MS-COCO in its names."""
    images = CORPUS.images.assign(image_id=[f"COCO_val2014_{7 * n + 3:012}.jpg" for n in range(12)])
    names = dict(zip(CORPUS.images["image_id"], images["image_id"], strict=True))
    captions = CORPUS.captions.assign(
        image_id=[names[name] for name in CORPUS.captions["image_id"]],
        caption_id=[str(50 + n) for n in range(24)],
    )
    return Pairs(images, captions)


NUMBERS = np.array([7 * n + 3 for n in range(8, 12)])[OTHER]


@pytest.mark.parametrize("name", ["cocoid", "img_idx", "keys", "names", "y", "index"])
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_whole_numbers_are_ids_of_embeddings_under_any_name(tmp_path, name, ending):
    pictures = np.ascontiguousarray(PICTURES[OTHER])
    if ending == "npz":
        np.savez(tmp_path / "i.npz", emb=pictures, **{name: NUMBERS}, label=np.arange(4))
    else:
        table = pd.DataFrame({"embedding": list(pictures), name: NUMBERS})
        table.to_parquet(tmp_path / "i.parquet")
    np.save(tmp_path / "c.npy", WORDS)
    found = written(tmp_path, numbered(), images=f"i.{ending}", captions="c.npy", similarity="dot")
    np.testing.assert_array_equal(found["test"].image_embeddings, PICTURES)


def test_the_index_of_a_table_whose_rows_were_mixed_is_no_order_of_the_corpus(tmp_path):
    table = pd.DataFrame({"embedding": list(PICTURES)})
    np.save(tmp_path / "c.npy", WORDS)
    table.iloc[OTHER].to_parquet(tmp_path / "i.parquet")
    said = refusal(written, tmp_path, CORPUS, images="i.parquet", captions="c.npy")
    assert "ids that the corpus does not have (4): 2, 0, 3, 1" in said


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_whole_numbers_beside_scores_are_refused(tmp_path, kind):
    values = {"img_idx": NUMBERS.astype(kind), "cap_idx": np.array([66 + n for n in OTHERS])}
    np.savez(tmp_path / "s.npz", sims=SCORES[OTHER], **values)
    said = refusal(written, tmp_path, numbered(), scores="s.npz")
    assert "which may be ids: img_idx, cap_idx; ids are read from image_ids and caption_i" in said


@pytest.mark.parametrize(
    "values",
    [
        {"norm": np.array([0.5, 1.25, 2.0, 3.0])},
        {"label": np.array([2, 2, 0, 2])},
        {"row": np.arange(4), "number": np.arange(1, 9)},
        {"temperature": np.array(14.0), "classes": np.array(["x", "y", "z"])},
    ],
)
def test_numbers_that_cannot_be_ids_are_passed_over(tmp_path, values):
    np.savez(tmp_path / "s.npz", sims=SCORES, **values)
    found = written(tmp_path, CORPUS, scores="s.npz")
    np.testing.assert_array_equal(found["test"].scores, SCORES)


def test_embeddings_of_repeated_images_beside_one_name_for_each(tmp_path):
    np.savez(tmp_path / "i.npz", x=np.repeat(PICTURES[OTHER], 2, axis=0), cocoid=NUMBERS)
    np.save(tmp_path / "c.npy", WORDS)
    said = refusal(written, tmp_path, numbered(), images="i.npz", captions="c.npy")
    assert "4 ids for 8 rows" in said


def test_numbers_of_matlab_are_no_matrices(tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "s.mat", {"sims": SCORES, "K": 5.0})
    found = written(tmp_path, CORPUS, scores="s.mat")
    np.testing.assert_array_equal(found["test"].scores, SCORES)
    savemat(tmp_path / "s.mat", {"sims": SCORES[OTHER], "cocoid": NUMBERS.astype(float)})
    said = refusal(written, tmp_path, numbered(), scores="s.mat")
    assert "which may be ids: cocoid" in said
