"""What holds for every answer of the server: who may ask, what a browser may do, errors in JSON."""

import json
import logging
import re
from collections.abc import Mapping, Sequence

import h11
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import safe_lines

HEADERS = {  # what a browser may do with an answer
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
HOST = re.compile(r"\[?(.*?)\]?(:\d+)?")  # an IPv6 address stands in brackets
ERRORS = (
    WorkbenchError,
    HTTPException,
    RequestValidationError,
    TimeoutError,
    ClientDisconnect,
    Exception,
)
log = logging.getLogger("uvicorn.error")


class Guard:
    """An application behind its headers and the host names by which it may be called.

    Args:
        app: that answers.
        hosts: names, in any case of letters; "*": any.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app = app
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by the protocol ASGI."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        head = scope["method"] == "HEAD"

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        name = HOST.fullmatch(host)
        if "*" not in self.hosts and (name is None or name[1].lower() not in self.hosts):
            text = f"host {host[:100]!r} is no name of this server; vse serve --name adds one"
            return await error_response(400, text)(scope, receive, sent)
        return await self.app({**scope, "method": "GET"} if head else scope, receive, sent)


class Protocol(H11Protocol):
    """HTTP of uvicorn, whose answer to what is not HTTP is JSON too."""

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, where an answer can still be sent, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            kind = [(b"content-type", b"application/json"), (b"connection", b"close")]
            body = json.dumps({"detail": "this is not an HTTP request that can be read"}).encode()
            start = h11.Response(status_code=400, headers=kind, reason=b"Bad Request")
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def error_response(
    status: int, text: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error as one line of JSON.

    Args:
        status: of HTTP.
        text: what is wrong; control characters are made visible.
        headers: of the answer, if any.

    Returns:
        The answer.
    """
    return JSONResponse({"detail": " ".join(safe_lines(text).split())}, status, headers)


async def answer_to_error(request: Request, error: Exception) -> JSONResponse:
    """The answer to an error; the traceback of a bug goes to the terminal of the server alone.

    Args:
        request: that led to it.
        error: as raised.

    Returns:
        The answer, with a status of HTTP.
    """
    if isinstance(error, WorkbenchError):
        return error_response(400, error.message)
    if isinstance(error, RequestValidationError):
        faults = ((".".join(map(str, fault["loc"][1:])), fault["msg"]) for fault in error.errors())
        return error_response(422, "; ".join(f"{key or 'body'}: {why}" for key, why in faults))
    if isinstance(error, TimeoutError):
        return error_response(503, "not answered in time: too much is asked of this server at once")
    if isinstance(error, ClientDisconnect):
        return error_response(400, "the request ended before its body")
    if isinstance(error, HTTPException):
        return answer_to_http_error(request, error)
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    return error_response(500, "an error of the server, told in its terminal")


def answer_to_http_error(request: Request, error: HTTPException) -> JSONResponse:
    """The answer to an error of HTTP: of a wrong method all that are allowed at the address.

    Args:
        request: that led to it.
        error: as raised.

    Returns:
        The answer, with the status of the error.
    """
    path = request.url.path
    if error.status_code == 404 and error.detail == "Not Found":
        return error_response(
            404, f"nothing at {path[:100]!r}: / is the page, /api lists the requests"
        )
    if error.status_code != 405:
        return error_response(error.status_code, error.detail, error.headers)
    routes = [route for route in request.app.routes if getattr(route, "path", "") == path]
    allowed = {method for route in routes for method in route.methods} or {"GET"}
    names = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
    return error_response(
        405, f"method {request.method[:20]!r}: allowed are {names}", {"Allow": names}
    )
