"""Scores in other forms: the command of the refusal is run, and what it saves is read."""

import json
import subprocess

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from commands import refusal
from external_cases import a_corpus, written

RANDOM = np.random.default_rng(13)
CORPUS = a_corpus({"train": 1, "val": 2, "test": 4}, per_image=2)
IMAGES = CORPUS.images["image_id"].tolist()[3:]
CAPTIONS = [str(40 + n) for n in range(14)]  # numbers, as Karpathy's sentid
CORPUS.captions["caption_id"] = CAPTIONS
SCORES = RANDOM.standard_normal((4, 8))
ROWS = [2, 0, 3, 1]
COLUMNS = [5, 1, 7, 0, 2, 6, 4, 3]
TABLE = pd.DataFrame(SCORES, index=IMAGES, columns=CAPTIONS[6:])
MIXED = TABLE.iloc[ROWS, COLUMNS]
PAIRS = (
    MIXED.rename_axis("image_id")
    .reset_index()
    .melt(id_vars="image_id", var_name="caption_id", value_name="score")
)


def saved(path, change=lambda command: command):
    """Follow the refusal of a file, and read what its command saves."""
    said = refusal(written, path.parent, CORPUS, scores=path.name)
    command = change(said[said.index("python -c") :])
    subprocess.run(command, shell=True, check=True)
    return written(path.parent, CORPUS, scores=f"{path.name}.npz")


WRITE = {
    "ids.csv": lambda path: MIXED.to_csv(path),
    "ids of images.tsv": lambda path: (
        TABLE.iloc[ROWS].set_axis(range(8), axis=1).to_csv(path, sep="\t")
    ),
    "ids of captions.csv": lambda path: TABLE[MIXED.columns].to_csv(path, index=False),
    "no ids.csv": lambda path: pd.DataFrame(SCORES).to_csv(path),
    "numbers.txt": lambda path: np.savetxt(path, SCORES),
    "numbers; it's.csv": lambda path: np.savetxt(path, SCORES, delimiter=";"),
    "pairs.csv": lambda path: PAIRS.to_csv(path, index=False),
    "ids.parquet": lambda path: MIXED.to_parquet(path),
    "column.parquet": lambda path: MIXED.rename_axis("image").reset_index().to_parquet(path),
    "no ids.parquet": lambda path: pd.DataFrame(SCORES).to_parquet(path),
    "pairs.parquet": lambda path: PAIRS.to_parquet(path),
    "dict.pt": lambda path: torch.save({"sims": torch.tensor(SCORES)}, path),
    "lists.json": lambda path: path.write_text(str(SCORES.tolist())),
}


@pytest.mark.parametrize("name", WRITE)
def test_the_command_saves_scores_with_their_ids(tmp_path, name):
    path = tmp_path / name
    WRITE[name](path)
    found = saved(path)
    np.testing.assert_allclose(found["test"].scores, SCORES, rtol=1e-6)
    assert found["test"].image_ids == IMAGES


def test_a_table_of_captions_by_images_is_turned_as_the_refusal_says(tmp_path):
    MIXED.T.to_csv(tmp_path / "s.csv")
    found = saved(tmp_path / "s.csv", lambda command: command.replace("str}); n.", "str}).T; n."))
    np.testing.assert_allclose(found["test"].scores, SCORES, rtol=1e-6)


def test_embeddings_in_one_file_are_split(tmp_path):
    images = RANDOM.standard_normal((4, 5)).astype(np.float32)
    captions = RANDOM.standard_normal((8, 5)).astype(np.float32)
    np.savez(tmp_path / "e.npz", img_embs=images, cap_embs=captions)
    said = refusal(written, tmp_path, CORPUS, scores="e.npz")
    subprocess.run(said[said.index("python -c") :], shell=True, check=True)
    files = {"images": "e.npz.img_embs.npz", "captions": "e.npz.cap_embs.npz"}
    found = written(tmp_path, CORPUS, similarity="dot", **files)
    np.testing.assert_allclose(found["test"].scores, images @ captions.T, rtol=1e-5)


def test_embeddings_in_one_file_are_split_with_their_ids(tmp_path):
    images = RANDOM.standard_normal((4, 5)).astype(np.float32)
    captions = RANDOM.standard_normal((8, 5)).astype(np.float32)
    path = tmp_path / "e.npz"
    order = RANDOM.permutation(8)
    ids = {"image_ids": np.array(IMAGES[::-1]), "caption_ids": np.array(CAPTIONS[6:])[order]}
    np.savez(path, image=images[::-1], text=captions[order], **ids)
    said = refusal(written, tmp_path, CORPUS, scores="e.npz")
    subprocess.run(said[said.index("python -c") :], shell=True, check=True)
    files = {"images": "e.npz.image.npz", "captions": "e.npz.text.npz"}
    found = written(tmp_path, CORPUS, similarity="dot", **files)
    np.testing.assert_allclose(found["test"].scores, images @ captions.T, rtol=1e-5)
    # as many images as captions: whose ids they are is not told
    np.savez(path, image=images, text=images, image_ids=IMAGES, caption_ids=CAPTIONS[6:10])
    said = refusal(written, tmp_path, CORPUS, scores="e.npz")
    assert "in a file of its own, with its ids as ids" in said


def test_runs_in_json_are_sent_to_the_page_of_runs(tmp_path):
    run = {CAPTIONS[0]: {IMAGES[0]: 0.5, IMAGES[1]: 0.25}, CAPTIONS[1]: {IMAGES[1]: 1}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert "ir_measures (docs/trec.md)" in refusal(written, tmp_path, CORPUS, scores="run.json")


def test_runs_of_trec_eval_are_sent_to_their_own_page(tmp_path):
    lines = [f"{CAPTIONS[n]} Q0 {IMAGES[0]} {n} 0.5 mine" for n in range(3)]
    (tmp_path / "my.t2i.run").write_text("\n".join(lines))
    said = refusal(written, tmp_path, CORPUS, scores="my.t2i.run")
    assert "ir_measures (docs/trec.md)" in said


def test_a_score_file_and_other_files_of_groups_are_named(tmp_path):
    np.save(tmp_path / "s.npy", SCORES)
    written(tmp_path, CORPUS, scores="s.npy")
    (tmp_path / "out.h5").rename(tmp_path / "own.h5")
    said = refusal(written, tmp_path, CORPUS, scores="own.h5")
    assert "own.h5: a score file already, as this command writes it\nname own in average_sc" in said
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["test/sims"] = SCORES
        file["val/sims"] = SCORES
    said = refusal(written, tmp_path, CORPUS, scores="s.h5")
    assert "no matrix outside of groups; in groups are test/sims, val/sims" in said


def test_captions_by_the_number_of_their_image_are_told_what_is_read(tmp_path):
    ids = [f"{name}#{n}" for name in IMAGES for n in range(2)]
    np.savez(tmp_path / "s.npz", scores=SCORES, caption_ids=np.array(ids))
    said = refusal(written, tmp_path, CORPUS, scores="s.npz")
    assert "for IMAGE#NUMBER write the caption_id that data/corpus/captions.parquet has" in said


def test_images_that_come_back_later_are_told_to_follow_each_other(tmp_path):
    np.savez(tmp_path / "i.npz", ids=np.array(IMAGES * 2), features=np.tile(SCORES, (2, 1)))
    np.save(tmp_path / "c.npy", np.ones((8, 8), np.float32))
    said = refusal(written, tmp_path, CORPUS, images="i.npz", captions="c.npy")
    assert "rows of an image that is there several times must follow each other" in said
