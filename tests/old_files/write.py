"""Write one tiny file of each kind: `python -m tests.old_files.write` before a version is released.

They come from `dvc repro` in a clone with a tiny world, into `tests/old_files/VERSION`, with
values.json, what this version reads from them. The index needs the extra `search`.
"""

import json
import shutil
import sys
import tempfile
import tomllib
from contextlib import chdir
from pathlib import Path

from pipeline.runtime.recipes import with_recipe
from pipeline.runtime.yaml_text import read_yaml
from stages.params import find_problems
from tests.old_files.reading import MODEL, READERS, laid_out, read
from tests.support.clone import ROOT, Clone

FOLDER = Path(__file__).resolve().parent
MOST_BYTES = 300_000
SETTINGS = {
    "runtime": {"device": "cpu", "threads": 1},
    "shapes": {
        "train": 12,
        "val": 4,
        "test": 4,
        "image_size": 32,
        "near_duplicates": 0.0,
        "captions_per_image": 2,
    },
    "vocabulary": {"dim": 4, "epochs": 1},
    "detector": {"weights": "random", "channels": 4, "hidden": 8, "proposals": 8},
    "image_features": {
        "model": "squeezenet1_1",
        "weights": "random",
        "layers": ["features.0"],
        "size": 32,
        "workers": 0,
    },
    "regions": {"boxes": 3, "workers": 0},
    "sentences": {"encoding": "mean_vector"},
    "vse": {"dim": 4, "hidden": 4, "word_dim": 4, "training": {"epochs": 2, "batch_size": 8}},
    "evaluation": {"bootstrap": 20},
    "search": {"index": "hnsw", "models": [MODEL]},
}
TARGETS = ["extract_region_features", "encode_sentences", f"evaluate@{MODEL}"]
TARGETS += [f"build_index@{MODEL}"]
KEPT = [
    "params.yaml",
    "dvc.lock",
    "data/corpus/images.parquet",
    "data/corpus/captions.parquet",
    "data/features/image.h5",
    "data/features/regions.h5",
    "data/features/sentences.h5",
    "data/vocabulary",
    f"data/checkpoints/{MODEL}.safetensors",
    f"data/scores/{MODEL}.h5",
    f"data/ranks/{MODEL}.h5",
    f"data/curves/{MODEL}.tsv",
    f"data/indexes/{MODEL}",
    f"metrics/{MODEL}.json",
    "exported",
]


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    target = FOLDER / version
    if target.exists():
        sys.exit(f"{target} is there: files of a version that was released never change")
    with tempfile.TemporaryDirectory() as folder:
        clone = Clone(Path(folder) / "workbench")
        params = clone.folder / "params.yaml"
        with chdir(clone.folder):
            params.write_text(with_recipe(params, read_yaml(params), SETTINGS, find_problems)[0])
        (clone.folder / "dvc.lock").unlink()
        clone.commit("tiny world")
        clone.run("dvc", "repro", *TARGETS)
        clone.run("vse", "export", "model", MODEL, "--output", "exported")
        for name in KEPT:
            source = clone.folder / name
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if source.is_dir() else shutil.copyfile
            copy(source, target / name)
        laid_out(target, Path(folder) / "copy")
        values = {kind: read(kind, Path(folder) / "copy") for kind in READERS}
    (target / "values.json").write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target}: {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES:,}: make the world smaller")


if __name__ == "__main__":
    main()
