"""Questions about the indexed corpus: a text or an image in, the nearest images or captions out."""

from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.criteria import single_query_criteria
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.score_file import SplitScores, read_scores
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.graph import stage_items, stage_paths, stages_of_models
from pipeline.runtime.process import say, without_progress
from pipeline.search.built import INDEX_FILE, BuiltIndexes
from pipeline.search.index import (
    SHORTLIST,
    Catalogue,
    Hit,
    Index,
    find_hits,
    query_words,
    read_index,
)
from pipeline.search.params import SearchConfig
from stages.params import CommonParams
from vse_workbench.search.embedder import Files, Query, open_embedder, query_files, rescored

NAIVE = Criterion("naive")


@dataclass(frozen=True)
class Question:
    """How to search."""

    split: str = "test"
    top: int = 5
    shortlist: int = SHORTLIST  # what vectors choose where pairs are scored, and any index
    criterion: Criterion = NAIVE  # one that ranks single queries


@dataclass(frozen=True)
class Answer:
    """Hits, best first, among `searched` items of a kind (image, caption); notes on the query."""

    kind: str
    searched: int
    hits: list[Hit]
    notes: list[str] = field(default_factory=list)


def scored_models() -> dict[str, Files]:
    """The models that can be searched with and have scored the corpus, each with its files;
    WorkbenchError for none."""
    able = sorted(name for stage in stages_of_models("score") for name in stage_items(stage))
    files = {name: query_files(name) for name in able}
    scored = {name: paths for name, paths in files.items() if paths["output"].is_file()}
    if not scored:
        raise WorkbenchError(f"no scores of {listing(able)}", "train one: dvc repro score@vse")
    return scored


def best_model() -> str:
    """The searchable model with the largest validation rsum, told on standard error."""
    files = {name: paths["checkpoint"] for name, paths in scored_models().items()}
    rsums = {name: read_checkpoint(path, name).description.val_rsum for name, path in files.items()}
    best = max(rsums, key=rsums.__getitem__)
    reason = f"has the largest validation rsum ({rsums[best]:.1f}) of {listing(rsums)}"
    say(f"searching with {best}, which {reason}; --model chooses another")
    return best


def as_dict(hit: Hit) -> dict[str, object]:
    """A result under the names that `vse search --json` and the server use."""
    values = asdict(hit)
    return {"id" if key == "name" else key: value for key, value in values.items()}


class Searcher:
    """A trained model with what it has scored.

    Args:
        name: of the model.
        device: on which queries are embedded.
        wordnet: folder of WordNet, where sentence features need it and it is not beside the
            encoder.
        exported: files of an exported folder, used instead of those of dvc.yaml.
        settings: `search` of params.yaml; None: embeddings are searched exactly.

    Raises:
        WorkbenchError: the model has not scored the corpus, or its files do not belong together.
    """

    def __init__(
        self,
        name: str,
        device: torch.device,
        wordnet: Path | None = None,
        exported: Files | None = None,
        settings: SearchConfig | None = None,
    ) -> None:
        self.name = name
        self.wordnet = wordnet
        self.model, self.files = open_embedder(name, device, exported)
        checkpoint = self.model.checkpoint
        self.sha256 = checkpoint.sha256
        self.val_rsum: float | None = checkpoint.description.val_rsum
        images = load_images(self.files["images"])
        captions = load_captions(self.files["captions"])
        self.catalogue = Catalogue(images, captions)
        self.splits = sorted(GroupFile(self.files["output"]).layouts)
        self._built = None if settings is None else self._built_indexes(settings)
        self.index = cache(self._index)
        self._scores = cache(self._read_scores)

    def of_text(self, text: str, question: Question) -> Answer:
        """The images nearest to a text.

        Args:
            text: the query.
            question: how to search.

        Returns:
            The images, best first.

        Raises:
            WorkbenchError: a text without any word that is known.
        """
        index = self.index(question.split, "image")
        query, notes = self.text_query(text)
        return self._answer(query, index, "image", question, notes)

    def text_query(self, text: str) -> tuple[Query, list[str]]:
        """What the model makes of a text, its vector among it, and notes on the words."""
        notes: list[str] = []
        with without_progress():  # the first query opens the encoder of sentences
            query = self.model.of_words(query_words(text), self.wordnet, notes.append)
        return query, notes

    def of_image(self, image: Image.Image, question: Question) -> Answer:
        """The captions nearest to an image.

        Args:
            image: the query, RGB.
            question: how to search.

        Returns:
            The captions, best first.

        Raises:
            WorkbenchError: a model whose image features came from a file.
        """
        index = self.index(question.split, "caption")
        return self._answer(self.image_query(image), index, "caption", question, [])

    def image_query(self, image: Image.Image) -> Query:
        """What the model makes of an RGB image, its vector among it."""
        return self.model.of_image(image)

    def _index(self, split: str, kind: str) -> Index:
        """What of a split is searched. WorkbenchError for a split there is not."""
        exact = read_index(self.files["output"], split, kind, self.sha256)
        return self._built.attached(exact, split, kind) if self._built else exact

    def _read_scores(self, split: str) -> SplitScores:
        say(f"{self.name}: reading the scores of {split}, which other criteria look at")
        return read_scores(self.files["output"], split, needed_by="a criterion other than naive")

    def _built_indexes(self, settings: SearchConfig) -> BuiltIndexes | None:
        """The indexes that params.yaml asks for; None, and a line, where none are built yet."""
        if self.name not in settings.models:
            return None
        folder = stage_paths("build_index", ("output",), self.name)["output"]
        if not (folder / INDEX_FILE).is_file():
            build = f"build it with: dvc repro build_index@{self.name}"
            say(f"{self.name}: no index yet, all vectors are compared; {build}")
            return None
        return BuiltIndexes(folder, self.files["output"], self.name, settings)

    def _answer(
        self, query: Query, index: Index, kind: str, question: Question, notes: list[str]
    ) -> Answer:
        near, scores = rescored(index, query, max(question.top, question.shortlist))
        wanted = min(question.top, len(index.ids))
        if len(near.ids) < wanted:
            few = f"the index found {len(near.ids)} of {wanted}; more with search.ivf_pq.probes"
            notes.append(f"{few} or search.hnsw.ef_search raised")
        if question.criterion.transductive:
            scores = self._among_others(near, scores, kind, question)
        hits = find_hits(near, scores, question.top, self.catalogue, kind)
        return Answer(kind, len(index.ids), hits, notes)

    def _among_others(
        self, near: Index, scores: np.ndarray, kind: str, question: Question
    ) -> np.ndarray:
        """Scores of the items of `near`, as if the query were one more of the split's queries."""
        criterion = question.criterion
        allowed = single_query_criteria()
        if criterion.name not in allowed:
            raise WorkbenchError(
                f"criterion {criterion.name!r}: a single query is ranked by {listing(allowed)}"
            )
        stored = self._scores(question.split)
        ids = stored.image_ids if kind == "image" else stored.caption_ids
        places = {name: row for row, name in enumerate(ids)}
        rows = [places[name] for name in near.ids]
        if kind == "image":
            matrix = np.column_stack([stored.matrix[rows], scores])
            return criterion.rescored(matrix.astype(np.float32), "t2i")[:, -1]
        matrix = np.vstack([stored.matrix[:, rows], scores])
        return criterion.rescored(matrix.astype(np.float32), "i2t")[-1]


class Reranker(Searcher):
    """The best of one searcher, in the order of another, whose model scores pairs.

    Args:
        name: of the item of `rerank`.
        first: of a model of vectors.
        second: of a model of pairs.
        top: how many of the first one's are ordered again.

    Raises:
        WorkbenchError: the models are not of these two kinds.
    """

    def __init__(self, name: str, first: Searcher, second: Searcher, top: int) -> None:
        kinds = [searcher.model.compares_vectors for searcher in (first, second)]
        if kinds != [True, False]:
            allowed = "a model of vectors first (vse, say) and one of pairs second (scan, say)"
            actual = f"not {first.name} and {second.name}"
            raise WorkbenchError(f"rerank.{name}: a search takes {allowed}, {actual}")
        vars(self).update(vars(first))  # its files, corpus and indexes
        self.name = name
        self.top = top
        self.val_rsum = None
        self.first = first
        self.second = second

    def text_query(self, text: str) -> tuple[Query, list[str]]:
        query, notes = self.first.text_query(text)
        return Query(query.vector, self.second.text_query(text)[0].rescore), notes

    def image_query(self, image: Image.Image) -> Query:
        return Query(self.first.image_query(image).vector, self.second.image_query(image).rescore)

    def _answer(
        self, query: Query, index: Index, kind: str, question: Question, notes: list[str]
    ) -> Answer:
        if question.criterion.transductive:
            raise WorkbenchError(f"{self.name} reranks: criterion naive alone is allowed")
        if question.top > self.top:
            notes.append(f"{self.name} orders the best {self.top} of its first model, no more")
        question = replace(question, top=min(question.top, self.top), shortlist=self.top)
        return super()._answer(query, index, kind, question, notes)


def open_searcher(
    name: str,
    device: torch.device,
    params: CommonParams,
    opened: dict[str, Searcher],
    exported: Files | None = None,
) -> Searcher:
    """The searcher of a model, or of an item of `rerank`.

    Args:
        name: of either.
        device: on which queries are embedded.
        params: of params.yaml.
        opened: those there are, by name; the new one is added.
        exported: files of the model in an exported folder.

    Returns:
        A searcher.

    Raises:
        WorkbenchError: as of `Searcher` and `Reranker`.
    """
    if name in opened:
        return opened[name]
    pair = params.rerank.get(name)
    if exported or pair is None:
        wordnet = params.sentences.tfidf.wordnet_folder
        opened[name] = Searcher(name, device, wordnet, exported, params.search)
    else:
        names = pair.first, pair.second
        first, second = (open_searcher(each, device, params, opened) for each in names)
        opened[name] = Reranker(name, first, second, pair.top)
    return opened[name]
