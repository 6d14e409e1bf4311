"""What a file is by its first bytes, on files of each kind as their programs write them."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from gensim.models import FastText
from gensim.models.fasttext import save_facebook_model
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file
from scipy.io import savemat

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import (
    HEAD,
    KINDS,
    absent,
    explain,
    kind_of,
    kind_of_bytes,
    python_line,
    shown_path,
    stand_in,
)
from pipeline.runtime.text import read_json, read_text

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
PICTURE = Image.new("RGB", (40, 30), (200, 30, 40))
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def picture(path: Path, kind: str) -> None:
    PICTURE.save(path, kind)


def container(brand: bytes, *others: bytes) -> bytes:
    content = b"ftyp" + brand + bytes(4) + b"".join(others)
    return (4 + len(content)).to_bytes(4, "big") + content + bytes(200)


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/"), content)


def tape(path: Path) -> None:
    path.with_suffix(".member").write_text("a")
    with tarfile.open(path, "w") as file:
        file.add(path.with_suffix(".member"), "member")


def stream(path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def arrow(path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table a (b)")
    connection.close()


def hdf5(path: Path, block: int = 0) -> None:
    with h5py.File(path, "w", userblock_size=block) as file:
        file["a"] = ROWS


def subwords(path: Path) -> None:
    model = FastText([["a", "b"]], vector_size=2, min_count=1, epochs=1, bucket=4, workers=1)
    save_facebook_model(model, str(path))


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def script(path: Path) -> None:
    torch.jit.save(torch.jit.script(Doubled()), str(path))


# How a file of each kind is made, by the program that makes such files where it is here.
MADE = {
    "lfs": lambda path: path.write_text(POINTER),
    "html": lambda path: path.write_text("\ufeff\n <!-- a -->\n<!doctype HTML><html>404</html>"),
    "xml": lambda path: path.write_text('<?xml version="1.0"?><Error>AccessDenied</Error>'),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(5000)),
    "apple": lambda path: path.write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X        "),
    "gzip": lambda path: path.write_bytes(gzip.compress(b"a")),
    "bzip2": lambda path: path.write_bytes(bz2.compress(b"a")),
    "xz": lambda path: path.write_bytes(lzma.compress(b"a")),
    "zstd": lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd\x04\x58\x09\x00\x00a\n"),
    "zip": lambda path: archive(path, a=b"1"),
    "cut_zip": lambda path: (archive(path, a=bytes(999)), path.write_bytes(path.read_bytes()[:99])),
    "tar": tape,
    "7z": lambda path: path.write_bytes(b"7z\xbc\xaf\x27\x1c\0\4"),
    "rar": lambda path: path.write_bytes(b"Rar!\x1a\x07\x01\x00"),
    "excel": lambda path: archive(path, **{"[Content_Types].xml": b"", "xl__workbook.xml": b""}),
    "office": lambda path: path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)),
    "pdf": lambda path: picture(path, "PDF"),
    "video": lambda path: path.write_bytes(container(b"isom", b"mp42")),
    "pickle": lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    "torch": lambda path: torch.save({"a": torch.ones(2)}, path),
    "torchscript": script,
    "npy": lambda path: np.save(path.open("wb"), ROWS),
    "npz": lambda path: np.savez(path.open("wb"), a=ROWS),
    "hdf5": hdf5,
    "parquet": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "arrow": arrow,
    "safetensors": lambda path: save_file({"a": ROWS}, path),
    "matlab": lambda path: savemat(path.open("wb"), {"a": ROWS}),
    "fasttext": subwords,
    "sqlite": database,
    "lmdb": lambda path: path.write_bytes(bytes(16) + b"\xde\xc0\xef\xbe\1\0\0\0" + bytes(100)),
    "jpeg": lambda path: picture(path, "JPEG"),
    "png": lambda path: picture(path, "PNG"),
    "webp": lambda path: picture(path, "WEBP"),
    "gif": lambda path: picture(path, "GIF"),
    "bmp": lambda path: picture(path, "BMP"),
    "tiff": lambda path: picture(path, "TIFF"),
    "ppm": lambda path: picture(path, "PPM"),
    "avif": lambda path: picture(path, "AVIF"),
    "heic": lambda path: path.write_bytes(container(b"mif1", b"mif1", b"heic")),
    "jpeg2000": lambda path: picture(path, "JPEG2000"),
    "jxl": lambda path: path.write_bytes(b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(20)),
    "psd": lambda path: path.write_bytes(b"8BPS\0\1" + bytes(20)),
    "ico": lambda path: picture(path, "ICO"),
    "svg": lambda path: path.write_text('<?xml version="1.0"?>\n<!-- a --><svg width="1"/>'),
    "postscript": lambda path: picture(path, "EPS"),
    "raw": lambda path: path.write_bytes(container(b"crx ", b"crx ")),
}


def test_every_kind_has_a_file_here() -> None:
    assert set(MADE) == set(KINDS)


@pytest.mark.parametrize("key", sorted(MADE))
def test_a_kind_is_known_under_any_name(tmp_path: Path, key: str) -> None:
    path = tmp_path / "file.jpg"
    MADE[key](path)
    kind = kind_of(path)
    assert kind is not None
    assert kind.key == key
    assert explain(path, expected=(key,)) is None
    error = explain(path, hint="a hint")
    assert isinstance(error, WorkbenchError)
    assert error.message == f"{path}: {kind.title}"
    assert "{" not in error.hint
    assert "\n" not in str(error).replace(f"\n{error.hint}", "")


def test_further_forms_of_a_kind(tmp_path: Path) -> None:
    path = tmp_path / "x"
    torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    assert kind_of(path) == KINDS["torch"]
    hdf5(path, block=1024)
    assert kind_of(path) == KINDS["hdf5"]
    stream(path)
    assert kind_of(path) == KINDS["arrow"]
    picture(path, "JPEG2000")
    PICTURE.save(path, "JPEG2000", no_jp2=True)
    assert kind_of(path) == KINDS["jpeg2000"]
    archive(path, word__document=b"", **{"[Content_Types].xml": b""})
    assert kind_of(path) == KINDS["office"]
    for protocol in (2, 3, 4, 5):
        assert kind_of_bytes(pickle.dumps([1], protocol)) == KINDS["pickle"]
    for brand, key in [(b"heix", "heic"), (b"avis", "avif"), (b"qt  ", "video")]:
        assert kind_of_bytes(container(brand)) == KINDS[key]
    assert kind_of_bytes(container(b"mif1", b"miaf", b"avif")) == KINDS["avif"]
    assert kind_of_bytes(b"<HTML lang=en>") == KINDS["html"]


@pytest.mark.parametrize(
    "text",
    [
        "image,caption\na.jpg,a dog\n",
        "the 0.1 0.2\n",
        "P2 0.1 0.2\n",
        "BMW 1 2\nabc 1 2\n",
        "GIF\n",
        "BZh is a word\n",
        '{"images": []}',
        "[1]",
        "RIFF raff\n",
        "version 2 of a caption",
        "3000 300\n",
        "\0\0\0",
    ],
)
def test_text_and_what_is_not_known_are_of_no_kind(text: str) -> None:
    assert kind_of_bytes(text.encode()) is None
    assert kind_of_bytes(text.encode("utf-8-sig")) is None


@given(st.binary(max_size=600), st.sampled_from(["", "\0\0\0\x20ftyp", "RIFF", "PK\3\4", "BM"]))
def test_any_bytes_have_a_kind_or_none(content: bytes, start: str) -> None:
    kind = kind_of_bytes(start.encode("latin1") + content)
    assert kind is None or KINDS[kind.key] == kind


@pytest.mark.parametrize("start", [b"<!-- -->", b"<!--", b"<?xml >", b"<!doctype svg ", b" "])
def test_hostile_beginnings_take_no_time(start: bytes) -> None:
    """Time that doubled with every repetition would never end."""
    assert kind_of_bytes((start * HEAD)[:HEAD]) in (None, KINDS["xml"])


@pytest.mark.parametrize("key", ["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("name", ["it's a file.packed", "nothing"])
def test_the_command_unpacks_the_very_file(tmp_path: Path, key: str, name: str) -> None:
    MADE[key](tmp_path / name)
    error = explain(tmp_path / name)
    assert error is not None
    if shutil.which(error.hint.split()[3]) is None:
        pytest.skip("the program is not here")
    subprocess.run(error.hint.split(": ", 1)[1], shell=True, check=True)
    (made,) = [path for path in tmp_path.iterdir() if path.name != name]
    assert made.read_bytes() == b"a"


def test_the_command_unpacks_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "my files.zip"
    archive(path, folder__a=b"1")
    error = explain(path)
    assert error is not None
    command = error.hint.split(": ", 1)[1].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)
    assert (tmp_path / "my files/folder/a").read_bytes() == b"1"


def test_a_pointer_names_the_folder_of_the_clone(tmp_path: Path) -> None:
    path = tmp_path / "my data/a.parquet"
    path.parent.mkdir()
    path.write_text(POINTER)
    assert str(explain(path)).startswith(f"{path}: a pointer of git-lfs\n")
    assert f"git -C '{path.parent}' lfs pull" in str(explain(path))
    assert str(stand_in(path)) == str(explain(path))
    path.write_text("a plain text")
    assert stand_in(path) is None


@pytest.mark.parametrize("key", ["lfs", "html", "gzip", "npy", "parquet", "pickle", "excel"])
def test_text_and_json_say_what_they_are_instead(tmp_path: Path, key: str) -> None:
    MADE[key](tmp_path / "captions.json")
    for read in (read_text, read_json):
        with pytest.raises(WorkbenchError) as error:
            read(tmp_path / "captions.json")
        assert KINDS[key].title in error.value.message


def test_text_is_still_read_and_a_byte_still_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": "<html>"}), "utf-8-sig")
    assert read_json(path) == {"a": "<html>"}
    path.write_bytes("a\né".encode("latin1"))
    with pytest.raises(WorkbenchError, match=r"line 2: not UTF-8 \(byte 0xe9\)"):
        read_text(path)


def test_addresses_are_told_from_files() -> None:
    assert absent("a.jpg") == "no such file"
    assert absent("a", "no such folder") == "no such folder"
    for address in ("https://example.org/a.jpg", "http:/example.org/a.jpg", "s3://a/b"):
        assert absent(Path(address)) == "an address: download it first"
    assert shown_path(Path("https://example.org/a//b")) == "https://example.org/a/b"
    assert shown_path(Path("a/https:/b")) == "a/https:/b"


@pytest.mark.parametrize("text", ["a", "it's", 'a "b" $HOME `c` \\ !'])
def test_a_line_of_python_survives_the_shell(text: str) -> None:
    command = python_line(f"print({text!r}, end='')").replace("python", sys.executable, 1)
    done = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    assert done.stdout == text


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(POINTER.encode())
        file.truncate(1 << 40)
    assert kind_of(path) == KINDS["lfs"]
    assert io.BytesIO(path.open("rb").read(8)).read() == b"version "
