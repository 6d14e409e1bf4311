"""A small corpus with images on disk and models that score it, and a page taken apart."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
import pandas as pd
from corpora import write_corpus
from PIL import Image

from pipeline.evaluation.comparison import read_results
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import metrics_digest
from pipeline.evaluation.findings import collect_findings
from pipeline.evaluation.phrase_table import read_rows
from pipeline.evaluation.protocol import evaluate, first_images
from pipeline.evaluation.rank_file import write_ranks
from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.evaluation.standing import behind_first
from pipeline.features.groups import GroupFile
from pipeline.phrases.found import Searched
from pipeline.phrases.result import evaluate_phrases, write_result
from pipeline.phrases.tables import PHRASE_BOXES, PHRASES, PhraseTables, load_phrases
from pipeline.report.attention_pairs import PairAttention, RankedPair, write_attention
from pipeline.report.page import Files, Run, build_page
from pipeline.runtime.files import write_json

HOSTILE = '<script>alert("caption")</script> & <img src=x onerror=alert(1)>'
CSLS = Criterion("csls", k=3)
IMAGES, CAPTIONS = 12, 30
OWNERS = np.arange(CAPTIONS) % IMAGES  # two or three captions an image, not in image order


def put_corpus(folder, groups=None):
    """Corpus tables and image files below `folder`; groups: of the images, their ids by default."""
    ids = [f"im{n}.jpg" for n in range(IMAGES)]
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    for n, name in enumerate(ids):
        Image.new("RGB", (24, 16), (20 * n, 255 - 20 * n, 90)).save(folder / "pictures" / name)
    own = zip(ids, groups or ids, strict=True)
    images = [
        (name, str(folder / "pictures" / name), "test", group, 24, 16, "0" * 64)
        for name, group in own
    ]
    texts = [HOSTILE if n % 2 else f"caption no. {n}" for n in range(CAPTIONS)]
    captions = [
        (f"c{n}", ids[OWNERS[n]], "test", text, ["caption"]) for n, text in enumerate(texts)
    ]
    write_corpus(folder, images, captions)


def made_scores(signal, seed=0, groups=None):
    """Scores of a model that knows the true pairs as well as `signal` says."""
    ids = [f"im{n}.jpg" for n in range(IMAGES)]
    scores = np.random.default_rng(seed).uniform(-0.5, 0.4, (IMAGES, CAPTIONS))
    scores += signal * np.equal.outer(np.arange(IMAGES), OWNERS)
    captions = [f"c{n}" for n in range(CAPTIONS)]
    owners = [ids[n] for n in OWNERS]
    return SplitScores(scores.astype(np.float32), ids, captions, owners, groups or ids)


def put_model(folder, name, split, csls=False, subset=0, relevance=None):
    """Score, metrics, rank and curve file of one model.

    csls: as a second criterion, too; subset: so many of the images are evaluated, the first;
    relevance: extended positives of all of them.
    """
    write_scores(
        folder / f"scores/{name}.h5", {"test": split}, {"model": name, "checkpoint_sha256": "ab12"}
    )
    criteria = [Criterion("naive"), *([CSLS] if csls else [])]
    cut = first_images(split, subset)
    evaluation = evaluate(cut, 1, 20, 0.95, 0, criteria, IMAGES, relevance)
    write_json(folder / f"metrics/{name}.json", evaluation.summary())
    findings = collect_findings(
        cut, evaluation, criteria, GroupFile(folder / f"scores/{name}.h5").attributes
    )
    write_ranks(folder / f"ranks/{name}.h5", cut, evaluation, 0.95, findings=findings)
    (folder / "curves").mkdir(exist_ok=True)
    (folder / f"curves/{name}.tsv").write_text(
        "epoch\tphase\tloss\tval_rsum\n1\tsum\t90\t100.5\n2\tsum\t30\t250\n3\tsum\t20\t240\n"
    )


def put_attention(folder, name, image="im0.jpg", caption="c1", weights="ab12"):
    """Attention in a true pair and in a wrong one that ranks first, three words, two regions."""
    own = {"caption_id": caption, "words": ["red", HOSTILE, "dog"], "score": 0.5, "size": (24, 16)}
    own["weights"] = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], np.float32)
    own["boxes"] = np.array([[0, 0, 12, 8], [6, 4, 24, 16]], np.float32)
    own |= {"word_weights": np.array([0.5, 0.1, 0.4], np.float32), "order": np.array([1, 0])}
    (folder / "attention").mkdir(exist_ok=True)
    described = {"model": name, "checkpoint_sha256": weights}
    shown = (image, 2, True), ("im3.jpg", 1, False)
    pairs = [RankedPair(PairAttention(image_id=one, **own), *rest) for one, *rest in shown]
    write_attention(folder / f"attention/{name}.h5", pairs, described)


def put_phrases(folder, *names):
    """Phrases of the corpus, and models of which the last finds most of them; their metrics."""
    images = [f"im{n}.jpg" for n in range(IMAGES)]
    rows, boxes = [], []
    for n, image in enumerate(OWNERS):
        for place in range(2):
            chain = f"{n}{place}"
            box = [2 * place, 1, 12 + 2 * place, 9 + place]
            key = f"c{n}/{place}", f"c{n}", images[image], "test"
            rows.append((*key, ["word", f"{n % 7}"], chain, ["one", "one/two"][place]))
            boxes.append((images[image], chain, *box))
    columns = (PHRASES.names, rows), (PHRASE_BOXES.names, boxes)
    PhraseTables(*(pd.DataFrame(own, columns=names) for names, own in columns)).write(
        folder / "phrases"
    )
    tables = load_phrases(folder / "phrases")
    phrases, counts = tables.phrases, np.full(IMAGES, 3)
    three = np.array([[0, 0, 12, 9], [2, 1, 14, 10], [15, 9, 24, 16]], "f4")
    proposals = np.tile(three, (IMAGES, 1, 1))
    owners = np.repeat(OWNERS, 2)
    found = Searched(phrases, owners, proposals, counts, tables.unions(phrases))
    for number, name in enumerate(names):
        scores = np.random.default_rng(number).normal(size=(len(phrases), 3))
        scores += 2 * number * found.hits()
        result = evaluate_phrases(found, scores, 0.3, 20, 0.95, 0)
        described = {"model": name, "metrics_sha256": metrics_digest(result.summary())}
        write_result(folder / f"found/{name}.h5", found, scores, result, described)
        write_json(folder / f"metrics/{name}.json", result.summary())
    return read_rows([folder / f"metrics/{name}.json" for name in names])


def cells(line):
    """Of a line of a table in Markdown."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def results_of(folder, *names):
    metrics = [folder / f"metrics/{name}.json" for name in names]
    return read_results(metrics, [folder / f"ranks/{name}.h5" for name in names])


def page_of(folder, *names, curves=(), attention=(), phrases=()):
    """The page of models written by `put_model`, and of models written by `put_phrases`."""
    results = results_of(folder, *names)
    files = Files(
        [folder / f"curves/{name}.tsv" for name in curves],
        folder / "images.parquet",
        folder / "captions.parquet",
        [folder / f"attention/{name}.h5" for name in attention],
        folder / "phrases",
        [folder / f"found/{name}.h5" for name in phrases],
    )
    rows = read_rows([folder / f"metrics/{name}.json" for name in phrases])
    run = Run("shapes", "sum_margin", {"vse.dim": "256"})
    return build_page(results, behind_first(results), files, run, rows)


@dataclass
class Element:
    """An element of a page with its children and all text below it."""

    tag: str
    attributes: dict
    children: list = field(default_factory=list)
    text: str = ""

    def find(self, tag, **attributes):
        """All elements below of a tag ("" for any) whose attributes hold these words."""
        wanted = {name.strip("_").replace("_", "-"): word for name, word in attributes.items()}
        for child in self.children:
            words = {name: (child.attributes.get(name) or "").split() for name in wanted}
            if tag in ("", child.tag) and all(word in words[name] for name, word in wanted.items()):
                yield child
            yield from child.find(tag, **attributes)


class _Builder(HTMLParser):
    VOID = ("meta", "link", "img", "br", "input")

    def __init__(self):
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"<{self.open[-1].tag}> is closed by </{tag}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element.text += data


def taken_apart(page):
    """The root of the page's elements; fails when they are not properly nested."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert len(builder.open) == 1, "elements are left open"
    return builder.open[0]
