import io
import os
import pickle
import struct
import sys
import warnings
from pathlib import Path
from zlib import compress, crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from pipeline.corpus import images
from pipeline.corpus.images import ImageError, check_image, decode_rgb, open_rgb
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


@pytest.mark.parametrize("kind", ["AVIF", "JPEG2000"])
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_newer_formats_are_read_whatever_their_name(tmp_path, kind, mode):
    path = tmp_path / "photo.jpg"
    image = Image.new("RGB", (40, 24), (200, 30, 40)).convert(mode)
    if mode == "RGBA":
        image.paste((0, 0, 0, 0), (0, 0, 20, 24))
    path.write_bytes(encoded(image, kind))
    opened = np.asarray(open_rgb(path)).astype(int)
    assert opened.shape == (24, 40, 3)
    expected = image.convert("RGB").getpixel((30, 12))
    np.testing.assert_allclose(opened[12, 30], expected, atol=8)
    if mode == "RGBA":
        np.testing.assert_allclose(opened[12, 5], (255, 255, 255), atol=8)
    assert open_rgb(path, max_pixels=40 * 24).size == (40, 24)
    with pytest.raises(ImageError, match=r"40 x 24 pixels, allowed are 0\.000959 million"):
        open_rgb(path, max_pixels=40 * 24 - 1)


def test_16_bit_jpeg_2000_is_scaled_as_other_16_bit_grey(tmp_path):
    levels = np.linspace(0, 65535, 4096).astype(np.uint16).reshape(64, 64)
    path = tmp_path / "grey.jp2"
    Image.fromarray(levels).save(path, irreversible=False)
    np.testing.assert_array_equal(np.asarray(open_rgb(path))[..., 0], np.round(levels / 257))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_avif_image_is_turned_once(tmp_path, orientation):
    path = tmp_path / "turned.avif"
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.new("RGB", (40, 24), (0, 0, 0))
    image.paste((255, 255, 255), (0, 0, 20, 12))
    image.save(path, exif=exif, quality=100)
    with Image.open(path) as shown:
        expected = np.asarray(ImageOps.exif_transpose(shown).convert("RGB")).astype(int)
    opened = open_rgb(path)
    assert opened.size == ((24, 40) if orientation > 4 else (40, 24))
    np.testing.assert_allclose(np.asarray(opened), expected, atol=2)


def heic(image, **options):
    pillow_heif = pytest.importorskip("pillow_heif")  # it can also write
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, quality=90, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "I;16"])
def test_heic_is_read_with_the_extra(tmp_path, mode):
    path = tmp_path / "IMG_0001.jpg"
    image = Image.new("RGB", (64, 48), (200, 30, 40))
    if mode == "RGBA":
        image = image.convert("RGBA")
        image.paste((0, 0, 0, 0), (0, 0, 32, 48))
    if mode == "I;16":
        image = Image.fromarray(np.full((48, 64), 51400, np.uint16))
    path.write_bytes(heic(image))
    opened = np.asarray(open_rgb(path)).astype(int)
    expected = (200, 200, 200) if mode == "I;16" else (200, 30, 40)
    np.testing.assert_allclose(opened[24, 50], expected, atol=6)
    if mode == "RGBA":
        np.testing.assert_allclose(opened[24, 5], (255, 255, 255), atol=8)
    assert check_image(str(path), 64 * 48).width == 64
    with pytest.raises(ImageError, match="64 x 48 pixels, allowed are"):
        decode_rgb(path.read_bytes(), "sent", max_pixels=64 * 48 - 1)


def test_a_heic_image_is_turned_once(tmp_path):
    path = tmp_path / "a.heic"
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (64, 48), (0, 0, 0))
    image.paste((255, 255, 255), (0, 0, 32, 24))
    path.write_bytes(heic(image, exif=exif.tobytes()))
    opened = open_rgb(path)
    assert opened.size == (48, 64)
    assert opened.getpixel((40, 8)) > (200, 200, 200)


def test_without_the_extra_a_heic_image_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)  # as where it is not installed
    images._heic_is_read.cache_clear()
    path = tmp_path / "a.jpg"
    path.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(2000))
    checked = check_image(str(path), None)
    assert checked.reason.startswith("a HEIC image, which needs the extra heic (pip install ")
    images._heic_is_read.cache_clear()


def test_an_address_is_told_from_a_file():
    with pytest.raises(ImageError, match=r"^https://example\.org/cat\.jpg: an address"):
        open_rgb(Path("https://example.org/cat.jpg"))


def test_bytes_in_memory_get_no_command_for_a_file():
    with pytest.raises(ImageError, match=r"^sent: not an image but a page of HTML$"):
        decode_rgb(b"<!doctype html><html>", "sent", 100)


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
        (encoded(PHOTO, "EPS"), r"a PostScript drawing, which is not read \(convert it to JPEG"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n",
            r"not an image but a pointer of git-lfs \(.* git -C .* lfs pull",
        ),
        (b"\xff\x0a" + bytes(40), "a JPEG XL image, which is not read"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "a PNG image whose header is damaged"),
        (b"\0\0\0\x18ftypisom" + bytes(40), "not an image but a video$"),
        (bytes(5000), "not an image but zeros at its beginning"),
    ],
    ids=["empty", "html", "cut", "postscript", "lfs", "jxl", "header", "video", "zeros"],
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


SAMPLES = {kind: encoded(PHOTO, kind) for kind in images.FORMATS}


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
