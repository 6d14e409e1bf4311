"""The search server: a page, and the JSON that the page and programs ask for. A request never names
a path: models, images and splits are looked up by name."""

import io
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlencode

import anyio
import numpy as np
from anyio.to_thread import run_sync
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from PIL import Image

from pipeline.corpus.images import decode_rgb, open_rgb
from pipeline.evaluation.criterion import Criterion
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.search.index import Hit
from vse_workbench.search.searcher import Answer, Question, Reranker, Searcher, as_dict
from vse_workbench.server.attention import AttentionPictures
from vse_workbench.server.bodies import MAX_TEXT, body_of, file_of, texts_of
from vse_workbench.server.guard import ERRORS, Guard, answer_to_error

TITLE = "VSE Workbench: search"
STATIC = Path(__file__).with_name("static")
MAX_TOP = 200
EXAMPLES = 6  # captions of the page before the first search
SHOWN = 12  # images of it
THUMBNAILS = 4096  # pictures that are kept, some kB each
QUALITY = 85  # of JPEG
T = TypeVar("T")
# what a request asks about: a text, a batch of texts, or an image yet to decode
Given = str | list[str] | Callable[[], Image.Image]

Model = Annotated[str | None, Query(description="One of /api/models; by default the best.")]
Split = Annotated[str, Query(description="Split of the corpus that is searched.")]
Top = Annotated[int, Query(ge=1, le=MAX_TOP, description="Number of results.")]
Ranked = Annotated[str, Query(description="Inference criterion, one of /api/models.")]
Text = Annotated[str, Query(min_length=1, max_length=MAX_TEXT)]
Known = Annotated[str, Query(description="Id of an image of the corpus.")]
Side = Annotated[int, Query(ge=16, le=1024, description="Pixels of the longer side, at most.")]


@dataclass(frozen=True)
class Limits:
    """What a request may cost: bytes and pixels of an image, seconds in all, waiting included."""

    upload: int = 10_000_000
    pixels: int = 50_000_000
    seconds: float = 30.0


class SearchServer:
    """Answers requests, as the application `app`.

    Args:
        searchers: by the name of their model, all of one corpus, at least one.
        pictures: by the name of their model, of those that show where they look.
        criteria: by name, those that rank single queries.
        limits: of a request.
        others: models that cannot be searched with, and why.
    """

    def __init__(
        self,
        searchers: Mapping[str, Searcher],
        pictures: Mapping[str, AttentionPictures],
        criteria: Mapping[str, Criterion],
        limits: Limits,
        others: Mapping[str, str],
    ) -> None:
        self.searchers = searchers
        self.pictures = pictures
        self.others = others
        self.criteria = criteria
        self.limits = limits
        self.best = max(searchers, key=lambda name: searchers[name].val_rsum or 0.0)
        corpus = searchers[self.best].catalogue
        self.paths = dict(zip(corpus.images["image_id"], corpus.images["path"], strict=True))
        captions = corpus.captions
        self.described = dict(zip(captions["caption_id"], captions["image_id"], strict=True))
        # models share the processors: two at once are slower than one after the other
        self.turn = anyio.CapacityLimiter(1)
        self.thumbnail = lru_cache(maxsize=THUMBNAILS)(partial(jpeg_thumbnail, limits.pixels))

    def app(self, hosts: Sequence[str]) -> Guard:
        """The application, to be called by these host names ("*": any) against DNS rebinding."""
        strict = [Depends(check_parameters)]  # of all routes but the pages
        app = FastAPI(title=TITLE, docs_url=None, redoc_url=None, dependencies=strict)
        app.mount("/static", StaticFiles(directory=STATIC), name="static")
        app.add_route("/", partial(static_page, "page.html"), include_in_schema=False)
        app.add_route("/api", partial(static_page, "api.html"), include_in_schema=False)
        app.add_api_route("/healthz", self.health)
        app.add_api_route("/api/models", self.models)
        app.add_api_route("/api/examples", self.examples)
        kinds = ("image/*", "multipart/form-data", "application/json")
        body = {"requestBody": {"content": {kind: {} for kind in kinds}, "required": True}}
        app.add_api_route("/api/search", self.search)
        app.add_api_route("/api/search", self.search_sent, methods=["POST"], openapi_extra=body)
        app.add_api_route("/api/embeddings", self.embed)
        app.add_api_route("/api/embeddings", self.embed_sent, methods=["POST"], openapi_extra=body)
        for path, drawn, kind in (
            ("/images", self.image, "image/jpeg"),
            ("/attention", self.attention, "image/png"),
        ):
            shown: dict[int | str, dict[str, object]] = {200: {"content": {kind: {}}}}
            app.add_api_route(path, drawn, response_class=Response, responses=shown)
        for error in ERRORS:
            app.add_exception_handler(error, answer_to_error)
        return Guard(app, hosts)

    def health(self) -> dict[str, object]:
        """That the server is ready: it listens only after all models are loaded."""
        return {"ready": True, "model": self.best}

    def models(self) -> dict[str, object]:
        """What can be asked: models, the images of their splits, criteria, who has attention."""
        models = [
            {
                "model": name,
                "val_rsum": each.val_rsum,
                "splits": {split: len(each.index(split, "image").ids) for split in each.splits},
                "criteria": ["naive"] if isinstance(each, Reranker) else list(self.criteria),
                "attention": name in self.pictures,
            }
            for name, each in self.searchers.items()
        ]
        others = [{"model": name, "why": why} for name, why in self.others.items()]
        return {"best": self.best, "models": models, "not_searchable": others}

    def examples(self, split: Split = "test") -> dict[str, list[str]]:
        """Captions to search with and ids of images, spread evenly over a split."""
        searcher = self._searcher(None)
        check_name("split", split, searcher.splits)
        captions = evenly_spaced(searcher.index(split, "caption").ids, EXAMPLES)
        texts = searcher.catalogue.rows("caption", captions)["text"].tolist()
        return {"texts": texts, "images": evenly_spaced(searcher.index(split, "image").ids, SHOWN)}

    async def search(
        self,
        model: Model = None,
        text: Text | None = None,
        image: Known | None = None,
        split: Split = "test",
        top: Top = 12,
        criterion: Ranked = "naive",
    ) -> dict[str, object]:
        """The images nearest to a text, or the captions nearest to an image of the corpus.

        \f
        Args:
            model: its name, None for the best.
            text: the query, or None.
            image: id of an image of the corpus, in place of a text.
            split: that is searched.
            top: number of results.
            criterion: that ranks them.

        Returns:
            The answer: `hits`, best first, and what was searched how.
        """
        asked = self._question(model, split, top, criterion)
        return await self._found(model, self._given(text, image), asked)

    async def search_sent(
        self,
        request: Request,
        model: Model = None,
        split: Split = "test",
        top: Top = 12,
        criterion: Ranked = "naive",
    ) -> dict[str, object]:
        """The captions nearest to an image, the bytes of its file or a form with the file in the
        field `image`; or the images nearest to each of {"texts": [...]}, the JSON of a batch.

        \f
        Args:
            request: with the body.
            model: its name, None for the best.
            split: that is searched.
            top: number of results.
            criterion: that ranks them.

        Returns:
            The answer; of a batch `answers`, one for each text.
        """
        asked = self._question(model, split, top, criterion)
        return await self._found(model, await self._sent(request), asked)

    async def embed(
        self, model: Model = None, text: Text | None = None, image: Known | None = None
    ) -> dict[str, object]:
        """The embedding of a text, or of an image of the corpus.

        \f
        Args:
            model: its name, None for the best.
            text: that is embedded, or None.
            image: id of an image of the corpus, in place of a text.

        Returns:
            The `embeddings`, (1, K), with their `shape`.
        """
        return await self._embedded(model, self._given(text, image))

    async def embed_sent(self, request: Request, model: Model = None) -> dict[str, object]:
        """The embeddings of what is sent, as to /api/search.

        \f
        Args:
            request: with the body.
            model: its name, None for the best.

        Returns:
            The `embeddings`, a row for each text or image, with their `shape`.
        """
        self._searcher(model)
        return await self._embedded(model, await self._sent(request))

    async def image(self, id: Known, side: Side = 320) -> Response:
        """An image of the corpus, made smaller.

        \f
        Args:
            id: of the image.
            side: pixels of the longer side, at most.

        Returns:
            A JPEG file.
        """
        path = self._path(id)
        with anyio.fail_after(self.limits.seconds):
            data = await run_sync(self.thumbnail, path, side, abandon_on_cancel=True)
        return Response(data, media_type="image/jpeg", headers={"Cache-Control": "max-age=3600"})

    async def attention(
        self, text: Text, image: Known, model: Model = None, split: Split = "test"
    ) -> Response:
        """Where a model that compares regions with words looks for each word of a text.

        \f
        Args:
            text: in its words.
            image: id of an image of the split.
            model: its name, None for the best.
            split: of the image.

        Returns:
            A PNG file.
        """
        name = self._searcher(model).name
        self._question(name, split, 1, "naive")
        if name not in self.pictures:
            able = listing(self.pictures) or "no model here"
            raise HTTPException(404, f"model {name!r} does not show where it looks; {able} does")
        path = self._path(image)
        sheet = await self._computed(lambda: self.pictures[name].drawn(text, image, path, split))
        return Response(encode_image(sheet, "PNG"), media_type="image/png")

    async def _computed(self, work: Callable[[], T]) -> T:
        with anyio.fail_after(self.limits.seconds):
            return await run_sync(work, limiter=self.turn, abandon_on_cancel=True)

    async def _found(self, model: str | None, query: Given, asked: Question) -> dict[str, object]:
        began = time.perf_counter()
        searcher = self._searcher(model)
        searches = searcher.of_text, searcher.of_image
        of_text, of_image = (partial(search, question=asked) for search in searches)
        answers: list[Answer] = await self._computed(lambda: each_of(query, of_text, of_image))
        texts = query if isinstance(query, list) else [query if isinstance(query, str) else None]
        common = {
            "model": searcher.name,
            "split": asked.split,
            "criterion": asked.criterion.name,
            "seconds": round(time.perf_counter() - began, 4),
        }
        results = [
            {
                "kind": answer.kind,
                "searched": answer.searched,
                "notes": answer.notes,
                "hits": [
                    self._hit(hit, answer.kind, searcher.name, text, asked.split)
                    for hit in answer.hits
                ],
            }
            for text, answer in zip(texts, answers, strict=True)
        ]
        if not isinstance(query, list):
            return common | results[0]
        named = [{"text": text} | answer for text, answer in zip(texts, results, strict=True)]
        return common | {"answers": named}

    async def _embedded(self, model: str | None, query: Given) -> dict[str, object]:
        searcher = self._searcher(model)
        pairs = await self._computed(
            lambda: each_of(query, searcher.text_query, lambda im: (searcher.image_query(im), []))
        )
        vectors = np.stack([entry.vector for entry, _ in pairs])
        notes = [note for _, notes in pairs for note in notes]
        if pairs[0][0].rescore:
            notes.append(f"{searcher.name} compares parts: these vectors only choose a shortlist")
        return {
            "model": searcher.name,
            "kind": "image" if callable(query) else "text",
            "shape": vectors.shape,
            "embeddings": vectors.tolist(),
            "notes": notes,
        }

    def _given(self, text: str | None, image: str | None) -> Given:
        if (text is None) == (image is None):
            raise WorkbenchError("give either text or image")
        if image is None:
            return str(text)
        return partial(open_rgb, self._path(image), self.limits.pixels)

    async def _sent(self, request: Request) -> Given:
        """What the body of a request asks about."""
        body = await body_of(request, self.limits.upload, self.limits.seconds)
        kind = request.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() == "application/json":
            return texts_of(body)
        return partial(decode_rgb, file_of(body, kind), "the uploaded file", self.limits.pixels)

    def _searcher(self, model: str | None) -> Searcher:
        name = self.best if model is None else model
        if name in self.others:
            raise HTTPException(404, f"model {name!r}: {self.others[name]}")
        check_name("model", name, list(self.searchers))
        return self.searchers[name]

    def _question(self, model: str | None, split: str, top: int, criterion: str) -> Question:
        check_name("split", split, self._searcher(model).splits)
        check_name("criterion", criterion, list(self.criteria))
        return Question(split, top, criterion=self.criteria[criterion])

    def _path(self, image_id: str) -> str:
        if image_id not in self.paths:
            raise HTTPException(404, f"the corpus has no image {image_id[:100]!r}")
        if not self.paths[image_id]:
            raise HTTPException(404, f"the corpus has no photograph of image {image_id[:100]!r}")
        return str(self.paths[image_id])

    def _hit(
        self, hit: Hit, kind: str, model: str, text: str | None, split: str
    ) -> dict[str, object]:
        """A result for a program: of its image an address, not the path on this machine; None where
        the image has no file."""
        result = as_dict(hit)
        del result["path"]
        image_id = hit.name if kind == "image" else self.described[hit.name]
        address = f"/images?{urlencode({'id': image_id})}" if hit.path else None
        result |= {"image_id": image_id, "image": address}
        if text is not None and model in self.pictures and hit.path:
            where = {"model": model, "text": text, "image": image_id, "split": split}
            result["attention"] = f"/attention?{urlencode(where)}"
        return result


def each_of(
    query: Given, of_text: Callable[[str], T], of_image: Callable[[Image.Image], T]
) -> list[T]:
    """What is made of every text, or of the image.

    Args:
        query: a text, a batch of texts, or an image yet to decode.
        of_text: makes it of a text.
        of_image: makes it of an image.

    Returns:
        One for each.

    Raises:
        WorkbenchError: as of these; it names its text of a batch.
    """
    if not isinstance(query, list):
        return [of_text(query) if isinstance(query, str) else of_image(query())]
    results = []
    for number, text in enumerate(query):
        try:
            results.append(of_text(text))
        except WorkbenchError as error:
            raise WorkbenchError(f"texts[{number}]: {error.message}") from None
    return results


def static_page(name: str, _: Request) -> Response:
    """A page of the server.

    Args:
        name: of its file.
        _: the request; a page takes no parameters of its own.

    Returns:
        The file.
    """
    return FileResponse(STATIC / name)


def check_parameters(request: Request) -> None:
    """422 for a parameter that the request does not take, or that is given twice."""
    allowed = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    counts = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counts.items():
        if name not in allowed:
            hint = f"allowed are {listing(allowed)}" if allowed else "none is allowed"
            raise HTTPException(422, f"parameter {name[:100]!r}: {hint}")
        if count > 1:
            raise HTTPException(422, f"parameter {name!r}: given {count} times")


def evenly_spaced(ids: Sequence[str], count: int) -> list[str]:
    """Some of the ids, at equal distances.

    Args:
        ids: in their order.
        count: how many, all where there are fewer.

    Returns:
        The first, and those that follow.
    """
    count = min(count, len(ids))
    return [ids[len(ids) * number // count] for number in range(count)]


def check_name(kind: str, name: str, there: Sequence[str]) -> None:
    """Refuse a name that is not there.

    Args:
        kind: what it names, for the message.
        name: as given.
        there: the names that there are.

    Raises:
        HTTPException: 404.
    """
    if name not in there:
        raise HTTPException(404, f"{kind} {name[:100]!r}: there are {listing(there)}")


def jpeg_thumbnail(pixels: int, path: str, side: int) -> bytes:
    """An image of the corpus as a small JPEG file.

    Args:
        pixels: that it may have at most.
        path: its file.
        side: pixels of the longer side.

    Returns:
        The bytes of the file.

    Raises:
        WorkbenchError: the file is no image, or has more pixels.
    """
    image = open_rgb(path, pixels)
    image.thumbnail((side, side))
    return encode_image(image, "JPEG")


def encode_image(image: Image.Image, kind: str) -> bytes:
    """An image as the bytes of a file.

    Args:
        image: RGB.
        kind: JPEG or PNG.

    Returns:
        The bytes.
    """
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=QUALITY)
    return buffer.getvalue()
