"""Vectors in folders of VSE++ and clip-retrieval and in Karpathy's .mat: rows found, or why not."""

import json
import pickle
import re
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from clip_retrieval_files import write_parts
from safetensors.numpy import save_file
from scipy.io import savemat

from pipeline.features.imports import Wanted
from pipeline.features.vector_files import NAME_ARRAYS, open_source
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import EmbeddingFileConfig

SPLITS = {"train": "train", "val": "dev", "test": "test"}
IMAGES = pd.DataFrame(
    [
        (f"{n}00.jpg", split)
        for split, count in (("train", 5), ("val", 2), ("test", 3))
        for n in range({"train": 1, "val": 10, "test": 20}[split], 90)[:count]
    ],
    columns=["image_id", "split"],
)
IDS = IMAGES["image_id"].tolist()
IN_ORDER = range(len(IDS))
CAPTIONS = pd.DataFrame(
    [(f"{name}#{n}", name, f"A text {n}, of {name} .") for name in IDS for n in range(2)],
    columns=["caption_id", "image_id", "text"],
).assign(  # as readers and tokenisers leave them
    split=lambda table: table["image_id"].map(IMAGES.set_index("image_id")["split"]),
    tokens=lambda table: table["text"].str.lower().str.findall(r"\w+"),
)
VECTORS = np.random.default_rng(0).standard_normal((len(IDS), 6)).astype(np.float32)
TEXTS = np.random.default_rng(1).standard_normal((len(CAPTIONS), 6)).astype(np.float16)


def opened(path, key="image_id", captions=None):
    table = IMAGES if key == "image_id" else CAPTIONS
    wanted = Wanted(table, key, "image_features.file.other_ids", captions)
    source = open_source(EmbeddingFileConfig(path=str(path)), wanted)
    values = np.concatenate(list(source.vectors.blocks()))
    found = np.full((len(table), values.shape[1]), np.nan, values.dtype)
    found[source.places[source.places >= 0]] = values[source.places >= 0]
    return source, found


def refused(path, words, key="image_id"):
    with pytest.raises(WorkbenchError, match=words) as error:
        opened(path, key)
    return error.value.hint


def karpathy(path, order=IN_ORDER):
    """His file, images in another order than the corpus, numbers as he gives them."""
    images = [
        {
            "filename": IDS[row],
            "imgid": number,
            "split": IMAGES["split"][row],
            "sentences": [{"raw": f"A text {n}, of {IDS[row]} ."} for n in range(2)],
        }
        for number, row in enumerate(order)
    ]
    path.write_text(json.dumps({"images": images, "dataset": "x"}))


def precomp(folder, repeats=1, ids=None, captions=True):
    """VSE++'s folder; ids: of each image, written where they are given."""
    folder.mkdir()
    for split, prefix in SPLITS.items():
        rows = np.flatnonzero(IMAGES["split"] == split)
        np.save(folder / f"{prefix}_ims.npy", np.repeat(VECTORS[rows], repeats, 0))
        lines = [f"a text {n} of {IDS[row]}\n" for row in rows for n in range(2)]
        if captions:
            (folder / f"{prefix}_caps.txt").write_text("".join(lines))
        if ids is not None:
            text = "".join(f"{ids[row]}\n" for row in rows for _ in range(repeats))
            (folder / f"{prefix}_ids.txt").write_text(text)


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("ids", [IDS, [name.removesuffix(".jpg") for name in IDS]])
def test_vsepp_folder_with_ids(tmp_path, capsys, repeats, ids):
    precomp(tmp_path / "f8k_precomp", repeats, ids, captions=False)
    source, found = opened(tmp_path / "f8k_precomp")
    np.testing.assert_array_equal(found, VECTORS)
    assert [path.name for path in source.files] == ["train_ims.npy", "dev_ims.npy", "test_ims.npy"]
    said = capsys.readouterr().err
    assert ("train_ims.npy: each image stands there up to 2 times" in said) == (repeats == 2)


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("place", ["f8k_precomp", ".", "f8k"])
def test_vsepp_folder_without_ids_goes_by_the_captions_of_karpathys_file(tmp_path, place, repeats):
    precomp(tmp_path / "f8k_precomp", repeats)
    (tmp_path / "f8k").mkdir()
    karpathy(tmp_path / place / "dataset_flickr8k.json")
    np.testing.assert_array_equal(opened(tmp_path / "f8k_precomp")[1], VECTORS)


@pytest.mark.parametrize("ids", [None, [f"x{name}" for name in IDS]])
def test_vsepp_folder_in_the_order_of_the_corpus_goes_by_its_captions(tmp_path, capsys, ids):
    precomp(tmp_path / "f8k_precomp")
    if ids is not None:
        for split, prefix in SPLITS.items():
            rows = np.flatnonzero(IMAGES["split"] == split)
            text = "".join(f"{ids[row]}\n" for row in rows)
            (tmp_path / f"f8k_precomp/{prefix}_ids.txt").write_text(text)
    found = opened(tmp_path / "f8k_precomp", captions=CAPTIONS)[1]
    np.testing.assert_array_equal(found, VECTORS)
    assert ("unknown ids" in capsys.readouterr().err) == (ids is not None)


def test_vsepp_folder_in_an_order_that_nothing_explains_has_a_way_out(tmp_path):
    precomp(tmp_path / "f8k_precomp")
    hint = refused(tmp_path / "f8k_precomp", "nothing says which images these are: no train_ids")
    assert hint.startswith(f"copy Karpathy's dataset_*.json of these images into {tmp_path}/f8k_")
    karpathy(tmp_path / "f8k_precomp/dataset_x.json", [1, 0, *range(2, len(IDS))])
    refused(tmp_path / "f8k_precomp", r"train_caps.txt, line 1: not caption 1 of 200.jpg")
    karpathy(tmp_path / "f8k_precomp/dataset_x.json")
    np.testing.assert_array_equal(opened(tmp_path / "f8k_precomp")[1], VECTORS)


def test_rows_of_one_image_that_differ_are_named(tmp_path):
    precomp(tmp_path / "p", 2, IDS)
    array = np.load(tmp_path / "p/dev_ims.npy")
    array[3, 0] += 1
    np.save(tmp_path / "p/dev_ims.npy", array)
    refused(tmp_path / "p", r"dev_ims.npy: rows 2 and 3 \(from 0\) differ, but should both show")


def test_one_array_of_the_folder_and_regions_in_it_say_what_to_name(tmp_path):
    precomp(tmp_path / "p", ids=IDS)
    assert refused(tmp_path / "p/train_ims.npy", "no ids") == f"name the folder: {tmp_path / 'p'}"
    np.save(tmp_path / "p/train_ims.npy", np.ones((5, 3, 6), np.float32))
    hint = refused(tmp_path / "p", r"train_ims.npy: shape \(5, 3, 6\); expected are 2 dimensions")
    assert "regions.source: scan_npy" in hint


PATHS = [f"/home/me/photos/{name}" for name in IDS]


@pytest.mark.parametrize("place", ["emb", "emb/img_emb"])
@pytest.mark.parametrize("parts", [1, 3, 11])
def test_clip_retrieval_names_images_by_their_paths(tmp_path, place, parts):
    order = np.random.default_rng(2).permutation(len(IDS))
    values = VECTORS.astype(np.float16)
    write_parts(tmp_path / "emb", [PATHS[n] for n in order], values[order], parts=min(parts, 10))
    source, found = opened(tmp_path / place)
    np.testing.assert_array_equal(found, values)
    assert source.vectors.dtype == np.float16


def test_clip_retrieval_names_captions_by_their_texts(tmp_path):
    order = np.random.default_rng(3).permutation(len(CAPTIONS))
    paths = [f"/data/{CAPTIONS['image_id'][n]}" for n in order]
    texts = [CAPTIONS["text"][n].replace(" ", "  ") for n in order]
    vectors = np.ones((len(order), 6), np.float16)
    write_parts(tmp_path / "emb", paths, vectors, texts, TEXTS[order])
    np.testing.assert_array_equal(opened(tmp_path / "emb", "caption_id")[1], TEXTS)
    write_parts(tmp_path / "emb", paths, vectors, ["other", *texts[1:]], TEXTS[order])
    refused(tmp_path / "emb/text_emb", "row 0: 'other' is no caption of its image", "caption_id")
    for path in (tmp_path / "emb/metadata").iterdir():
        path.unlink()
    write_parts(tmp_path / "emb", paths, vectors, None, TEXTS[order])
    refused(
        tmp_path / "emb", r"row 0: .*jpg has 2 captions, and .* no column caption", "caption_id"
    )


def test_one_part_of_clip_retrieval_says_that_there_are_others(tmp_path, capsys):
    write_parts(tmp_path / "emb", PATHS, VECTORS)
    hint = refused(tmp_path / "emb/img_emb/img_emb_0.npy", r"without a row \(5\): 1000.jpg")
    assert hint == f"name {tmp_path / 'emb/img_emb'} to read all parts"
    opened(tmp_path / "emb/img_emb")
    said = capsys.readouterr().err
    assert f"1 other part not read; name {tmp_path / 'emb/img_emb'} for all" in said


def test_parts_of_clip_retrieval_that_do_not_fit(tmp_path):
    write_parts(tmp_path / "emb", PATHS, VECTORS)
    np.save(tmp_path / "emb/img_emb/img_emb_1.npy", VECTORS[:2])
    refused(tmp_path / "emb", r"img_emb_1.npy: 2 rows; .*metadata_1.parquet has 5")
    np.save(tmp_path / "emb/img_emb/img_emb_1.npy", VECTORS[:5, :3])
    refused(tmp_path / "emb", r"img_emb_1.npy: rows \(3,\) of float32; .*_0.npy has \(6,\)")
    (tmp_path / "emb/metadata/metadata_1.parquet").unlink()
    refused(tmp_path / "emb", r"metadata_1.parquet: no such file; it says which images")


def test_a_folder_of_other_things_says_what_is_read(tmp_path):
    (tmp_path / "x.bin").touch()
    hint = refused(tmp_path, "a folder with x.bin")
    assert "VSE++'s folder" in hint
    assert "clip-retrieval's" in hint


@pytest.mark.parametrize("hdf5", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_mat_file_is_in_the_order_of_karpathys_file(tmp_path, capsys, hdf5, turned):
    order = np.random.default_rng(4).permutation(len(IDS))
    karpathy(tmp_path / "dataset.json", order.tolist())
    values = VECTORS[order].T if turned else VECTORS[order]
    if hdf5:
        with h5py.File(tmp_path / "vgg_feats.mat", "w", userblock_size=512) as file:
            file["feats"] = values
    else:
        savemat(tmp_path / "vgg_feats.mat", {"feats": values})
    np.testing.assert_array_equal(opened(tmp_path / "vgg_feats.mat")[1], VECTORS)
    assert "vgg_feats.mat: its vectors are those of the images of" in capsys.readouterr().err


def test_a_mat_file_without_an_order_has_a_way_out(tmp_path):
    savemat(tmp_path / "v.mat", {"feats": VECTORS.T})
    hint = refused(tmp_path / "v.mat", r"v.mat: shape \(6, 10\), no ids, and near it no dataset")
    assert f"copy Karpathy's dataset.json of these images into {tmp_path}, or write v.ids" in hint
    (tmp_path / "v.ids.txt").write_text("".join(f"{name}\n" for name in IDS[::-1]))
    np.testing.assert_array_equal(opened(tmp_path / "v.mat")[1], VECTORS[::-1])
    karpathy(tmp_path / "dataset.json")
    karpathy(tmp_path / "dataset_b.json", IN_ORDER[::-1])
    (tmp_path / "v.ids.txt").unlink()
    refused(tmp_path / "v.mat", r"shape \(6, 10\) fits the images of .*dataset.json, .*dataset_b")


@pytest.mark.parametrize("kind", ["datasets", "groups", "names", "files"])
def test_an_array_for_each_image(tmp_path, kind):
    layouts = {"datasets": "{}_features", "groups": "{}/feat", "names": "{}"}
    path = tmp_path / ("fc" if kind == "files" else "v.h5")
    stems = [name.removesuffix(".jpg") for name in IDS]
    if kind == "files":
        path.mkdir()
        for stem, vector in zip(stems, VECTORS, strict=True):
            np.save(path / f"{stem}.npy", vector)
    else:
        with h5py.File(path, "w") as file:
            for stem, vector in zip(stems, VECTORS, strict=True):
                file[layouts[kind].format(stem)] = vector[None] if kind == "groups" else vector
    source, found = opened(path)
    np.testing.assert_array_equal(found, VECTORS)
    assert source.kind == "arrays of each image"


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_arrays_in_folders_as_the_images_have_them(tmp_path, ending):
    """Other folders of arrays are no images: VSE++'s, clip-retrieval's."""
    path = tmp_path / "fc"
    for number, (name, vector) in enumerate(zip(IDS, VECTORS, strict=True)):
        place = path / ("train/a" if number % 2 else "test")
        place.mkdir(parents=True, exist_ok=True)
        file = place / name.replace(".jpg", ending)
        np.save(file, vector) if ending == ".npy" else np.savez(file, feat=vector)
    source, found = opened(path)
    np.testing.assert_array_equal(found, VECTORS)
    assert [array.parent.name for array in source.files[::5]] == ["test", "a"]


@pytest.mark.parametrize("name", ["f30k_precomp/train_ims.npy", "clip/img_emb/img_emb_0.npy"])
def test_a_folder_above_those_of_whole_splits_or_parts(tmp_path, name):
    """It has no arrays of images."""
    (tmp_path / name).parent.mkdir(parents=True)
    np.save(tmp_path / name, VECTORS)
    hint = refused(tmp_path, f"a folder with {name.split('/')[0]}")
    assert "a folder with X.npy for each X.jpg" in hint


def test_regions_of_each_image_are_no_vectors(tmp_path):
    (tmp_path / "att").mkdir()
    np.save(tmp_path / "att/100.npy", np.ones((3, 6), np.float32))
    hint = refused(tmp_path / "att", r"100.npy: shape \(3, 6\); expected is a vector")
    assert "regions.path" in hint
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["100_features"] = np.ones((3, 6), np.float32)
    refused(tmp_path / "r.h5", "no array 'features'; it has 100_features")


@pytest.mark.parametrize("ending", [".npz", ".h5", ".parquet"])
@pytest.mark.parametrize(
    "names", [("embeddings", "image_ids"), ("x", "filenames"), ("features", "k")]
)
def test_the_only_matrix_and_the_only_texts_may_have_any_name(tmp_path, capsys, ending, names):
    path = tmp_path / f"v{ending}"
    arrays = {names[0]: VECTORS, names[1]: np.array(PATHS), "label": np.arange(len(PATHS))}
    if ending == ".npz":
        np.savez(path, **arrays)
    elif ending == ".h5":
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array.astype("S") if array.dtype.kind == "U" else array
    else:
        pd.DataFrame({name: list(array) for name, array in arrays.items()}).to_parquet(path)
    np.testing.assert_array_equal(opened(path)[1], VECTORS)
    said = capsys.readouterr().err
    assert f"ids are read from {names[1]}{', its only texts' * (names[1] == 'k')}\n" in said
    assert ("vectors are read from" in said) == (names[0] != "features")


@pytest.mark.parametrize("name", ["image_path", "Image ID", "filenames"])
def test_ids_are_those_that_are_called_so_beside_other_texts(tmp_path, name):
    own = {name: PATHS, "caption": ["a dog"] * len(PATHS), "label": list(range(len(PATHS)))}
    pd.DataFrame(own | {"embedding": list(VECTORS)}).to_parquet(tmp_path / "v.parquet")
    np.testing.assert_array_equal(opened(tmp_path / "v.parquet")[1], VECTORS)
    np.savez(tmp_path / "n.npz", x=VECTORS, image_id=np.arange(len(PATHS)), names=np.array(PATHS))
    np.testing.assert_array_equal(opened(tmp_path / "n.npz")[1], VECTORS)
    numbers = {"image_id": [Path(path).stem for path in PATHS], "caption": own["caption"]}
    table = pd.DataFrame(numbers | {"embedding": list(VECTORS)})
    table.astype({"image_id": int}).to_parquet(tmp_path / "w.parquet")
    np.testing.assert_array_equal(opened(tmp_path / "w.parquet")[1], VECTORS)
    table = CAPTIONS[["image_id", "caption_id", "text"]].assign(embedding=list(TEXTS))
    table.iloc[::-1].to_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(opened(tmp_path / "t.parquet", key="caption_id")[1], TEXTS)


def test_arrays_of_which_several_could_be_meant_must_be_named(tmp_path):
    ids = np.array(PATHS)
    np.savez(tmp_path / "v.npz", clip=VECTORS, vgg=VECTORS, ids=ids)
    assert refused(tmp_path / "v.npz", "no array 'features'; it has clip, vgg, ids") == NAME_ARRAYS
    np.savez(tmp_path / "v.npz", features=VECTORS, one=ids, other=ids)
    refused(tmp_path / "v.npz", "no ids")
    np.savez(tmp_path / "v.npz", features=VECTORS, one=ids[:-1])
    refused(tmp_path / "v.npz", "no ids")


COUNT = len(IDS)
PARTS = np.ones((COUNT, 3, 6), np.float32)


@pytest.mark.parametrize("ending", [".npz", ".h5", ".mat"])
@pytest.mark.parametrize(
    ("name", "width", "others", "words"),
    [
        ("size", 2, {"region_feats": PARTS}, ", beside region_feats (10, 3, 6)"),
        ("spatials", 5, {"feats": PARTS}, ", beside feats (10, 3, 6)"),
        ("other", 4, {"last_hidden": PARTS}, ", beside last_hidden (10, 3, 6)"),
        ("boxes", 4, {}, ", and is called as what goes with others"),
        ("attention_mask", 3, {}, ", and is called as what goes with others"),
    ],
)
def test_a_matrix_that_goes_with_others_is_not_taken_for_vectors(
    tmp_path, ending, name, width, others, words
):
    path = tmp_path / f"v{ending}"
    matrix = np.random.default_rng(2).random((COUNT, width), np.float32)
    arrays = {name: matrix, **others}
    (tmp_path / "v.ids.json").write_text(json.dumps(IDS))
    if ending == ".npz":
        np.savez(path, **arrays)
    elif ending == ".mat":
        savemat(path, arrays)
    else:
        with h5py.File(path, "w") as file:
            for key, values in arrays.items():
                file[key] = values
    said = re.escape(f"{name} ({COUNT}, {width}) is its only matrix{words}; is it what is meant?")
    assert "name it as `file.features`" in refused(path, said)
    wanted = Wanted(IMAGES, "image_id", "image_features.file.other_ids")
    source = open_source(EmbeddingFileConfig(path=str(path), features=name), wanted)
    np.testing.assert_array_equal(np.concatenate(list(source.vectors.blocks())), matrix)


@pytest.mark.parametrize("others", [{"tokens": PARTS}, {"boxes": np.ones((COUNT, 9, 4), "f4")}])
def test_vectors_beside_what_they_are_means_of_and_beside_boxes(tmp_path, others):
    np.savez(tmp_path / "v.npz", clip=VECTORS, ids=np.array(IDS), **others)
    np.testing.assert_array_equal(opened(tmp_path / "v.npz")[1], VECTORS)


def _with_other_programs(path, key):
    """Write vectors as their users do: by id, or a row each."""
    by_id = dict(zip(PATHS, VECTORS, strict=True))
    table = pd.DataFrame(VECTORS, columns=[f"f{n}" for n in range(VECTORS.shape[1])])
    table.insert(0, "image", PATHS)
    write = {
        "pt": lambda: torch.save({k: torch.tensor(v) for k, v in by_id.items()}, path),
        "pkl": lambda: path.write_bytes(pickle.dumps(by_id)),
        "json": lambda: path.write_text(json.dumps({k: v.tolist() for k, v in by_id.items()})),
        "npz": lambda: np.savez(path, **by_id),
        "safetensors": lambda: save_file(by_id, path),
        "csv": lambda: table.to_csv(path, index=False),
        "parquet": lambda: table.to_parquet(path),
    }
    write[key]()


@pytest.mark.parametrize("key", ["pt", "pkl", "json", "npz", "safetensors", "csv", "parquet"])
def test_the_command_saves_vectors_that_are_not_read_as_they_are(tmp_path, key):
    path = tmp_path / f"it's mine.{key}"
    _with_other_programs(path, key)
    hint = refused(path, "allowed endings are|no array 'features'")
    command = hint[hint.index("python -c") :]
    subprocess.run(command, shell=True, check=True)
    np.testing.assert_allclose(opened(path.with_name(f"{path.name}.npz"))[1], VECTORS, rtol=1e-6)


def test_ids_that_stand_there_once_for_each_caption(tmp_path, capsys):
    values = np.repeat(VECTORS, 5, 0)
    np.savez(tmp_path / "v.npz", ids=np.repeat(PATHS, 5), features=values)
    np.testing.assert_array_equal(opened(tmp_path / "v.npz")[1], VECTORS)
    assert "ids stand there up to 5 times in a row, with equal rows" in capsys.readouterr().err
    values[6, 0] += 1
    np.savez(tmp_path / "v.npz", ids=np.repeat(PATHS, 5), features=values)
    refused(tmp_path / "v.npz", r"rows 5 and 6 \(from 0\) have the id 200.jpg, and differ")


def test_ids_of_images_may_be_paths_or_numbers_and_of_captions_may_not(tmp_path):
    np.savez(tmp_path / "v.npz", ids=np.array(PATHS), features=VECTORS)
    np.testing.assert_array_equal(opened(tmp_path / "v.npz")[1], VECTORS)
    ids = [f"x/{name}" for name in CAPTIONS["caption_id"]]
    np.savez(tmp_path / "c.npz", ids=np.array(ids), features=TEXTS)
    assert "letter by letter" in refused(tmp_path / "c.npz", "not in the corpus", "caption_id")
