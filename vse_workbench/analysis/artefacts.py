"""The files of the analyses: every picture beside the table that it was drawn from. Each function
returns one line that says what was found."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.evaluation.correlation import Correlation
from pipeline.evaluation.findings import separation
from pipeline.evaluation.score_file import SplitScores
from pipeline.report.curve_files import ERROR, read_curve
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json, write_text
from pipeline.runtime.text import printable
from vse_workbench.analysis import figures
from vse_workbench.analysis.discriminative import TOP, by_word

EXAMPLES = 8  # captions shown with their words
SELDOM = 0.01  # share of the captions that a word must be left out of to be drawn


def write_separation(folder: Path, scores: Mapping[str, SplitScores]) -> str:
    """Write separation.json, .tsv and .png: S and the distributions P and Q of the models.

    Args:
        folder: to write to.
        scores: of a split, by label.

    Returns:
        S of each, as a line.
    """
    separations = {}
    overlaps = {}
    tables = []
    for label, split in scores.items():
        sep = separation(split.scores, split.image_groups, split.caption_groups)
        true = int(sep.true.sum())
        others = int(sep.others.sum())
        separations[label] = sep
        overlaps[label] = {"overlap": sep.overlap, "true_pairs": true, "other_pairs": others}
        edges = np.linspace(sep.low, sep.high, len(sep.true) + 1)
        p, q = sep.densities
        columns = {"low": edges[:-1], "high": edges[1:], "true": p, "others": q}
        tables.append(pd.DataFrame({"label": label} | columns))
    write_json(folder / "separation.json", overlaps)
    write_table(folder / "separation.tsv", pd.concat(tables))
    figures.draw_separation(folder / "separation.png", separations)
    return "S: " + ", ".join(f"{label} {sep.overlap:.3f}" for label, sep in separations.items())


def write_correlations(folder: Path, found: Mapping[str, Correlation], image_ids: list[str]) -> str:
    """Write correlations.json, .tsv (a row per pair of images, a column per label) and .png.

    Args:
        folder: to write to.
        found: the correlations by label, of the same images.
        image_ids: of the rows and columns of their matrices.

    Returns:
        The means, as a line.
    """
    write_json(folder / "correlations.json", {k: r.summary() for k, r in found.items()})
    first, second = np.asarray(image_ids, object)[np.stack(np.triu_indices(len(image_ids), 1))]
    values = {label: r.between for label, r in found.items()}
    table = pd.DataFrame({"image": first, "other": second} | values)
    write_table(folder / "correlations.tsv", table)
    figures.draw_correlations(folder / "correlations.png", found)
    means = (f"{k} {r.summary()['mean_absolute']:.3f}" for k, r in found.items())
    return f"mean |r| of {len(image_ids)} images: " + ", ".join(means)


def write_words(folder: Path, drops: pd.DataFrame, captions: pd.DataFrame) -> str:
    """Write words.tsv and .png by word, word_drops.tsv by caption, and examples.txt: captions whose
    words of the largest drops stand in asterisks, as figure 11 of Zheng et al. 2017 marks them.

    Args:
        folder: to write to.
        drops: of `word_drops`.
        captions: rows of the captions table that were looked at.

    Returns:
        The most discriminative words, as a line.
    """
    words = by_word(drops)
    write_table(folder / "words.tsv", words)
    write_table(folder / "word_drops.tsv", drops)
    least = max(1, round(SELDOM * drops["caption_id"].nunique()))
    figures.draw_words(folder / "words.png", words, least)
    usable = captions[captions["caption_id"].isin(drops["caption_id"])]
    rows = np.unique(np.linspace(0, len(usable) - 1, EXAMPLES).round().astype(int))
    head = f"*marked*: the {TOP} words without which the score with the image drops most"
    lines = [head, *example_lines(usable.iloc[rows], drops), ""]
    write_text(folder / "examples.txt", "\n".join(lines))
    often = words["word"][words["times"] >= least]
    return f"most discriminative words: {', '.join(map(printable, often.head(5)))}"


def example_lines(captions: pd.DataFrame, drops: pd.DataFrame) -> Iterator[str]:
    """Captions with the words of their three largest drops in asterisks.

    Args:
        captions: rows of the captions table.
        drops: of `word_drops`, with rows of each of these captions.

    Yields:
        Score and words of a caption.
    """
    for name, words in zip(captions["caption_id"], captions["tokens"], strict=True):
        rows = drops[drops["caption_id"] == name]
        marked = set(rows["position"][(rows["place"] <= TOP) & (rows["drop"] > 0)])
        shown = (f"*{word}*" if position in marked else word for position, word in enumerate(words))
        yield f"{rows['score'].iloc[0]:.3f}  {printable(' '.join(shown))}"


def write_curve(folder: Path, path: Path, name: str) -> str:
    """Write curve.tsv and .png: loss, validation rsum and errors of a model, with its phases.

    Args:
        folder: to write to.
        path: the curve file of the training.
        name: of the model.

    Returns:
        The best epoch, as a line.

    Raises:
        WorkbenchError: the model was fitted at once, and has no curve.
    """
    curve = read_curve(path)
    if curve is None:
        raise WorkbenchError(f"{path}: of a model that is fitted at once; it has no curve")
    columns = {"epoch": curve.epochs, "phase": curve.phases, "loss": curve.loss}
    if curve.parts:
        columns["part"] = curve.parts
    columns |= {"val_rsum": curve.rsum}
    columns |= {f"{name}{ERROR}": shares for name, shares in curve.errors.items()}
    epoch, rsum = curve.best
    table = pd.DataFrame(columns)
    is_kept = (table["epoch"] == epoch) & (table["val_rsum"] == rsum)
    write_table(folder / "curve.tsv", table.assign(kept=is_kept.astype(int)))
    figures.draw_curve(folder / "curve.png", name, curve)
    return f"largest validation rsum {rsum:.1f} in epoch {epoch:g} of {max(curve.epochs):g}"


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write tab-separated text with a header and six digits.

    Args:
        path: the file.
        table: its rows; control characters of texts are made visible.
    """
    texts = {
        str(name): [printable(str(value)) for value in column]
        for name, column in table.items()
        if not pd.api.types.is_numeric_dtype(column)
    }
    shown = table.assign(**texts).rename(columns=lambda name: printable(str(name)))
    write_text(path, shown.to_csv(sep="\t", index=False, float_format="%.6g", lineterminator="\n"))
