"""Image files of any common kind as upright RGB: the only place that decodes them.

Whatever a downloaded photograph is, it becomes 8-bit RGB or one exception with a reason.
"""

import io
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file

# Pillow's own bomb limit is a constant of the process and warns before it raises; `max_pixels`
# takes its place, checked on the header before any pixel is decoded.
Image.MAX_IMAGE_PIXELS = None

MAX_ASPECT = 50  # networks scale the shorter side up: a longer ribbon outgrows the memory

# Named, because Pillow would otherwise try everything, Ghostscript for EPS included.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")


class ImageError(WorkbenchError):
    """One image file that cannot be used; `reason` is the message without the file's name."""

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


def open_rgb(path: Path | str, max_pixels: int | None = None) -> Image.Image:
    """Decode an image file to 8-bit RGB, upright after its EXIF orientation, or raise ImageError.
    16-bit grey is scaled, transparency is laid over white, of an animation the first frame is
    taken. max_pixels: larger images are refused before decoding; None for those already checked."""
    if not os.path.lexists(path):
        raise ImageError(path, "no such file")
    if not os.path.isfile(path):  # a pipe would block for ever
        raise ImageError(path, "not a regular file")
    if os.path.getsize(path) == 0:
        raise ImageError(path, "empty file")
    return _decoded(path, path, max_pixels)


def decode_rgb(data: bytes, name: str, max_pixels: int) -> Image.Image:
    """As `open_rgb`, of the bytes of a file that messages call `name`."""
    if not data:
        raise ImageError(name, "empty file")
    return _decoded(io.BytesIO(data), name, max_pixels)


def check_aspect(image: Image.Image) -> None:
    """Raise WorkbenchError for an image much longer than wide: resized, it would fill memory."""
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise WorkbenchError(f"the image is more than {MAX_ASPECT} times as long as wide")


def check_image(path: str, max_pixels: int | None) -> CheckedImage:
    """Decode a file once and digest its bytes; a bad file gives a reason, not an exception."""
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
    source: Path | str | io.BytesIO, name: Path | str, max_pixels: int | None
) -> Image.Image:
    try:
        with warnings.catch_warnings():  # Pillow warns of odd metadata in files that decode well
            warnings.simplefilter("ignore")
            with Image.open(source, formats=FORMATS) as image:
                width, height = image.size
                if max_pixels is not None and width * height > max_pixels:
                    allowed = f"allowed are {max_pixels / 1e6:g} million"
                    raise ImageError(name, f"{width} x {height} pixels, {allowed}")
                image.load()
                with suppress(Exception):  # as any viewer: unreadable EXIF counts as none
                    ImageOps.exif_transpose(image, in_place=True)
                return _to_rgb(image)
    except ImageError:
        raise
    except Exception as error:  # Pillow's parsers raise nearly any type on damaged files
        raise ImageError(name, _reason(error)) from error


def _to_rgb(image: Image.Image) -> Image.Image:
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
    if isinstance(error, Image.UnidentifiedImageError):
        return f"not an image ({', '.join(FORMATS)} are read)"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())
    return f"cannot be decoded: {text or type(error).__name__}"
