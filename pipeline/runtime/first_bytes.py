"""What a file is by its first bytes, whatever its name says, and how to get at what was meant.

A name is a promise: a git clone without git-lfs, a failed download and a program that chooses the
ending by habit all break it. Whoever refuses a file from outside asks `explain` first.
"""

import re
import shlex
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError

HEAD = 4096  # bytes that are looked at
ZIP_ENTRIES = 10_000  # of an archive that are looked at

DOWNLOAD = "the download failed: download the file again"
FETCH = (
    "in a git clone fetch what it stands for with: git -C {folder} lfs pull (git-lfs must be "
    "installed); elsewhere download the file itself"
)
UNPACK = "unpack it with: {tool} {path} > {bare}"
EXTRACT = "unpack it, and name a file of it: python -m zipfile -e {path} {bare}"
AS_TEXT = "save it as text, with its values separated by commas"

LFS = b"version https://git-lfs.github.com/spec/"
FASTTEXT = b"\xba\x16\x4f\x2f"  # 793712314 in little-endian, of fastText's own .bin
HDF5 = b"\x89HDF\r\n\x1a\n"
HDF5_PLACES = (0, 512, 1024, 2048)  # where it may begin, behind a block of the user's


@dataclass(frozen=True)
class FileKind:
    """A kind of file: `key` for programs, `title` for messages, `way_out` as one sentence or
    command, in which {path}, {bare} and {folder} stand for the file's; "" where there is none."""

    key: str
    title: str
    way_out: str = ""


def _images(*pairs: tuple[str, str]) -> tuple[FileKind, ...]:
    return tuple(FileKind(key, title) for key, title in pairs)


IMAGES = _images(
    ("jpeg", "a JPEG image"),
    ("png", "a PNG image"),
    ("webp", "a WebP image"),
    ("gif", "a GIF image"),
    ("bmp", "a BMP image"),
    ("tiff", "a TIFF image"),
    ("ppm", "a PPM image"),
    ("avif", "an AVIF image"),
    ("heic", "a HEIC image"),
    ("jpeg2000", "a JPEG 2000 image"),
    ("jxl", "a JPEG XL image"),
    ("psd", "a Photoshop image"),
    ("ico", "an icon of Windows"),
    ("svg", "an SVG drawing"),
    ("postscript", "a PostScript drawing"),
    ("raw", "a raw image of a camera"),
)
OTHERS = (
    FileKind("lfs", "a pointer of git-lfs", FETCH),
    FileKind("html", "a page of HTML", DOWNLOAD),
    FileKind("xml", "an XML document", DOWNLOAD),
    FileKind("empty", "an empty file", DOWNLOAD),
    FileKind("zeros", "zeros at its beginning, as broken off downloads leave them", DOWNLOAD),
    FileKind("apple", "macOS's notes about a file of that name without ._", "delete it"),
    FileKind("gzip", "packed by gzip", UNPACK.replace("{tool}", "gzip -dc")),
    FileKind("bzip2", "packed by bzip2", UNPACK.replace("{tool}", "bzip2 -dc")),
    FileKind("xz", "packed by xz", UNPACK.replace("{tool}", "xz -dc")),
    FileKind("zstd", "packed by zstd", UNPACK.replace("{tool}", "zstd -dc")),
    FileKind("zip", "a zip archive", EXTRACT),
    FileKind("cut_zip", "a zip archive that is cut off or damaged", "copy or download it again"),
    FileKind("tar", "a tar archive", "unpack it, and name a file of it: tar -xf {path}"),
    FileKind("7z", "a 7z archive", "unpack it, and name a file of it: 7z x {path}"),
    FileKind("rar", "a rar archive", "unpack it, and name a file of it: unrar x {path}"),
    FileKind("excel", "a workbook of Excel", AS_TEXT),
    FileKind("office", "a document of an office program", AS_TEXT),
    FileKind("pdf", "a PDF document"),
    FileKind("video", "a video"),
    FileKind("pickle", "a pickle, which can run code when it is read"),
    FileKind("torch", "a file of torch.save"),
    FileKind("torchscript", "a program of TorchScript"),
    FileKind("npy", "an array of numpy (.npy)"),
    FileKind("npz", "arrays of numpy (.npz)"),
    FileKind("hdf5", "an HDF5 file"),
    FileKind("parquet", "a parquet file"),
    FileKind("arrow", "an Arrow file"),
    FileKind("safetensors", "a safetensors file"),
    FileKind("matlab", "a MATLAB file"),
    FileKind("fasttext", "a model of fastText (.bin)"),
    FileKind("sqlite", "an SQLite database"),
    FileKind("lmdb", "an LMDB database"),
)
KINDS = {kind.key: kind for kind in (*IMAGES, *OTHERS)}
IMAGE_KEYS = frozenset(kind.key for kind in IMAGES)
STAND_INS = ("lfs", "html")  # what lies in the place of a file that somebody meant to have

MARKUP = {"html": ("htm", "xhtml", "mhtml"), "xml": ("xmp", "opf", "html", "xhtml")}

# Where a kind's mark stands, and the mark; the first that fits counts.
MARKS: tuple[tuple[str, int, bytes], ...] = (
    ("lfs", 0, LFS),
    ("gzip", 0, b"\x1f\x8b\x08"),
    ("xz", 0, b"\xfd7zXZ\0"),
    ("zstd", 0, b"\x28\xb5\x2f\xfd"),
    ("7z", 0, b"7z\xbc\xaf\x27\x1c"),
    ("rar", 0, b"Rar!\x1a\x07"),
    ("office", 0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    ("apple", 0, b"\0\5\x16\7\0"),
    ("torch", 0, b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"),  # older than PyTorch 1.6
    ("npy", 0, b"\x93NUMPY"),
    ("fasttext", 0, FASTTEXT),
    ("parquet", 0, b"PAR1"),
    ("arrow", 0, b"ARROW1\0\0"),
    ("matlab", 0, b"MATLAB "),
    ("sqlite", 0, b"SQLite format 3\0"),
    ("lmdb", 16, b"\xde\xc0\xef\xbe"),
    ("pdf", 0, b"%PDF-"),
    ("postscript", 0, b"%!PS"),
    ("jpeg", 0, b"\xff\xd8\xff"),
    ("png", 0, b"\x89PNG\r\n\x1a\n"),
    ("gif", 0, b"GIF87a"),
    ("gif", 0, b"GIF89a"),
    ("tiff", 0, b"II*\0"),
    ("tiff", 0, b"MM\0*"),
    ("tiff", 0, b"II+\0"),
    ("tiff", 0, b"MM\0+"),
    ("video", 0, b"\x1aE\xdf\xa3"),
    ("video", 0, b"\0\0\1\xba"),
    ("jpeg2000", 0, b"\0\0\0\x0cjP  \r\n\x87\n"),
    ("jpeg2000", 0, b"\xff\x4f\xff\x51"),
    ("jxl", 0, b"\0\0\0\x0cJXL \r\n\x87\n"),
    ("jxl", 0, b"\xff\x0a"),
    ("psd", 0, b"8BPS\0"),
    ("ico", 0, b"\0\0\1\0"),
    ("tar", 257, b"ustar\0"),
    ("tar", 257, b"ustar  \0"),
    ("zip", 0, b"PK\3\4"),
    ("hdf5", 0, HDF5),
)
# Brands of the container that AVIF, HEIC and videos share (ISO/IEC 14496-12).
BRANDS = {b"avif": "avif", b"avis": "avif", b"crx ": "raw"}
BRANDS |= dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "heic")
OF_MANY = (b"mif1", b"msf1")  # whose compatible brands decide
# Comments before a page's first element; possessive, as they come from anywhere.
_START = rb"(?:\xef\xbb\xbf)?\s*+"
_COMMENTS = _START + rb"(?:(?><!--.*?-->)\s*+)*+"
_PROLOGUE = _START + rb"(?:(?><(?:\?xml|!doctype\s+svg)[^>]*>|<!--.*?-->)\s*+)*+"
# What more than one mark decides about: the first that matches the beginning counts.
FORMS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("webp", re.compile(rb"RIFF.{4}WEBP", re.S)),
    ("video", re.compile(rb"RIFF.{4}AVI ", re.S)),
    ("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")),
    ("html", re.compile(_COMMENTS + rb"<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)),
    ("svg", re.compile(_PROLOGUE + rb"<svg\b", re.I | re.S)),
    ("xml", re.compile(_START + rb"<\?xml\b", re.I)),
    ("bmp", re.compile(rb"BM.{4}\0{4}.{4}[\x0c-\x7c]\0{3}", re.S)),
    ("ppm", re.compile(rb"P(?:7\n|[1-6]\s++(?:#[^\n]*+\n\s*+)*+\d+\s+\d+\s)")),
    # of the protocols from 2 on, and of 0, which is text
    ("pickle", re.compile(rb"\x80[\2-\5]|\([dl]p\d+\n|c[a-z_][\w.]*\n\w+\np\d+\n")),
    ("zeros", re.compile(rb"\0{64,}\Z")),
)
WEB = re.compile(r"\A(https?|ftp|s3|gs|hf):/+", re.I)


def first_bytes(path: Path | str, count: int = HEAD) -> bytes:
    """The bytes that a file begins with.

    Args:
        path: a file.
        count: how many at most; HEAD are enough for `kind_of_bytes`.

    Returns:
        Fewer where the file is shorter.
    """
    with open(path, "rb") as handle:
        return handle.read(count)


def kind_of(path: Path | str) -> FileKind | None:
    """The kind of a file; None for text, and for what is not known here. Of an archive the names
    of its members are looked at, too."""
    head = first_bytes(path)
    if head.startswith(b"PK\3\4"):
        return KINDS[_archive(path)]
    starts = HDF5_PLACES if head[:1] != HDF5[:1] else ()
    if any(head[start : start + len(HDF5)] == HDF5 for start in starts):
        return KINDS["hdf5"]
    return kind_of_bytes(head)


def kind_of_bytes(head: bytes) -> FileKind | None:
    """The kind of what begins with these bytes, of which HEAD are enough; None as of `kind_of`."""
    if not head:
        return KINDS["empty"]
    for key, place, mark in MARKS:
        if head[place : place + len(mark)] == mark:
            return KINDS[key]
    key = _by_form(head)
    return KINDS[key] if key else None


def _by_form(head: bytes) -> str:
    """The key of a kind that more than one mark decides about, "" for none."""
    if head[:2] == b"\0\0" and head[4:8] == b"ftyp":
        return _branded(head)
    if head[:4] == b"\xff\xff\xff\xff" and head[6:8] == b"\0\0" and head[4] % 8 == 0:
        return "arrow"  # a stream of messages, each with the length of its head
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") < 1 << 30:
        return "safetensors"
    return next((key for key, form in FORMS if form.match(head)), "")


def _branded(head: bytes) -> str:
    size = int.from_bytes(head[:4], "big")
    brand = head[8:12]
    if brand in OF_MANY:
        others = [head[start : start + 4] for start in range(16, min(size, len(head)), 4)]
        brand = next((other for other in others if other in BRANDS), b"heic")
    return BRANDS.get(brand, "video")


def _archive(path: Path | str) -> str:
    """The key of a file that is a zip archive, by the names in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:ZIP_ENTRIES]
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return "cut_zip"
    if any(name.endswith("/data.pkl") for name in names):
        return "torchscript" if any("/code/" in name for name in names) else "torch"
    if "[Content_Types].xml" in names:
        return "excel" if any(name.startswith("xl/") for name in names) else "office"
    return "npz" if names and all(name.endswith(".npy") for name in names) else "zip"


def explain(
    path: Path | str, expected: Collection[str] = (), hint: str = ""
) -> WorkbenchError | None:
    """The error for a file that is not what it seems, in one or two plain lines.

    Args:
        path: a regular file; its first bytes are read, and nothing of it is run.
        expected: keys of the kinds that the caller reads.
        hint: the way out where the kind has none of its own.

    Returns:
        None where the kind is one of `expected` or is not known: what is wrong, if anything, is
        then inside, and the caller says it.

    Raises:
        OSError: the file cannot be opened.
    """
    kind = kind_of(path)
    return None if kind is None or kind.key in expected else misplaced(kind, path, hint)


def stand_in(path: Path | str) -> WorkbenchError | None:
    """The error for a file that lies in the place of another one; None for all others."""
    return explain(path, expected=KINDS.keys() - set(STAND_INS))


def misplaced(kind: FileKind, path: Path | str, hint: str = "") -> WorkbenchError:
    """The error for a file of a kind that is of no use where it is.

    Args:
        kind: what the file is.
        path: the file.
        hint: the way out where the kind has none of its own.

    Returns:
        The error, to be raised.
    """
    return WorkbenchError(f"{path}: {kind.title}", way_out(kind, path) or hint)


def way_out(kind: FileKind, path: Path | str) -> str:
    """How to get from a file that stands for another one, or holds it, to the one that was meant.

    Args:
        kind: what the file is.
        path: the file; it is named in the command.

    Returns:
        One sentence or command; "" where the kind alone does not say it.
    """
    path = Path(path)
    if kind.key in MARKUP and path.suffix.lower().lstrip(".") in (kind.key, *MARKUP[kind.key]):
        return ""  # it is what it says it is, and no download that failed
    bare = path.with_suffix("") if path.suffix else path.with_name(f"{path.name}.unpacked")
    places = {"path": path, "bare": bare, "folder": path.parent}
    return kind.way_out.format(**{key: shlex.quote(str(place)) for key, place in places.items()})


def absent(path: Path | str, nothing: str = "no such file") -> str:
    """What to say of a path at which there is nothing.

    Args:
        path: as the user gave it.
        nothing: what is said, but for addresses of the web.

    Returns:
        The text behind the path in a message.
    """
    return "an address: download it first" if WEB.match(str(path)) else nothing


def shown_path(path: Path | str) -> str:
    """A path for messages; an address with both of its slashes, of which a Path keeps one."""
    return WEB.sub(lambda match: f"{match[1]}://", str(path), count=1)


def python_line(code: str) -> str:
    """A command that runs some code, to be pasted into a shell."""
    plain = not set('"$`\\!') & set(code)
    return f'python -c "{code}"' if plain else f"python -c {shlex.quote(code)}"
