"""One case of each section of the campaign: what happened to it, in a word."""

import io
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json
from pipeline.runtime.yaml_text import plain_yaml
from pipeline.storage.npy import read_header
from tests.campaign.artefacts import KINDS, Kind, finish_rows, write_rows
from tests.support.full_disk import files_of_at_most

ROOT = Path(__file__).resolve().parents[2]
GOOD = ("refused", "unchanged", "whole", "old file kept", "continued")
SHAPE = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
HEADER = b"\x93NUMPY\x01\x00\x76\x00" + SHAPE.ljust(117).encode() + b"\n"


class Campaign:
    """What cases need that is made once.

    folder: scratch, emptied by every case.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._whole: dict[str, tuple[dict[str, bytes], Any]] = {}
        self.sections: dict[str, Callable[[random.Random], str]] = {
            "flipped bits": self.flip,
            "files cut short": self.cut,
            "files that may not grow": self.limit,
            "kills while rows are written": self.kill,
            "YAML": self.yaml,
            "JSON": self.json,
            ".npy headers": self.npy,
        }

    def flip(self, draw: random.Random) -> str:
        """A flipped bit in a file of any kind."""

        def damage(content: bytearray) -> bytearray:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            return content

        return self._damaged(draw.choice(KINDS), damage)

    def cut(self, draw: random.Random) -> str:
        """A file of any kind without its end."""
        return self._damaged(
            draw.choice(KINDS), lambda content: content[: -draw.randrange(1, len(content))]
        )

    def limit(self, draw: random.Random) -> str:
        """A file written where files may have a few kilobytes alone."""
        kind = draw.choice([kind for kind in KINDS if kind.name.endswith((".h5", ".safetensors"))])
        files, expected = self._made(kind)
        self._put(files)
        try:
            with files_of_at_most(draw.randrange(20_000)):
                kind.write(self.folder)
        except WorkbenchError:
            pass
        return "old file kept" if kind.read(self.folder) == expected else "lost"

    def kill(self, draw: random.Random) -> str:
        """A writer of rows that is killed, and continued."""
        expected = self._made(KINDS[-1])[1]
        self._put({})
        pid = os.fork()
        if pid == 0:
            with redirect_stderr(io.StringIO()):
                for row in range(20):
                    write_rows(self.folder, row, row + 1)
                    if draw.random() < 0.1:
                        os.kill(os.getpid(), signal.SIGKILL)
            os._exit(0)
        os.waitpid(pid, 0)
        return "continued" if finish_rows(self.folder) == expected else "lost"

    def yaml(self, draw: random.Random) -> str:
        """A params.yaml of which pieces are changed, doubled or exchanged."""
        lines = (ROOT / "params.yaml").read_text().splitlines(keepends=True)
        text = _mutated("".join(draw.sample(lines, 12)), draw, "[]{}:,&*!|>'\"%@`#?-<\t\n")
        return _parsed(lambda: plain_yaml(text, "x"))

    def json(self, draw: random.Random) -> str:
        """A metrics file of which pieces are changed, doubled or exchanged."""
        text = json.dumps({"naive": {"i2t": {"r1": 64.0, "e": [1e9, None, True]}, "x": "é"}})
        path = self.folder.with_name("x.json")
        path.write_text(_mutated(text, draw, '[]{}:,"\\0e-.\x00'), "utf-8")
        return _parsed(lambda: read_json(path))

    def npy(self, draw: random.Random) -> str:
        """A header of numpy of which pieces are changed, doubled or exchanged."""
        text = _mutated(HEADER.decode("latin-1"), draw, "()[]{}'\"\\,:<>f4O \n\x00#")
        return _parsed(lambda: read_header(io.BytesIO(text.encode("latin-1") + bytes(200)), "x"))

    def _damaged(self, kind: Kind, damage: Callable[[bytearray], bytearray]) -> str:
        files, expected = self._made(kind)
        self._put(files | {kind.name: bytes(damage(bytearray(files[kind.name])))})
        try:
            with redirect_stderr(io.StringIO()):
                found = kind.read(self.folder)
        except WorkbenchError:
            return "refused"
        if found == expected:
            return "unchanged"
        return "refused" if kind.name == "state.pt" and found is None else f"silent: {kind.name}"

    def _made(self, kind: Kind) -> tuple[dict[str, bytes], Any]:
        """Files of a kind, and what is read from them."""
        if kind.name not in self._whole:
            self._put({})
            kind.write(self.folder)
            paths = [path for path in self.folder.rglob("*") if path.is_file()]
            files = {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}
            self._whole[kind.name] = files, kind.read(self.folder)
        return self._whole[kind.name]

    def _put(self, files: dict[str, bytes]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name, content in files.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes(content)


def _mutated(text: str, draw: random.Random, signs: str) -> str:
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(text) + 1)
        stop = start + draw.choice((0, 1, 1, 2, 9))
        piece = draw.choice((draw.choice(signs), text[start:stop] * 2, "", draw.choice(signs) * 40))
        text = text[:start] + piece + text[stop:]
    return text


def _parsed(read: Callable[[], object]) -> str:
    try:
        read()
    except WorkbenchError:
        return "refused"
    return "whole"
