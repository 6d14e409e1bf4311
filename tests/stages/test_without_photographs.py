"""A dataset of features and captions without photographs, from its folder to the report: what
works, and that what needs pixels says so in one line with a way out that works."""

import numpy as np
import pytest
from commands import fail, run_command, succeed
from precomp_folders import COUNTS, write_precomp
from tiny_inputs import write_params

from pipeline.corpus.images import file_of_image
from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.score_file import read_scores
from pipeline.features.data import ImageRegions, ImageVectors
from pipeline.report.shelf import CorpusLookup
from pipeline.runtime.errors import WorkbenchError
from pipeline.search.index import Hit
from stages import (
    build_vocabulary,
    compare,
    evaluate,
    extract_image_features,
    extract_region_features,
    prepare_corpus,
    prepare_phrases,
    record_attention,
    score,
    train,
)
from stages.params import load_params
from vse_workbench.commands import look
from vse_workbench.search.page import results_page

TABLES = {"images": "corpus/images.parquet", "captions": "corpus/captions.parquet"}
DETECTOR = {"detector": "detector.safetensors"}
NETWORK = {"network": "network.safetensors"}
FEATURES = {"vse": "image.h5", "scan": "regions.h5"}


def options(**paths):
    return [word for name, path in paths.items() for word in (f"--{name}", path)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder of vectors, and one of regions with the same captions; the corpus is the first's."""
    folder = tmp_path_factory.mktemp("world")
    write_precomp(folder / "f8k_precomp", rows_per_caption=True)
    write_precomp(folder / "regions", regions=True)
    put_params(folder)
    (folder / "detector.safetensors").write_bytes(b"")  # a file that DVC makes and nothing reads
    said = succeed(prepare_corpus.main, folder, "--output", "corpus")
    succeed(build_vocabulary.main, folder, "--captions", TABLES["captions"], "--output", "words")
    return folder, said


def put_params(folder, **changes):
    changes = {
        "dataset": "auto",
        "raw": "f8k_precomp",
        "detector__weights": "random",
        "image_features__source": "file",
        "image_features__file__path": "f8k_precomp",
        "regions__source": "scan_npy",
        "regions__path": "regions",
        "regions__boxes": 4,
        "evaluation__bootstrap": 20,
    } | changes
    write_params(folder, **changes)


def test_images_have_names_and_no_files(world):
    folder, said = world
    assert "dataset: precomp, because of train_ims.npy, train_caps.txt" in said
    assert "images without files, as vectors of 16 numbers" in said
    images = load_images(folder / TABLES["images"])
    assert images["image_id"].tolist()[:2] == ["train/0", "train/1"]
    assert images["split"].value_counts().to_dict() == {"train": 24, "val": 6, "test": 6}
    assert (images[["path", "sha256"]] == "").all(axis=None)
    assert (images[["width", "height"]] == 0).all(axis=None)
    captions = load_captions(folder / TABLES["captions"])
    assert captions["image_id"].value_counts().unique().tolist() == [5]


@pytest.fixture(scope="module")
def evaluated(world):
    """Both models, trained and evaluated, and what the evaluation says of each."""
    folder, _ = world
    succeed(
        extract_image_features.main,
        folder,
        *options(**TABLES, **DETECTOR, **NETWORK, output=FEATURES["vse"]),
    )
    succeed(extract_region_features.main, folder, *options(**TABLES, output=FEATURES["scan"]))
    for model, features in FEATURES.items():
        inputs = options(**TABLES, features=features, text="words")
        weights = f"{model}.safetensors"
        curve = f"curves/{model}.tsv"
        succeed(train.main, folder, model, *inputs, *options(output=weights, curve=curve))
        scored = options(checkpoint=weights, output=f"scores/{model}.h5")
        succeed(score.main, folder, model, *inputs, *scored)
        succeed(
            evaluate.main,
            folder,
            *options(
                scores=f"scores/{model}.h5",
                relevance="corpus/relevance.parquet",
                metrics=f"metrics/{model}.json",
                ranks=f"ranks/{model}.h5",
            ),
        )
    return folder


def test_features_are_those_of_the_folder(evaluated):
    ids = load_images(evaluated / TABLES["images"])["image_id"].tolist()
    vectors = ImageVectors(evaluated / "image.h5", True).file
    regions = ImageRegions(evaluated / "regions.h5", True).file
    for name in COUNTS:
        split = {"dev": "val"}.get(name, name)
        rows = [place for place, image in enumerate(ids) if image.startswith(split)]
        found = np.load(evaluated / f"f8k_precomp/{name}_ims.npy")[::5]
        np.testing.assert_array_equal(vectors.read(rows), found)
        found = np.load(evaluated / f"regions/{name}_ims.npy")
        np.testing.assert_allclose(regions.read(rows), found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("model", FEATURES)
def test_models_learn_from_them(evaluated, model):
    """The true image of a test caption stands above the mean of all six, which chance does not do:
    of 30 captions more than 20."""
    scores = read_scores(evaluated / f"scores/{model}.h5", "test")
    true = np.equal.outer(np.array(scores.image_ids), np.array(scores.caption_image_ids))
    above = scores.scores.T[true.T] > scores.scores.mean(axis=0)
    assert above.sum() > 20


def test_the_report_shows_ids_in_place_of_pictures(evaluated):
    files = options(
        metrics="metrics/vse.json",
        ranks="ranks/vse.h5",
        curves="curves/vse.tsv",
        output="compare.md",
        page="page.html",
        **TABLES,
    )
    succeed(compare.main, evaluated, *files)
    page = (evaluated / "page.html").read_text()
    assert "image test/0" in page
    assert 'src="data:image/jpeg' not in page


def test_no_attention_is_recorded_where_there_are_no_boxes(evaluated):
    inputs = options(**TABLES, features="regions.h5", text="words", checkpoint="scan.safetensors")
    outputs = options(scores="scores/scan.h5", output="attention.h5")
    succeed(record_attention.main, evaluated, "scan", *inputs, *outputs)


NEEDS_PIXELS = {
    "image_features": (
        extract_image_features.main,
        options(**TABLES, **DETECTOR, **NETWORK, output="other.h5"),
        {"image_features__source": "network", "image_features__file__path": None},
        "error: image_features.source: network needs photographs, and the corpus has none of 36 "
        "images, such as train/0",
        "set image_features.source: file, and image_features.file.path",
    ),
    "detector": (
        extract_region_features.main,
        options(**TABLES, **DETECTOR, output="other.h5"),
        {"regions__source": "detector", "regions__path": None},
        "error: regions.source: detector needs photographs",
        "set regions.source to scan_npy, tsv or butd_h5",
    ),
    "grid": (
        extract_region_features.main,
        options(**TABLES, **DETECTOR, output="other.h5"),
        {"regions__source": "grid", "regions__path": None, "regions__network__weights": "random"},
        "error: regions.source: grid needs photographs",
        "set regions.source to scan_npy, tsv or butd_h5",
    ),
    "phrases": (
        prepare_phrases.main,
        options(**TABLES, output="phrases"),
        {"phrases__source": "flickr30k_entities"},
        "error: phrases.source: flickr30k_entities needs photographs",
        "set phrases.source: none",
    ),
    "params": (
        prepare_corpus.main,
        options(output="other"),
        {
            "dataset": "precomp",
            "image_features__source": "network",
            "image_features__file__path": None,
            "regions__source": "detector",
            "regions__path": None,
        },
        "image_features.source = 'network': the dataset 'precomp' has no photographs",
        "set it to file, or regions.source to scan_npy, tsv or butd_h5",
    ),
}


@pytest.mark.parametrize("case", NEEDS_PIXELS)
def test_what_needs_pixels_refuses_by_the_name_of_its_setting(world, case):
    folder, _ = world
    command, words, changes, message, hint = NEEDS_PIXELS[case]
    put_params(folder, **changes)
    try:
        said = fail(command, folder, *words)
    finally:
        put_params(folder)
    assert message in said
    assert hint in said


def test_fine_tuning_is_refused_with_the_params(world, monkeypatch):
    folder, _ = world
    put_params(folder, dataset="precomp", two_branch__fine_tuning__epochs=1)
    monkeypatch.chdir(folder)
    try:
        with pytest.raises(WorkbenchError, match=r"fine_tuning\.epochs = 1: .* has no photographs"):
            load_params(models=["two_branch"])
    finally:
        put_params(folder)


def test_look_says_it(world):
    folder, _ = world
    said = run_command(look.main, "f8k_precomp", folder=folder).stdout
    assert "images without files, as vectors of 16 numbers" in said
    assert "not there" not in said
    place = folder / "f8k_precomp"
    assert f"-S image_features.source=file -S image_features.file.path={place}" in said
    assert "the models of these features: dvc repro evaluate@vse" in said
    said = run_command(look.main, "regions", folder=folder).stdout
    assert "4 regions of 16 numbers" in said
    assert f"-S regions.source=scan_npy -S regions.path={folder / 'regions'}" in said
    assert "the models of these features: dvc repro evaluate@scan" in said


def test_annotations_beside_a_file_of_vectors_are_a_corpus(tmp_path):
    """As a table, or Karpathy's file, whose photographs are somewhere else: the vectors are found
    by the names of the images."""
    raw = tmp_path / "raw"
    raw.mkdir()
    names = [f"{number}.jpg" for number in range(12)]
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog .\n" for n in names))
    own = {"dataset": "auto", "raw": "raw", "detector__weights": "random"}
    own |= {f"corpus__{split}_images": 2 for split in ("val", "test")}
    write_params(tmp_path, **own)
    said = fail(prepare_corpus.main, tmp_path, "--output", "corpus")
    assert "none of the 12 images of the annotations is there" in said
    assert "for images without photographs put a file of their features there" in said
    vectors = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    np.savez(raw / "vectors.npz", ids=np.array(names), features=vectors)
    said = succeed(prepare_corpus.main, tmp_path, "--output", "corpus")
    assert "images without files: no photographs below raw, but features: vectors.npz" in said
    images = load_images(tmp_path / TABLES["images"])
    assert sorted(images["image_id"]) == sorted(names)
    assert (images["path"] == "").all()
    said = run_command(look.main, "raw", folder=tmp_path).stdout
    assert f"-S image_features.file.path={raw / 'vectors.npz'}" in said
    vectors_file = {"source": "file", "file__path": "raw/vectors.npz"}
    write_params(tmp_path, **own, **{f"image_features__{k}": v for k, v in vectors_file.items()})
    (tmp_path / "detector.safetensors").write_bytes(b"")
    files = options(**TABLES, **DETECTOR, **NETWORK, output="image.h5")
    succeed(extract_image_features.main, tmp_path, *files)
    found = ImageVectors(tmp_path / "image.h5", True).file.read(range(12))
    rows = [names.index(name) for name in images["image_id"]]
    np.testing.assert_array_equal(found, vectors[rows])


def test_galleries_and_pages_show_ids(world):
    folder, _ = world
    tables = [load(folder / TABLES[name]) for name, load in LOADERS.items()]
    entry = CorpusLookup(*tables).image("test/0")
    assert (entry.id, entry.picture, entry.text) == ("test/0", "", "image test/0")
    page = results_page("a cat", None, [Hit(1, 0.5, "test/0", "A cat .", "")], "images")
    assert "<img" not in page
    assert "test/0" in page
    with pytest.raises(WorkbenchError, match=r"image test/0: the corpus has no photograph of it"):
        file_of_image("test/0", "")


LOADERS = {"images": load_images, "captions": load_captions}
