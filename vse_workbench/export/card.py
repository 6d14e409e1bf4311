"""The card of an exported model: what it is, what it learnt from, and how well it does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.evaluation.comparison import Result, described
from pipeline.runtime.recipes import leaves
from pipeline.runtime.text import Values

CARD = Path(__file__).with_name("templates") / "card.md"
WORLD = "Trained on drawn shapes: it knows their words alone and says nothing about photographs."
OWN = "What it knows are the words and the pictures of its training data."


def model_card(
    config: Values,
    results: Sequence[Result],
    dataset: str,
    sizes: Mapping[str, tuple[int, int]],
    licence: str,
) -> str:
    """The card of an exported model.

    Args:
        config: content of its config.json.
        results: its metrics on the test split.
        dataset: that it was trained on.
        sizes: numbers of images and captions by split.
        licence: of the weights.

    Returns:
        Markdown.
    """
    rows = [f"| {name} | {images:,} | {texts:,} |" for name, (images, texts) in sizes.items()]
    table = "\n".join(["| split | images | captions |", "|---|--:|--:|", *rows])
    files = [f"| `{entry['path']}` | `{entry['sha256']}` |" for entry in config["files"].values()]
    return CARD.read_text(encoding="utf-8").format(
        model=config["model"],
        licence=licence,
        data=f"Dataset `{dataset}`.\n\n{table}",
        metrics="\n".join(described(results, dataset)),
        epoch=config["epoch"],
        val_rsum=config["val_rsum"],
        params="\n".join(f"{key} = {value}" for key, value in leaves(config["params"])),
        files="\n".join(files),
        digest=config["checkpoint_sha256"],
        limits=WORLD if dataset == "shapes" else OWN,
    )
