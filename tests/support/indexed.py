"""A folder as after `dvc repro` with every model, whose weights are drawn and tell inputs apart."""

import hashlib
import shutil

import numpy as np
import pytest
import torch
from commands import succeed
from corpora import write_corpus
from PIL import Image, ImageDraw
from tiny_inputs import WORDS, write_params, write_vocabulary

from models.detector.file import describe, write_detector
from models.detector.weights import seeded_detector
from models.registry import load_model
from pipeline.corpus.tables import IMAGES, load_images, write_table
from pipeline.features.checkpoint import Description, write_checkpoint
from pipeline.features.data import Inputs
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import stage_of, stage_paths, stages_of_models
from stages import encode_sentences, extract_image_features, extract_region_features, score
from vse_workbench.search.embedder import FILES

SIDE = 32
COUNTS = {"train": 6, "val": 3, "test": 9}
SMALL = {"model": "resnet18", "layers": ["layer1"], "pool": "mean_max", "size": SIDE}
SMALL |= {"batch_size": 6, "workers": 0, "views": "flip", "weights": "random"}
REGIONS = {"regions__boxes": 5, "regions__workers": 0, "dual_path__word_dim": 6}
PAIRS = {"word_dim": 6, "dim": 7}
# by model its section of params.yaml, where that is not the default
NETWORKS = {
    "vse": {"word_dim": 6, "hidden": 5, "dim": 7, "text_encoder": "lstm", "text_pool": "max"},
    "two_branch": {"branches": "linear", "dim": 7},
    "cca": {"dim": 4},
    "scan": PAIRS | {"position_gate": True},
    "vse_infinity": PAIRS,
    "dp_rnn": PAIRS | {"beta_words": 0.3, "beta_objects": 0.3},  # the paper's
    "dual_path": PAIRS
    | {"text_cnn": "resnet18", "text_width": 8, "hidden": 9, "slots": 8}
    | {"resize": SIDE, "crop": SIDE},
}


def small_params(folder, **changes):
    features = {f"image_features__{key}": value for key, value in (SMALL | changes).items()}
    write_params(folder, sentences__encoding="mean_vector", **REGIONS, **features)


def put_detector(seed):
    path = stage_paths("extract_region_features", ("detector",))["detector"]
    names = ("cat", "dog"), ("red",)
    network = seeded_detector("fpn_resnet18", *names, seed, channels=8, hidden=6)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_detector(path, network.eval(), describe(network, "random", {}, {}, {}))


def draw_corpus(folder):
    generator = np.random.default_rng(0)
    images, captions = [], []
    for split, count in COUNTS.items():
        for number in range(count):
            name = f"{split}{number}.png"
            picture = Image.new("RGB", (SIDE, SIDE), tuple(generator.integers(0, 256, 3).tolist()))
            corner = generator.integers(0, 20, 2).tolist()
            fill = tuple(generator.integers(0, 256, 3).tolist())
            ImageDraw.Draw(picture).ellipse([*corner, corner[0] + 11, corner[1] + 11], fill)
            picture.save(folder / name)
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            images.append((name, name, split, name, SIDE, SIDE, digest))
            for place in range(2):
                words = list(generator.choice(WORDS, generator.integers(2, 6)))
                text = f"{' '.join(words).capitalize()}."
                captions.append((f"{name}#{place}", name, split, text, words))
    write_corpus(folder / "corpus", images, captions)


def make_world(folder, models=tuple(NETWORKS)):
    """A folder as after `dvc repro`, of drawn weights: the repository's dvc.yaml says where.
    models: all, or vse alone, which needs neither regions nor sentences."""
    shutil.copy(encode_sentences.__file__.replace("stages/encode_sentences.py", "dvc.yaml"), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small_params(folder)
        draw_corpus(folder)
        write_vocabulary(folder, WORDS)
        (folder / "data").mkdir()
        for name in ("corpus", "vocabulary"):
            (folder / name).rename(folder / "data" / name)
        put_detector(0)
        stages = [(extract_image_features, "images detector output network")]
        if models != ("vse",):
            stages.append((extract_region_features, "images captions detector output"))
            stages.append((encode_sentences, "captions vocabulary output encoder"))
        for stage, names in stages:
            paths = stage_paths(stage.__name__.split(".")[-1], names.split())
            succeed(stage.main, folder, *as_options(paths))
        for model in models:
            draw_weights(model)
            put_scores(model)
        curve = "epoch\tphase\tloss\tval_rsum\n1\ta\t9\t10\n2\tb\t5\t20\n"
        write_text("data/curves/vse.tsv", curve)  # drawn weights have none


def put_scores(model):
    every = ["--shortlist", 50] if model == "dp_rnn" else []
    succeed(score.main, ".", model, *as_options(files_of(model)), *every)


def describe_regions(**attributes):
    path = files_of("scan")["features"]
    stored = FeatureFile(path)
    arrays = {name: stored.load(name) for name in stored.layouts if name != "ids"}
    del stored.attributes["schema_version"]
    write_features(path, stored.ids, arrays, stored.attributes | attributes)


def as_options(paths):
    return [word for name, path in paths.items() for word in (f"--{name}", path)]


def files_of(model):
    return stage_paths(stage_of(model, stages_of_models("score")), FILES, model)


def draw_weights(model, seed=0, **changed):
    """A checkpoint of weights that tell inputs apart, whatever they are; changed: keys of the
    section, or sizes of the data."""
    kind, files = load_model(model), files_of(model)
    given = {name: files[name] for name in ("images", "captions", "features", "text")}
    network_file = stage_paths("extract_image_features", ("network",))["network"]
    keys = kind.Config.model_fields
    section = NETWORKS.get(model, {}) | {
        key: value for key, value in changed.items() if key in keys
    }
    config = kind.Config(**section)
    data = kind.open_data(config, Inputs(**given, network=network_file))
    sizes = data.sizes | {key: value for key, value in changed.items() if key not in keys}
    torch.manual_seed(seed)
    network = kind(config, **sizes)
    state = network.weights()
    drawn = {name: torch.randn(value.shape) / 4 for name, value in state.items()}
    if model in ("scan", "dp_rnn", "vse_infinity"):  # buffers are kept
        state |= {name: 4 * drawn[name] for name, _ in network.named_parameters()}
        state |= {"recurrence": torch.ones((), dtype=torch.uint8)} if model == "dp_rnn" else {}
    elif model != "dual_path":  # whose own weights are drawn already
        state |= {n: v for n, v in drawn.items() if not n.startswith(("image_s", "sentence_s"))}
    description = Description(
        model=model,
        architecture=network.architecture(sizes),
        params={model: config.model_dump(mode="json")},
        inputs=data.identity,
        epoch=1,
        val_rsum=2.0 if model == "scan" else 1.0,  # the best of them
    )
    write_checkpoint(files["checkpoint"], state, description)


def lose_photographs():
    """The corpus as one of features alone: no image has a file."""
    path = files_of("vse")["images"]
    write_table(path, load_images(path).assign(path=""), IMAGES)
