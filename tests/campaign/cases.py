"""One case of each section of the campaign: what happened to it, in a word."""

import io
import os
import random
import shutil
import signal
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from tests.campaign.artefacts import KINDS, Kind, finish_rows, write_rows
from tests.campaign.artefacts_of_runs import artefacts
from tests.campaign.world import World
from tests.support.full_disk import files_of_at_most

Made = tuple[dict[str, bytes], Callable[[Path], Any], Any]  # files, what reads them, what is read


class Files:
    """What cases need that is made once.

    folder: scratch, emptied by every case; world: whose files are damaged, too.
    """

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self._artefacts: dict[str, Made] = {}
        self._whole: dict[str, tuple[dict[str, bytes], Any]] = {}
        self.sections: dict[str, Callable[[random.Random, int], str]] = {
            "flipped bits": self.flip,
            "files cut short": self.cut,
            "files that may not grow": self.limit,
            "kills while rows are written": self.kill,
            "flipped bits in files of a run": self.flip_of_run,
            "files of a run cut short": self.cut_of_run,
        }

    def flip(self, draw: random.Random, number: int) -> str:
        """A flipped bit in a file of any kind."""

        def damage(content: bytearray) -> bytearray:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            return content

        return self._damaged(draw.choice(KINDS), damage)

    def cut(self, draw: random.Random, number: int) -> str:
        """A file of any kind without its end."""
        return self._damaged(
            draw.choice(KINDS), lambda content: content[: -draw.randrange(1, len(content))]
        )

    def limit(self, draw: random.Random, number: int) -> str:
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

    def kill(self, draw: random.Random, number: int) -> str:
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

    def flip_of_run(self, draw: random.Random, number: int) -> str:
        """A flipped bit in a file that a stage left."""
        name, content = self._of_run(draw)
        place = draw.randrange(len(content))
        flipped = bytes((content[place] ^ 1 << draw.randrange(8),))
        return self._read_of_run(name, content[:place] + flipped + content[place + 1 :])

    def cut_of_run(self, draw: random.Random, number: int) -> str:
        """A file that a stage left, without its end."""
        name, content = self._of_run(draw)
        return self._read_of_run(name, content[: draw.randrange(len(content))])

    def _of_run(self, draw: random.Random) -> tuple[str, bytes]:
        if not self._artefacts:
            made = {}
            for name, (files, read) in artefacts(self.world).items():
                self._put(files)
                made[name] = files, read, read(self.folder)
            self._artefacts = made
        name = draw.choice(sorted(self._artefacts))
        return name, self._artefacts[name][0][name]

    def _read_of_run(self, name: str, content: bytes) -> str:
        files, read, expected = self._artefacts[name]
        self._put(files | {name: content})
        try:
            with redirect_stderr(io.StringIO()):
                found = read(self.folder)
        except WorkbenchError:
            return "refused"
        return "unchanged" if found == expected else f"silent: {name}"

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
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
