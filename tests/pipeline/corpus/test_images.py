import io
import os
import pickle
import struct
import warnings
from zlib import compress, crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from pipeline.corpus.images import ImageError, check_image, open_rgb
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file

RNG = np.random.default_rng(0)
PHOTO = Image.fromarray(RNG.integers(0, 256, (9, 14, 3), dtype=np.uint8))


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def bomb(width, height):
    """A PNG of a few bytes whose header promises width x height pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": compress(bytes(64)), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, chunks, chunks.values()))


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "CMYK"])
def test_every_mode_becomes_the_rgb_that_pillow_shows(tmp_path, mode):
    path = tmp_path / "image.tif"
    image = PHOTO.convert(mode)
    image.save(path)
    opened = open_rgb(path)
    assert opened.mode == "RGB"
    np.testing.assert_array_equal(opened, image.convert("RGB"))


def test_cmyk_jpeg_is_not_inverted(tmp_path):
    path = tmp_path / "cmyk.jpg"
    Image.new("RGB", (16, 16), (200, 30, 40)).convert("CMYK").save(path, quality=95)
    np.testing.assert_allclose(np.asarray(open_rgb(path))[8, 8], (200, 30, 40), atol=4)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_laid_over_white(tmp_path, mode):
    path = tmp_path / "image.png"
    image = Image.new("RGBA", (4, 2), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 2, 2))
    image.convert(mode).save(path)
    np.testing.assert_array_equal(np.asarray(open_rgb(path))[0, :, 0], [0, 0, 255, 255])


def test_transparent_palette_entry_is_white(tmp_path):
    path = tmp_path / "image.gif"
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    image.save(path, transparency=0)
    np.testing.assert_array_equal(np.asarray(open_rgb(path))[0], [[255] * 3, [40, 50, 60]])


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_grey_is_scaled_not_clipped(tmp_path, suffix):
    path = tmp_path / f"grey.{suffix}"
    levels = np.linspace(0, 65535, 512).astype(np.uint16).reshape(2, 256)
    Image.fromarray(levels).save(path)
    expected = np.round(levels / 65535 * 255)
    np.testing.assert_array_equal(np.asarray(open_rgb(path))[..., 1], expected)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_grey_levels_without_a_defined_white_are_refused(tmp_path, kind):
    path = tmp_path / "grey.tif"
    Image.fromarray(np.array([[0, 70000]], dtype=kind)).save(path)
    with pytest.raises(ImageError, match="more than 16 bits"):
        open_rgb(path)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_exif_orientation_is_applied_once(tmp_path, orientation, suffix):
    path = tmp_path / f"turned.{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    PHOTO.save(path, exif=exif)
    with Image.open(path) as image:
        image.load()
        expected = ImageOps.exif_transpose(image)
    opened = open_rgb(path)
    assert opened.size == ((9, 14) if orientation > 4 else (14, 9))
    np.testing.assert_array_equal(opened, expected.convert("RGB"))


def test_damaged_exif_is_no_reason_to_refuse_a_photograph(tmp_path):
    path = tmp_path / "exif.jpg"
    path.write_bytes(encoded(PHOTO, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff\x01"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_rgb(path).size == (14, 9)


def test_bombs_are_refused_from_the_header(tmp_path):
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb(50_000, 40_000))
    message = r"bomb\.png: 50000 x 40000 pixels, allowed are 64 mil"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ImageError, match=message):
            open_rgb(path, max_pixels=64_000_000)
    PHOTO.save(path)
    assert open_rgb(path, max_pixels=14 * 9).size == (14, 9)
    with pytest.raises(ImageError):
        open_rgb(path, max_pixels=14 * 9 - 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"<html>404</html>", "not an image"),
        (encoded(PHOTO, "JPEG")[:-40], "cannot be decoded: .*truncated"),
        (encoded(PHOTO, "EPS"), "not an image"),
    ],
    ids=["empty", "html", "cut", "postscript"],
)
def test_bad_files_are_named_with_a_reason(tmp_path, content, reason):
    path = tmp_path / "bad.jpg"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match=rf"bad\.jpg: {reason}"):
        open_rgb(path)
    assert check_image(str(path), None).reason


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "dangling.jpg").symlink_to("nowhere")
    for name, reason in [
        ("none.jpg", "no such file"),
        (".", "not a regular file"),
        ("pipe.jpg", "not a regular file"),
        ("dangling.jpg", "not a regular file"),
        ("x" * 300 + ".jpg", "no such file"),
        ("nul\0.jpg", "no such file"),
    ]:
        with pytest.raises(ImageError) as caught:
            open_rgb(tmp_path / name)
        assert caught.value.reason == reason


def test_check_image_tells_upright_size_and_content(tmp_path):
    path = tmp_path / "image.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    PHOTO.save(path, exif=exif)
    checked = check_image(str(path), 1000)
    assert (checked.width, checked.height, checked.reason) == (9, 14, "")
    assert checked.sha256 == sha256_file(path)


def test_the_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(ImageError("a.jpg", "empty file")))
    assert (str(error), error.reason) == ("a.jpg: empty file", "empty file")


SAMPLES = {
    kind: encoded(PHOTO, kind) for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
}


@settings(max_examples=100)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damaged_bytes_give_an_image_or_an_image_error(tmp_path_factory, kind, data):
    content = bytearray(SAMPLES[kind])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    checked = check_image(str(path), max_pixels=10_000)
    assert bool(checked.reason) != (checked.width * checked.height > 0)
    assert "\n" not in checked.reason
