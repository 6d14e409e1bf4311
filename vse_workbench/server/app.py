"""The search server: a page, and the JSON that the page and programs ask for.

A request never names a path: models, images and splits are looked up by name.
"""

import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import anyio
from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from PIL import Image
from starlette.middleware.trustedhost import TrustedHostMiddleware

from pipeline.corpus.images import decode_rgb, open_rgb
from pipeline.evaluation.criterion import Criterion
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import safe_lines
from vse_workbench.search.searcher import Answer, Question, Searcher
from vse_workbench.server.attention import AttentionPictures

STATIC = Path(__file__).with_name("static")
HEADERS = {  # what a browser may do with an answer
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
MAX_TEXT = 2000  # characters of a query
MAX_TOP = 200
THUMBNAILS = 4096  # pictures that are kept, some kB each
QUALITY = 85  # of JPEG
log = logging.getLogger("uvicorn.error")
T = TypeVar("T")

# parameters of the requests
Model = Annotated[str, Query(description="One of /api/models.")]
Split = Annotated[str, Query(description="Split of the corpus that is searched.")]
Top = Annotated[int, Query(ge=1, le=MAX_TOP, description="Number of results.")]
Ranked = Annotated[str, Query(description="Inference criterion, one of /api/models.")]
Text = Annotated[str, Query(min_length=1, max_length=MAX_TEXT)]
Known = Annotated[str, Query(description="Id of an image of the corpus.")]
Side = Annotated[int, Query(ge=16, le=1024, description="Pixels of the longer side.")]


@dataclass(frozen=True)
class Limits:
    """What a request may cost: bytes and pixels of an image, seconds in all, waiting included."""

    upload: int = 10_000_000
    pixels: int = 50_000_000
    seconds: float = 30.0


class SearchServer:
    """Answers requests, as the FastAPI application `app`. All searchers are of one corpus."""

    def __init__(
        self,
        searchers: Mapping[str, Searcher],
        pictures: Mapping[str, AttentionPictures],
        criteria: Mapping[str, Criterion],
        limits: Limits,
    ) -> None:
        self.searchers, self.pictures = searchers, pictures
        self.criteria, self.limits = criteria, limits
        corpus = next(iter(searchers.values())).catalogue
        self.paths = dict(zip(corpus.images["image_id"], corpus.images["path"], strict=True))
        captions = corpus.captions
        self.described = dict(zip(captions["caption_id"], captions["image_id"], strict=True))
        # models share the processors: two at once are slower than one after the other
        self.turn = anyio.CapacityLimiter(1)

        @lru_cache(maxsize=THUMBNAILS)
        def thumbnail(path: str, side: int) -> bytes:
            image = open_rgb(path, limits.pixels)
            image.thumbnail((side, side))
            return encoded(image, "JPEG")

        self.thumbnail = thumbnail

    def app(self, hosts: Sequence[str]) -> FastAPI:
        """The application, to be called by these host names ("*": any) against DNS rebinding."""
        app = FastAPI(title="VSE Workbench: search", docs_url=None, redoc_url=None)
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
        app.middleware("http")(with_headers)
        app.mount("/static", StaticFiles(directory=STATIC), name="static")
        app.add_api_route("/", lambda: FileResponse(STATIC / "page.html"), include_in_schema=False)
        app.add_api_route("/api/models", self.models)
        app.add_api_route("/api/search", self.search)
        body = {"requestBody": {"content": {"image/*": {}}, "required": True}}
        app.add_api_route("/api/search", self.upload, methods=["POST"], openapi_extra=body)
        for path, call, kind in (
            ("/images", self.image, "image/jpeg"),
            ("/attention", self.attention, "image/png"),
        ):
            shown: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {}}}}
            app.add_api_route(path, call, response_class=Response, responses=shown)
        for error in (WorkbenchError, RequestValidationError, TimeoutError, Exception):
            app.add_exception_handler(error, explained)
        return app

    def models(self) -> list[dict[str, Any]]:
        """What can be asked: models, the images of their splits, criteria, who has attention."""
        return [
            {
                "model": name,
                "splits": {split: len(each.index(split, "image").ids) for split in each.splits},
                "criteria": list(self.criteria),
                "attention": name in self.pictures,
            }
            for name, each in self.searchers.items()
        ]

    async def search(
        self,
        model: Model,
        text: Text | None = None,
        image: Known | None = None,
        split: Split = "test",
        top: Top = 12,
        criterion: Ranked = "naive",
    ) -> dict[str, Any]:
        """The images nearest to a text, or the captions nearest to an image of the corpus."""
        began, asked = time.perf_counter(), self._question(model, split, top, criterion)
        if (text is None) == (image is None):
            raise WorkbenchError("give either text or image")
        searcher = self.searchers[model]
        path = None if image is None else self._path(image)

        def answered() -> Answer:
            if path is None:
                return searcher.of_text(str(text), asked)
            return searcher.of_image(open_rgb(path, self.limits.pixels), asked)

        return self._told(model, text, asked, await self._computed(answered), began)

    async def upload(
        self,
        request: Request,
        model: Model,
        split: Split = "test",
        top: Top = 12,
        criterion: Ranked = "naive",
    ) -> dict[str, Any]:
        """The captions nearest to an image, the bytes of whose file are the body."""
        began, asked = time.perf_counter(), self._question(model, split, top, criterion)
        with anyio.fail_after(self.limits.seconds):
            data = await body_of(request, self.limits.upload)

        def answered() -> Answer:
            image = decode_rgb(data, "the uploaded file", self.limits.pixels)
            return self.searchers[model].of_image(image, asked)

        return self._told(model, None, asked, await self._computed(answered), began)

    async def image(self, id: Known, side: Side = 320) -> Response:
        """An image of the corpus, made smaller."""
        path = self._path(id)
        with anyio.fail_after(self.limits.seconds):
            data = await run_sync(self.thumbnail, path, side, abandon_on_cancel=True)
        return Response(data, media_type="image/jpeg", headers={"Cache-Control": "max-age=3600"})

    async def attention(
        self, model: Model, text: Text, image: Known, split: Split = "test"
    ) -> Response:
        """Where a model that compares regions with words looks for each word of a text."""
        self._question(model, split, 1, "naive")
        if model not in self.pictures:
            able = listing(self.pictures) or "no model here"
            raise HTTPException(404, f"model {model!r} does not show where it looks; {able} does")
        path = self._path(image)
        sheet = await self._computed(lambda: self.pictures[model].drawn(text, image, path, split))
        return Response(encoded(sheet, "PNG"), media_type="image/png")

    async def _computed(self, work: Callable[[], T]) -> T:
        with anyio.fail_after(self.limits.seconds):
            return await run_sync(work, limiter=self.turn, abandon_on_cancel=True)

    def _question(self, model: str, split: str, top: int, criterion: str) -> Question:
        check("model", model, list(self.searchers))
        check("split", split, self.searchers[model].splits)
        check("criterion", criterion, list(self.criteria))
        return Question(split, top, criterion=self.criteria[criterion])

    def _path(self, image_id: str) -> str:
        if image_id not in self.paths:
            raise HTTPException(404, f"the corpus has no image {image_id[:100]!r}")
        return str(self.paths[image_id])

    def _told(
        self, model: str, text: str | None, asked: Question, answer: Answer, began: float
    ) -> dict[str, Any]:
        hits = []
        for hit in answer.hits:
            told = asdict(hit)
            del told["path"]  # of this machine
            own = hit.name if answer.kind == "image" else self.described[hit.name]
            picture = f"/images?{urlencode({'id': own})}"
            told |= {"id": told.pop("name"), "image_id": own, "image": picture}
            if text is not None and model in self.pictures:
                where = {"model": model, "text": text, "image": own, "split": asked.split}
                told["attention"] = f"/attention?{urlencode(where)}"
            hits.append(told)
        return {
            "model": model,
            "split": asked.split,
            "criterion": asked.criterion.name,
            "kind": answer.kind,
            "searched": answer.searched,
            "seconds": round(time.perf_counter() - began, 4),
            "notes": answer.notes,
            "hits": hits,
        }


def check(kind: str, name: str, there: Sequence[str]) -> None:
    """404 for a name that is not there."""
    if name not in there:
        raise HTTPException(404, f"{kind} {name[:100]!r}: there are {listing(there)}")


def encoded(image: Image.Image, kind: str) -> bytes:
    """An RGB image as the bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=QUALITY)
    return buffer.getvalue()


async def body_of(request: Request, limit: int) -> bytes:
    """The body of a request; 413 as soon as it is known to be larger than the limit."""
    too_large = HTTPException(413, f"an image may have {limit / 1e6:g} MB")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large
        parts.append(part)
    return b"".join(parts)


async def with_headers(request: Request, call: Callable[[Request], Any]) -> Response:
    """The answer, with the headers that keep a browser from doing more than it is meant to."""
    response: Response = await call(request)
    response.headers.update(HEADERS)
    return response


async def explained(request: Request, error: Any) -> JSONResponse:
    """An error as one line; the traceback of a bug goes to the terminal of the server alone."""
    if isinstance(error, WorkbenchError):
        status, text = 400, error.message
    elif isinstance(error, RequestValidationError):
        faults = ((".".join(map(str, each["loc"][1:])), each["msg"]) for each in error.errors())
        status, text = 422, "; ".join(f"{key}: {fault}" for key, fault in faults)
    elif isinstance(error, TimeoutError):
        status, text = 503, "not answered in time: too much is asked of this server at once"
    else:
        log.error("%s %s", request.method, request.url.path, exc_info=error)
        status, text = 500, "an error of the server, told in its terminal"
    return JSONResponse({"detail": " ".join(safe_lines(text).split())}, status)
