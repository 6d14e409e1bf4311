"""What a disk may hold after a power cut: all that was brought to it, and any part of the rest.

The content of a file is safe after its own fsync, its name after that of its folder. What came
later may be there, may not, or may be there in part: blocks without the size, a size without the
blocks.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tests.campaign.calls import Call


@dataclass
class Content:
    """Of a file: what is safe, and what was done to it since, (place, bytes) or a new size."""

    safe: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def all(self) -> bytes:
        return applied(self.safe, self.since)

    def drawn(self, draw: random.Random, share: float) -> bytes:
        if not self.since or share in (0, 1):
            return self.safe if share == 0 else self.all()
        kept = [change for change in self.since if draw.random() < share]
        found = applied(self.safe, kept)
        if draw.random() < 0.5:  # the size is there, blocks are not
            found = found[: len(self.all())].ljust(len(self.all()), b"\0")
        return found


class Disk:
    """Files and folders below one folder.

    files: what is there, and safe; calls: that were made since.
    """

    def __init__(self, files: dict[str, bytes], calls: Iterable[Call]) -> None:
        self.names: dict[str, Content | None] = {n: Content(own) for n, own in files.items()}
        # what each name may stand for since its folder was brought to the disk; None: nothing
        self.since: dict[str, list[Content | None]] = {}
        self.new_folders: set[str] = set()
        for call in calls:
            self._take(call)

    def _take(self, call: Call) -> None:
        found = self.names.get(call.path)
        match call.kind:
            case "open" if found is None:
                self._name(call.path, Content())
            case "open" | "resize" if found is not None:
                found.since.append((call.place, None))
            case "write" if found is not None:
                found.since.append((call.place, call.data))
            case "rename" | "replace":
                self._name(call.path, None)
                self._name(call.other, found)
            case "unlink" | "remove":
                self._name(call.path, None)
            case "mkdir":
                self.new_folders.add(call.path)
            case "rmdir":
                self.new_folders.discard(call.path)
            case "fsync" if found is not None:
                found.safe, found.since = found.all(), []
            case "fsync":
                self._sync_folder(call.path)
            case "sync":
                for content in filter(None, self.names.values()):
                    content.safe, content.since = content.all(), []
                self.since.clear()
                self.new_folders.clear()

    def _name(self, path: str, content: Content | None) -> None:
        self.since.setdefault(path, [self.names.get(path)]).append(content)
        self.names[path] = content

    def _sync_folder(self, path: str) -> None:
        for name in [name for name in self.since if str(PurePosixPath(name).parent) == path]:
            del self.since[name]
        self.new_folders = {n for n in self.new_folders if str(PurePosixPath(n).parent) != path}

    def after_cut(self, draw: random.Random, share: float) -> dict[str, bytes]:
        """The files that are found.

        share: of that which is there; 0: nothing, 1: everything.
        """
        new = sorted(self.new_folders) if share < 1 else []
        lost = {name for name in new if share == 0 or draw.random() < 0.2}
        found = {}
        for name, content in self.names.items():
            choices = self.since.get(name, [content])
            chosen = choices[-1] if share == 1 else choices[0]
            if 0 < share < 1:
                chosen = draw.choice(choices)
            above = {str(folder) for folder in PurePosixPath(name).parents}
            if chosen is not None and not above & lost:
                found[name] = chosen.drawn(draw, share)
        return found


def applied(content: bytes, changes: Iterable[tuple[int, bytes | None]]) -> bytes:
    found = bytearray(content)
    for place, data in changes:
        if data is None:
            del found[place:]
            found.extend(bytes(place - len(found)))
        else:
            found.extend(bytes(max(0, place - len(found))))
            found[place : place + len(data)] = data
    return bytes(found)
