"""Folders as VSE++ and SCAN ship them: features and captions of each split, and no photographs."""

import numpy as np

COUNTS = {"train": 24, "dev": 6, "test": 6}  # images
WORDS = ("ball", "boat", "bird", "cat", "coat", "dog", "drum", "hat", "kite", "lamp", "pen", "tree")
PER_IMAGE = 5  # captions
DIM = 16
REGIONS = 4


def write_precomp(folder, counts=None, regions=False, rows_per_caption=False, seed=0):
    """Write the arrays and captions of a folder, without ids.

    counts: images by the beginning of their files' names. regions: (N, R, D) instead of (N, D).
    rows_per_caption: each row stands there once for each caption. An image shows three things, and
    each caption names two of them.

    Returns by name the captions of each image.
    """
    random = np.random.default_rng(seed)
    things = np.random.default_rng(99).normal(size=(len(WORDS), DIM))
    folder.mkdir(parents=True, exist_ok=True)
    captions = {}
    for name, count in (counts or COUNTS).items():
        shown = [random.choice(len(WORDS), 3, replace=False) for _ in range(count)]
        captions[name] = [_captions(random, things_shown) for things_shown in shown]
        rows = np.array([things[of_image] for of_image in shown])
        noise = 0.1 * random.normal(size=(count, REGIONS, DIM))
        array = noise + np.concatenate([rows, rows[:, :1]], axis=1)
        array = (array if regions else array.sum(1)).astype(np.float32)
        repeats = PER_IMAGE if rows_per_caption else 1
        np.save(folder / f"{name}_ims.npy", np.repeat(array, repeats, axis=0))
        write_lines(folder / f"{name}_caps.txt", [text for own in captions[name] for text in own])
    return captions


def _captions(random, shown):
    pairs = [random.permutation(shown)[:2] for _ in range(PER_IMAGE)]
    return [f"A {WORDS[one]} near a {WORDS[other]} ." for one, other in pairs]


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
