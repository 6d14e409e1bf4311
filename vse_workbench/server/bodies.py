"""What the body of a request may be: an image, a form with one, or texts as JSON."""

from email.message import Message
from email.parser import BytesHeaderParser
from typing import Annotated

import anyio
from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.runtime.errors import WorkbenchError

MAX_TEXT = 2000  # characters of a query
MAX_TEXTS = 100  # queries of a batch
MAX_HEAD = 4000  # bytes of the headers of a form's file
UNKNOWN = {"extra_forbidden": "allowed is texts"}
CLOSE = {"Connection": "close"}  # the rest of a body that is not read
ONE_FILE = "send a form with one file in the field image: curl -F image=@photo.jpg"


class Batch(BaseModel):
    """The JSON of several queries."""

    model_config = ConfigDict(extra="forbid", strict=True)

    texts: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]],
        Field(min_length=1, max_length=MAX_TEXTS),
    ]


async def body_of(request: Request, limit: int, seconds: float) -> bytes:
    """The body of a request.

    Args:
        request: whose body is read.
        limit: bytes that it may have.
        seconds: within which it must arrive.

    Returns:
        Its bytes.

    Raises:
        HTTPException: 413 as soon as it is known to be larger, 408 where it does not arrive in
            time.
    """
    too_large = HTTPException(413, f"a request may have {limit / 1e6:g} MB", CLOSE)
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    parts = []
    size = 0
    with anyio.move_on_after(seconds) as waiting:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            parts.append(part)
    if waiting.cancelled_caught:
        raise HTTPException(408, f"the body did not arrive within {seconds:g} s", CLOSE)
    return b"".join(parts)


def texts_of(body: bytes) -> list[str]:
    """The texts of a batch; RequestValidationError for anything else."""
    try:
        return Batch.model_validate_json(body).texts
    except ValidationError as error:
        faults = [
            {"loc": ("body", *fault["loc"]), "msg": UNKNOWN.get(fault["type"], fault["msg"])}
            for fault in error.errors()
        ]
        raise RequestValidationError(faults) from None


def file_of(body: bytes, content_type: str) -> bytes:
    """The bytes of an image: the body, or the one file of a multipart form (RFC 7578), cut at its
    boundary, so that a hostile one costs no more than its size.

    Args:
        body: of a request.
        content_type: of its header.

    Returns:
        The bytes of the file.

    Raises:
        WorkbenchError: another form.
    """
    if not content_type.strip().lower().startswith("multipart/"):
        return body
    described = Message()
    described["Content-Type"] = content_type[:MAX_HEAD]
    boundary = (described.get_boundary() or "").encode("utf-8", "replace")
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary, 3)
    if not boundary or len(parts) != 3 or not parts[2].startswith(b"--"):
        raise WorkbenchError(f"not a form with one file: {ONE_FILE}")
    head, blank, data = parts[1].partition(b"\r\n\r\n")
    if not blank or len(head) > MAX_HEAD:
        raise WorkbenchError(f"a form whose file has no headers, or too long ones: {ONE_FILE}")
    headers = BytesHeaderParser().parsebytes(head.lstrip())
    if headers.get_param("name", header="content-disposition") != "image":
        raise WorkbenchError(f"a form without the field image: {ONE_FILE}")
    return data
