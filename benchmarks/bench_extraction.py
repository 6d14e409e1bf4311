"""Feature extraction: what the loop costs over the bare network, and how fast that network is."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import Row, new_folder, paired_ratio, photographs, size
from models.backbone.extraction import accelerate, extract
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import preprocessing_of
from pipeline.features.feature_file import FeatureWriter
from pipeline.features.sentences.encoder import SentenceEncoder, encode_missing
from pipeline.features.sentences.encodings.transformer import Transformer
from pipeline.features.sentences.params import TransformerConfig
from pipeline.features.sentences.state import Material

CPU = torch.device("cpu")
BATCH = size(64, 2)  # the default of params.yaml
LARGE = size(16, 2)  # of ResNet-50's loop


def rows() -> Iterator[Row]:
    layers = ["layer1", "layer2", "layer3"]
    yield from loop("resnet18", layers, size((128, 128), (40, 40)), size(128, 40), BATCH, 24, 95)
    yield from loop("resnet50", ["pool5"], size((500, 375), (64, 48)), None, LARGE, 8, 97)
    yield forward_row("fp32", 2.2)
    yield forward_row("bf16", 4.5)
    with new_folder() as folder:
        yield text_row(folder)


def loop(
    model: str,
    layers: list[str],
    picture: tuple[int, int],
    side: int | None,
    batch_size: int,
    batches: int,
    target: int,
) -> Iterator[Row]:
    """Extraction from JPEG files to HDF5 against the same forward passes on a batch in memory."""
    preprocessing = preprocessing_of(model, side, "center")
    backbone, width = cut(classifier(model, 0), layers, "mean_max", preprocessing.crop)
    forward = accelerate(backbone, CPU, "fp32", False, batch_size, preprocessing.crop)
    batch = random_images(batch_size, preprocessing.crop)
    batches = size(batches, 1)
    with new_folder() as folder:
        table = photographs(folder, picture, batches * batch_size)

        def ours() -> None:
            shapes = {"features": ((width,), np.float16)}
            with FeatureWriter(folder, "work", table["image_id"].tolist(), shapes, {}) as writer:
                of = table, forward, preprocessing, writer
                extract(*of, batch_size=batch_size, workers=2, device=CPU)
                writer.finish(folder / "image.h5")

        pair = paired_ratio(ours, lambda: [forward(batch) for _ in range(batches)], runs=3)
        share, rate = 100 / pair.ratio, len(table) / pair.ours.wall
        crop = preprocessing.crop
        yield Row(
            f"extraction, {model} at {crop}, {picture[0]} x {picture[1]} JPEG files",
            f"{share:.0f} % of the bare forward pass, {rate:.0f} images/s "
            f"({pair.seconds(pair.processor)})",
            f">= {target} %",
            share,
            ours,
        )


def forward_row(precision: str, target: float) -> Row:
    """ResNet-50 at 224, channels-last, folded and compiled, against the plain float32 network."""
    side = size(224, 32)
    plain, quick = (cut(classifier("resnet50", 0), ["pool5"], "mean", side)[0] for _ in range(2))
    batch = random_images(BATCH, side)
    fast = accelerate(quick, CPU, precision, True, BATCH, side)
    reference = torch.inference_mode()(plain.forward)
    cosine = torch.cosine_similarity(fast(batch).double(), reference(batch).double()).min()
    pair = paired_ratio(lambda: fast(batch), lambda: reference(batch), runs=3)
    figure = (
        f"{pair.faster('plain float32')}, {BATCH / pair.ours.wall:.0f} images/s, "
        f"1 - cosine of the features {1 - cosine.item():.1e}"
    )
    work = f"forward pass of ResNet-50 at {side}, {precision}, folded and compiled"
    return Row(work, figure, f">= {target}x", 1 / pair.ratio)


def text_row(folder: Path) -> Row:
    """Captions of 4 to 24 words to HDF5, against the forward passes of sorted batches in memory."""
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizer

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog"]
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
    BertModel(BertConfig(vocab_size=len(names), **sizes)).save_pretrained(folder)
    BertTokenizer(vocab={name: n for n, name in enumerate(names)}).save_pretrained(folder)
    parts = [models.Transformer(str(folder)), models.Pooling(384)]
    network = SentenceTransformer(modules=parts, device="cpu").eval()
    network.save(str(folder / "model"))
    settings = TransformerConfig(model=str(folder / "model"))
    encoder = SentenceEncoder("", Transformer.fit(Material(settings, [], folder, 0)), None)
    captions = [["dog"] * n for n in np.random.default_rng(0).integers(4, 25, size(2048, 8))]
    texts = [" ".join(words) for words in sorted(captions, key=len)]
    batches = [network.preprocess(texts[i : i + 32]) for i in range(0, len(texts), 32)]
    ids, shapes = list(map(str, range(len(texts)))), {"features": ((384,), np.float16)}

    def ours() -> None:
        with FeatureWriter(folder, "work", ids, shapes, {}) as writer:
            encode_missing(encoder, captions, writer)
            writer.finish(folder / "sentences.h5")

    forward = torch.inference_mode()(lambda: [network(dict(batch)) for batch in batches])
    pair = paired_ratio(ours, forward, runs=3)
    figure = f"{100 / pair.ratio:.0f} % of the bare forward pass, "
    figure += f"{len(ids) / pair.ours.wall:.0f} captions/s ({pair.seconds(pair.processor)})"
    return Row("sentences, a BERT of MiniLM's size", figure, ">= 90 %", 100 / pair.ratio, ours)


def random_images(count: int, side: int) -> torch.Tensor:
    """Pixels (count, 3, side, side)."""
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))
