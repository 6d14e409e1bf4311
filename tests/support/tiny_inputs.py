"""A few images with features, a vocabulary and sentence vectors, as the stages before training
leave them."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpora import change_params, write_corpus
from PIL import Image

from pipeline.corpus.tables import load_captions, load_images
from pipeline.corpus.vocabulary import content_digest
from pipeline.features.feature_file import write_features
from pipeline.features.regions.file import ImageRegions, pad_regions

IMAGES = {"train": 24, "val": 8, "test": 9}
WORDS = [f"w{i}" for i in range(12)]
DIM = 10
PATHS = {"images": "corpus/images.parquet", "captions": "corpus/captions.parquet"}
PATHS |= {"features": "image.h5", "text": "vocabulary"}
SENTENCES = "sentences.h5"
REGIONS, SLOTS = "regions.h5", 7


def write_inputs(folder: Path) -> None:
    """Everything `stages.train` and `stages.score` read: images show 4 of 12 things, captions name
    two to four of them; captions per image vary."""
    generator = np.random.default_rng(0)
    things = generator.normal(size=(len(WORDS), DIM))
    images, captions, features = [], [], []
    for split, count in IMAGES.items():
        for number in range(count):
            name = f"{split}{number}"
            shown = generator.choice(len(WORDS), 4, replace=False)
            features.append(things[shown].sum(0))
            images.append((name, f"{name}.jpg", split, name, 32, 32, "0" * 64))
            for caption in range(generator.integers(1, 5)):
                words = [WORDS[i] for i in generator.choice(shown, generator.integers(2, 5), False)]
                captions.append((f"{name}#{caption}", name, split, " ".join(words), words))
    write_corpus(folder / "corpus", images, captions)
    ids = [row[0] for row in images]
    write_image_features(folder, ids, np.array(features, np.float16))
    write_vocabulary(folder, WORDS)
    write_params(folder)


def write_tables(folder: Path) -> None:
    """All that the stages before training leave models that read tables of features."""
    write_inputs(folder)
    write_sentences(folder)
    write_regions(folder)


def replace_images(table, folder, files, size):
    """Put pictures in the places of a corpus's: files from the images' numbers to RGB images of
    size (width, height); table: path of the images table, whose paths are within `folder`."""
    rows = load_images(table)
    for number, image in files.items():
        path = folder / rows.loc[number, "path"]
        image.save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.loc[number, ["width", "height", "sha256"]] = [*size, digest]
    schema = pq.read_schema(table)
    pq.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False), table)


def write_image_features(folder, ids, features, **attributes):
    described = {"model": "resnet18", "layer": "layer1", "weights_sha256": "a" * 64, "params": "{}"}
    described |= {"corpus_sha256": "b" * 64} | attributes
    write_features(folder / PATHS["features"], ids, {"features": features}, described)


def write_sentences(folder, known=WORDS, **attributes):
    """`sentences.h5`: how often each of the known words is in a caption, scaled to unit length."""
    table = load_captions(folder / PATHS["captions"])
    counts = np.array([[words.count(word) for word in known] for words in table["tokens"]], float)
    described = {"model": "tfidf", "layer": "none", "weights_sha256": "d" * 64, "params": "{}"}
    described |= {"corpus_sha256": "e" * 64} | attributes
    vectors = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float16)
    ids = table["caption_id"].tolist()
    write_features(folder / SENTENCES, ids, {"features": vectors}, described)


def write_regions(folder, known=WORDS, **attributes):
    """`regions.h5`: a region per word that some caption of the image has, and one of no thing."""
    generator = np.random.default_rng(2)
    things = generator.normal(size=(len(known), DIM))
    words = load_captions(folder / PATHS["captions"]).groupby("image_id", sort=False)["tokens"]
    found = {}
    for name, captions in words:
        named = {word for caption in captions for word in caption if word in known}
        shown = sorted(known.index(word) for word in named)
        features = np.vstack([things[shown], generator.normal(size=(1, DIM))])
        corners = np.sort(generator.uniform(0, 32, (len(features), 2, 2)), axis=1)
        boxes = corners.reshape(-1, 4).astype(np.float32)
        found[name] = ImageRegions((32, 32), boxes, features.astype(np.float32))
    arrays = pad_regions(list(found.values()), SLOTS, DIM)
    arrays["features"] = arrays["features"].astype(np.float16)
    described = {"model": "fpn_resnet18", "layer": "fc7", "weights_sha256": "f" * 64}
    described |= {"params": "{}", "corpus_sha256": "b" * 64, "has_boxes": 1} | attributes
    write_features(folder / REGIONS, list(found), arrays, described)


def write_vocabulary(folder, words, dim=6, without=()):
    """without: words that have no vector of their own."""
    tokens = ["<pad>", "<unk>", *words]
    content = {"schema_version": 1, "sentence_markers": False, "tokens": dict.fromkeys(tokens, 1)}
    content["sha256"] = content_digest(content)
    target = folder / PATHS["text"]
    target.mkdir(exist_ok=True)
    (target / "vocabulary.json").write_text(json.dumps(content))
    vectors = np.random.default_rng(1).normal(size=(len(tokens), dim)).astype(np.float32)
    known = np.array([0, 0, *[word not in without for word in words]], np.uint8)
    arrays = {"features": vectors, "known": known}
    write_features(target / "vectors.h5", tokens, arrays, {"source": "test"})


TRAINING = {"batch_size": 8, "lr": 0.01}
EPOCHS = {"matching": 2, "recurrent": 1, "all": 1}
SMALL = {
    "loss": "max_margin",
    "vocabulary__dim": 6,
    "vse": {"dim": 8, "hidden": 8, "word_dim": 6, "training": TRAINING | {"epochs": 4}},
    "sentences__fisher": {"centres": 2, "ica": 4, "iterations": 3, "pca": "none"},
    "two_branch": {"hidden": 16, "dim": 8, "training": TRAINING | {"epochs": 4}},
    "cca__dim": 4,
    "scan": {"dim": 8, "word_dim": 6, "training": TRAINING | {"epochs": 3}},
    "vse_infinity": {"dim": 8, "word_dim": 6, "training": TRAINING | {"epochs": 3}},
    "dp_rnn": {"dim": 8, "word_dim": 6, "candidates": 2, "training": TRAINING | {"epochs": EPOCHS}},
}


def write_params(folder, **changes):
    """The repository's params.yaml with small sizes; changes: dotted keys, `__` for a dot."""
    (folder / "params.yaml").unlink(missing_ok=True)
    for key, value in changes.items():
        changes[key] = SMALL[key] | value if isinstance(SMALL.get(key), dict) else value
    change_params(folder, **(SMALL | changes))


def options(**changes):
    return [word for key, path in (PATHS | changes).items() for word in (f"--{key}", path)]


COLOURS = {"red": (230, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 230)}
COLOURS |= {"yellow": (230, 220, 40), "black": (10, 10, 10), "white": (245, 245, 245)}
SIDE = 32
NETWORK, CLASSES = "network.safetensors", "classes.h5"
NOUNS = ["patch", "picture", "square"]


def write_coloured_images(folder, counts=IMAGES, group=lambda name, number: name):
    """Image files with two colours of six, a corpus of captions that name them, and a vocabulary;
    counts: images by split; group: from an image's name and number in its split to its group."""
    generator = np.random.default_rng(0)
    pairs = [(a, b) for a in COLOURS for b in COLOURS if a < b]
    images, captions = [], []
    for split, count in counts.items():
        shown = generator.permutation(len(pairs))
        for number in range(count):
            name, both = f"{split}{number}", pairs[shown[number % len(pairs)]]
            digest = draw_patches(folder / f"{name}.png", both, generator)
            row = (name, f"{name}.png", split, group(name, number), SIDE, SIDE, digest)
            images.append(row)
            for caption in range(generator.integers(1, 4)):
                first, second = generator.permutation(both).tolist()
                words = ["a", first, "and", second, str(generator.choice(NOUNS))]
                captions.append((f"{name}#{caption}", name, split, " ".join(words), words))
    write_corpus(folder / "corpus", images, captions)
    write_vocabulary(folder, ["a", "and", *COLOURS, *NOUNS])


def draw_patches(path, colours, generator):
    """A noisy image of two colours; returns the digest of its file."""
    pixels = np.empty((SIDE, SIDE, 3))
    edge = generator.integers(SIDE // 3, 2 * SIDE // 3)
    first, second = generator.permutation(colours)
    pixels[:, :edge], pixels[:, edge:] = COLOURS[first], COLOURS[second]
    noisy = (pixels + generator.normal(0, 4, pixels.shape)).clip(0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


# changes of params.yaml for the dual path on those images
FEATURES = {"weights": "random", "layers": ["layer1"], "size": SIDE, "batch_size": 16, "workers": 0}
OWN = {"dim": 16, "hidden": 24, "dropout": 0.1, "slots": 12, "word_dim": 6, "text_width": 4}
OWN |= {"resize": SIDE, "crop": SIDE - 4, "training__batch_size": 8, "training__workers": 0}
DUAL_PATH = {f"dual_path__{key}": value for key, value in OWN.items()}
DUAL_PATH |= {f"image_features__{key}": value for key, value in FEATURES.items()}
DUAL_PATH |= {"detector__weights": "random", "detector__channels": 4, "detector__hidden": 4}
DUAL_PATH |= {"loss": "sum_margin", "pseudo_classes__source": "instance"}
