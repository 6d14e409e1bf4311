"""The card of an exported model: what it is, what it learnt from, and how well it does."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.comparison.results import Result
from pipeline.comparison.table import described
from vse_workbench.claims.ledger import leaves

CARD = """---
license: {licence}
library_name: vse-workbench
pipeline_tag: feature-extraction
tags: [image-text-retrieval, {model}]
---

# {model}

An image-text retrieval model of VSE Workbench: images and captions in one space.

## Use

```python
from vse_workbench import Embedder

embedder = Embedder.load("this/folder")
captions = embedder.captions(["a purple cross left of a tiny yellow box"])
scores = embedder.images(["photo.jpg"]) @ captions.T
```

`vse search "a purple cross left of a tiny yellow box" --from this/folder` searches the
corpus that it was tested on.

## Data

{data}

## Metrics

{metrics}

## Training

Epoch {epoch}, validation rsum {val_rsum:.1f}. The values of `params.yaml` that it read:

```
{params}
```

## Files

| file | sha256 |
|---|---|
{files}

Digest of weights and description: `{digest}`.

## Limits and licence

{limits} The weights are under {licence}, the code that reads them under Apache-2.0; images and
captions of other datasets have terms of their own, which the weights may share.
"""
WORLD = "Trained on drawn shapes: it knows their words alone and says nothing about photographs."
OWN = "What it knows are the words and the pictures of its training data."


def card(
    config: Mapping[str, Any],
    results: Sequence[Result],
    dataset: str,
    sizes: Mapping[str, tuple[int, int]],
    licence: str,
) -> str:
    """A model card as Markdown, of config.json and the numbers of images and captions by split."""
    rows = [f"| {name} | {images:,} | {texts:,} |" for name, (images, texts) in sizes.items()]
    table = "\n".join(["| split | images | captions |", "|---|--:|--:|", *rows])
    files = [f"| `{entry['path']}` | `{entry['sha256']}` |" for entry in config["files"].values()]
    return CARD.format(
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
