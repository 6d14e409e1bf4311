"""Image files of any common kind as upright RGB: the only place that decodes them.

Whatever a downloaded photograph is, it becomes 8-bit RGB or one exception with a reason.
"""

import io
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, features

from pipeline.runtime.errors import LESS_MEMORY, WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.first_bytes import (
    HEAD,
    IMAGE_KEYS,
    FileKind,
    absent,
    first_bytes,
    kind_of_bytes,
    shown_path,
    way_out,
)

# Pillow's own bomb limit is a constant of the process and warns before it raises; `max_pixels`
# takes its place, checked on the header before any pixel is decoded.
Image.MAX_IMAGE_PIXELS = None

MAX_ASPECT = 50  # networks scale the shorter side up: a longer ribbon outgrows the memory

# Named, because Pillow would otherwise try everything, Ghostscript for EPS included. Two of them
# need libraries that not every Pillow was built with.
BUILT_IN = {"AVIF": "avif", "JPEG2000": "jpg_2000"}
FORMATS: tuple[str, ...] = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
FORMATS += tuple(name for name in BUILT_IN if features.check(BUILT_IN[name]))
READ_KEYS = {name.lower() for name in FORMATS}  # as pipeline.runtime.first_bytes has them
HEIC_EXTRA = "pip install --editable '.[heic]', or convert it to JPEG"


class ImageError(WorkbenchError):
    """One image file that cannot be used.

    Args:
        path: the file, as the message names it.
        reason: the message without the file's name.
    """

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.args = (path, reason)  # what pickle passes to __init__ on the way out of a worker


@dataclass(frozen=True)
class CheckedImage:
    """Size in pixels of an upright image and the digest of its file, or why it is no usable one."""

    width: int = 0
    height: int = 0
    sha256: str = ""
    reason: str = ""  # empty for a usable image


def file_of_image(image_id: str, path: str) -> str:
    """The file of an image of the corpus.

    Args:
        image_id: of the image.
        path: its path in images.parquet, empty for an image of which there are features alone.

    Returns:
        The path.

    Raises:
        WorkbenchError: it is empty.
    """
    if not path:
        raise WorkbenchError(
            f"image {image_id}: the corpus has no photograph of it, only features",
            "set raw in params.yaml to a folder with the photographs",
        )
    return path


def open_rgb(path: Path | str, max_pixels: int | None = None) -> Image.Image:
    """Decode an image file to 8-bit RGB, upright after its EXIF orientation.

    16-bit grey is scaled, transparency is laid over white, of an animation the first frame is
    taken.

    Args:
        path: the file.
        max_pixels: larger images are refused before decoding; None for those already checked.

    Returns:
        The image in mode RGB, as wide and high as it is seen upright.

    Raises:
        ImageError: no such file, none of an image, a damaged or too large one.
    """
    if not os.path.lexists(path):
        raise ImageError(shown_path(path), absent(path))
    if not os.path.isfile(path):  # a pipe would block for ever
        raise ImageError(path, "not a regular file")
    if os.path.getsize(path) == 0:
        raise ImageError(path, "empty file")
    return _decoded(path, name=path, max_pixels=max_pixels, head=first_bytes(path))


def decode_rgb(data: bytes, name: str, max_pixels: int) -> Image.Image:
    """Decode the bytes of an image file to upright 8-bit RGB, as `open_rgb` does its file.

    Args:
        data: all bytes of the file.
        name: what messages call it.
        max_pixels: larger images are refused before decoding.

    Returns:
        The image in mode RGB, as wide and high as it is seen upright.

    Raises:
        ImageError: bytes of no image, of a damaged or too large one.
    """
    if not data:
        raise ImageError(name, "empty file")
    return _decoded(io.BytesIO(data), name=name, max_pixels=max_pixels, head=data[:HEAD])


def check_aspect(image: Image.Image) -> None:
    """Raise WorkbenchError for an image much longer than wide: resized, it would fill memory."""
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise WorkbenchError(f"the image is more than {MAX_ASPECT} times as long as wide")


def check_image(path: str, max_pixels: int | None) -> CheckedImage:
    """Decode a file once and digest its bytes.

    Args:
        path: the file.
        max_pixels: larger images are refused before decoding; None for any size.

    Returns:
        Its size and digest; of a bad file the reason in their place, not an exception.
    """
    try:
        image = open_rgb(path, max_pixels)
        digest = sha256_file(path)
    except ImageError as error:
        return CheckedImage(reason=error.reason)
    except OSError as error:
        return CheckedImage(reason=_reason(error))
    width, height = image.size
    if max(width, height) > MAX_ASPECT * min(width, height):
        reason = f"{width} x {height} pixels, more than {MAX_ASPECT} times as long as wide"
        return CheckedImage(reason=reason)
    return CheckedImage(width, height, digest)


def _decoded(
    source: Path | str | io.BytesIO, name: Path | str, max_pixels: int | None, head: bytes
) -> Image.Image:
    """An image file, or its bytes, as upright RGB; head: what it begins with."""
    kind = kind_of_bytes(head)
    formats = FORMATS
    if kind is not None and kind.key == "heic" and _heic_is_read():
        formats = ("HEIF",)
    try:
        with warnings.catch_warnings():  # Pillow warns of odd metadata in files that decode well
            warnings.simplefilter("ignore")
            with Image.open(source, formats=formats) as image:
                _check_pixels(name, image, max_pixels)
                image.load()
                _check_pixels(name, image, max_pixels)  # a HEIC file may hold more than it says
                with suppress(Exception):  # as any viewer: unreadable EXIF counts as none
                    ImageOps.exif_transpose(image, in_place=True)
                return _to_rgb(image)
    except ImageError:
        raise
    except Image.UnidentifiedImageError:
        path = None if isinstance(source, io.BytesIO) else source
        raise ImageError(name, _unread(kind, path)) from None
    except MemoryError:  # no fault of the image, which would be left out as a bad one
        message = f"{name}: memory ran out while it was decoded"
        raise WorkbenchError(message, LESS_MEMORY) from None
    except Exception as error:  # Pillow's parsers raise nearly any type on damaged files
        raise ImageError(name, _reason(error)) from error


def _check_pixels(name: Path | str, image: Image.Image, max_pixels: int | None) -> None:
    """Raise ImageError for an image of more pixels than allowed."""
    width, height = image.size
    if max_pixels is not None and width * height > max_pixels:
        allowed = f"allowed are {max_pixels / 1e6:g} million"
        raise ImageError(name, f"{width} x {height} pixels, {allowed}")


@cache
def _heic_is_read() -> bool:
    """Whether HEIC can be decoded, with pi-heif, which is loaded with the first such file."""
    try:
        from pi_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


def _unread(kind: FileKind | None, path: Path | str | None) -> str:
    """Why Pillow took a file for no image, by what the file is; what leads out in brackets. path:
    None for bytes in memory."""
    if kind is None:
        return f"not an image ({', '.join(FORMATS)} are read)"
    if kind.key not in IMAGE_KEYS:
        out = "" if path is None else way_out(kind, path)
        return f"not an image but {kind.title}" + (f" ({out})" if out else "")
    if kind.key == "heic" and not _heic_is_read():
        return f"{kind.title}, which needs the extra heic ({HEIC_EXTRA})"
    if kind.key in READ_KEYS | {"heic"}:
        return f"{kind.title} whose header is damaged"
    return f"{kind.title}, which is not read (convert it to JPEG or PNG)"


def _to_rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB of an image of any mode; transparent parts over white."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _scale_16_bit(image).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _scale_16_bit(image: Image.Image) -> Image.Image:
    """Grey levels 0..65535 as 0..255; Pillow's own conversion clips everything above 255."""
    values = np.asarray(image)
    if values.dtype.kind == "f" or values.min() < 0 or values.max() > 65535:
        raise ValueError(f"grey levels of more than 16 bits (Pillow mode {image.mode})")
    return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))


def _reason(error: Exception) -> str:
    """What the system or Pillow says is wrong with a file, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())
    return f"cannot be decoded: {text or type(error).__name__}"
